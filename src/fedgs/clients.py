"""The words of the sampling layer: clients, what a sampler sees, what it answers, what came of it.

`Clients` is all that availability modes, samplers, the graph and a deployment ever see of a federation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from fedgs.arrays import AnyArray, FloatArray, IntArray
from fedgs.errors import DataError, SelectionError

__all__ = ["Clients", "Memory", "Outcome", "Selection", "View", "Weighting", "checked_selection"]

Memory = Mapping[str, AnyArray]  # a sampler's memory: named arrays, saved with the state

Weighting = Literal["data_size", "draws", "equal", "inverse_participation"]


@dataclass(frozen=True, eq=False)
class Clients:
    """The clients of a federation, 0..N-1.

    Attributes:
        names: N distinct keys of the clients' own (str or int), used in records.
        data_sizes: (N,) number of training examples n_k, each >= 1.
        label_counts: (N, C) training examples by label, or None where there are no labels.
        features: (N, d) client features u_k, or None.

    Raises:
        DataError: doubled names, a client without examples, or shapes that do not fit.

    >>> len(Clients(names=("a", "b"), data_sizes=np.array([3, 5])))
    2
    """

    names: tuple[str | int, ...]
    data_sizes: IntArray
    label_counts: IntArray | None = None
    features: FloatArray | None = None

    def __post_init__(self) -> None:
        count = len(self.names)
        if count == 0:
            raise DataError("a federation needs at least one client, got none")
        if len(set(self.names)) != count:
            doubled = next(name for name in self.names if self.names.count(name) > 1)
            raise DataError(f"client names must be distinct, got {doubled!r} twice")
        if self.data_sizes.shape != (count,):
            raise DataError(f"data_sizes must have shape ({count},), one a client, got {self.data_sizes.shape}")
        empty = np.flatnonzero(self.data_sizes < 1)
        if len(empty):
            raise DataError(
                f"every client needs at least one training example; client {self.names[int(empty[0])]!r} has "
                f"{int(self.data_sizes[empty[0]])}"
            )
        for label, rows in (("label_counts", self.label_counts), ("features", self.features)):
            if rows is not None and (rows.ndim != 2 or len(rows) != count):
                raise DataError(f"{label} must have {count} rows, one a client, got shape {rows.shape}")

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class View:
    """What a sampler sees in round t.

    Attributes:
        round: t, from 0.
        clients: the federation's clients.
        available: (a,) ascending indices of the available clients A_t, a >= 1; read-only, since runs share it.
        counts: (N,) sampling counts v_k: in how many rounds before t each client was selected.
        cohort_limit: M >= 1; the cohort has at most min(M, a) clients.
        losses: (N,) local losses of the clients the sampler asked for, NaN elsewhere; None if it asked for none.
        memory: the sampler's memory, empty if it keeps none.
    """

    round: int
    clients: Clients
    available: IntArray
    counts: IntArray
    cohort_limit: int
    losses: FloatArray | None = None
    memory: Memory = field(default_factory=dict)

    @property
    def cohort_size(self) -> int:
        """m = min(M, |A_t|)."""
        return min(self.cohort_limit, len(self.available))


@dataclass(frozen=True, eq=False)
class Selection:
    """A sampler's answer.

    Attributes:
        clients: (m,) distinct indices, all available; any order.
        draws: (m,) how often each was drawn (>= 1), for samplers that draw with replacement; None: once each.
        weighting: the rule for the aggregation weights; None: the sampler's own setting, else "data_size".
        status: how the answer was found ("optimal", "bounded", "feasible", "time_limit"), where a solver ran.
        objective, upper_bound: the solver's figures, where one ran.
    """

    clients: IntArray
    draws: IntArray | None = None
    weighting: Weighting | None = None
    status: str | None = None
    objective: float | None = None
    upper_bound: float | None = None


@dataclass(frozen=True, eq=False)
class Outcome:
    """What training the cohort gave: the clients in ascending order, their weights, and what folds returned.

    Attributes:
        clients: (m,) ascending indices.
        weights: (m,) aggregation weights, sum 1.
        features: what the sampler's own fold returned (for graphs that grow with the replies), or None.
    """

    clients: IntArray
    weights: FloatArray
    features: Any = None


def checked_selection(selection: Selection, view: View) -> Selection:
    """The selection in ascending client order, or a `SelectionError` that says what is wrong with it.

    >>> view = View(0, Clients((0, 1, 2), np.ones(3, dtype=np.int64)), np.array([0, 2]), np.zeros(3, dtype=np.int64), 2)
    >>> checked_selection(Selection(np.array([2, 0])), view).clients
    array([0, 2])
    """
    chosen = np.asarray(selection.clients)
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
        raise SelectionError(f"a sampler must return a 1-d array of client indices, got {chosen.dtype} {chosen.shape}")
    if len(chosen) == 0:
        raise SelectionError(f"a sampler must select at least one of the {len(view.available)} available clients, got none")
    order = chosen.argsort(kind="stable")
    clients = chosen[order].astype(np.int64, copy=False)
    if (clients[1:] == clients[:-1]).any():
        raise SelectionError("a sampler must return distinct clients; use `draws` for repeated ones")
    if len(clients) > view.cohort_limit:
        raise SelectionError(f"a sampler may select at most {view.cohort_limit} clients (cohort_limit), got {len(clients)}")
    missing = view.available.take(view.available.searchsorted(clients), mode="clip") != clients
    if missing.any():
        raise SelectionError(f"a sampler may select available clients only; client {int(clients[missing][0])} is not available")
    draws = selection.draws
    if draws is not None:
        draws = np.asarray(draws)
        if draws.shape != clients.shape or np.any(draws < 1):
            raise SelectionError(f"draws must be {len(clients)} counts >= 1, one a selected client, got {draws.tolist()}")
        draws = draws[order].astype(np.int64)
    return Selection(clients, draws, selection.weighting, selection.status, selection.objective, selection.upper_bound)
