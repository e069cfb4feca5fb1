"""Which device of a trace a client has, and how far its time is shifted."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedgs.arrays import FloatArray, IntArray
from fedgs.errors import ConfigError
from fedgs.rng import stream
from fedgs.traces.intervals import DAY, Traces
from fedgs.traces.timeline import Timeline

__all__ = [
    "Assign",
    "Slots",
    "coupled_order",
    "peak_hours",
    "rank_correlation",
    "slots",
    "zone_shifts",
]

Assign = Literal["random", "order"]
_HOUR = 3600


@dataclass(frozen=True, eq=False)
class Slots:
    """A device and a shift for each of N clients.

    Attributes:
        devices: (N,) indices of devices.
        shifts: (N,) seconds by which the client is ahead of its device's record.
    """

    devices: IntArray
    shifts: IntArray

    def taken(self, order: IntArray) -> "Slots":
        """The slots in another order."""
        return Slots(self.devices[order], self.shifts[order])


def slots(
    timeline: Timeline, devices: IntArray, num_clients: int, *, assign: Assign, seed: int
) -> Slots:
    """N slots: each device once, then copies of all devices, shifted by days and then by hours.

    Copy c of a device with n days that differ is shifted by c mod n days and c // n hours, so that
    a device has 24 n copies of which no two have the same shift.

    Args:
        timeline: of the traces.
        devices: (D,) the devices that may be used.
        num_clients: N.
        assign: "random": the devices in a random order; "order": as in the file.
        seed: of the random order.

    Raises:
        ConfigError: more clients than copies.

    >>> traces = Traces([0, 9], [5, 20], [0, 1, 2], [0, 0], [86_400] * 2, ["a", "b"])
    >>> first = slots(Timeline(traces), np.arange(2), 5, assign="order", seed=0)
    >>> first.devices.tolist(), first.shifts.tolist()
    ([0, 1, 0, 1, 0], [0, 0, 3600, 3600, 7200])
    """
    order = np.asarray(devices, dtype=np.int64)
    if assign == "random":
        order = stream(seed, "trace devices").permutation(order)
    days = timeline.distinct_days[order]
    capacity = int(24 * days.sum())
    if num_clients > capacity:
        raise ConfigError(
            f"availability 'trace' serves at most {capacity} clients, 24 copies of each of its "
            f"devices for each observed day, got {num_clients} clients"
        )
    chosen, shifts, copy, left = [], [], 0, num_clients
    while left > 0:
        able = np.flatnonzero(24 * days > copy)[:left]
        chosen.append(order[able])
        shifts.append(copy % days[able] * DAY + copy // days[able] * _HOUR)
        copy, left = copy + 1, left - len(able)
    return Slots(np.concatenate(chosen), np.concatenate(shifts))


def zone_shifts(num_clients: int, *, spread_hours: float, seed: int) -> IntArray:
    """(N,) seconds of time zone: uniform over a day for 24 hours, else normal with this sd.

    >>> zone_shifts(3, spread_hours=0, seed=0).tolist()
    [0, 0, 0]
    """
    rng = stream(seed, "trace zones")
    if spread_hours == 24:
        return rng.integers(DAY, size=num_clients)
    spread = abs(spread_hours) * _HOUR  # -0.0 is no spread that NumPy takes
    seconds = rng.normal(0.0, spread, size=num_clients)
    return np.rint(seconds).astype(np.int64)


def peak_hours(traces: Traces) -> FloatArray:
    """(D,) hour of the file's day, in [0, 24), around which a device is mostly available.

    That is the direction of the mean of its available seconds on the circle of a day. Devices that
    are never available have 0.

    >>> traces = Traces([36_000], [43_200], [0, 1], [0], [86_400], ["a"])
    >>> peak_hours(traces)
    array([11.])
    """
    per_second = 2j * np.pi / DAY
    ends = np.exp(per_second * traces.off.astype(np.float64))
    begins = np.exp(per_second * traces.on.astype(np.float64))
    owners = np.repeat(np.arange(len(traces)), np.diff(traces.offsets))
    integral = (ends - begins) / per_second  # of the unit vectors of all seconds of an interval
    real = np.bincount(owners, weights=integral.real, minlength=len(traces))
    imaginary = np.bincount(owners, weights=integral.imag, minlength=len(traces))
    hours = np.angle(real + 1j * imaginary) / (2 * np.pi) * 24
    rounded: FloatArray = np.round(hours % 24, 9) % 24
    return rounded


def coupled_order(
    values: FloatArray,
    scores: FloatArray,
    *,
    coupling: float,
    seed: int,
    purpose: str = "trace coupling",
) -> IntArray:
    """(N,) index of the slot of each client, so that the ranks of both are correlated.

    A Gaussian copula: client k has y_k = rho·z_k + sqrt(1 - rho²)·e_k, with the normal score z_k of
    its value and e_k standard normal. The clients in the order of y have the slots in the order of
    their scores. Ties are in random order. At rho = 1 the orders agree, at -1 they are opposite.

    Args:
        values: (N,) of the clients.
        scores: (N,) of the slots.
        coupling: rho in [-1, 1].
        seed: of all draws.
        purpose: of the draws, see `fedgs.rng.stream`.

    >>> sizes, shares = np.array([30.0, 10.0, 20.0]), np.array([0.5, 0.9, 0.1])
    >>> shares[coupled_order(sizes, shares, coupling=1.0, seed=0)].tolist()
    [0.9, 0.1, 0.5]
    """
    from scipy.special import ndtri

    rng = stream(seed, purpose)
    count = len(values)
    normal_scores = ndtri((_ranks(values, rng) + 0.5) / count)
    noise = rng.standard_normal(count)
    mixed = coupling * normal_scores + np.sqrt(1 - coupling**2) * noise
    order = np.empty(count, dtype=np.int64)
    order[np.argsort(mixed, kind="stable")] = np.argsort(_ranks(scores, rng))
    return order


def rank_correlation(first: FloatArray, second: FloatArray) -> float:
    """Spearman's rank correlation, ties with their mean rank; NaN where all values are equal.

    >>> rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([5.0, 6.0, 6.0]))
    0.866...
    """
    ranks = [_mean_ranks(values) for values in (first, second)]
    first_ranks, second_ranks = (values - values.mean() for values in ranks)
    scale = np.sqrt((first_ranks**2).sum() * (second_ranks**2).sum())
    return float((first_ranks * second_ranks).sum() / scale) if scale else float("nan")


def _ranks(values: FloatArray, rng: np.random.Generator) -> IntArray:
    """(N,) ranks 0 to N-1, equal values in random order."""
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[np.lexsort((rng.random(len(values)), values))] = np.arange(len(values))
    return ranks


def _mean_ranks(values: FloatArray) -> FloatArray:
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: FloatArray = (ends - (counts - 1) / 2)[index]
    return ranks
