"""The arguments of `Federation.from_arrays` in the forms that users give, checked."""

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from fedgs.arrays import AnyArray, FloatMatrix, IntArray
from fedgs.data.labels import numbered
from fedgs.data.numeric import as_examples, as_features, of_one_type
from fedgs.data.owners import as_owners, in_order
from fedgs.data.padding import padded
from fedgs.data.targets import Task, as_targets, checked_task
from fedgs.errors import DataError

__all__ = ["Channels", "Given", "Layout", "Rows", "client_features_of", "examples_of", "read_parts"]

Channels = Literal["first", "last"]


@dataclass(frozen=True)
class Layout:
    """How examples are laid out, and what is predicted.

    Attributes:
        task: see `Federation.task`.
        channels: "last": images are (n, height, width, channels) and become (n, channels, height,
            width).
        mask: whether examples of unequal length are padded, see `padded`.
    """

    task: Task = "classes"
    channels: Channels = "first"
    mask: bool = False

    def __post_init__(self) -> None:
        checked_task(self.task)
        if self.channels not in ("first", "last"):
            raise DataError(f"channels must be 'first' or 'last', got {self.channels!r}")


class Rows(NamedTuple):
    """The examples of one part in the order in which they were given."""

    x: AnyArray
    y: AnyArray
    owner: IntArray | None  # indices into the clients' names; None: the server's


@dataclass(frozen=True)
class Given:
    """All parts that a user gave.

    Attributes:
        names: of the clients in order.
        train: has owners.
        test: has owners where the user named them.
        validation: has owners; None: there is none.
        label_names: names of the classes 0..C-1, where labels were texts.
    """

    names: tuple[str | int, ...]
    train: Rows
    test: Rows
    validation: Rows | None
    label_names: tuple[str, ...] | None

    @property
    def parts(self) -> list[Rows]:
        """The parts that there are, the training part first."""
        return [self.train, self.test, *([] if self.validation is None else [self.validation])]

    def of_one_type(self) -> "Given":
        """The same with examples of one type, see `numeric.of_one_type`."""
        rows = [
            part._replace(x=x)
            for part, x in zip(
                self.parts, of_one_type([part.x for part in self.parts]), strict=True
            )
        ]
        return replace(
            self, train=rows[0], test=rows[1], validation=rows[2] if len(rows) > 2 else None
        )


def read_parts(
    train: tuple[object, object, object],
    test: object,
    validation: object,
    *,
    client_order: str | Sequence[str | int],
    layout: Layout,
) -> Given:
    """The arrays of all parts, checked and in one form.

    Args:
        train: x, y and client.
        test: a tuple (x, y) or (x, y, client).
        validation: a tuple (x, y, client), None or empty arrays.
        client_order: see `Federation.from_arrays`.
        layout: how examples are laid out.

    Raises:
        DataError: see `Federation.from_arrays`.
    """
    raw = {"": train, "test ": _test_of(test)}
    held_out = None if validation is None else _entries("validation", validation, "x, y, client", 3)
    if held_out is not None and not all(map(_is_empty, held_out)):
        raw["validation "] = (held_out[0], held_out[1], held_out[2])
    xs, ys = (
        {f"{part}{word}": entries[place] for part, entries in raw.items()}
        for place, word in enumerate("xy")
    )
    xs, ys = padded(xs, ys, task=layout.task, mask=layout.mask)
    examples = {where: examples_of(x, where, layout) for where, x in xs.items()}
    label_names = None
    if layout.task == "classes":
        ys, label_names = numbered(ys)
    targets = {where: as_targets(y, where, layout.task) for where, y in ys.items()}
    names, owner = in_order(as_owners(train[2], "client"), client_order)
    rows: dict[str, Rows] = {}
    for part, entries in raw.items():
        x, y = examples[f"{part}x"], targets[f"{part}y"]
        mine: IntArray | None = owner
        if part:
            mine = None if entries[2] is None else _owner(entries[2], part.strip(), names)
        _refuse_lengths(f"{part.strip()}: " if part else "", x=x, y=y, client=mine)
        if not part and len(y) == 0:
            raise DataError("a federation needs at least one training example, got none")
        rows[part] = Rows(x, y, mine)
    return Given(names, rows[""], rows["test "], rows.get("validation "), label_names)


def client_features_of(client_features: object, count: int) -> FloatMatrix | None:
    """The clients' features, one row for each of `count` clients."""
    if client_features is None:
        return None
    features = as_features(client_features, "client_features")
    if len(features) != count:
        raise DataError(
            f"client_features must have {count} rows, one for each client, got {len(features)}"
        )
    return features


def _test_of(test: object) -> tuple[object, object, object]:
    """x, y and owners of the test set; None where there are no owners."""
    if isinstance(test, tuple | list) and len(test) == 3:
        return test[0], test[1], test[2]
    x, y = _entries("test", test, "x, y", 2)
    return x, y, None


def _entries(setting: str, value: object, names: str, count: int) -> tuple[object, ...]:
    if not isinstance(value, tuple | list) or len(value) != count:
        got = f" with {len(value)} entries" if hasattr(value, "__len__") else ""
        raise DataError(f"{setting} must be a tuple ({names}), got {type(value).__name__}{got}")
    return tuple(value)


def examples_of(value: object, where: str, layout: Layout) -> AnyArray:
    """Examples as they are held, in an array of their own where they are the test set's.

    Args:
        value: an array or anything that `np.asarray` reads.
        where: what messages call it.
        layout: where channels are; the tokens of sequences become int64.

    Raises:
        DataError: see `as_examples`; channels that are last in examples with one axis.
    """
    x = as_examples(value, where, copy=where.startswith("test"))
    if layout.channels == "last":
        x = channels_first(x, where)
    if layout.task == "sequence" and x.dtype.kind in "biu":
        return x.astype(np.int64, copy=False)
    return x


def channels_first(x: AnyArray, where: str) -> AnyArray:
    """(n, ..., channels) examples as (n, channels, ...).

    Raises:
        DataError: examples with fewer than two axes.

    >>> channels_first(np.zeros((5, 32, 30, 3)), "x").shape
    (5, 3, 32, 30)
    """
    if x.ndim < 3:
        raise DataError(
            f"{where} must have shape (n, ..., channels) where channels are last, got {x.shape}"
        )
    return np.ascontiguousarray(np.moveaxis(x, -1, 1))


def _owner(client: object, part: str, names: tuple[str | int, ...]) -> IntArray:
    """(n,) the owners of a part as indices into the clients' names."""
    owner_names, owner = as_owners(client, f"{part} client")
    place = {name: k for k, name in enumerate(names)}
    strangers = [name for name in owner_names if name not in place]
    if strangers:
        raise DataError(f"client {strangers[0]!r} has {part} examples but no training example")
    return np.array([place[name] for name in owner_names], dtype=np.int64)[owner]


def _refuse_lengths(where: str, **columns: AnyArray | None) -> None:
    known: Mapping[str, AnyArray] = {
        name: column for name, column in columns.items() if column is not None
    }
    names, lengths = list(known), [str(len(column)) for column in known.values()]
    if len(set(lengths)) > 1:
        listed, got = (f"{', '.join(words[:-1])} and {words[-1]}" for words in (names, lengths))
        raise DataError(f"{where}{listed} must have one length, got {got}")


def _is_empty(value: object) -> bool:
    try:
        return isinstance(value, Sized) and len(value) == 0
    except TypeError:  # such as an array without dimensions: the checks of the entries report it
        return False
