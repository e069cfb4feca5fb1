"""Weights that do not sum to 1, beside a strategy that divides by their sum."""

from collections.abc import Mapping

import numpy as np
from flwr.app import Array, ArrayRecord, Message

from fedgs.arrays import AnyArray
from fedgs.flower.features import is_parameter

__all__ = ["scale_update"]


def scale_update(message: Message, *, sent: Mapping[str, AnyArray], total: float) -> None:
    """Replace a local model theta_k by theta + total (theta_k - theta).

    With total = sum_k w_k, the average of the replaced models with weights w_k / total is
    theta + sum_k w_k (theta_k - theta), which a strategy takes as its average.

    Arrays that are no parameters (whole numbers, running statistics) stay as they are, since a sum
    of their changes may leave their range; a variance may not be negative.

    Args:
        message: a valid reply, which is changed.
        sent: theta, the global model by name.
        total: sum of the weights.
    """
    for key, record in list(message.content.array_records.items()):
        message.content[key] = ArrayRecord(
            {
                name: Array(_scaled(array.numpy(), sent[name], total))
                if is_parameter(name, sent[name])
                else array
                for name, array in record.items()
            }
        )


def _scaled(local: AnyArray, sent: AnyArray, total: float) -> AnyArray:
    start = sent.astype(np.float64)
    with np.errstate(over="ignore"):  # an average that is not finite is refused by name
        scaled: AnyArray = (start + total * (local - start)).astype(local.dtype)
    return scaled
