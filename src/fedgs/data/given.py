"""The arguments of `Federation.from_arrays` in the forms that users give, checked."""

from collections.abc import Sized
from typing import NamedTuple

import numpy as np

from fedgs.arrays import AnyArray, FloatMatrix, IntArray
from fedgs.data.numeric import as_examples, as_features
from fedgs.data.owners import as_owners
from fedgs.data.targets import Task, as_targets
from fedgs.errors import DataError

__all__ = ["HeldOut", "client_features_of", "examples_of", "held_out", "refuse_lengths", "test_set"]


class HeldOut(NamedTuple):
    """The validation parts of all clients."""

    x: AnyArray
    y: AnyArray
    owner: IntArray  # indices into the clients' names


def examples_of(value: object, where: str, task: Task, *, copy: bool = False) -> AnyArray:
    """The examples as they are held: see `as_examples`; the tokens of sequences become int64."""
    x = as_examples(value, where, copy=copy)
    if task == "sequence" and x.dtype.kind in "biu":
        return x.astype(np.int64, copy=False)
    return x


def test_set(test: object, task: Task) -> tuple[AnyArray, AnyArray]:
    """Examples, as an array of their own, and targets of the test set."""
    given_x, given_y = _entries("test", test, "x", "y")
    x, y = examples_of(given_x, "test x", task, copy=True), as_targets(given_y, "test y", task)
    refuse_lengths("test: ", x=x, y=y)
    return x, y


def held_out(validation: object, names: tuple[str | int, ...], task: Task) -> HeldOut | None:
    """The validation parts; None where they are empty."""
    given_x, given_y, given_client = _entries("validation", validation, "x", "y", "client")
    if all(map(_is_empty, (given_x, given_y, given_client))):
        return None
    x = examples_of(given_x, "validation x", task)
    y = as_targets(given_y, "validation y", task)
    owner_names, owner = as_owners(given_client, "validation client")
    refuse_lengths("validation: ", x=x, y=y, client=owner)
    place = {name: k for k, name in enumerate(names)}
    strangers = [name for name in owner_names if name not in place]
    if strangers:
        raise DataError(f"client {strangers[0]!r} has validation examples but no training example")
    return HeldOut(x, y, np.array([place[name] for name in owner_names], dtype=np.int64)[owner])


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


def refuse_lengths(where: str, **columns: AnyArray) -> None:
    """Refuse columns of different lengths."""
    names, lengths = list(columns), [str(len(column)) for column in columns.values()]
    if len(set(lengths)) > 1:
        listed, got = (f"{', '.join(words[:-1])} and {words[-1]}" for words in (names, lengths))
        raise DataError(f"{where}{listed} must have one length, got {got}")


def _entries(setting: str, value: object, *names: str) -> tuple[object, ...]:
    if not isinstance(value, tuple | list) or len(value) != len(names):
        count = f" with {len(value)} entries" if hasattr(value, "__len__") else ""
        raise DataError(
            f"{setting} must be a tuple ({', '.join(names)}), got {type(value).__name__}{count}"
        )
    return tuple(value)


def _is_empty(value: object) -> bool:
    try:
        return isinstance(value, Sized) and len(value) == 0
    except TypeError:  # such as an array without dimensions: the checks of the entries report it
        return False
