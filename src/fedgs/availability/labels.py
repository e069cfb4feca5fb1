"""The labels of clients, as the modes that depend on labels read them."""

from weakref import WeakKeyDictionary

import numpy as np

from fedgs.arrays import BoolArray, FloatArray, frozen
from fedgs.availability.base import Availability
from fedgs.clients import Clients
from fedgs.errors import ConfigError

__all__ = ["label_shares", "labels_held"]

# Both are the same in every round, and computing them costs O(N·C). `Clients` compares by identity,
# and entries disappear with their key.
_held: WeakKeyDictionary[Clients, BoolArray] = WeakKeyDictionary()
_shares: WeakKeyDictionary[Clients, FloatArray] = WeakKeyDictionary()


def labels_held(availability: Availability, clients: Clients) -> BoolArray:
    """(N, C): whether client k holds label y.

    Raises:
        ConfigError: the clients have no labels, or one client holds none; the sentence names the
            mode.
    """
    if clients.label_counts is None:
        raise ConfigError(
            f"availability {availability.name!r} needs the clients' labels, and this federation "
            "has none; data.groups gives groups instead"
        )
    if clients not in _held:
        held: BoolArray = clients.label_counts > 0
        without = np.flatnonzero(~held.any(axis=1))
        if len(without):
            raise ConfigError(
                f"availability {availability.name!r} needs at least one label a client; client "
                f"{clients.names[int(without[0])]!r} has none"
            )
        _held[clients] = held
    return _held[clients]


def label_shares(availability: Availability, clients: Clients) -> FloatArray:
    """(N, C) nu_kc, the share of label c in the training part of client k; read-only.

    Raises:
        ConfigError: as `labels_held`.

    >>> from fedgs.availability import LargeLabelsFirst
    >>> clients = Clients(("a", "b"), np.array([4, 2]), label_counts=np.array([[3, 1], [0, 2]]))
    >>> label_shares(LargeLabelsFirst(), clients)
    array([[0.75, 0.25],
           [0.  , 1.  ]])
    """
    labels_held(availability, clients)
    assert clients.label_counts is not None
    if clients not in _shares:
        counts = clients.label_counts
        shares: FloatArray = counts / counts.sum(axis=1, keepdims=True, dtype=np.float64)
        _shares[clients] = frozen(shares)
    return _shares[clients]
