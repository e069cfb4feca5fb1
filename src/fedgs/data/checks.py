"""What the parts of a federation must be to fit each other."""

from typing import TYPE_CHECKING

import numpy as np

from fedgs.arrays import IntArray
from fedgs.data.groups import check_group_numbers
from fedgs.data.numeric import check_examples
from fedgs.data.part import Part, counts_by_client
from fedgs.data.targets import check_targets
from fedgs.errors import DataError

if TYPE_CHECKING:
    from fedgs.data.federation import Federation

__all__ = ["check_groups", "check_held", "check_part", "check_test_offsets"]


def check_held(federation: "Federation") -> None:
    """Refuse a federation that makes its examples on demand, where all of them are read.

    Raises:
        DataError: the federation does not hold its examples.
    """
    if not federation.train.held:
        raise DataError(
            f"{federation.name} makes its examples on demand, so they can be neither exported nor "
            "compared; load it with data.on_demand = false"
        )


def check_part(federation: "Federation", label: str, part: Part) -> None:
    """Refuse a part whose arrays do not fit each other or the training part.

    Raises:
        DataError: offsets, lengths, shapes, types or targets that do not fit; examples with NaN or
            inf, whose client is named.
    """
    if part.offsets.ndim != 1 or part.offsets.dtype.kind not in "iu" or len(part.offsets) < 2:
        given = f"{part.offsets.dtype} of shape {part.offsets.shape}"
        raise DataError(
            f"the {label} part's offsets must be a 1-d array of at least two integers, got {given}"
        )
    if int(part.offsets[0]) != 0 or not (part.offsets[1:] >= part.offsets[:-1]).all():
        raise DataError(
            f"the {label} part's offsets must begin with 0 and never fall, "
            f"got {part.offsets.tolist()[:8]}"
        )
    if len(part.x) != len(part.y) or int(part.offsets[-1]) != len(part.y):
        raise DataError(
            f"the {label} part has {len(part.x)} examples, {len(part.y)} labels, "
            f"{part.offsets[-1]} rows"
        )
    if part.x.shape[1:] != federation.example_shape:
        raise DataError(
            f"{label} examples have shape {part.x.shape[1:]}, training examples "
            f"{federation.example_shape}"
        )
    if part.x.dtype != federation.train.x.dtype:
        raise DataError(
            f"{label} examples are {part.x.dtype}, training examples {federation.train.x.dtype}; "
            "convert both to one type"
        )
    check_targets(
        part.y, part.x, label, task=federation.task, num_labels=int(federation.num_labels)
    )
    check_examples(part.x, f"{label} examples", lambda row: _owner_of(federation, label, part, row))


def check_groups(federation: "Federation") -> None:
    """Refuse groups that do not fit the task, the training part or the clients' label counts."""
    if federation.groups is None:
        if federation.task != "classes" and federation.clients.label_counts is not None:
            raise DataError(
                "clients must not have label_counts without groups where task is "
                f"{federation.task!r}"
            )
        return
    if federation.task == "classes":
        raise DataError("groups must be None where task is 'classes', whose labels are groups")
    check_group_numbers(federation.groups, len(federation.train))
    counts = federation.clients.label_counts
    if counts is None or not np.array_equal(
        counts, counts_by_client(federation.groups, federation.train.offsets, counts.shape[1])
    ):
        raise DataError("clients.label_counts must count the groups of each client")


def check_test_offsets(offsets: IntArray, *, clients: int, examples: int) -> None:
    """Refuse offsets of the clients' own test parts that do not cover the server's test set."""
    if offsets.shape != (clients + 1,) or offsets.dtype.kind not in "iu":
        raise DataError(
            f"test_offsets must be {clients + 1} integers, "
            f"got {offsets.dtype} of shape {offsets.shape}"
        )
    if offsets[0] != 0 or offsets[-1] != examples or np.any(np.diff(offsets) < 0):
        raise DataError(
            f"test_offsets must begin with 0, never fall and end with {examples}, the "
            f"number of test examples, got {offsets.tolist()[:8]}"
        )


def _owner_of(federation: "Federation", label: str, part: Part, row: int) -> str:
    """One row of a part in words."""
    if label == "test":
        return f"example {row} of the test set"
    owner = int(np.searchsorted(part.offsets, row, side="right")) - 1
    return f"example {row - int(part.offsets[owner])} of client {federation.clients.names[owner]!r}"
