"""What a sampler returned, checked: selections, candidates for losses, and memories."""

import math
from collections.abc import Mapping
from numbers import Real
from types import MappingProxyType

import numpy as np

from fedgs.arrays import AnyArray, IntArray, frozen, private
from fedgs.clients import Memory, Selection, View
from fedgs.errors import ConfigError, SelectionError

__all__ = ["checked_candidates", "checked_memory", "checked_selection", "kept_memory"]


def checked_selection(selection: object, view: View) -> Selection:
    """The sampler's answer in ascending client order.

    An array, a list or a tuple of indices stands for a `Selection` of these clients. An empty
    selection is valid: no client trains, and its status is "empty".

    Raises:
        SelectionError: the answer is neither a `Selection` nor indices, its clients are not
            distinct and available, or one of its fields has a wrong value.

    >>> from fedgs.clients import Clients
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

    >>> from fedgs.clients import Clients
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
