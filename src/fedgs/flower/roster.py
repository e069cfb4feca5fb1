"""Who takes part: one row a client key, with what is known of it. Node ids are addresses only and live in `directory`."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from fedgs.arrays import FloatArray, IntArray
from fedgs.clients import Clients
from fedgs.errors import ConfigError
from fedgs.graph import client_features

__all__ = ["Key", "Newcomer", "Roster"]

Key = str | int
Newcomer = Literal["mean", "zero"]


@dataclass(eq=False)
class Roster:
    """The clients met so far, in the order of their first appearance; a row is never given to another client.

    Attributes:
        keys: N client keys, distinct as text: 3 and "3" are one client.
        counts: (N,) v_k, in how many rounds each was selected (whether it answered or not).
        answers: (N,) how many of its training replies entered an average.
        sizes: (N,) n_k, NaN where unknown.
        features: row -> feature vector u_k, for the rows that have one; all of one length.
        revision: raised whenever a client or a feature is new, so that the graph is computed again
            only then.
    """

    keys: list[Key] = field(default_factory=list)
    counts: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    answers: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    sizes: FloatArray = field(default_factory=lambda: np.zeros(0))
    features: dict[int, FloatArray] = field(default_factory=dict)
    revision: int = 0
    _rows: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rows = {str(key): row for row, key in enumerate(self.keys)}

    def __len__(self) -> int:
        return len(self.keys)

    @staticmethod
    def of_clients(clients: Clients) -> "Roster":
        """The roster of a federation that is known beforehand.

        >>> Roster.of_clients(Clients(("a", "b"), np.array([3, 5]))).keys
        ['a', 'b']
        """
        zeros = np.zeros(len(clients), dtype=np.int64)
        roster = Roster(
            list(clients.names), zeros, zeros.copy(), clients.data_sizes.astype(np.float64)
        )
        if clients.features is not None or clients.label_counts is not None:
            roster.features = dict(enumerate(client_features(clients)))
        return roster

    def row(self, key: Key) -> int | None:
        """The row of a key, or None for a stranger."""
        return self._rows.get(str(key))

    def admit(self, key: Key, newcomer: Newcomer = "mean") -> int:
        """The row of a key; a newcomer gets a new one and starts at the mean count (rounded) or at 0.

        >>> roster = Roster.of_clients(Clients(("a", "b"), np.array([3, 5])))
        >>> roster.counts += [2, 4]
        >>> roster.admit("c"), roster.counts.tolist()
        (2, [2, 4, 3])
        """
        if str(key) in self._rows:
            return self._rows[str(key)]
        if newcomer not in ("mean", "zero"):
            raise ConfigError(f"newcomer_count must be 'mean' or 'zero', got {newcomer!r}")
        start = (
            int(np.floor(self.counts.mean() + 0.5)) if newcomer == "mean" and len(self.keys) else 0
        )
        self._rows[str(key)] = len(self.keys)
        self.keys.append(key)
        self.counts = np.append(self.counts, start)
        self.answers = np.append(self.answers, 0)
        self.sizes = np.append(self.sizes, np.nan)
        self.revision += 1
        return self._rows[str(key)]

    def learn_feature(self, row: int, feature: FloatArray) -> str | None:
        """Keep a client's feature vector; returns why not where it does not fit the others'."""
        vector = np.asarray(feature, dtype=np.float64).ravel()
        if not np.isfinite(vector).all() or not len(vector):
            return "its feature is empty or not finite"
        known = next(iter(self.features.values()), vector)
        if len(known) != len(vector):
            return f"its feature has {len(vector)} entries, the others' {len(known)}"
        if row not in self.features or not np.array_equal(self.features[row], vector):
            self.features[row] = vector
            self.revision += 1
        return None

    def known_sizes(self) -> IntArray:
        """(N,) n_k >= 1; an unknown size counts as the mean of the known, 1 if none is."""
        known = self.sizes[~np.isnan(self.sizes)]
        mean = float(known.mean()) if len(known) else 1.0
        return np.maximum(1, np.rint(np.where(np.isnan(self.sizes), mean, self.sizes))).astype(
            np.int64
        )

    def clients(self) -> Clients:
        """What samplers see; features only when every client has one."""
        complete = len(self.features) == len(self.keys)
        features = (
            np.stack([self.features[row] for row in range(len(self.keys))])
            if complete and self.features
            else None
        )
        return Clients(tuple(self.keys), self.known_sizes(), features=features)
