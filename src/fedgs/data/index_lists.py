"""The partition `index_lists`: the examples of each client are given as a list of rows."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import model_validator

from fedgs.arrays import AnyArray, IntArray
from fedgs.client_names import checked_names
from fedgs.data.numeric import plain_array
from fedgs.data.partition import NO_COLUMNS, Assignment, Partition
from fedgs.errors import DataError
from fedgs.registry import register

__all__ = ["IndexLists"]

_EITHER = "partition 'index_lists' must have either lists or path"


@register("partition", "index_lists")
class IndexLists(Partition):
    """Each client gets the examples whose indices its list holds.

    The lists determine the number of clients and, where they have names, the clients' names.

    Attributes:
        lists: indices of training examples from 0, a list for each client or a table of name to
            list; in Python also arrays.
        path: a JSON file that holds them in one of these forms; a relative path is looked up in the
            current folder. Either `lists` or `path` is given.
        rest: what happens to examples that no list holds. "refuse": an error; "leave_out": they
            belong to no client, and their number is in `facts["unassigned"]`.

    >>> labels = np.zeros(4, dtype=np.int64)
    >>> lists = IndexLists(lists={"ann": [3, 0], "ben": [1, 2]})
    >>> lists.assign(labels, 2, np.random.default_rng(0)).examples(0)
    array([0, 3])
    """

    reads_labels = False
    counts_clients = True
    lists: dict[str, list[int]] | list[list[int]] | None = None
    path: str | None = None
    rest: Literal["refuse", "leave_out"] = "refuse"

    @model_validator(mode="before")
    @classmethod
    def _plain_lists(cls, values: Any) -> Any:
        """Arrays as lists, which a configuration can hold."""
        if not isinstance(values, Mapping):
            return values
        lists = values.get("lists")
        if lists is None:
            return values
        if values.get("path") is not None:
            raise ValueError(f"{_EITHER}, got both")
        return {**values, "lists": _as_lists(lists, "partition.lists")}

    @property
    def leaves_out(self) -> bool:
        """Whether examples may belong to no client."""
        return self.rest == "leave_out"

    def assign(
        self,
        labels: IntArray,
        clients: int,
        rng: np.random.Generator,
        *,
        columns: Mapping[str, AnyArray] = NO_COLUMNS,
    ) -> Assignment:
        """See `Partition.assign`; the lists determine the number of clients."""
        where = "partition.lists" if self.path is None else f"partition.path: {self.path}"
        lists = self.lists if self.path is None else _as_lists(_read(self.path), where)
        if lists is None:
            raise DataError(f"{_EITHER}, got none")
        named = isinstance(lists, Mapping)
        names = checked_names(lists) if isinstance(lists, Mapping) else tuple(range(len(lists)))
        pieces = [
            np.sort(np.array(rows, dtype=np.int64))
            for rows in (lists.values() if isinstance(lists, Mapping) else lists)
        ]
        order = np.concatenate([np.zeros(0, dtype=np.int64), *pieces])
        _check(order, pieces, names, len(labels), where)
        facts: dict[str, object] = {
            "partition": {"name": self.name, "lists": len(pieces), "named": named}
        }
        missing = len(labels) - len(order)
        if missing and not self.leaves_out:
            held = np.zeros(len(labels), dtype=bool)
            held[order] = True
            raise DataError(
                f"{where} must hold each of the {len(labels)} examples, got {missing} in no list, "
                f"the first is {int(np.flatnonzero(~held)[0])}; "
                "partition.rest = 'leave_out' leaves them out"
            )
        if missing:
            facts["unassigned"] = missing
        offsets = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])])
        return Assignment(order, offsets.astype(np.int64), names, facts)


def _read(path: str) -> object:
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
        return json.loads(text, object_pairs_hook=partial(_once, where=f"partition.path: {path}"))
    except OSError as error:
        raise DataError(f"partition.path: {path!r} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise DataError(f"partition.path: {path!r} is not readable as JSON: {error}") from None
    except RecursionError:
        raise DataError(
            f"partition.path: {path!r} is not readable as JSON: it is nested too deeply"
        ) from None


def _once(pairs: Iterable[tuple[object, Any]], where: str) -> dict[str, Any]:
    """A table of pairs whose names differ as texts."""
    table: dict[str, Any] = {}
    for key, rows in pairs:
        name = str(key)
        if name in table:
            raise DataError(f"{where} must have one list for each name, got {name!r} twice")
        table[name] = rows
    return table


def _as_lists(lists: object, where: str) -> dict[str, list[int]] | list[list[int]]:
    """Lists of Python's integers, from lists or arrays; a table keeps its names as texts."""
    if isinstance(lists, Mapping):
        named = _once(lists.items(), where)
        return {name: _indices(rows, where, name) for name, rows in named.items()}
    if isinstance(lists, Sequence | np.ndarray) and not isinstance(lists, str | bytes):
        return [_indices(rows, where, str(place)) for place, rows in enumerate(lists)]
    raise DataError(
        f"{where} must be a list of indices for each client, or a table of them, "
        f"got {type(lists).__name__}"
    )


def _indices(rows: object, where: str, name: str) -> list[int]:
    array = plain_array(rows, f"{where}, client {name}")
    if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
        raise DataError(
            f"{where} must hold integers in the list of client {name}, "
            f"got {array.dtype} of shape {array.shape}"
        )
    return [int(row) for row in array.tolist()]


def _check(
    order: IntArray,
    pieces: list[IntArray],
    names: tuple[str | int, ...],
    count: int,
    where: str,
) -> None:
    """Refuse indices out of range and indices that occur twice, with the client's name."""
    owner = np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces])
    wrong = np.flatnonzero((order < 0) | (order >= count))
    if len(wrong):
        place = int(wrong[0])
        raise DataError(
            f"{where} must hold indices in 0..{count - 1}, got {int(order[place])} for client "
            f"{names[int(owner[place])]!r}"
        )
    by_index = np.argsort(order, kind="stable")
    twice = np.flatnonzero(np.diff(order[by_index]) == 0)
    if len(twice):
        first, second = (int(owner[by_index[twice[0] + step]]) for step in (0, 1))
        raise DataError(
            f"{where} must hold each example once, got {int(order[by_index[twice[0]]])} for client "
            f"{names[first]!r} and client {names[second]!r}"
        )
