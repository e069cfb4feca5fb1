"""Groups of examples, which stand for labels where targets are not classes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import BeforeValidator, InstanceOf, PlainSerializer

from fedgs.arrays import AnyArray, IntArray
from fedgs.data.owners import as_owners
from fedgs.data.targets import Task
from fedgs.errors import DataError

__all__ = ["GroupsSetting", "Quantiles", "as_groups", "check_group_numbers"]

_MOST = 10_000


@dataclass(frozen=True)
class Quantiles:
    """Groups of a regression's examples: bins of their targets between quantiles.

    Attributes:
        quantiles: k, the number of bins, 2 to 10,000.

    Raises:
        DataError: another number.

    >>> Quantiles(10)
    Quantiles(quantiles=10)
    """

    quantiles: int

    def __post_init__(self) -> None:
        if type(self.quantiles) is not int or not 2 <= self.quantiles <= _MOST:
            raise DataError(
                f"groups.quantiles must be an integer in 2..{_MOST}, got {self.quantiles!r}"
            )


def as_groups(value: object, targets: AnyArray, task: Task) -> IntArray | None:
    """(n,) the group of each training example, numbered 0..G-1 without gaps; None stays None.

    Args:
        value: (n,) integers or texts, numbered in sorted order, or `Quantiles` (or its table) of
            the targets. The inner bounds of k bins are the quantiles 1/k, ..., (k-1)/k; a target
            that equals a bound is in the upper bin, and bins without examples get no number.
        targets: (n,) or (n, q) of the training examples.
        task: the federation's; "classes" has no groups beside its labels.

    Raises:
        DataError: groups for classes, missing or other ids (see `as_owners`), another length,
            quantiles of targets that are not one number an example.

    >>> as_groups(Quantiles(2), np.array([3.0, 9.0, 5.0, 1.0]), "regression")
    array([0, 1, 1, 0])
    >>> as_groups(["north", "south", "north"], np.zeros(3), "regression")
    array([0, 1, 0])
    """
    if value is None:
        return None
    if task == "classes":
        raise DataError("groups must be None where task is 'classes', whose labels are groups")
    if isinstance(value, Mapping | Quantiles):
        return _bins(_as_quantiles(value), targets)
    _, groups = as_owners(value, "groups")
    if len(groups) != len(targets):
        raise DataError(
            f"groups must have one entry for each of the {len(targets)} training examples, "
            f"got {len(groups)}"
        )
    return groups


def check_group_numbers(groups: AnyArray, count: int) -> None:
    """Refuse groups of a federation's training part that are not (count,) integers >= 0."""
    if groups.shape != (count,) or groups.dtype.kind not in "iu" or int(groups.min(initial=0)) < 0:
        raise DataError(
            f"groups must be {count} integers >= 0, one for each training example, "
            f"got {groups.dtype} of shape {groups.shape}"
        )


def _bins(quantiles: Quantiles, targets: AnyArray) -> IntArray:
    count = quantiles.quantiles
    if targets.dtype.kind != "f" or (targets.ndim == 2 and targets.shape[1] != 1):
        raise DataError(
            f"groups of {count} quantiles need targets that are one number an example, "
            f"got {targets.dtype} of shape {targets.shape}"
        )
    numbers = targets.reshape(-1).astype(np.float64)
    bounds = np.quantile(numbers, np.arange(1, count) / count)
    bins = np.searchsorted(bounds, numbers, side="right")
    return np.unique(bins, return_inverse=True)[1].astype(np.int64)


def _as_quantiles(value: object) -> Quantiles:
    if isinstance(value, Quantiles):
        return value
    if not isinstance(value, Mapping) or set(value) != {"quantiles"}:
        raise DataError(
            "groups must be a column or a table with quantiles, such as {quantiles = 10}, "
            f"got {value!r}"
        )
    return Quantiles(value["quantiles"])


def _setting(value: object) -> object:
    return value if value is None or isinstance(value, str) else _as_quantiles(value)


def _plain(value: str | Quantiles | None) -> str | dict[str, int] | None:
    return {"quantiles": value.quantiles} if isinstance(value, Quantiles) else value


# The type of a setting that holds groups; in a configuration it is the name of a column, or a table
# with `quantiles`.
GroupsSetting = Annotated[
    str | InstanceOf[Quantiles] | None,
    BeforeValidator(_setting),
    PlainSerializer(_plain, return_type=str | dict[str, int] | None),
]
