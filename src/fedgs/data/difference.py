"""Are two federations the same, and if not, where do they first differ?"""

from collections.abc import Iterator, Sequence

import numpy as np

from fedgs.arrays import AnyArray
from fedgs.data.checks import check_held
from fedgs.data.federation import Federation, Part

__all__ = ["first_difference"]


def first_difference(federation: Federation, expected: Federation) -> str | None:
    """The first difference between a federation and the expected one, or None where they are equal.

    The difference is one sentence. Compared are, in this order, clients, labels, normalization and
    shapes, then part by part sizes, labels and examples, then features. The federation's name and
    facts are not compared.

    Raises:
        DataError: a federation makes its examples on demand.

    >>> from fedgs.data.synthetic import Synthetic
    >>> first_difference(Synthetic(clients=3).load(), Synthetic(clients=2).load())
    'there are 3 clients, expected 2'
    """
    check_held(federation)
    check_held(expected)
    return next(_differences(federation, expected), None)


def _differences(federation: Federation, expected: Federation) -> Iterator[str]:
    """The differences in order; the first one counts, and later ones may follow from it."""
    clients, expected_clients = federation.clients, expected.clients
    names = clients.names
    if len(federation) != len(expected):
        yield f"there are {len(federation)} clients, expected {len(expected)}"
    for position, (name, other) in enumerate(zip(names, expected_clients.names, strict=True)):
        if name != other:
            yield f"client {position} is named {name!r}, expected {other!r}"
    if federation.task != expected.task:
        yield f"the task is {federation.task!r}, expected {expected.task!r}"
    if federation.num_labels != expected.num_labels:
        yield f"there are {federation.num_labels} labels, expected {expected.num_labels}"
    elif clients.classes != expected_clients.classes:
        yield (
            f"the number of classes was given as {clients.classes}, "
            f"expected {expected_clients.classes}"
        )
    if federation.normalization != expected.normalization:
        yield f"the normalization is {federation.normalization}, expected {expected.normalization}"
    if federation.example_shape != expected.example_shape:
        yield f"examples have shape {federation.example_shape}, expected {expected.example_shape}"
    type_, expected_type = federation.train.x.dtype.str, expected.train.x.dtype.str
    if type_ != expected_type:
        yield f"examples have type {type_}, expected {expected_type}"
    if federation.train.y.shape[1:] != expected.train.y.shape[1:]:
        yield (
            f"targets have shape {federation.train.y.shape[1:]}, "
            f"expected {expected.train.y.shape[1:]}"
        )
    yield from _part_differences("training", federation.train, expected.train, names)
    yield from _part_differences("validation", federation.validation, expected.validation, names)
    yield from _part_differences("test", federation.test, expected.test, names)
    yield from _owner_differences(federation.test_offsets, expected.test_offsets, names)
    yield from _feature_differences(clients.features, expected_clients.features, names)
    yield from _group_differences(federation, expected)


def _part_differences(
    label: str, part: Part | None, expected: Part | None, names: Sequence[str | int]
) -> Iterator[str]:
    if part is None or expected is None:
        if part is not expected:
            has, should = ("no", "one") if part is None else ("a", "none")
            yield f"there is {has} {label} part, expected {should}"
        return
    sizes, expected_sizes = np.diff(part.offsets), np.diff(expected.offsets)
    if (client := _first(sizes != expected_sizes)) is not None:
        yield (
            f"{_owner(label, client, names)} has {sizes[client]} {label} examples, "
            f"expected {expected_sizes[client]}"
        )
    if (row := _first(_any_entry(part.y != expected.y))) is not None:
        client = int(np.searchsorted(part.offsets, row, side="right")) - 1
        yield (
            f"{_owner(label, client, names)}, {label} example {row - int(part.offsets[client])}: "
            f"label {part.y[row]}, expected {expected.y[row]}"
        )
    for client in range(len(sizes)):
        rows = part.rows(client)
        differs = _any_entry(part.x[rows] != expected.x[rows])
        if (row := _first(differs)) is not None:
            yield (
                f"{_owner(label, client, names)}, {label} example {row} "
                "has other contents than expected"
            )


def _feature_differences(
    features: AnyArray | None, expected: AnyArray | None, names: Sequence[str | int]
) -> Iterator[str]:
    if features is None or expected is None:
        if features is not expected:
            has, should = ("no", "some") if features is None else ("some", "none")
            yield f"there are {has} client features, expected {should}"
    elif features.shape != expected.shape:
        yield f"client features have shape {features.shape}, expected {expected.shape}"
    elif (client := _first((features != expected).any(axis=1))) is not None:
        yield f"client {names[client]!r} has other features than expected"


def _owner_differences(
    offsets: AnyArray | None, expected: AnyArray | None, names: Sequence[str | int]
) -> Iterator[str]:
    if offsets is None or expected is None:
        if offsets is not expected:
            has, should = ("no", "some") if offsets is None else ("some", "none")
            yield f"there are {has} owners of test examples, expected {should}"
        return
    sizes, others = np.diff(offsets), np.diff(expected)
    if (client := _first(sizes != others)) is not None:
        yield (
            f"client {names[client]!r} has {sizes[client]} test examples, expected {others[client]}"
        )


def _group_differences(federation: Federation, expected: Federation) -> Iterator[str]:
    groups, others = federation.groups, expected.groups
    if groups is None or others is None:
        if groups is not others:
            has, should = ("no", "some") if groups is None else ("some", "none")
            yield f"there are {has} groups, expected {should}"
    elif (row := _first(groups != others)) is not None:
        yield f"training example {row} has group {groups[row]}, expected {others[row]}"


def _owner(label: str, client: int, names: Sequence[str | int]) -> str:
    return "the server" if label == "test" else f"client {names[client]!r}"


def _any_entry(differs: AnyArray) -> AnyArray:
    """(n,) whether any entry of each row differs."""
    return np.asarray(differs.any(axis=tuple(range(1, differs.ndim))))


def _first(differs: AnyArray) -> int | None:
    positions = np.flatnonzero(differs)
    return int(positions[0]) if len(positions) else None
