"""Losses of classifiers."""

from numbers import Real
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field, field_validator

from fedgs.data.federation import Federation
from fedgs.errors import ConfigError, shown
from fedgs.losses.base import Loss
from fedgs.registry import register

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["BinaryCrossEntropy", "CrossEntropy"]

_MASKED = -1  # the label of a place in a sequence that does not count


@register("loss", "cross_entropy")
class CrossEntropy(Loss):
    """Cross-entropy of logits, in nats; the label -1 does not count.

    s = v_y·((1 - a)·(-log p_y)) + (a / C)·sum_c v_c·(-log p_c) with p = softmax(outputs), the class
    weights v (1 by default) and the label smoothing a; w = v_y. For sequences s and w are sums over
    the places whose label is not -1. This is `torch.nn.functional.cross_entropy`.

    Attributes:
        class_weights: v, one number > 0 for each class, within float32's range; none: 1 each.
        label_smoothing: a, in [0, 1).

    >>> import torch
    >>> logits, labels = torch.zeros(2, 4), torch.tensor([0, 3])
    >>> round(float(CrossEntropy().mean(logits, labels)), 4)  # log 4
    1.3863
    """

    tasks: ClassVar[tuple[str, ...]] = ("classes", "sequence")
    class_weights: tuple[float, ...] | None = None
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)

    @field_validator("class_weights", mode="before")
    @classmethod
    def _numbers(cls, value: object) -> object:
        if value is None:
            return None
        entries = value.tolist() if isinstance(value, np.ndarray) else value
        allowed = (
            "training.loss.class_weights must be a list of numbers > 0 within float32's range, "
            "one for each class"
        )
        if not isinstance(entries, list | tuple) or not entries:
            raise ValueError(f"{allowed}, got {shown(value)}")
        for place, entry in enumerate(entries):
            if not _is_weight(entry):
                raise ValueError(f"{allowed}, got {shown(entry)} for class {place}")
        return tuple(map(float, entries))

    def check(self, federation: Federation) -> None:
        """Refuse other tasks, and class weights of another number than the classes."""
        super().check(federation)
        count = federation.num_labels
        if self.class_weights is not None and len(self.class_weights) != count:
            raise ConfigError(
                f"training.loss.class_weights must have {count} entries, one for each class of "
                f"{federation.name!r}, got {len(self.class_weights)}"
            )

    def terms(self, outputs: "Tensor", targets: "Tensor") -> "tuple[Tensor, Tensor | None]":
        """See the class; (b, C) logits and (b,) labels, or (b, L, C) logits and (b, L) labels."""
        from torch.nn import functional

        if targets.ndim == 1 and self.class_weights is None:
            smoothing = self.label_smoothing
            return (
                functional.cross_entropy(
                    outputs, targets, reduction="none", label_smoothing=smoothing
                ),
                None,
            )
        flat, counted = targets.reshape(-1), targets.reshape(-1) != _MASKED
        weights = None if self.class_weights is None else outputs.new_tensor(self.class_weights)
        sums = functional.cross_entropy(
            outputs.reshape(len(flat), -1),
            flat,
            weight=weights,
            ignore_index=_MASKED,
            reduction="none",
            label_smoothing=self.label_smoothing,
        )
        shares = counted.to(outputs.dtype)
        if weights is not None:
            shares = shares * weights[flat.clamp(min=0)]
        shape = (len(targets), -1)
        return sums.reshape(shape).sum(1), shares.reshape(shape).sum(1)

    def mean(self, outputs: "Tensor", targets: "Tensor") -> "Tensor":
        """The loss of a batch, by one call of PyTorch where no place is masked."""
        from torch.nn import functional

        if targets.ndim == 1 and self.class_weights is None:
            return functional.cross_entropy(outputs, targets, label_smoothing=self.label_smoothing)
        return super().mean(outputs, targets)


def _is_weight(entry: object) -> bool:
    """Whether an entry is a number that float32, in which losses are computed, holds above 0."""
    if not isinstance(entry, Real) or isinstance(entry, bool):
        return False
    try:
        with np.errstate(over="ignore", under="ignore"):
            return bool(0 < np.float32(float(entry)) < np.inf)
    except OverflowError:  # an integer beyond float64
        return False


@register("loss", "binary_cross_entropy")
class BinaryCrossEntropy(Loss):
    """Binary cross-entropy of logits, in nats: the mean over the labels of an example.

    s = mean over the q labels of -(y log p + (1 - y) log(1 - p)) with p = sigmoid(outputs); w = 1.
    This is `torch.nn.functional.binary_cross_entropy_with_logits`.

    >>> import torch
    >>> round(float(BinaryCrossEntropy().mean(torch.zeros(1, 2), torch.tensor([[0.0, 1.0]]))), 4)
    0.6931
    """

    tasks: ClassVar[tuple[str, ...]] = ("multilabel", "regression")

    def check(self, federation: Federation) -> None:
        """Refuse other tasks, and targets outside of [0, 1]."""
        super().check(federation)
        parts = {
            "training": federation.train,
            "validation": federation.validation,
            "test": federation.test,
        }
        for label, part in parts.items():
            if part is None:
                continue
            low, high = float(np.min(part.y, initial=0)), float(np.max(part.y, initial=0))
            if low < 0 or high > 1:
                raise ConfigError(
                    "training.loss 'binary_cross_entropy' needs targets in [0, 1], got "
                    f"{low if low < 0 else high:g} in the {label} part of {federation.name!r}"
                )

    def terms(self, outputs: "Tensor", targets: "Tensor") -> "tuple[Tensor, Tensor | None]":
        """See the class; (b, q) logits and (b, q) targets, or (b,) targets."""
        from torch.nn import functional

        losses = functional.binary_cross_entropy_with_logits(
            outputs.reshape(targets.shape), targets.to(outputs.dtype), reduction="none"
        )
        return losses.reshape(len(targets), -1).mean(1), None
