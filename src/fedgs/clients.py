"""The types of the sampling layer: clients, a sampler's view, its selection, and the outcome.

`Clients` is all that availability modes, samplers, the graph and a deployment ever see of a
federation.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np

from fedgs.arrays import AnyArray, FloatArray, FloatMatrix, IntArray, frozen, private, read_only
from fedgs.client_names import kept_names
from fedgs.errors import ConfigError, DataError, SelectionError

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
    "checked_candidates",
    "checked_memory",
    "checked_selection",
    "kept_memory",
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


def checked_selection(selection: object, view: View) -> Selection:
    """The sampler's answer in ascending client order.

    An array, a list or a tuple of indices stands for a `Selection` of these clients. An empty
    selection is valid: no client trains, and its status is "empty".

    Raises:
        SelectionError: the answer is neither a `Selection` nor indices, its clients are not
            distinct and available, or one of its fields has a wrong value.

    >>> clients, counts = Clients((0, 1, 2), np.array([3, 5, 4])), np.zeros(3, dtype=np.int64)
    >>> view = View(0, clients, available=np.array([0, 2]), counts=counts, cohort_limit=2)
    >>> checked_selection(Selection(np.array([2, 0])), view).clients
    array([0, 2])
    >>> checked_selection(Selection(view.available[:0]), view).status
    'empty'
    """
    wanted = "a sampler must return the indices of clients"
    if isinstance(selection, np.ndarray | list | tuple):
        selection = Selection(_client_indices(selection, wanted))
    if not isinstance(selection, Selection):
        raise SelectionError(
            f"a sampler must return a fedgs.Selection, got {_description(selection)}"
        )
    cohort = _client_indices(selection.clients, wanted)
    order = cohort.argsort(kind="stable")
    clients = cohort[order]
    if (clients[1:] == clients[:-1]).any():
        raise SelectionError(
            "a sampler must return distinct clients; use `draws` for repeated ones"
        )
    if len(clients) > view.cohort_limit:
        raise SelectionError(
            f"a sampler may select at most {view.cohort_limit} clients (cohort_limit), "
            f"got {len(clients)}"
        )
    missing = view.available.take(view.available.searchsorted(clients), mode="clip") != clients
    if missing.any():
        raise SelectionError(
            "a sampler may select available clients only; "
            + _unavailable(int(clients[missing][0]), view)
        )
    _check_words(selection, empty=len(clients) == 0)
    return Selection(
        clients,
        _checked_draws(selection.draws, order),
        selection.weighting,
        selection.status if len(clients) else "empty",
        _figure(selection.objective, "objective"),
        _figure(selection.upper_bound, "upper_bound"),
    )


def checked_candidates(candidates: object, view: View) -> IntArray:
    """The clients whose losses a sampler asks for, ascending; an empty array asks for none.

    Raises:
        SelectionError: not distinct indices of available clients.

    >>> clients, counts = Clients((0, 1, 2), np.array([3, 5, 4])), np.zeros(3, dtype=np.int64)
    >>> view = View(0, clients, available=np.array([0, 2]), counts=counts, cohort_limit=2)
    >>> checked_candidates([2, 0], view)
    array([0, 2])
    """
    indices = np.sort(
        _client_indices(candidates, "loss_candidates must return the indices of clients")
    )
    unavailable = indices[~np.isin(indices, view.available)]
    if len(unavailable):
        raise SelectionError(
            "loss_candidates must return available clients only; "
            + _unavailable(int(unavailable[0]), view)
        )
    if (indices[1:] == indices[:-1]).any():
        raise SelectionError("loss_candidates must return distinct clients")
    return indices


def checked_memory(memory: object, method: str) -> Memory:
    """A sampler's memory as it can be saved: names, and arrays of numbers, booleans or texts.

    Numbers and lists become arrays.

    Args:
        memory: what the sampler returned.
        method: the name of the method that returned it, for the message.

    Raises:
        SelectionError: not a mapping, or a value that is not an array that a file can hold.

    >>> checked_memory({"last": np.zeros(2)}, "start")
    {'last': array([0., 0.])}
    """
    if not isinstance(memory, Mapping):
        raise SelectionError(
            f"{method} must return a mapping of names to arrays, got {_description(memory)}"
        )
    arrays: dict[str, AnyArray] = {}
    for name, value in memory.items():
        # `numpy.savez` takes arrays by keyword and has a parameter of its own named "file".
        if not isinstance(name, str) or not name or name == "file":
            raise SelectionError(
                f"{method} must return a mapping of names to arrays; {name!r} cannot be a name"
            )
        try:
            arrays[name] = np.asarray(value)  # an array stays the same object
        except ValueError:  # rows of different lengths
            arrays[name] = np.empty(0, dtype=object)
        if arrays[name].dtype.hasobject:
            raise SelectionError(
                f"{method} must return a mapping of names to arrays of numbers, booleans or texts; "
                f"{name!r} is {_description(value)}"
            )
    return arrays


def kept_memory(memory: Memory) -> Memory:
    """A sampler's memory as a run keeps it: a mapping and arrays that cannot be changed.

    An array that owns its numbers becomes read-only and is not copied; a view of another array is
    copied, unless it is frozen. The result of an earlier call is returned as it is, and so is each
    of its arrays.

    >>> memory = kept_memory({"last": np.array([3, 1])})
    >>> memory["last"][0] = 9
    Traceback (most recent call last):
    ValueError: assignment destination is read-only
    >>> kept_memory({**memory, "seen": np.array([True])})["last"] is memory["last"]
    True
    """
    arrays = {
        name: frozen(array) if array.base is None else private(array)
        for name, array in memory.items()
    }
    if isinstance(memory, MappingProxyType) and all(
        arrays[name] is memory[name] for name in arrays
    ):
        return memory
    return MappingProxyType(arrays)


def _client_indices(clients: object, wanted: str) -> IntArray:
    """Indices of clients as a 1-d int64 array.

    An empty array or list of any type is an empty selection.

    Args:
        clients: an integer array or a list of integers.
        wanted: how the sentence of a `SelectionError` begins.
    """
    try:
        indices = np.asarray(clients)
    except ValueError:  # rows of different lengths
        raise SelectionError(f"{wanted}, got {_description(clients)}") from None
    if indices.ndim == 1 and indices.dtype.kind in "iu":
        return indices.astype(np.int64, copy=False)
    if indices.ndim == 1 and len(indices) == 0:
        return np.empty(0, dtype=np.int64)
    hint = ""
    if indices.dtype.kind == "b":
        hint = "; np.flatnonzero(mask) gives the indices of a mask"
    elif indices.dtype.kind in "US":
        hint = "; names of clients are in view.clients.names"
    description = (
        f"an array of {indices.dtype} with shape {indices.shape}"
        if indices.ndim
        else _description(clients)
    )
    raise SelectionError(f"{wanted} as a 1-d array of integers, got {description}{hint}")


def _unavailable(client: int, view: View) -> str:
    """The end of a message about a client that is not available."""
    return (
        f"client {client} is not available "
        f"(the {len(view.clients)} clients have the indices 0 to {len(view.clients) - 1})"
    )


def _check_words(selection: Selection, *, empty: bool) -> None:
    if selection.weighting is not None:
        _check_weighting(selection.weighting)
    status = selection.status
    if status is not None and not isinstance(status, str):
        raise SelectionError(
            f"status of a Selection must be a word or None, got {_description(status)}"
        )
    if not empty and status in ("empty", "skipped"):
        raise SelectionError(
            f"status of a Selection must not be {status!r}, "
            "which stands for a round without a cohort"
        )


def _checked_draws(draws: object, order: IntArray) -> IntArray | None:
    """The draws in the order of the clients."""
    if draws is None:
        return None
    try:
        counts = np.asarray(draws)
    except ValueError:
        counts = np.empty((0, 0))
    integers = counts.dtype.kind in "iu" or counts.size == 0
    if counts.shape != order.shape or not integers or (counts.size and counts.min() < 1):
        raise SelectionError(
            f"draws must be {len(order)} integers >= 1, one for each selected client, "
            f"got {_description(draws)}"
        )
    return np.asarray(counts[order], dtype=np.int64)


def _figure(value: object, name: str) -> float | None:
    """A figure of the solver for a record, which is JSON and so has neither NaN nor inf."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise SelectionError(
            f"{name} of a Selection must be a finite number or None, got {_description(value)}"
        )
    return value if isinstance(value, int | float) else float(value)


def _description(value: object) -> str:
    """A value that a sampler returned, in few words."""
    if value is None:
        return "None"
    text = " ".join(repr(value).split())
    text = text if len(text) <= 60 else text[:57] + "..."
    return text if isinstance(value, np.ndarray) else f"{type(value).__name__} {text}"


def _check_weighting(weighting: object) -> None:
    # Imported here, since selecting from plain arrays must not load the settings.
    from fedgs.registry import build, variant_names
    from fedgs.suggestions import nearest

    try:
        build("weighting", weighting)
    except ConfigError:
        known = variant_names("weighting")
        hint = nearest(str(weighting), known)
        raise SelectionError(
            f"weighting of a Selection must be one of {', '.join(known)}, or None; "
            f"got {weighting!r}{hint}"
        ) from None
