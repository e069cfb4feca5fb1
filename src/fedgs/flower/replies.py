"""Replies are checked before they reach an average; one that does not fit is refused with a reason."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Message

from fedgs.arrays import AnyArray, FloatArray, IntArray
from fedgs.clients import Weighting

__all__ = ["arrays_of", "first_metric", "metrics_of", "refusal", "unlike_the_others", "weights_of"]


def refusal(reply: Message, *, weighted_by_key: str, sent: Mapping[str, AnyArray] | None) -> str | None:
    """Why a reply cannot enter an average, or None.

    Args:
        reply: of a training or evaluation request.
        weighted_by_key: the metric that says how many examples it stands for.
        sent: the global model by name, for training; None: no arrays are expected.
    """
    if reply.has_error():
        reason = (reply.error.reason or "no reason given").strip().splitlines()
        return f"error {reply.error.code}: {reason[-1] if reason else ''}"
    if len(reply.content.metric_records) != 1:
        return f"its reply has {len(reply.content.metric_records)} metric records instead of 1"
    examples = metrics_of(reply).get(weighted_by_key)
    if isinstance(examples, list) or examples is None:
        return f"its metrics have no number {weighted_by_key!r}"
    if not math.isfinite(examples) or examples <= 0:
        return f"{weighted_by_key!r} must be a number > 0, got {examples}"
    return None if sent is None else _arrays_refusal(reply, sent)


def _arrays_refusal(reply: Message, sent: Mapping[str, AnyArray]) -> str | None:
    if len(reply.content.array_records) != 1:
        return f"its reply has {len(reply.content.array_records)} array records instead of 1"
    record = next(iter(reply.content.array_records.values()))
    if set(record) != set(sent):
        odd = sorted(set(record) ^ set(sent))
        return f"its arrays are not those of the model: {odd[0]!r} is {'unknown' if odd[0] in record else 'missing'}"
    for name, array in arrays_of(record).items():
        if array.shape != sent[name].shape:
            return f"its array {name!r} has shape {array.shape}, the model's {sent[name].shape}"
        if np.issubdtype(array.dtype, np.inexact) and not np.isfinite(array).all():
            return f"its array {name!r} holds NaN or inf"
    return None


def unlike_the_others(replies: Sequence[Message]) -> dict[int, str]:
    """Positions of replies whose metrics are not named as those of the most, with the reason."""
    shapes = [_shape(reply) for reply in replies]
    if len(set(shapes)) <= 1:
        return {}
    usual = Counter(shapes).most_common(1)[0][0]
    return {
        position: f"its metrics {[name for name, _ in shape]} are not those of the others {[name for name, _ in usual]}"
        for position, shape in enumerate(shapes)
        if shape != usual
    }


def _shape(reply: Message) -> tuple[tuple[str, int], ...]:
    metrics = metrics_of(reply)
    return tuple(sorted((name, len(value) if isinstance(value, list) else -1) for name, value in metrics.items()))


def metrics_of(reply: Message) -> Any:
    """The one metric record of a reply."""
    return next(iter(reply.content.metric_records.values()))


def arrays_of(record: ArrayRecord) -> dict[str, AnyArray]:
    """The arrays of a record by name."""
    return {name: array.numpy() for name, array in record.items()}


def first_metric(metrics: Mapping[str, Any] | None, names: Sequence[str]) -> float | None:
    """The first of `names` that is a finite number among the metrics.

    >>> first_metric({"eval_loss": 0.5}, ("loss", "eval_loss"))
    0.5
    """
    for name in names:
        value = (metrics or {}).get(name)
        if isinstance(value, int | float) and math.isfinite(value):
            return float(value)
    return None


def weights_of(weighting: Weighting, *, sizes: FloatArray, draws: IntArray | None, counts: IntArray) -> FloatArray:
    """The weights of the clients that answered, sum 1 (the rules of `Sampler.weighting`).

    >>> weights_of("data_size", sizes=np.array([1.0, 3.0]), draws=None, counts=np.array([0, 0])).tolist()
    [0.25, 0.75]
    """
    ones = np.ones(len(sizes))
    raw = {
        "data_size": sizes,
        "draws": ones if draws is None else draws.astype(np.float64),
        "equal": ones,
        "inverse_participation": sizes / (counts + 1.0),
    }[weighting]
    return np.asarray(raw / raw.sum())
