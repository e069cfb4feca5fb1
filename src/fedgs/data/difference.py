"""Are two federations the same, and if not, where do they first differ?"""

from collections.abc import Iterator

import numpy as np

from fedgs.arrays import AnyArray
from fedgs.data.federation import Federation, Part

__all__ = ["first_difference"]


def first_difference(made: Federation, kept: Federation) -> str | None:
    """The first difference between a federation and the one it should be, as one sentence, or None where they are equal.

    Compared, in this order: clients, labels, normalization, shapes, then part by part sizes, labels
    and examples, then features. Names and facts that describe where a federation comes from are no
    difference.

    >>> from fedgs.data.synthetic import Synthetic
    >>> first_difference(Synthetic(clients=3).load(), Synthetic(clients=2).load())
    'there are 3 clients, expected 2'
    """
    return next(_differences(made, kept), None)


def _differences(made: Federation, kept: Federation) -> Iterator[str]:
    if len(made) != len(kept):
        yield f"there are {len(made)} clients, expected {len(kept)}"
        return
    for position, (name, expected) in enumerate(
        zip(made.clients.names, kept.clients.names, strict=True)
    ):
        if name != expected:
            yield f"client {position} is named {name!r}, expected {expected!r}"
            return
    if made.num_labels != kept.num_labels:
        yield f"there are {made.num_labels} labels, expected {kept.num_labels}"
    elif made.clients.classes != kept.clients.classes:
        yield f"the number of classes was given as {made.clients.classes}, expected {kept.clients.classes}"
    if made.normalization != kept.normalization:
        yield f"the normalization is {made.normalization}, expected {kept.normalization}"
    for what, of_made, of_kept in (
        ("shape", made.example_shape, kept.example_shape),
        ("type", made.train.x.dtype.str, kept.train.x.dtype.str),
    ):
        if of_made != of_kept:
            yield f"examples have {what} {of_made}, expected {of_kept}"
            return
    for label, part, expected_part in (
        ("training", made.train, kept.train),
        ("validation", made.validation, kept.validation),
        ("test", made.test, kept.test),
    ):
        yield from _part_differences(label, part, expected_part, made.clients.names)
    yield from _feature_differences(
        made.clients.features, kept.clients.features, made.clients.names
    )


def _part_differences(
    label: str, part: Part | None, kept: Part | None, names: tuple[str | int, ...]
) -> Iterator[str]:
    if part is None or kept is None:
        if part is not kept:
            yield f"there is {'no' if part is None else 'a'} {label} part, expected {'none' if kept is None else 'one'}"
        return
    sizes, expected = np.diff(part.offsets), np.diff(kept.offsets)
    if (odd := _first(sizes != expected)) is not None:
        yield f"{_owner(label, odd, names)} has {sizes[odd]} {label} examples, expected {expected[odd]}"
        return
    if (odd := _first(part.y != kept.y)) is not None:
        owner = int(np.searchsorted(part.offsets, odd, side="right")) - 1
        row = odd - int(part.offsets[owner])
        yield f"{_owner(label, owner, names)}, {label} example {row}: label {part.y[odd]}, expected {kept.y[odd]}"
    for owner in range(len(sizes)):
        rows = part.rows(owner)
        differs = (part.x[rows] != kept.x[rows]).reshape(int(sizes[owner]), -1).any(axis=1)
        if (odd := _first(differs)) is not None:
            yield f"{_owner(label, owner, names)}, {label} example {odd} has other contents than expected"


def _feature_differences(
    features: AnyArray | None, kept: AnyArray | None, names: tuple[str | int, ...]
) -> Iterator[str]:
    if features is None or kept is None:
        if features is not kept:
            has, should = ("no", "some") if features is None else ("some", "none")
            yield f"there are {has} client features, expected {should}"
    elif features.shape != kept.shape:
        yield f"client features have shape {features.shape}, expected {kept.shape}"
    elif (odd := _first((features != kept).any(axis=1))) is not None:
        yield f"client {names[odd]!r} has other features than expected"


def _owner(label: str, owner: int, names: tuple[str | int, ...]) -> str:
    return "the server" if label == "test" else f"client {names[owner]!r}"


def _first(differs: AnyArray) -> int | None:
    positions = np.flatnonzero(differs)
    return int(positions[0]) if len(positions) else None
