"""What a model learns to predict: classes, numbers, several labels, or the next tokens."""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from fedgs.arrays import AnyArray
from fedgs.data.classes import check_counts, class_count
from fedgs.data.numeric import as_labels, as_numbers, plain_array, position
from fedgs.errors import DataError

__all__ = ["Task", "as_targets", "check_targets", "checked_task", "output_count"]

Task = Literal["classes", "regression", "multilabel", "sequence"]
_TASKS: tuple[Task, ...] = get_args(Task)
_MASKED = -1  # the label of a position of a sequence that does not count


def checked_task(task: object) -> Task:
    """The task, if there is one of this name.

    Raises:
        DataError: another word.
    """
    for known in _TASKS:
        if task == known:
            return known
    raise DataError(f"task must be one of {', '.join(_TASKS)}, got {task!r}")


def as_targets(value: object, where: str, task: Task) -> AnyArray:
    """The targets of a task as they are held.

    Args:
        value: an array or anything that `np.asarray` reads.
        where: what the messages call it.
        task: "classes": (n,) int64 labels >= 0; "regression": (n,) or (n, q) finite float32
            numbers; "multilabel": (n, q) float32 entries 0 or 1; "sequence": (n, L) int64 labels,
            -1 where a position does not count.

    Raises:
        DataError: another shape, or an entry that is no target; the message has its place.

    >>> as_targets([[1, 0], [True, False]], "y", "multilabel")
    array([[1., 0.],
           [1., 0.]], dtype=float32)
    """
    if task == "classes":
        return as_labels(value, where)
    array = plain_array(value, where)
    if task == "regression" and array.ndim == 1:
        return _floats(array[:, None], where)[:, 0]
    if array.ndim != 2 or array.shape[1] == 0:
        shapes = {"regression": "(n,) or (n, q)", "multilabel": "(n, q)", "sequence": "(n, L)"}
        raise DataError(
            f"{where}: the targets of task {task!r} must have shape {shapes[task]}, "
            f"got {array.shape}"
        )
    if task == "sequence":
        return _tokens(array, where)
    targets = _floats(array, where)
    if task == "multilabel":
        _refuse_fractions(targets, where)
    return targets


def check_targets(y: AnyArray, x: AnyArray, where: str, *, task: Task, num_labels: int) -> None:
    """Refuse targets of one part that do not fit the task, the examples or the model's outputs.

    Args:
        y: the targets in the form of `as_targets`; those of "multilabel" may be booleans.
        x: the part's examples; those of "sequence" are (n, L) tokens 0..C-1.
        where: the name of the part.
        task: of the federation.
        num_labels: outputs of the model: C classes or tokens, or q targets.

    Raises:
        DataError: another type or shape, or a value that is out of range.
    """
    if task in ("classes", "sequence"):
        dimensions = 1 if task == "classes" else 2
        if y.ndim != dimensions or y.dtype.kind not in "iu":
            raise DataError(
                f"{where} labels must be a {dimensions}-d array of integers, got {y.dtype} of "
                f"shape {y.shape}"
            )
        low = 0 if task == "classes" else _MASKED
        if y.size and not (int(y.min()) >= low and int(y.max()) < num_labels):
            raise DataError(
                f"{where} labels must be in {low}..{num_labels - 1}, "
                f"got {int(y.min())}..{int(y.max())}"
            )
        if task == "sequence":
            _check_sequences(y, x, where, num_labels)
        return
    kinds = "f" if task == "regression" else "bf"
    width = y.shape[1] if y.ndim == 2 else 1
    if y.ndim != 2 and (task, y.ndim) != ("regression", 1):
        raise DataError(f"{where} targets of task {task!r} must have shape (n, q), got {y.shape}")
    if y.dtype.kind not in kinds or width != num_labels:
        raise DataError(
            f"{where} targets of task {task!r} must be float32 with {num_labels} "
            f"{'column' if num_labels == 1 else 'columns'} (num_labels), "
            f"got {y.dtype} with {width}"
        )
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            at = position(tuple(np.argwhere(~np.isfinite(y))[0].tolist()))
            raise DataError(f"{where} targets must be finite, got another one in {at}")
        if task == "multilabel":
            _refuse_fractions(y, f"{where} targets")


def output_count(
    task: Task,
    ys: Sequence[AnyArray],
    xs: Sequence[AnyArray],
    classes: int | None,
    *,
    clients: int,
    setting: str = "classes",
) -> int:
    """The number of the model's outputs: C classes or tokens, or q targets.

    Args:
        task: of the federation.
        ys: the targets of all parts.
        xs: the examples of all parts, whose tokens count for "sequence".
        classes: C as given by the user; None: the largest label or token + 1.
        clients: N.
        setting: what messages call `classes`.

    Raises:
        DataError: `classes` for targets that are numbers, or see `class_count`.

    >>> output_count("regression", [np.zeros((3, 2), np.float32)], [], None, clients=1)
    2
    """
    if task == "classes":
        return class_count(ys, classes, clients=clients, setting=setting)
    if task == "sequence":
        tokens = [np.concatenate([y.ravel(), x.ravel()]) for y, x in zip(ys, xs, strict=True)]
        largest = max((int(part.max(initial=-1)) for part in tokens), default=-1)
        count = largest + 1 if classes is None else classes
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count <= largest:
            raise DataError(
                f"{setting} must be an integer above the largest token, which is {largest}, "
                f"got {classes!r}"
            )
        return int(count)
    if classes is not None:
        raise DataError(
            f"{setting} must be left out where targets are no classes (task {task!r}), "
            f"got {classes!r}"
        )
    widths = {y.shape[1] if y.ndim == 2 else 1 for y in ys if len(y)} or {1}
    if len(widths) > 1:
        raise DataError(
            "the targets of all parts must have the same columns, "
            f"got {' and '.join(map(str, sorted(widths)))}"
        )
    return widths.pop()


def _floats(array: AnyArray, where: str) -> AnyArray:
    """(n, q) finite float32 numbers; integers that float32 would change are refused."""
    return as_numbers(array, where).astype(np.float32)


def _tokens(array: AnyArray, where: str) -> AnyArray:
    numbers = as_numbers(array, where)
    whole = numbers.astype(np.int64)
    wrong = np.argwhere((whole != numbers) | (whole < _MASKED))
    if len(wrong):
        at = tuple(wrong[0].tolist())
        raise DataError(
            f"{where}: the labels of a sequence must be integers >= 0, or -1 where they are "
            f"masked, got {numbers[at].item()} in {position(at)}"
        )
    return whole


def _refuse_fractions(targets: AnyArray, where: str) -> None:
    wrong = np.argwhere((targets != 0) & (targets != 1))
    if len(wrong):
        at = tuple(wrong[0].tolist())
        raise DataError(
            f"{where}: the targets of task 'multilabel' must be 0 or 1, "
            f"got {targets[at].item():g} in {position(at)}"
        )


def _check_sequences(y: AnyArray, x: AnyArray, where: str, num_labels: int) -> None:
    check_counts(1, num_labels, "num_labels")
    if x.dtype.kind not in "iu" or x.shape != y.shape:
        raise DataError(
            f"{where} examples of task 'sequence' must be integers with a label for each token, "
            f"got {x.dtype} of shape {x.shape} and labels of shape {y.shape}"
        )
    if x.size and not (int(x.min()) >= 0 and int(x.max()) < num_labels):
        raise DataError(
            f"{where} tokens must be in 0..{num_labels - 1}, got {int(x.min())}..{int(x.max())}"
        )
    masked = np.flatnonzero((y == _MASKED).all(axis=1))
    if len(masked):
        raise DataError(
            f"{where} sequences must have at least one label that is not masked (-1), "
            f"got none in row {int(masked[0])}"
        )
