"""Modes whose rates are drawn once: from an interval, or as weights of labels."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated

import numpy as np
from pydantic import Field, field_validator

from fedgs.arrays import FloatArray, frozen
from fedgs.availability.base import Availability
from fedgs.availability.labels import label_shares
from fedgs.clients import Clients
from fedgs.per_client import PerClient, check_length, in_turn, within
from fedgs.registry import register
from fedgs.rng import stream

__all__ = ["Bernoulli", "LabelDirichlet", "LabelUniform"]

_LOWEST = 0.1


@register("availability", "bernoulli")
class Bernoulli(Availability):
    """Every client has a fixed rate p_k, uniform on [lowest, 1] and drawn once from the seed.

    References:
        X. Gu, K. Huang, J. Zhang, L. Huang (2021): Fast Federated Learning in the Presence of
        Arbitrary Device Unavailability. NeurIPS. Their other rates, which depend on labels, are
        those of `YMF` with beta = 1 - p_min.

    Attributes:
        lowest: p_min, in [0, 1].
        rate: p_k in [0, 1], a number or a list, instead of rates that are drawn; client k has entry
            k modulo the length of the list.

    >>> clients = Clients(("a", "b", "c"), np.array([1, 1, 1]))
    >>> Bernoulli(lowest=0.4).rates(0, clients).round(3)
    array([0.485, 0.871, 0.85 ])
    >>> Bernoulli(rate=(0.2, 0.7)).rates(0, clients)
    array([0.2, 0.7, 0.2])
    """

    steady = True
    lowest: float = Field(default=_LOWEST, ge=0, le=1)
    rate: Annotated[PerClient, within("availability.rate", 0, 1)] | None = None

    @classmethod
    def without_effect(cls, settings: Mapping[str, object]) -> dict[str, str]:
        """`lowest` beside `rate`."""
        if settings.get("rate") is None or settings.get("lowest", _LOWEST) == _LOWEST:
            return {}
        return {
            "lowest": "availability.lowest has no effect beside availability.rate; leave one out"
        }

    def check(self, clients: Clients, rounds: int) -> None:
        """As for every mode; also at most one value a client in a list."""
        if self.rate is not None:
            check_length(self.rate, len(clients), setting="availability.rate")
        super().check(clients, rounds)

    def rates(self, round: int, clients: Clients) -> FloatArray:
        """(N,) p_k, the same in every round."""
        if self.rate is not None:
            return in_turn(self.rate, len(clients))
        uniform = stream(self.seed or 0, "bernoulli rates").random(len(clients))
        rates: FloatArray = self.lowest + (1 - self.lowest) * uniform
        return rates


@register("availability", "label_dirichlet")
class LabelDirichlet(Availability):
    """A rate for each label, drawn from a Dirichlet distribution, weighted by a client's labels.

    The rate of client k is max(lowest, mean·C·sum_c nu_kc q_c), and at most 1. nu_kc is the share
    of label c in the training part of client k, and q ~ Dirichlet(concentration, ...,
    concentration) over the C labels is drawn once from the seed. Before the limits, the rates of
    clients with equal shares of all labels are `mean`.

    References:
        S. Wang, M. Ji (2024): A Lightweight Method for Tackling Unknown Participation Statistics in
        Federated Averaging. ICLR (FedAU).

    Attributes:
        mean: of the rates of the labels, in (0, 1].
        concentration: of the Dirichlet distribution, > 0; a small one makes few labels frequent.
        lowest: no rate is below it, in [0, 1].

    >>> labels = np.array([[4, 0], [2, 2], [0, 4]])
    >>> clients = Clients(("a", "b", "c"), np.array([4, 4, 4]), label_counts=labels)
    >>> LabelDirichlet(concentration=1, mean=0.5).rates(0, clients).round(3)
    array([0.587, 0.5  , 0.413])
    """

    steady = True
    mean: float = Field(default=0.1, gt=0, le=1)
    concentration: float = Field(default=0.1, gt=0, allow_inf_nan=False)
    lowest: float = Field(default=0.02, ge=0, le=1)

    def rates(self, round: int, clients: Clients) -> FloatArray:
        """(N,) the same in every round, in [lowest, 1].

        Raises:
            ConfigError: the clients have no labels, or one client holds none.
        """
        shares = label_shares(self, clients)  # (N, C)
        labels = shares.shape[1]
        weights = _dirichlet(self.seed or 0, self.concentration, labels)
        rates: FloatArray = np.clip(self.mean * labels * (shares @ weights), self.lowest, 1.0)
        return rates


@register("availability", "label_uniform")
class LabelUniform(Availability):
    """A rate for each label, drawn from a uniform distribution, weighted by a client's labels.

    The rate of client k is sum_c nu_kc phi_c. nu_kc is the share of label c in the training part of
    client k. phi_c is uniform on [0, highest[0]] for the first half of the C labels and on
    [0, highest[1]] for the others, drawn once from the seed. If C is odd, the label in the middle
    belongs to the first half.

    References:
        M. Xiang, S. Ioannidis, E. Yeh, C. Joe-Wong, L. Su (2024): Efficient Federated Learning
        against Heterogeneous and Non-stationary Client Unavailability. NeurIPS (FedAWE).

    Attributes:
        highest: the highest rates of labels of the first half and of the others, each in [0, 1].

    >>> labels = np.array([[4, 0], [2, 2], [0, 4]])
    >>> clients = Clients(("a", "b", "c"), np.array([4, 4, 4]), label_counts=labels)
    >>> LabelUniform().rates(0, clients).round(3)
    array([0.719, 0.466, 0.213])
    """

    steady = True
    highest: tuple[float, float] = (1.0, 0.5)

    @field_validator("highest", mode="before")
    @classmethod
    def _two_rates(cls, value: object) -> object:
        entries = tuple(value) if isinstance(value, list | tuple) else ()
        if len(entries) == 2 and all(_is_rate(entry) for entry in entries):
            return tuple(map(float, entries))
        raise ValueError(f"availability.highest must be two numbers in [0, 1], got {value!r}")

    def rates(self, round: int, clients: Clients) -> FloatArray:
        """(N,) the same in every round, in [0, 1].

        Raises:
            ConfigError: the clients have no labels, or one client holds none.
        """
        shares = label_shares(self, clients)  # (N, C)
        labels = shares.shape[1]
        highest = np.where(2 * np.arange(labels) < labels, *self.highest)
        weights = highest * stream(self.seed or 0, "label_uniform").random(labels)
        rates: FloatArray = np.minimum(shares @ weights, 1.0)  # shares sum to 1 up to rounding
        return rates


def _is_rate(value: object) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool) and 0 <= value <= 1


@lru_cache(maxsize=8)
def _dirichlet(seed: int, concentration: float, labels: int) -> FloatArray:
    """(C,) the weights of the labels; they sum to 1."""
    weights: FloatArray = stream(seed, "label_dirichlet").dirichlet([concentration] * labels)
    return frozen(weights)
