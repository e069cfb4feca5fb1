"""What a client tells about itself, once: its key, its data size and, where it is asked to, how its data are distributed."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedgs.arrays import AnyArray
from fedgs.errors import ConfigError

__all__ = ["DESCRIBE", "RECORD", "client_key", "describe"]

RECORD = "fedgs"
DESCRIBE = f"query.{RECORD}"

Numbers = Sequence[float] | AnyArray


def describe(
    app: ClientApp,
    *,
    label_counts: Callable[[Context], Numbers] | None = None,
    feature: Callable[[Context], Numbers] | None = None,
    data_size: Callable[[Context], int] | None = None,
) -> None:
    """Let a ClientApp answer who it is. The server asks every node once, never every round.

    Args:
        app: the ClientApp; it gets a query handler named "fedgs".
        label_counts: context -> (C,) training examples by label. Only the *proportions* leave the client.
        feature: context -> (d,) a vector u_k of your own for the client graph instead.
        data_size: context -> n_k; without it the server learns n_k from the first reply to a training request.

    Raises:
        ConfigError: both `label_counts` and `feature`.

    >>> from flwr.clientapp import ClientApp
    >>> describe(ClientApp(), label_counts=lambda context: [3, 1])
    """
    if label_counts is not None and feature is not None:
        raise ConfigError("describe takes label_counts or feature, not both: the graph is made from one of them")

    @app.query(RECORD)  # type: ignore[untyped-decorator, unused-ignore]
    def answer(message: Message, context: Context) -> Message:
        told: dict[str, Any] = {}
        key = client_key(context.node_config)
        if key is not None:
            told["client-key"] = key
        if data_size is not None:
            told["data-size"] = int(data_size(context))
        if label_counts is not None:
            told["feature"] = _proportions(label_counts(context)).tolist()
        if feature is not None:
            told["feature"] = np.asarray(feature(context), dtype=np.float64).ravel().tolist()
        return Message(RecordDict({RECORD: ConfigRecord(told)}), reply_to=message)


def client_key(node_config: Any) -> str | int | None:
    """The application's own key of a client: `client-id` of the node's configuration, else `partition-id`, else None.

    >>> client_key({"partition-id": 3, "client-id": "site-a"}), client_key({"partition-id": 3}), client_key({})
    ('site-a', 3, None)
    """
    for name in ("client-id", "partition-id"):
        if name in node_config:
            value = node_config[name]
            return value if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return None


def _proportions(counts: Numbers) -> AnyArray:
    values = np.asarray(counts, dtype=np.float64).ravel()
    if not np.isfinite(values).all() or np.any(values < 0) or values.sum() <= 0:
        raise ConfigError(f"label_counts must be counts >= 0 with a positive sum, got {values.tolist()}")
    return np.asarray(values / values.sum())
