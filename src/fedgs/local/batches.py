"""Which examples make up each local batch, for all engines.

The batches are a function of (seed, round, client) alone. Each round a client shuffles its
examples, walks through them in batches of B, and shuffles them again when they are used up. The
last batch of a pass may be short; a client with n_k < B has one batch a pass, all its examples.
With `drop_last` a pass ends before a short batch, unless it is the only one. A client makes E
steps, or as many as some passes take.

The shuffle of pass p is a Fisher-Yates shuffle from the front, stopped after the positions that the
E steps use, so the cost is O(min(E·B, n_k)) a pass and not O(n_k). Its random numbers are
SplitMix64's: output i of the stream that starts at

    key(seed, round, client) = mix(mix(base(seed) + round + 1) + client + 1)

with base(seed) from `fedgs.rng`, for one purpose, and mix SplitMix64's output function. Streams are
counters, so the batches of thousands of clients are drawn in one call. Position i < n swaps with
i + floor((n - i)·u / 2³²), u being the upper 32 bits: no index is favoured by more than n / 2³².
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Literal

import numpy as np
import numpy.typing as npt

from fedgs.arrays import IntArray
from fedgs.compiling import load_kernels
from fedgs.errors import ConfigError, DataError
from fedgs.local.bounds import as_integers
from fedgs.requests import Work
from fedgs.rng import derived_seed

__all__ = [
    "Batches",
    "batch_extremes",
    "client_keys",
    "compiled_kernels",
    "local_batches",
    "stacked_keys",
    "steps_a_pass",
    "steps_of",
]

KeyArray = npt.NDArray[np.uint64]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class Batches:
    """The batches of r clients.

    Attributes:
        indices: (r, E, B) positions among the client's own examples, 0..n-1; 0 where the batch is
            short.
        sizes: (r, E) how many of the B are used; 0 after a client's last step.
    """

    indices: IntArray
    sizes: IntArray


def client_keys(key: tuple[int, int], clients: IntArray, *, purpose: str = "batches") -> KeyArray:
    """(m,) the start of each client's stream in a round.

    Args:
        key: (seed, round).
        clients: (m,) indices in the federation.
        purpose: what the numbers are for; streams of other purposes are independent.

    >>> client_keys((0, 3), np.array([5, 6])).shape
    (2,)
    """
    return stacked_keys([key], [len(clients)], clients, purpose=purpose)


def stacked_keys(
    keys: Sequence[tuple[int, int]],
    lengths: Sequence[int],
    clients: IntArray,
    *,
    purpose: str = "batches",
) -> KeyArray:
    """The starts of the streams of several requests' clients, one request after another.

    Args:
        keys: (seed, round) of each request.
        lengths: how many clients each has.
        clients: (r,) all their clients.
        purpose: what the numbers are for.

    >>> both = stacked_keys([(0, 3), (1, 0)], [2, 1], np.array([5, 6, 5]))
    >>> bool(np.all(both[:2] == client_keys((0, 3), np.array([5, 6]))))
    True
    """
    bases = np.array([_base(seed, purpose) for seed, _ in keys], dtype=np.uint64)
    rounds = np.array([round_index + 1 for _, round_index in keys], dtype=np.uint64)
    with np.errstate(over="ignore"):
        of_round = np.repeat(_mix(bases + rounds), lengths)
        return _mix(of_round + (np.asarray(clients) + 1).astype(np.uint64))


def local_batches(
    keys: KeyArray,
    data_sizes: IntArray,
    *,
    local_steps: int | IntArray,
    batch_size: int,
    drop_last: bool = False,
) -> Batches:
    """The batches of r clients, of one round or of many.

    Args:
        keys: (r,) from `client_keys`.
        data_sizes: (r,) n_k >= 1.
        local_steps: E >= 1, or (r,) the steps of each client.
        batch_size: B >= 1.
        drop_last: whether a pass ends before a short batch that is not its only one.

    Returns:
        See `Batches`. Cost: O(r·E·B) with the compiled kernel, or where n_k is of that order.

    Raises:
        DataError: sizes that are no integers >= 1, or not one for each key.
        ConfigError: a number of steps or a batch size that is no integer >= 1.

    >>> keys = client_keys((0, 0), np.array([0]))
    >>> batches = local_batches(keys, np.array([3]), local_steps=2, batch_size=2)
    >>> batches.sizes.tolist()
    [[2, 1]]
    >>> sorted([*batches.indices[0, 0].tolist(), int(batches.indices[0, 1, 0])])
    [0, 1, 2]
    """
    alike = not isinstance(local_steps, np.ndarray)
    for name, number in (("local_steps", local_steps), ("batch_size", batch_size)):
        fits = isinstance(number, int | np.integer) and number >= 1
        if not fits and (alike or name == "batch_size"):
            raise ConfigError(f"{name} must be an integer >= 1, got {number!r}")
    streams = np.ascontiguousarray(as_integers("keys", keys, (np.size(keys),)), dtype=np.uint64)
    data_sizes = np.ascontiguousarray(
        as_integers("data_sizes", data_sizes, streams.shape), dtype=np.int64
    )
    if len(data_sizes) and data_sizes.min() < 1:
        raise DataError(f"data_sizes must be >= 1, got {data_sizes.min()}")
    steps = np.full(streams.shape, local_steps, dtype=np.int64)
    most = int(local_steps) if alike else int(steps.max(initial=1))
    fewest = most if alike else int(steps.min(initial=most))
    if fewest < 1:
        raise ConfigError(f"local_steps must be >= 1 for each client, got {fewest}")
    ends = _ends(data_sizes, batch_size, drop_last)
    sizes = np.minimum(batch_size, _left_in_pass(ends, most, batch_size))
    if fewest < most:
        sizes[np.arange(most) >= steps[:, None]] = 0
    indices = np.zeros((len(streams), most, batch_size), dtype=np.int64)
    kernels = compiled_kernels("batches")
    fill = _fill if kernels is None else kernels.fill_batches
    fill(streams, data_sizes, ends, steps, indices)
    return Batches(indices, sizes)


def steps_a_pass(data_sizes: IntArray, batch_size: int, *, drop_last: bool = False) -> IntArray:
    """How many batches a pass of each client has.

    >>> steps_a_pass(np.array([25, 9]), 10), steps_a_pass(np.array([25, 9]), 10, drop_last=True)
    (array([3, 1]), array([2, 1]))
    """
    steps: IntArray = -(-_ends(np.asarray(data_sizes), batch_size, drop_last) // batch_size)
    return steps


def steps_of(work: Work, data_sizes: IntArray, *, batch_size: int | None = None) -> int | IntArray:
    """The steps of clients of these sizes: E, or (r,) as many as the passes take.

    Args:
        work: E, B, the passes, and whether short batches are left out.
        data_sizes: (r,) n_k >= 1.
        batch_size: another B; None: that of the work.
    """
    if work.local_epochs is None:
        return work.local_steps
    batch = work.batch_size if batch_size is None else batch_size
    return work.local_epochs * steps_a_pass(data_sizes, batch, drop_last=work.drop_last)


def batch_extremes(
    data_sizes: IntArray,
    *,
    local_steps: int | IntArray,
    batch_size: int,
    drop_last: bool = False,
) -> IntArray:
    """The smallest and the largest batch that each client meets; it meets no other size.

    The largest is min(B, n_k). The short batch that ends a pass is met where a pass has no more
    than E batches.

    Args:
        data_sizes: (N,) n_k >= 1.
        local_steps: E >= 1, or (N,) the steps of each client.
        batch_size: B >= 1.
        drop_last: whether short batches are left out, see `local_batches`.

    Returns:
        (N, 2) the smallest and the largest.

    >>> batch_extremes(np.array([20, 11, 1, 31]), local_steps=3, batch_size=10).tolist()
    [[10, 10], [1, 10], [1, 1], [10, 10]]
    """
    sizes = np.asarray(data_sizes)
    ends = _ends(sizes, batch_size, drop_last)
    steps = -(-ends // batch_size)
    last = ends - (steps - 1) * batch_size
    largest = np.minimum(batch_size, sizes)
    return np.stack([np.where(steps <= local_steps, last, largest), largest], axis=1)


@lru_cache(maxsize=256)
def _base(seed: int, purpose: str) -> int:
    return derived_seed(seed, purpose)


def compiled_kernels(part: Literal["averages", "batches", "linear"]) -> ModuleType | None:
    """A module of compiled kernels, or None where numba is not installed."""
    return load_kernels(f"fedgs.local.kernels.{part}")


def _mix(state: KeyArray) -> KeyArray:
    """SplitMix64's output function, a bijection of 64-bit numbers that scatters neighbours."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def _ends(data_sizes: IntArray, batch_size: int, drop_last: bool) -> IntArray:
    """(r,) how many examples a pass uses: all, or those of whole batches if there is one."""
    if not drop_last:
        return data_sizes
    whole = data_sizes // batch_size * batch_size
    ends: IntArray = np.where(whole > 0, whole, data_sizes)
    return ends


def _left_in_pass(ends: IntArray, local_steps: int, batch_size: int) -> IntArray:
    """(r,) examples of a pass -> (r, E) examples not yet used in the step's pass."""
    in_pass = -(-np.asarray(ends) // batch_size)
    step_in_pass = np.arange(local_steps) % in_pass[:, None]  # (r, E)
    return np.asarray(ends)[:, None] - step_in_pass * batch_size


def _fill(
    keys: KeyArray, data_sizes: IntArray, ends: IntArray, steps: IntArray, indices: IntArray
) -> None:
    """Write (r, E, B) batches in NumPy, vectorised over the clients: the kernel's reference."""
    count, local_steps, batch_size = indices.shape
    in_pass = -(-ends // batch_size)
    drawn = np.zeros(count, dtype=np.uint64)
    order = np.zeros((count, int(data_sizes.max(initial=0))), dtype=np.int64)
    for step in range(local_steps):
        step_in_pass = step % in_pass
        order[step_in_pass == 0] = np.arange(order.shape[1])
        for slot in range(batch_size):
            position = step_in_pass * batch_size + slot
            # The others' batches are short, or they have made all their steps.
            rows = np.flatnonzero((position < ends) & (step < steps))
            drawn[rows] += np.uint64(1)
            front = position[rows]
            with np.errstate(over="ignore"):
                upper = _mix(keys[rows] + drawn[rows] * _GAMMA) >> np.uint64(32)
            jump = (data_sizes[rows] - front).astype(np.uint64) * upper >> np.uint64(32)
            partner = front + jump.astype(np.int64)
            indices[rows, step, slot] = order[rows, partner]
            # The pass never reads position `front` again.
            order[rows, partner] = order[rows, front]
