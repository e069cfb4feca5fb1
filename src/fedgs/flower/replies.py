"""Replies are checked before they enter an average; an invalid one is refused with a reason."""

import io
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord

from fedgs.arrays import AnyArray

__all__ = [
    "ACCURACIES",
    "LOSSES",
    "Reply",
    "array_records",
    "arrays_of",
    "examined",
    "finite",
    "first_metric",
    "loss_problem",
    "refuse_unlike",
    "values_of",
]

_NUMPY = "numpy.ndarray"  # Flower's name for bytes of the .npy format
# The names of a loss and of an accuracy in metrics, in order of preference.
LOSSES = ("loss", "eval_loss", "test_loss", "valid_loss", "val_loss")
ACCURACIES = ("accuracy", "eval_acc", "eval_accuracy", "test_accuracy", "acc")


@dataclass(eq=False)
class Reply:
    """A checked reply.

    Attributes:
        message: as it arrived.
        refused: why it cannot enter an average, or None.
        metrics: its only metric record; empty if it has none.
        examples: the number of examples it stands for; NaN if it was refused.
        stored: the vector of the client's state, where an aggregation needs it.
        lost: whether the client had lost its state.
    """

    message: Message
    refused: str | None
    metrics: MetricRecord
    examples: float = math.nan
    stored: ArrayRecord | None = None
    lost: bool = False

    def arrays(self) -> dict[str, AnyArray]:
        """Its arrays by name."""
        return arrays_of(array_records(self.message)[0])

    def replace_arrays(self, replaced: Callable[[ArrayRecord], ArrayRecord]) -> None:
        """Replace its arrays, and those of the client's state, by others."""
        content = self.message.content
        for name, record in list(content.items()):
            if isinstance(record, ArrayRecord) and (new := replaced(record)) is not record:
                content[name] = new
        if self.stored is not None:
            self.stored = replaced(self.stored)

    def drop_arrays(self) -> None:
        """Drop the arrays of a reply that was refused, for the memory that they take."""
        if self.message.has_content():
            self.replace_arrays(lambda record: ArrayRecord())


def examined(
    message: Message, *, weighted_by_key: str, sent: Mapping[str, AnyArray] | None
) -> Reply:
    """Check a reply on its own.

    Args:
        message: reply to a training or evaluation request.
        weighted_by_key: the metric that says how many examples it stands for.
        sent: the global model by name, for training; None: no arrays are expected.
    """
    if message.has_error():
        reason = (message.error.reason or "no reason given").strip().splitlines()
        why = f"error {message.error.code}: {reason[-1] if reason else ''}"
        return Reply(message, why, MetricRecord())
    records = [record for record in message.content.values() if isinstance(record, MetricRecord)]
    if len(records) != 1:
        why = f"its reply has {len(records)} metric records instead of 1"
        return Reply(message, why, MetricRecord())
    (metrics,) = records
    examples = metrics.get(weighted_by_key)
    if isinstance(examples, list) or examples is None:
        return Reply(message, f"its metrics have no number {weighted_by_key!r}", metrics)
    if not math.isfinite(examples) or examples <= 0:
        why = f"{weighted_by_key!r} must be a number > 0, got {examples}"
        return Reply(message, why, metrics)
    refused = None if sent is None else _arrays_refusal(message, sent)
    return Reply(message, refused, metrics, float(examples))


def _arrays_refusal(message: Message, sent: Mapping[str, AnyArray]) -> str | None:
    """Why the arrays cannot be averaged, or None; they get the model's floating-point types."""
    records = array_records(message)
    if len(records) != 1:
        return f"its reply has {len(records)} array records instead of 1"
    if set(records[0]) != set(sent):
        name = min(set(records[0]) ^ set(sent))
        state = "unknown" if name in records[0] else "missing"
        return f"its arrays are not those of the model: {name!r} is {state}"
    for name, stored in list(records[0].items()):
        shape, expected = tuple(stored.shape), sent[name].shape
        if shape != expected:
            return f"its array {name!r} has shape {shape}, the model's {expected}"
        try:
            array = values_of(stored, sent[name])
        except ValueError as error:
            return f"its array {name!r} cannot be read: {error}"
        if array.dtype.kind not in "biuf":
            return f"its array {name!r} holds {array.dtype}, which are no real numbers"
        if array.shape != expected:
            return f"its array {name!r} has shape {array.shape}, the model's {expected}"
        if array.dtype != sent[name].dtype and sent[name].dtype.kind == "f":
            # Otherwise the reply that is averaged first would decide about the precision of all.
            with np.errstate(over="ignore"):
                array = array.astype(sent[name].dtype)
            records[0][name] = Array(array)
        if not finite(array):
            return f"its array {name!r} holds NaN or inf"
    return None


def values_of(stored: Array, like: AnyArray) -> AnyArray:
    """The values of an array that a client sent.

    Args:
        stored: as it arrived.
        like: an array that it probably resembles: the bytes of one with the same type and shape are
            viewed and neither parsed nor copied, so the values are read-only then.

    Raises:
        ValueError: the bytes are no array.
    """
    header, data = _header(like.dtype, like.shape), stored.data
    try:
        alike = len(data) == len(header) + like.nbytes and data.startswith(header)
        if alike and stored.stype == _NUMPY:
            return np.ndarray(like.shape, like.dtype, buffer=data, offset=len(header))
        values = stored.numpy()
    except Exception as error:  # numpy raises many kinds of errors for bytes that are no array
        raise ValueError(str(error)) from error
    if not isinstance(values, np.ndarray):  # an archive of arrays
        raise ValueError("it is no single array")
    return values


@lru_cache(maxsize=4096)
def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """The first bytes of an .npy file with such an array in C order."""
    file = io.BytesIO()
    about = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, about)
    return file.getvalue()


def refuse_unlike(replies: Sequence[Reply]) -> None:
    """Refuse replies with other metric names or lengths than most.

    Of equally large groups of replies, the first one counts as the usual.
    """
    shapes = [_shape(reply.metrics) for reply in replies]
    usual = Counter(shapes).most_common(1)[0][0] if shapes else ()
    for reply, shape in zip(replies, shapes, strict=True):
        if shape != usual:
            names, others = [name for name, _ in shape], [name for name, _ in usual]
            why = f"its metrics {names} are not those of the others {others}, or differ in length"
            reply.refused = why


def _shape(metrics: Mapping[str, object]) -> tuple[tuple[str, int], ...]:
    lengths = {
        name: len(value) if isinstance(value, list) else -1 for name, value in metrics.items()
    }
    return tuple(sorted(lengths.items()))


def array_records(message: Message) -> list[ArrayRecord]:
    """The arrays of a message; none if it is an error."""
    if not message.has_content():
        return []
    return [record for record in message.content.values() if isinstance(record, ArrayRecord)]


def arrays_of(record: ArrayRecord) -> dict[str, AnyArray]:
    """The arrays of a record by name."""
    return {name: array.numpy() for name, array in record.items()}


def finite(array: AnyArray) -> bool:
    """Whether an array holds neither NaN nor inf; whole numbers never do.

    >>> finite(np.array([1, 2])), finite(np.array([1.0, np.nan]))
    (True, False)
    """
    return not np.issubdtype(array.dtype, np.inexact) or bool(np.isfinite(array).all())


def first_metric(metrics: Mapping[str, object] | None, names: Sequence[str]) -> float | None:
    """The first of `names` that is a finite number among the metrics.

    >>> first_metric({"eval_loss": 0.5}, ("loss", "eval_loss"))
    0.5
    """
    for name in names:
        value = (metrics or {}).get(name)
        if isinstance(value, int | float) and math.isfinite(value):
            return float(value)
    return None


def loss_problem(metrics: Mapping[str, object]) -> str | None:
    """Why a reply's loss would spoil an average: it is NaN or inf.

    None if it is a number, or if the reply has no loss.

    >>> loss_problem({"eval_loss": float("nan")}), loss_problem({"eval_loss": 0.5})
    ("its 'eval_loss' is nan", None)
    """
    for name in LOSSES:
        value = metrics.get(name)
        if isinstance(value, float) and not math.isfinite(value):
            return f"its {name!r} is {value}"
    return None
