"""The cost of time: a trace of many devices, its A_t, and runs with a table `[system]`."""

import pickle
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from fedgs.arrays import BoolArray
from fedgs.availability import Trace
from fedgs.checkpoint import State
from fedgs.clients import Clients, Selection, View
from fedgs.driver import Failed, LiveRun, steps
from fedgs.evaluation_settings import Evaluation
from fedgs.experiments.grid import build_config
from fedgs.experiments.preparing import prepare
from fedgs.local.engines import make_engine
from fedgs.local.threads import threads_of
from fedgs.records import Record
from fedgs.rng import stream
from fedgs.sampling.base import Sampler
from fedgs.system import available_at
from fedgs.traces import DAY, Traces, convert, write_traces

__all__ = ["ROWS", "Measured", "Row", "generated_traces", "markdown", "measure_system"]

DEVICES = 100_000
_DAYS, _INTERVALS = 4, 40
_PICKLED = 20  # intervals of a device in FedScale's file
_CLIENTS, _NEVER = 30, 1_000_000
# Rounds before the measured ones. Runs with a clock are ahead, since the others select as many
# clients as trained in them, and begin their next round early.
_WARM_UP, _AHEAD = 3, 20


@dataclass(frozen=True)
class Row:
    """A table `[system]` whose rounds are timed against rounds without one.

    Attributes:
        name: what it adds.
        system: the table.
        traced: whether the clients are devices of a generated trace, with and without the table;
            else all clients are available. With `clock = "simulated"`, the rounds without the table
            read the trace at the clocks of those with it.
    """

    name: str
    system: Mapping[str, object]
    traced: bool = False


_ALL = {"noise": 0.3, "drop_out": 0.1, "over_selection": 1.3, "deadline": 3}
ROWS = (
    Row("clock", {"over_selection": 1.0}),
    Row("noise", {"over_selection": 1.0, "noise": 0.3}),
    Row("drop-out", {"over_selection": 1.0, "drop_out": 0.1}),
    Row("noise, drop-out, over-selection, deadline", _ALL),
    Row("trace", {"over_selection": 1.0}, traced=True),
    Row("trace, noise, drop-out, over-selection, deadline", _ALL, traced=True),
    Row("the same with `away` = pause", {**_ALL, "away": "pause"}, traced=True),
    Row("the same with `clock` = simulated", {**_ALL, "clock": "simulated"}, traced=True),
)


@dataclass(frozen=True)
class Measured:
    """What was measured.

    Attributes:
        name: of the row.
        milliseconds: of processor time, the median; for runs, of a round, evaluations included; for
            a conversion, of wall time.
        target: milliseconds for a row without a ratio, else the largest ratio that is aimed at.
        plain: milliseconds of a run without the table, in which equally many clients are available
            and train; None: it has none.
        ratio: of both, the median over pairs; None likewise.
        alone: the same ratio of rounds without evaluations; None likewise.
    """

    name: str
    milliseconds: float
    target: float
    plain: float | None = None
    ratio: float | None = None
    alone: float | None = None


def generated_traces(devices: int, *, days: int = _DAYS, intervals: int = _INTERVALS) -> Traces:
    """Traces of devices with exponential times of about 25 minutes, some of which overlap.

    >>> len(generated_traces(5))
    5
    """
    rng = stream(0, "bench traces")
    owners = np.repeat(np.arange(devices), intervals)
    on = rng.integers(days * DAY - 1, size=len(owners))
    on = on[np.lexsort((on, owners))]
    off = np.minimum(on + 1 + rng.exponential(1500.0, len(on)).astype(np.int64), days * DAY)
    is_last = np.append(owners[1:] != owners[:-1], True)
    off = np.where(is_last, off, np.minimum(off, np.append(on[1:], 0) - 1))
    kept = off > on
    offsets = np.concatenate(([0], np.cumsum(np.bincount(owners[kept], minlength=devices))))
    begins, ends = np.zeros(devices, np.int64), np.full(devices, days * DAY)
    names = [f"device-{number}" for number in range(devices)]
    return Traces(on[kept], off[kept], offsets, begins, ends, names)


class _AsMany(Sampler):
    """As many clients as trained in the same round of a run with a clock, drawn as `uniform`."""

    numbers: ClassVar[dict[int, list[int]]] = {}  # seed of the run -> by round
    run: int = 0

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        number = min(self.numbers[self.run][view.round], view.cohort_size)
        return Selection(np.sort(rng.choice(view.available, size=number, replace=False)))


class _AtClocks(Trace):
    """The trace at the clocks of the rounds of a run with a clock of its own."""

    clocks: ClassVar[dict[int, list[float]]] = {}  # seed of the run -> by round
    run: int = 0

    def available(self, round: int, clients: Clients) -> BoolArray:
        return available_at(self, clients, self.clocks[self.run][round])


class _Noting:  # a sink that notes trained clients and clocks, and raises the failure of a run
    def __init__(self, numbers: list[int], clocks: list[float]) -> None:
        self._numbers, self._clocks = numbers, clocks

    def on_start(self, state: State) -> State:
        return state

    def on_round(self, state: State, record: Record, seconds: Mapping[str, float]) -> None:
        self._numbers.append(sum(weight > 0 for weight in record.weights or ()))
        self._clocks.append(record.clock or 0.0)

    def on_end(self, state: State, record: Record, seconds: Mapping[str, float]) -> None:
        pass

    def on_failure(self, failed: Failed) -> None:
        raise failed.exception


class _Timed:
    """Runs of different seeds that are driven together."""

    def __init__(self, tables: Sequence[Mapping[str, object]], sinks: Sequence[_Noting]) -> None:
        prepared = prepare([build_config(table) for table in tables])
        plans = [run.plan for run in prepared]
        engine = make_engine("auto", "cpu", plans[0].work)[0]
        live = [LiveRun(plan, None, sink) for plan, sink in zip(plans, sinks, strict=True)]
        self._count, self._steps = len(live), steps(live, engine)

    def seconds(self, rounds: int) -> float:
        """Processor time of the next rounds of all runs, for one round of one run."""
        started = time.process_time()
        for _ in range(rounds * self._count):
            next(self._steps)
        return (time.process_time() - started) / (rounds * self._count)


def _pairs(
    row: Row, path: Path, *, runs: int, rounds: int, repeats: int, every: int
) -> list[tuple[float, float]]:
    """Seconds of a run-round without and with the table, in turns; evaluated every so many."""
    numbers: dict[int, list[int]] = {seed: [] for seed in range(runs)}
    clocks: dict[int, list[float]] = {seed: [] for seed in range(runs)}
    _AsMany.numbers, _AtClocks.clocks = numbers, clocks
    common: dict[str, object] = {
        "data": {"name": "synthetic", "clients": _CLIENTS},
        "training": {"rounds": _NEVER},
        "evaluation": {"every": every},
    }
    mode = {"name": "trace", "path": str(path)} if row.traced else {"name": "IDL"}

    def mode_without(seed: int) -> object:
        is_own = row.system.get("clock") == "simulated"
        return _AtClocks(path=str(path), run=seed, seed=seed) if is_own else mode

    with_clock = [
        {
            **common,
            "availability": mode,
            "method": "uniform",
            "system": dict(row.system),
            "seed": seed,
        }
        for seed in numbers
    ]
    without = [
        {**common, "availability": mode_without(seed), "method": _AsMany(run=seed), "seed": seed}
        for seed in numbers
    ]
    timed = _Timed(with_clock, [_Noting(numbers[seed], clocks[seed]) for seed in numbers])
    plain = _Timed(without, [_Noting([], []) for _ in numbers])
    timed.seconds(_WARM_UP + _AHEAD)
    plain.seconds(_WARM_UP)
    pairs = []
    for _ in range(repeats):
        slow = timed.seconds(rounds)
        pairs.append((plain.seconds(rounds), slow))
    return pairs


def _look_up(path: Path, devices: int, rounds: int) -> float:
    """Median seconds of processor time of A_t."""
    mode = Trace(path=str(path))
    clients = Clients(tuple(range(devices)), np.ones(devices, dtype=np.int64))
    mode.available(0, clients)
    found = []
    for t in range(1, rounds + 1):
        started = time.process_time()
        mode.available(7 * t, clients)
        found.append(time.process_time() - started)
    return statistics.median(found)


def _conversion(folder: Path, devices: int) -> float:
    """Seconds to convert a pickle of traces in FedScale's form."""
    traces = generated_traces(devices, intervals=_PICKLED)
    places = zip(traces.offsets[:-1], traces.offsets[1:], strict=True)
    records = {
        device: {
            "active": traces.on[begin:end].tolist(),
            "inactive": traces.off[begin:end].tolist(),
            "finish_time": _DAYS * DAY,
        }
        for device, (begin, end) in enumerate(places)
    }
    path = folder / "client_behave_trace"
    path.write_bytes(pickle.dumps(records))
    started = time.perf_counter()
    write_traces(convert(path), folder / "converted.npz")
    return time.perf_counter() - started


def measure_system(
    rows: Sequence[Row] = ROWS,
    *,
    devices: int = DEVICES,
    runs: int = 10,
    rounds: int = 20,
    repeats: int = 5,
) -> Iterator[Measured]:
    """Time a conversion, A_t, and rounds with a clock against rounds without, in turns.

    The runs are on Synthetic with 30 clients, of which at most 6 train. They are evaluated as often
    as a configuration's default says, and timed once more without evaluations. In the rounds
    without the table as many clients train as in the same round with it.

    Args:
        rows: the tables.
        devices: of the trace for A_t, each of which is a client.
        runs: that are driven together.
        rounds: that are timed at once, a multiple of the rounds from evaluation to evaluation.
        repeats: how many times, >= 1.
    """
    with threads_of(1), tempfile.TemporaryDirectory() as folder:
        many = write_traces(generated_traces(devices), Path(folder, "many.npz"))
        seconds = _look_up(many, devices, 5 * repeats)
        yield Measured(f"A_t, {devices} devices", 1e3 * seconds, 20.0)
        seconds = _conversion(Path(folder), devices)
        yield Measured(f"convert, {devices} devices", 1e3 * seconds, 60_000.0)
        few = write_traces(generated_traces(2 * _CLIENTS), Path(folder, "few.npz"))
        for row in rows:
            pairs, alone = (
                _pairs(row, few, runs=runs, rounds=rounds, repeats=repeats, every=every)
                for every in (Evaluation().every, _NEVER)
            )
            base, slow = (1e3 * statistics.median(times) for times in zip(*pairs, strict=True))
            yield Measured(row.name, slow, 1.2, base, _ratio(pairs), _ratio(alone))


def _ratio(pairs: Sequence[tuple[float, float]]) -> float:
    return statistics.median(slow / base for base, slow in pairs)


def markdown(measured: Sequence[Measured]) -> str:
    """The table of the benchmarks' page.

    >>> print(markdown([Measured("clock", 0.2, 1.2, 0.19, 1.041, 1.08)]).splitlines()[2])
    | clock | .20 ms | .19 ms | 1.04 | 1.2 | 1.08 |
    """
    lines = [
        "| part | time | without | ratio | target | rounds alone |",
        "|---|---:|---:|---:|---:|---:|",
    ]

    def ms(value: float | None) -> str:
        return "-" if value is None else f"{value:.2f} ms".removeprefix("0")

    for row in measured:
        ratio, alone = (
            "-" if value is None else f"{value:.2f}" for value in (row.ratio, row.alone)
        )
        target = f"{row.target:g} ms" if row.ratio is None else f"{row.target:g}"
        times = f"{ms(row.milliseconds)} | {ms(row.plain)}"
        lines.append(f"| {row.name} | {times} | {ratio} | {target} | {alone} |")
    return "\n".join(lines)
