"""What a client tells about itself, once: its key, its data size and, where it is asked to, how its data are distributed."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedgs.arrays import AnyArray
from fedgs.errors import ConfigError

__all__ = ["DESCRIBE", "ERRORS", "RECORD", "client_key", "describe"]

RECORD = "fedgs"
DESCRIBE = f"query.{RECORD}"
ERRORS = "errors"
_LONGEST_ERROR = 300  # characters

Numbers = Sequence[float] | AnyArray


def describe(
    app: ClientApp,
    *,
    label_counts: Callable[[Context], Numbers] | None = None,
    feature: Callable[[Context], Numbers] | None = None,
    data_size: Callable[[Context], int] | None = None,
) -> None:
    """Let a ClientApp answer who it is. The server asks every node once, and later again if one of the functions failed.

    The key, the data size and the feature do not depend on each other: where a function raises, the
    server is told which one and its message, and takes the rest.

    Args:
        app: the ClientApp; it gets a query handler named "fedgs".
        label_counts: context -> (C,) training examples by label, >= 0 with a positive sum. Only the
            *proportions* leave the client.
        feature: context -> (d,) a vector u_k of your own for the client graph instead, finite.
        data_size: context -> n_k >= 0; without it the server learns n_k from the first reply to a
            training request.

    Raises:
        ConfigError: both `label_counts` and `feature`.

    >>> from flwr.clientapp import ClientApp
    >>> describe(ClientApp(), label_counts=lambda context: [3, 1])
    """
    if label_counts is not None and feature is not None:
        raise ConfigError(
            "describe takes label_counts or feature, not both: the graph is made from one of them"
        )

    @app.query(RECORD)  # type: ignore[untyped-decorator, unused-ignore]
    def answer(message: Message, context: Context) -> Message:
        told: dict[str, Any] = {}
        errors: list[str] = []
        key = client_key(context.node_config)
        if key is not None:
            told["client-key"] = key
        parts: tuple[tuple[str, str, Any, Callable[[Any], Any]], ...] = (
            ("data-size", "data_size", data_size, _size),
            ("feature", "label_counts", label_counts, _proportions),
            ("feature", "feature", feature, _vector),
        )
        for entry, name, given, read in parts:
            if given is None:
                continue
            try:
                told[entry] = read(given(context))
            except Exception as error:  # whatever the user's function raises; the server logs it under the client's key
                errors.append(
                    " ".join(f"{name} failed: {type(error).__name__}: {error}".split())[
                        :_LONGEST_ERROR
                    ]
                )
        if errors:
            told[ERRORS] = errors
        return Message(RecordDict({RECORD: ConfigRecord(told)}), reply_to=message)


def client_key(node_config: Any) -> str | int | None:
    """The application's own key of a client: `client-id` of the node's configuration, else `partition-id`, else None.

    An empty text is no key.

    >>> client_key({"partition-id": 3, "client-id": "site-a"}), client_key({"partition-id": 3}), client_key({})
    ('site-a', 3, None)
    """
    for name in ("client-id", "partition-id"):
        if name in node_config and str(node_config[name]).strip():
            value = node_config[name]
            return value if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return None


def _size(value: Any) -> int:
    size = int(value)
    if size < 0:
        raise ConfigError(f"data_size must be >= 0, got {size}")
    return size


def _proportions(counts: Numbers) -> list[float]:
    """Shares of the labels; a message about bad counts does not tell the good ones."""
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
            f"feature must be at least one finite number, got {len(vector)} entries, not all of them finite"
        )
    return [float(value) for value in vector]
