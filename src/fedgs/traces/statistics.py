"""Numbers that describe a trace: shares of time, the day, memory, and sessions."""

from dataclasses import asdict, dataclass

import numpy as np

from fedgs.arrays import BoolArray, FloatArray, IntArray
from fedgs.plurals import counted
from fedgs.traces.intervals import DAY, Traces
from fedgs.traces.timeline import Timeline

__all__ = ["Statistics", "statistics"]

_STEP = 600
_MOST_DEVICES = 1000  # on the grid, whose memory is devices x steps
_MERGED_GAP = 60
_LAGS = {"10 min": 1, "1 h": 6, "12 h": 72, "24 h": 144}
_MINUTES = (5, 10, 30, 60)


@dataclass(frozen=True, eq=False)
class Statistics:
    """What `fedgs trace stats` shows.

    A device is observed from its first to its last event. Numbers of states are of a grid of 10
    minutes, of at most 1000 devices at equal distances in the file. Numbers of sessions unite
    intervals with gaps below 60 s.

    Attributes:
        devices: D.
        intervals: E.
        days: observed days of the file, rounded up.
        never: devices that are never available.
        observed_days: mean days for which a device is observed.
        share: available share of the observed time of all devices.
        share_from_start: the same, with the time before a device's first event as away.
        share_of_file: the same, with all unobserved time of the file as away.
        long_devices: devices that are observed for 3 days or longer.
        quantiles: the 5, 25, 50, 75 and 95 % quantiles of their shares.
        beta: parameters of the beta distribution with the mean and the variance of their shares.
        hours: (24,) share by hour of the day; NaN for an hour without observation.
        leave: P(off | on) in 10 minutes.
        arrive: P(on | off) in 10 minutes.
        memory: 1 - leave - arrive, the correlation of a two-state chain with these.
        autocorrelation: distance in time -> mean over the long devices.
        pair_correlation: mean correlation of two long devices at the same time.
        session_quartiles: of the lengths of sessions in hours, and the 90 % quantile.
        short_sessions: share of sessions below 300 s.
        short_intervals: share of intervals below 60 s.
        stays: minutes m -> P(available for a further m minutes | available).
    """

    devices: int
    intervals: int
    days: int
    never: int
    observed_days: float
    share: float
    share_from_start: float
    share_of_file: float
    long_devices: int
    quantiles: tuple[float, ...]
    beta: tuple[float, float]
    hours: tuple[float, ...]
    leave: float
    arrive: float
    memory: float
    autocorrelation: dict[str, float]
    pair_correlation: float
    session_quartiles: tuple[float, ...]
    short_sessions: float
    short_intervals: float
    stays: dict[int, float]

    def table(self) -> dict[str, object]:
        """A JSON-ready table of all of it; numbers that do not exist are null."""
        return {key: _without_nan(value) for key, value in asdict(self).items()}

    def lines(self) -> list[str]:
        """The numbers as text."""
        hours = np.array(self.hours)
        lines = [
            f"{counted(self.devices, 'device')}, {counted(self.intervals, 'interval')}, "
            f"{counted(self.days, 'day')}; observed for {self.observed_days:.2f} days a device, "
            f"{self.never} never available",
            f"available       {_number(self.share)} of the observed time, "
            f"{_number(self.share_from_start)} with the time before the first event as away, "
            f"{_number(self.share_of_file)} with all unobserved time as away",
            f"by device       {_numbers(self.quantiles)} (5, 25, 50, 75, 95 % of "
            f"{counted(self.long_devices, 'device')} observed for 3 days), "
            f"about Beta({_number(self.beta[0], 1)}, {_number(self.beta[1], 1)})",
        ]
        if np.isfinite(hours).any():
            low, high = int(np.nanargmin(hours)), int(np.nanargmax(hours))
            ratio = hours[high] / hours[low] if hours[low] else np.nan
            lines.append(
                f"by hour         {_number(hours[low])} ({low} h) to {_number(hours[high])} "
                f"({high} h), ratio {_number(ratio, 1)}"
            )
        stays = ", ".join(f"{minutes} min {_number(p)}" for minutes, p in self.stays.items())
        correlations = ", ".join(f"{lag} {_number(r)}" for lag, r in self.autocorrelation.items())
        return [
            *lines,
            f"in 10 min       P(off | on) {_number(self.leave, 4)}, "
            f"P(on | off) {_number(self.arrive, 4)}, memory {_number(self.memory)}",
            f"correlation     of a device {correlations}; of two devices "
            f"{_number(self.pair_correlation)}",
            f"sessions        {_numbers(self.session_quartiles)} h (25, 50, 75, 90 %), "
            f"{_number(self.short_sessions)} below 300 s; gaps below 60 s are united, and "
            f"{_number(self.short_intervals)} of the intervals are below 60 s",
            f"stays another   {stays}",
        ]


def statistics(traces: Traces) -> Statistics:
    """The numbers of a trace, O(E + T·D) with a grid of T steps of 10 minutes.

    >>> day = Traces([0], [43_200], [0, 1], [0], [86_400], ["a"])
    >>> found = statistics(day)
    >>> found.share, found.hours[0], found.hours[13], found.session_quartiles[0]
    (0.5, 1.0, 0.0, 12.0)
    """
    timeline, spans = Timeline(traces, unobserved="away"), traces.spans
    long = np.flatnonzero(spans >= 3 * DAY)
    on_time = np.rint(traces.shares * spans)
    with np.errstate(invalid="ignore", divide="ignore"):
        available = on_time.sum()
        long_shares = traces.shares[long]
        states, observed, seconds = _grid(traces, timeline, np.arange(len(traces)))
        long_states, long_observed, _ = _grid(traces, timeline, long)
        leave, arrive = _changes(states, observed)
        sessions = _sessions(traces)
        return Statistics(
            devices=len(traces),
            intervals=len(traces.on),
            days=timeline.days,
            never=int((on_time == 0).sum()),
            observed_days=float(spans.mean() / DAY),
            share=float(available / spans.sum()),
            share_from_start=float(available / (traces.seen_to - timeline.begin).sum()),
            share_of_file=float(
                available / len(traces) / (int(traces.seen_to.max()) - timeline.begin)
            ),
            long_devices=len(long),
            quantiles=_quantiles(long_shares, (0.05, 0.25, 0.5, 0.75, 0.95)),
            beta=_beta(long_shares),
            hours=_hours(states, observed, (seconds + traces.second_0) // 3600 % 24),
            leave=leave,
            arrive=arrive,
            memory=1 - leave - arrive,
            autocorrelation={
                name: _autocorrelation(long_states, long_observed, lag)
                for name, lag in _LAGS.items()
            },
            pair_correlation=_pair_correlation(long_states, long_observed),
            session_quartiles=_quantiles(sessions / 3600, (0.25, 0.5, 0.75, 0.9)),
            short_sessions=float(_mean(sessions < 300)),
            short_intervals=float(_mean(np.asarray(traces.off) - traces.on < 60)),
            stays={
                minutes: float(np.maximum(sessions - 60 * minutes, 0).sum() / sessions.sum())
                for minutes in _MINUTES
            },
        )


def _grid(
    traces: Traces, timeline: Timeline, devices: IntArray
) -> tuple[BoolArray, BoolArray, IntArray]:
    """(D, T) states and whether they are observed, of some of the devices; (T,) the seconds."""
    some = devices[:: -(-len(devices) // _MOST_DEVICES) or 1]
    seconds = np.arange(timeline.begin, int(traces.seen_to.max()) + 1, _STEP)
    states = np.array(
        [traces.is_on(np.full(len(seconds), d), seconds) for d in some], dtype=np.bool_
    ).reshape(len(some), len(seconds))
    first, last = traces.seen_from[some, None], traces.seen_to[some, None]
    return states, (seconds >= first) & (seconds < last), seconds


def _sessions(traces: Traces) -> IntArray:
    """Lengths of the sessions of all devices in seconds."""
    on, off = traces.on.astype(np.int64), traces.off.astype(np.int64)
    owners = np.repeat(np.arange(len(traces)), np.diff(traces.offsets))
    begins = np.ones(len(on), dtype=np.bool_)
    begins[1:] = (owners[1:] != owners[:-1]) | (on[1:] - off[:-1] >= _MERGED_GAP)
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(on)) - 1
    return off[last] - on[first] if len(on) else np.zeros(0, dtype=np.int64)


def _changes(states: BoolArray, observed: BoolArray) -> tuple[float, float]:
    """P(off | on) and P(on | off) from one observed step to the next."""
    both = observed[:, 1:] & observed[:, :-1]
    before, after = states[:, :-1], states[:, 1:]
    return float(_mean(~after[both & before])), float(_mean(after[both & ~before]))


def _hours(states: BoolArray, observed: BoolArray, hours: IntArray) -> tuple[float, ...]:
    on, seen = (states & observed).sum(axis=0), observed.sum(axis=0)
    share = np.bincount(hours, on, minlength=24) / np.bincount(hours, seen, minlength=24)
    return tuple(map(float, share))


def _autocorrelation(states: BoolArray, observed: BoolArray, lag: int) -> float:
    """Mean over devices of the sample autocorrelation, without devices of a constant state."""
    found = []
    for state, seen in zip(states, observed, strict=True):
        values = state[seen] - state[seen].mean() if seen.any() else np.zeros(0)
        if len(values) > lag and np.any(values):
            found.append((values[lag:] * values[:-lag]).sum() / (values**2).sum())
    return float(_mean(np.array(found)))


def _pair_correlation(states: BoolArray, observed: BoolArray) -> float:
    """Mean correlation of two devices in the steps in which both are observed."""
    seen, on = observed.astype(np.float64), (states & observed).astype(np.float64)
    counts, sums, products = seen @ seen.T, on @ seen.T, on @ on.T  # sums[i, j] of i where j is
    spread = counts * sums - sums**2
    correlation = (counts * products - sums * sums.T) / np.sqrt(spread * spread.T)
    pairs = correlation[np.triu_indices(len(on), 1)]
    return float(_mean(pairs[np.isfinite(pairs)]))


def _beta(shares: FloatArray) -> tuple[float, float]:
    mean, variance = _mean(shares), np.var(shares) if len(shares) else np.nan
    size = mean * (1 - mean) / variance - 1
    return float(mean * size), float((1 - mean) * size)


def _quantiles(values: FloatArray, at: tuple[float, ...]) -> tuple[float, ...]:
    found = np.quantile(values, at) if len(values) else np.full(len(at), np.nan)
    return tuple(map(float, found))


def _mean(values: FloatArray | BoolArray) -> np.floating:
    return np.float64(values.mean()) if len(values) else np.float64(np.nan)


def _number(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}" if np.isfinite(value) else "-"


def _numbers(values: tuple[float, ...]) -> str:
    return " ".join(_number(value, 2) for value in values)


def _without_nan(value: object) -> object:
    """The value with None for every float that is not finite."""
    if isinstance(value, dict):
        return {str(key): _without_nan(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
