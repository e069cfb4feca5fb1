"""The seven availability modes of Table 1 of the paper.

Every mode is a pure function of (settings, seed, clients, round): rounds can be computed in any
order. Rates lie in [0, 1].

References:
    Z. Wang, X. Fan, J. Qi, H. Jin, P. Yang, S. Shen, C. Wang (2023): FedGS: Federated Graph-Based
    Sampling with Arbitrary Client Availability. AAAI 37.
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated

import numpy as np
from pydantic import AfterValidator, Field

from fedgs.arrays import FloatArray
from fedgs.availability.base import Availability
from fedgs.availability.labels import labels_held
from fedgs.clients import Clients
from fedgs.registry import register
from fedgs.rng import stream

__all__ = [
    "Ideal",
    "LabelCycle",
    "LargeLabelsFirst",
    "LessDataFirst",
    "LogNormal",
    "MoreDataFirst",
    "SineLogNormal",
]


def _up_to_one(mode: str) -> AfterValidator:
    def check(beta: float) -> float:
        if not 0 <= beta <= 1:
            raise ValueError(f"availability.beta must be in [0, 1] for {mode!r}, got {beta}")
        return beta

    return AfterValidator(check)


def _below_one(mode: str) -> AfterValidator:
    def check(beta: float) -> float:
        if not 0 <= beta < 1:
            reason = "; at 1 every rate is undefined" if beta == 1 else ""
            raise ValueError(
                f"availability.beta must be in [0, 1) for {mode!r}, got {beta}{reason}"
            )
        return beta

    return AfterValidator(check)


@register("availability", "IDL")
class Ideal(Availability):
    """All clients are available in every round: rate 1.

    No round is empty, so `empty_round` cannot be set.

    >>> clients = Clients(("a", "b"), np.array([10, 40]))
    >>> Ideal().rates(0, clients)
    array([1., 1.])
    """

    steady = True

    @classmethod
    def without_effect(cls, settings: Mapping[str, object]) -> dict[str, str]:
        """`empty_round`: all clients are available in every round."""
        if settings.get("empty_round", "redraw") == "redraw" or cls.rates is not Ideal.rates:
            return {}
        return {
            "empty_round": "availability.empty_round has no effect with 'IDL', in which no round "
            "is empty"
        }

    def rates(self, round: int, clients: Clients) -> FloatArray:
        """(N,) ones."""
        return np.ones(len(clients))


@register("availability", "MDF")
class MoreDataFirst(Availability):
    """Clients with more data are available more often: rate (n_k / max n)^beta.

    Attributes:
        beta: in [0, 1]; 0: all clients are always available, 1: rates proportional to data sizes.

    >>> MoreDataFirst(beta=0.5).rates(0, Clients(("a", "b"), np.array([10, 40])))
    array([0.5, 1. ])
    """

    steady = True
    beta: Annotated[float, _up_to_one("MDF")] = 0.7

    def rates(self, round: int, clients: Clients) -> FloatArray:
        """(N,) the same in every round; in (0, 1]."""
        rates: FloatArray = (clients.data_sizes / clients.data_sizes.max()) ** self.beta
        return rates


@register("availability", "LDF")
class LessDataFirst(Availability):
    """Clients with less data are available more often: rate (min n / n_k)^beta.

    Attributes:
        beta: in [0, 1]; 0: all clients are always available.

    >>> LessDataFirst(beta=0.5).rates(0, Clients(("a", "b"), np.array([10, 40])))
    array([1. , 0.5])
    """

    steady = True
    beta: Annotated[float, _up_to_one("LDF")] = 0.7

    def rates(self, round: int, clients: Clients) -> FloatArray:
        """(N,) the same in every round; in (0, 1]."""
        rates: FloatArray = (clients.data_sizes.min() / clients.data_sizes) ** self.beta
        return rates


@register("availability", "YMF")
class LargeLabelsFirst(Availability):
    """Clients whose smallest label is large are available more often.

    The rate is beta·min(labels of k)/max(all labels) + (1 - beta). Labels are those of the training
    parts. The largest is the largest that some client holds, or C - 1 if the number of classes C
    was given; if it is 0, so is the quotient.

    With beta = 1 - p_min it is the availability of MIFA: p_min + (1 - p_min)·min(labels of k)/9.

    References:
        X. Gu, K. Huang, J. Zhang, L. Huang (2021): Fast Federated Learning in the Presence of
        Arbitrary Device Unavailability. NeurIPS.

    Attributes:
        beta: in [0, 1]; 1: clients that hold label 0 are never available.

    >>> labels = np.array([[1, 1, 0], [0, 0, 1]])
    >>> clients = Clients(("a", "b"), np.array([2, 1]), label_counts=labels)
    >>> LargeLabelsFirst(beta=0.5).rates(0, clients)
    array([0.5, 1. ])
    """

    steady = True
    beta: Annotated[float, _up_to_one("YMF")] = 0.9

    def rates(self, round: int, clients: Clients) -> FloatArray:
        """(N,) the same in every round.

        Raises:
            ConfigError: the clients have no labels, or one client holds none.
        """
        held = labels_held(self, clients)  # (N, C)
        smallest = held.argmax(axis=1)  # (N, C) -> (N,)
        largest = (
            int(np.flatnonzero(held.any(axis=0))[-1])
            if clients.classes is None
            else clients.classes - 1
        )
        quotient = smallest / largest if largest > 0 else np.zeros(len(clients))
        return self.beta * quotient + (1 - self.beta)


@register("availability", "YC")
class LabelCycle(Availability):
    """Labels take turns: rate 1 for the clients that hold the current label, else 1 - beta.

    With r = (1 + t mod T_p)/T_p it is the turn of label y where y/C < r <= (y+1)/C. The paper
    writes [y/C, (y+1)/C), which assigns r = 1 to no label and gives the first label one round less;
    here every label has T_p/C rounds, exactly so if C divides T_p. The comparison is made in
    integers, so no turn is lost to rounding.

    Attributes:
        beta: in [0, 1]; 1: only clients that hold the current label are available, and none if
            no client holds it.
        period: T_p >= 1 in rounds; None: 10·C, as in the authors' code (the paper gives none).

    >>> clients = Clients(("a", "b"), np.array([1, 1]), label_counts=np.array([[1, 0], [0, 1]]))
    >>> cycle = LabelCycle(beta=1.0, period=4)
    >>> [cycle.rates(t, clients).tolist() for t in range(4)]
    [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    """

    beta: Annotated[float, _up_to_one("YC")] = 0.9
    period: Annotated[int, Field(ge=1)] | None = None

    def rates(self, round: int, clients: Clients) -> FloatArray:
        """(N,) periodic in the round, with period T_p.

        Raises:
            ConfigError: the clients have no labels, or one client holds none.
        """
        held = labels_held(self, clients)  # (N, C)
        labels = held.shape[1]
        period = 10 * labels if self.period is None else self.period
        # y·T_p < (1 + t mod T_p)·C <= (y+1)·T_p, solved for the whole number y
        turn = ((1 + round % period) * labels - 1) // period
        return np.where(held[:, turn], 1.0, 1 - self.beta)


@register("availability", "LN")
class LogNormal(Availability):
    """Every client has a fixed rate c_k / max c, with c_k log-normal and drawn once from the seed.

    ln c_k is normal with mean 0 and standard deviation ln(1/(1-beta)).

    Attributes:
        beta: in [0, 1); 0: all clients are always available; towards 1 few are often available.

    >>> clients = Clients(("a", "b", "c"), np.array([1, 1, 1]))
    >>> LogNormal(beta=0.0).rates(5, clients)
    array([1., 1., 1.])
    >>> bool(np.array_equal(LogNormal().rates(0, clients), LogNormal(seed=0).rates(7, clients)))
    True
    """

    steady = True
    beta: Annotated[float, _below_one("LN")] = 0.5

    def rates(self, round: int, clients: Clients) -> FloatArray:
        """(N,) the same in every round; read-only."""
        return _log_normal_rates(self.seed or 0, self.beta, len(clients))


@register("availability", "SLN")
class SineLogNormal(Availability):
    """Day and night over the rates of LN: c_k / max c · (0.4 sin(2π (1 + t mod T_p)/T_p) + 0.5).

    With equal seed and beta, c_k is that of `LogNormal`. No rate exceeds 0.9.

    Attributes:
        beta: in [0, 1).
        period: T_p >= 1 in rounds; 24 as in the authors' code (the paper gives none).

    >>> clients = Clients(("a", "b"), np.array([1, 1]))
    >>> [round(float(SineLogNormal(beta=0.0).rates(t, clients)[0]), 3) for t in (5, 11, 17, 23)]
    [0.9, 0.5, 0.1, 0.5]
    """

    beta: Annotated[float, _below_one("SLN")] = 0.5
    period: int = Field(default=24, ge=1)

    def rates(self, round: int, clients: Clients) -> FloatArray:
        """(N,) periodic in the round, with period T_p."""
        phase = (1 + round % self.period) / self.period
        return _log_normal_rates(self.seed or 0, self.beta, len(clients)) * (
            0.4 * math.sin(2 * math.pi * phase) + 0.5
        )


@lru_cache(maxsize=8)
def _log_normal_rates(seed: int, beta: float, count: int) -> FloatArray:
    logarithms = -math.log1p(-beta) * stream(seed, "log_normal").standard_normal(count)
    rates: FloatArray = np.exp(logarithms - logarithms.max())  # c_k / max c, safe at any beta
    rates.setflags(write=False)
    return rates
