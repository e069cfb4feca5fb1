"""The types of the sampling layer: clients, a sampler's view, its selection, and the outcome.

`Clients` is all that availability modes, samplers, the graph and a deployment ever see of a
federation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np

from fedgs.arrays import AnyArray, FloatArray, FloatMatrix, IntArray, frozen, private, read_only
from fedgs.client_names import kept_names
from fedgs.errors import DataError

if TYPE_CHECKING:
    from fedgs.weighting import Weighting

__all__ = [
    "Clients",
    "Counted",
    "Memory",
    "Objective",
    "Outcome",
    "Selection",
    "View",
]

Memory = Mapping[str, AnyArray]  # a sampler's memory: named arrays, saved with the state

Objective = Literal["data_size", "equal"]
Counted = Literal["selected", "answered"]
"""What a count of a client counts: rounds that selected it, or updates of it that entered."""


@dataclass(frozen=True, eq=False)
class Clients:
    """The clients of a federation, 0..N-1.

    The arrays are private copies and read-only: all runs of a federation share them.

    Attributes:
        names: N distinct keys that the clients have outside this package, used in records:
            non-empty texts or integers of 64 bits, distinct as text. A tuple; `range(N)` where
            they are 0..N-1 and N > 1000.
        data_sizes: (N,) number of training examples n_k, each >= 1.
        label_counts: (N, C) training examples by label, or None where there are no labels.
        features: (N, d) client features u_k, or None.
        classes: C, where it was given and not counted; then it is the number of columns of
            `label_counts`. `YMF` uses it.

    Raises:
        DataError: names that are neither texts nor integers, repeated names, a client without
            examples, or shapes that do not fit.

    >>> len(Clients(names=("a", "b"), data_sizes=np.array([3, 5])))
    2
    """

    names: Sequence[str | int]
    data_sizes: IntArray
    label_counts: IntArray | None = None
    features: FloatArray | None = None
    classes: int | None = None

    def __post_init__(self) -> None:
        for name in ("data_sizes", "label_counts", "features"):
            array = getattr(self, name)
            if array is not None:
                object.__setattr__(self, name, private(_numbers(array, name)))
        object.__setattr__(self, "names", kept_names(self.names))
        count = len(self.names)
        if count == 0:
            raise DataError("a federation needs at least one client, got none")
        if self.data_sizes.shape != (count,):
            raise DataError(
                f"data_sizes must have shape ({count},), one a client, got {self.data_sizes.shape}"
            )
        empty = np.flatnonzero(self.data_sizes < 1)
        if len(empty):
            raise DataError(
                "every client needs at least one training example; "
                f"client {self.names[int(empty[0])]!r} has {int(self.data_sizes[empty[0]])}"
            )
        for label, rows in (("label_counts", self.label_counts), ("features", self.features)):
            if rows is not None and (rows.ndim != 2 or len(rows) != count):
                raise DataError(
                    f"{label} must have {count} rows, one a client, got shape {rows.shape}"
                )
        if self.classes is not None and (
            self.label_counts is None or self.label_counts.shape[1] != self.classes
        ):
            columns = "none" if self.label_counts is None else self.label_counts.shape[1]
            raise DataError(
                "classes must be the number of columns of label_counts, "
                f"which is {columns}, got {self.classes!r}"
            )

    def __setstate__(self, state: dict[str, object]) -> None:
        """Freeze the arrays of a deep copy or of a pickle, which could be written to."""
        self.__dict__.update(
            {
                name: frozen(value) if isinstance(value, np.ndarray) else value
                for name, value in state.items()
            }
        )

    def __len__(self) -> int:
        return len(self.names)

    def shares(self, objective: Objective) -> FloatArray:
        """(N,) weights p_k of the clients in the objective: n_k / n or 1/N; read-only.

        >>> Clients(("a", "b"), np.array([3, 5])).shares("data_size").tolist()
        [0.375, 0.625]
        """
        return self._equal_shares if objective == "equal" else self._size_shares

    @cached_property
    def _size_shares(self) -> FloatArray:
        shares: FloatArray = self.data_sizes / self.data_sizes.sum(dtype=np.float64)
        return frozen(shares)

    @cached_property
    def _equal_shares(self) -> FloatArray:
        return frozen(np.full(len(self), 1 / len(self)))


def _numbers(value: object, name: str) -> AnyArray:
    """An array of `Clients` in a numeric type."""
    kinds, allowed = ("iu", "integers") if name == "data_sizes" else ("biuf", "numbers")
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:
        raise DataError(
            f"{name} must be an array of {allowed}, "
            f"got {type(value).__name__}: {str(error).splitlines()[0]}"
        ) from None
    if array.dtype.kind not in kinds and array.size:
        raise DataError(f"{name} must be an array of {allowed}, got {array.dtype}")
    return array


_ARRAYS_OF_VIEW = (
    "available", "counts", "losses", "rates", "reported_sizes", "answers", "failures",
    "seconds",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class View:
    """What a sampler sees in round t.

    All arrays are read-only, and so is the mapping of the memory.

    Attributes:
        round: t, from 0.
        clients: the federation's clients.
        available: (a,) ascending indices of the available clients A_t, a >= 1.
        counts: (N,) sampling counts v_k: in how many rounds before t each client was selected.
        cohort_limit: M >= 1; the cohort has at most min(M, a) clients.
        losses: (N,) local losses of the clients the sampler asked for, NaN elsewhere; None if it
            asked for none.
        memory: the sampler's memory, empty if it keeps none.
        objective: the weights p_k of the clients in the global objective sum_k p_k F_k:
            "data_size": n_k / n; "equal": 1/N.
        rates: (N,) P(k in A_t) by the availability mode, for weightings that read them; else None.
        reported_sizes: (N,) n_k as a deployment's clients report them; None: those of `clients`.
        weighting_memory: the memory of the sampler's weighting, for samplers that follow it.
        answers: (N,) in how many rounds before t an update of each client entered the model. If
            none is given, every selected client answered, and these are the counts.
        failures: (N,) how many of the last selections of each client had no answer, since its last
            one; None: no client failed.
        seconds: (N,) how long the last answered work of each client took, NaN before the first;
            None: the run has no clock.
        clock: seconds of the run at the beginning of the round; None likewise.

    >>> clients = Clients(("a", "b", "c"), np.array([3, 5, 4]))
    >>> counts = np.zeros(3, dtype=np.int64)
    >>> view = View(0, clients, available=np.array([0, 2]), counts=counts, cohort_limit=5)
    >>> view.cohort_size, view.clients.data_sizes[view.available].tolist()
    (2, [3, 4])
    """

    round: int
    clients: Clients
    available: IntArray
    counts: IntArray
    cohort_limit: int
    losses: FloatArray | None = None
    memory: Memory = field(default_factory=dict)
    objective: Objective = "data_size"
    rates: FloatArray | None = None
    reported_sizes: FloatArray | None = None
    weighting_memory: Memory = field(default_factory=dict)
    answers: IntArray = None  # type: ignore[assignment]  # the counts, see below
    failures: IntArray | None = None
    seconds: FloatArray | None = None
    clock: float | None = None

    def __post_init__(self) -> None:
        if self.answers is None:
            object.__setattr__(self, "answers", self.counts)
        for name in _ARRAYS_OF_VIEW:
            array = getattr(self, name)
            if isinstance(array, np.ndarray):
                object.__setattr__(self, name, read_only(array))
        for name in ("memory", "weighting_memory"):
            memory = getattr(self, name)
            if not isinstance(memory, MappingProxyType):
                arrays = {
                    key: read_only(value) if isinstance(value, np.ndarray) else value
                    for key, value in memory.items()
                }
                object.__setattr__(self, name, MappingProxyType(arrays))

    @property
    def cohort_size(self) -> int:
        """The size of the cohort, m = min(M, |A_t|)."""
        return min(self.cohort_limit, len(self.available))

    @property
    def data_sizes(self) -> AnyArray:
        """(N,) n_k."""
        return self.clients.data_sizes if self.reported_sizes is None else self.reported_sizes

    @property
    def shares(self) -> FloatArray:
        """(N,) the weights p_k of the clients in the objective, sum 1."""
        if self.reported_sizes is None or self.objective == "equal":
            return self.clients.shares(self.objective)
        shares: FloatArray = self.reported_sizes / self.reported_sizes.sum()
        return shares


@dataclass(frozen=True, eq=False)
class Selection:
    """A sampler's answer.

    Attributes:
        clients: (m,) distinct indices, all available; any order. m may be 0: no client trains in
            this round, and the model stays as it is.
        draws: (m,) how often each was drawn (>= 1), for samplers that draw with replacement; None:
            once each.
        weighting: the weighting of this round, a name, table or object without a memory; None: the
            sampler's own setting.
        status: how the answer was found ("optimal", "bounded", "feasible", "time_limit"), where a
            solver ran; the record of an empty selection always says "empty".
        objective, upper_bound: the solver's figures, where one ran; finite.

    >>> Selection(np.array([4, 1]), weighting="equal").clients
    array([4, 1])
    """

    clients: IntArray
    draws: IntArray | None = None
    weighting: "str | Mapping[str, object] | Weighting | None" = None
    status: str | None = None
    objective: float | None = None
    upper_bound: float | None = None


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of training the cohort: its clients, their weights and their features.

    The arrays are read-only.

    Attributes:
        clients: (m,) ascending indices.
        weights: (m,) aggregation weights, as applied.
        features: (m, d) features of the local models, if the sampler wishes for them (as graphs
            that grow with the replies do), else None.
        reports: name -> (m,) numbers that came with the updates, if the sampler asks for them, see
            `fedgs.requests.Train`.

    >>> Outcome(np.array([1, 4]), np.array([0.25, 0.75])).weights
    array([0.25, 0.75])
    """

    clients: IntArray
    weights: FloatArray
    features: FloatMatrix | None = None
    reports: Mapping[str, FloatArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("clients", "weights", "features"):
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, name, read_only(value))
