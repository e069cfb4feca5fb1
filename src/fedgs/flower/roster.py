"""The clients met so far: one row for each client key, with what is known of the client.

Node ids are addresses only; `directory` has them.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from fedgs.arrays import FloatArray, IntArray
from fedgs.clients import Clients
from fedgs.graph import client_features
from fedgs.graph.similarity import LARGEST_SQUARE

__all__ = ["Key", "Newcomer", "Roster", "feature_problem"]

Key = str | int
Newcomer = Literal["mean", "zero"]


@dataclass(eq=False)
class Roster:
    """The clients met so far, in order of first appearance; a row never changes its client.

    Attributes:
        keys: N client keys, distinct as text: 3 and "3" are one client.
        counts: (N,) v_k, in how many rounds each was selected (whether it answered or not).
        answers: (N,) how many of each client's training replies entered an average.
        sizes: (N,) n_k, NaN where unknown.
        answer_starts: (N,) the answers that each newcomer was credited with, so that a balance of
            answers does not select newcomers alone.
        failures: (N,) how many of the last selections of each had no answer, since its last one.
        seconds: (N,) how long the last valid reply of each took, NaN before it.
        entered: (N,) the last round whose reply entered the model, -1 before it; where clients hold
            a model of their own, the last round whose model they confirmed.
        features: row -> feature vector u_k, for the rows that have one; all of one length.
        revision: raised for every new client or feature, so that the graph is rebuilt only then.
    """

    keys: list[Key] = field(default_factory=list)
    counts: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    answers: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    sizes: FloatArray = field(default_factory=lambda: np.zeros(0))
    answer_starts: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    failures: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    entered: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    seconds: FloatArray = field(default_factory=lambda: np.zeros(0))
    features: dict[int, FloatArray] = field(default_factory=dict)
    revision: int = 0
    _rows: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rows = {str(key): row for row, key in enumerate(self.keys)}
        for name, start in (("answer_starts", 0), ("failures", 0), ("entered", -1)):
            if len(getattr(self, name)) != len(self.keys):
                setattr(self, name, np.full(len(self.keys), start, dtype=np.int64))
        if len(self.seconds) != len(self.keys):
            self.seconds = np.full(len(self.keys), np.nan)

    def __len__(self) -> int:
        return len(self.keys)

    @staticmethod
    def of_clients(clients: Clients) -> "Roster":
        """The roster of a federation that is known in advance.

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

    def admit(self, key: Key, newcomer: Newcomer = "mean") -> int:
        """The row of a key; a newcomer gets a new row and starts at the mean count (rounded) or 0.

        >>> roster = Roster.of_clients(Clients(("a", "b"), np.array([3, 5])))
        >>> roster.counts += [2, 4]
        >>> roster.admit("c"), roster.counts.tolist()
        (2, [2, 4, 3])
        """
        if str(key) in self._rows:
            return self._rows[str(key)]
        mean = newcomer == "mean" and len(self.keys) > 0
        start = _rounded_mean(self.counts) if mean else 0
        answers = _rounded_mean(self.credited_answers + self.failures) if mean else 0
        self._rows[str(key)] = len(self.keys)
        self.keys.append(key)
        self.counts = np.append(self.counts, start)
        self.answers = np.append(self.answers, 0)
        self.sizes = np.append(self.sizes, np.nan)
        self.answer_starts = np.append(self.answer_starts, answers)
        self.failures = np.append(self.failures, 0)
        self.entered = np.append(self.entered, -1)
        self.seconds = np.append(self.seconds, np.nan)
        self.revision += 1
        return self._rows[str(key)]

    @property
    def credited_answers(self) -> IntArray:
        """(N,) answers as samplers and weightings see them, those at the start included."""
        return self.answers + self.answer_starts

    def learn_feature(self, row: int, feature: FloatArray) -> str | None:
        """Store a client's feature vector; returns why it was refused, or None."""
        vector = np.asarray(feature, dtype=np.float64).ravel()
        known = next(iter(self.features.values()), vector)
        if why := feature_problem(vector, len(known)):
            return why
        if row not in self.features or not np.array_equal(self.features[row], vector):
            self.features[row] = vector
            self.revision += 1
        return None

    def known_sizes(self) -> IntArray:
        """(N,) n_k >= 1; an unknown size counts as the mean of the known, 1 if none is."""
        known = self.sizes[~np.isnan(self.sizes)]
        mean = float(known.mean()) if len(known) else 1.0
        sizes = np.where(np.isnan(self.sizes), mean, self.sizes)
        return np.maximum(1, np.rint(sizes)).astype(np.int64)

    def clients(self) -> Clients:
        """The clients as samplers see them; with features only if every client has one."""
        features = None
        if self.features and len(self.features) == len(self.keys):
            features = np.stack([self.features[row] for row in range(len(self.keys))])
        return Clients(tuple(self.keys), self.known_sizes(), features=features)


def feature_problem(vector: FloatArray, length: int) -> str | None:
    """Why a feature cannot be compared with those of other clients, or None.

    Args:
        vector: the feature, one row.
        length: of the others.

    >>> feature_problem(np.array([1.0]), 2)
    "its feature has 1 entries, the others' 2"
    """
    if not np.isfinite(vector).all() or not len(vector):
        return "its feature is empty or not finite"
    with np.errstate(over="ignore"):
        if vector @ vector > LARGEST_SQUARE:
            return f"its feature is longer than {LARGEST_SQUARE**0.5:g}"
    if len(vector) != length:
        return f"its feature has {len(vector)} entries, the others' {length}"
    return None


def _rounded_mean(counts: IntArray) -> int:
    return int(np.floor(counts.mean() + 0.5))
