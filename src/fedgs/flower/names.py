"""The names by which server and clients know each other."""

from collections.abc import Mapping

__all__ = ["LONGEST_KEY", "RECORD", "client_key"]

LONGEST_KEY = 1_000  # characters
RECORD = "fedgs"  # the record of a message that is not the application's


def client_key(node_config: Mapping[str, object]) -> str | int | None:
    """The application's own key of a client, from the node's configuration.

    It is `client-id`, else `partition-id`, else None. An empty text is no key.

    >>> client_key({"partition-id": 3, "client-id": "site-a"})
    'site-a'
    >>> client_key({"partition-id": 3}), client_key({})
    (3, None)
    """
    for name in ("client-id", "partition-id"):
        if name in node_config and str(node_config[name]).strip():
            value = node_config[name]
            return value if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return None
