"""A client's description of itself: its key, its data size and the distribution of its data."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedgs.arrays import AnyArray
from fedgs.errors import ConfigError
from fedgs.flower.kept import keep
from fedgs.flower.names import RECORD, client_key

__all__ = ["DESCRIBE", "ERRORS", "RECORD", "client_key", "describe"]

DESCRIBE = f"query.{RECORD}"
ERRORS = "errors"
_LONGEST_ERROR = 300  # characters

Numbers = Sequence[float] | AnyArray
Given = TypeVar("Given")  # what a user's function returns
Sent = TypeVar("Sent")  # what is sent of it


def describe(
    app: ClientApp,
    *,
    label_counts: Callable[[Context], Numbers] | None = None,
    feature: Callable[[Context], Numbers] | None = None,
    data_size: Callable[[Context], int] | None = None,
    battery: Callable[[Context], float] | None = None,
    metered: Callable[[Context], bool] | None = None,
) -> None:
    """Let a ClientApp report its key, data size and feature when the server asks for them.

    The server asks every node once, and again later if one of the functions failed, or if its
    filters need battery or network. The parts are independent: if a function raises, the server
    gets its name and message, and the other parts.

    Args:
        app: the ClientApp; it gets a query handler named "fedgs".
        label_counts: context -> (C,) training examples by label, >= 0 with a positive sum. Only the
            *proportions* leave the client.
        feature: context -> (d,) instead, another finite vector u_k for the client graph.
        data_size: context -> n_k >= 0; without it the server learns n_k from the first reply to a
            training request.
        battery: context -> charge of the battery in [0, 1]; 1 where there is none to spare. For
            `SampledStrategy(filters={"min_battery": ...})`.
        metered: context -> whether the network is metered, for `filters={"metered": False}`.

    Raises:
        ConfigError: both `label_counts` and `feature`.

    >>> from flwr.clientapp import ClientApp
    >>> describe(ClientApp(), label_counts=lambda context: [3, 1])
    """
    if label_counts is not None and feature is not None:
        raise ConfigError(
            "describe takes label_counts or feature, not both: the graph is made from one of them"
        )

    parts: list[tuple[str, str, Callable[[Context], float | list[float]]]] = []  # entry, argument
    if data_size is not None:
        parts.append(("data-size", "data_size", _composed(data_size, _size)))
    if label_counts is not None:
        parts.append(("feature", "label_counts", _composed(label_counts, _proportions)))
    if feature is not None:
        parts.append(("feature", "feature", _composed(feature, _vector)))
    if battery is not None:
        parts.append(("battery", "battery", _composed(battery, _charge)))
    if metered is not None:
        parts.append(("metered", "metered", _composed(metered, bool)))

    def answer(message: Message, context: Context) -> Message:
        if RECORD in message.content:  # a model to keep, and no question
            return keep(message, context)
        description = ConfigRecord()
        errors: list[str] = []
        key = client_key(context.node_config)
        if key is not None:
            description["client-key"] = key
        for entry, name, compute in parts:
            try:
                description[entry] = compute(context)
            except Exception as error:  # of the user's function; the server logs it with the key
                text = f"{name} failed: {type(error).__name__}: {error}"
                errors.append(" ".join(text.split())[:_LONGEST_ERROR])
        if errors:
            description[ERRORS] = errors
        return Message(RecordDict({RECORD: description}), reply_to=message)

    app.query(RECORD)(answer)


def _composed(
    function: Callable[[Context], Given], read: Callable[[Given], Sent]
) -> Callable[[Context], Sent]:
    return lambda context: read(function(context))


def _size(value: int) -> int:
    size = int(value)
    if size < 0:
        raise ConfigError(f"data_size must be >= 0, got {size}")
    return size


def _charge(value: float) -> float:
    if not 0 <= float(value) <= 1:
        raise ConfigError(f"battery must be a charge in [0, 1], got {float(value):g}")
    return float(value)


def _proportions(counts: Numbers) -> list[float]:
    """Proportions of the labels; an error about an invalid count does not contain the others."""
    values = np.asarray(counts, dtype=np.float64).ravel()
    bad = values[~(np.isfinite(values) & (values >= 0))]
    if len(bad):
        raise ConfigError(
            f"label_counts must be counts >= 0 with a positive sum, got {float(bad[0])}"
        )
    if values.sum() <= 0:
        raise ConfigError("label_counts must be counts >= 0 with a positive sum, got a sum of 0")
    return [float(share) for share in values / values.sum()]


def _vector(values: Numbers) -> list[float]:
    vector = np.asarray(values, dtype=np.float64).ravel()
    if not len(vector) or not np.isfinite(vector).all():
        raise ConfigError(
            f"feature must be at least one finite number, got {len(vector)} entries, "
            "not all of them finite"
        )
    return [float(value) for value in vector]
