"""F3AST: the clients whose participation falls short of their share the most."""

from collections.abc import Mapping

import numpy as np
from pydantic import Field, model_validator

from fedgs.arrays import FloatArray
from fedgs.clients import Clients, Memory, Outcome, Selection, View
from fedgs.errors import ConfigError
from fedgs.registry import register
from fedgs.sampling.base import Sampler
from fedgs.weighting import F3ASTWeighting, WeightingSetting, as_weighting
from fedgs.weighting.f3ast import first_rates, moved_rates

__all__ = ["F3AST"]

_BETA = 0.001


@register("method", "f3ast")
class F3AST(Sampler):
    """The m available clients with the largest p_k^2 / r_k^2, ties at random; weights p_k / r_k.

    r_k is a moving average of the participations of client k: r_0 = M/N, and after every round,
    also an empty one, r_k = (1 - beta) r_k + beta 1{k in S_t}. A client participates with an
    update that enters the model, not with a selection. The cohort is the steepest descent of
    sum_k p_k^2 / r_k. The weighting `f3ast` has the same r_k, unless it counts selections; given by
    name, it takes `beta` from here.

    Attributes:
        beta: weight of the newest round, 0 < beta < 1.

    References:
        M. Ribero, H. Vikalo, G. de Veciana (2023): Federated Learning Under Intermittent Client
        Availability and Time-Varying Communication Constraints. IEEE Journal of Selected Topics in
        Signal Processing.

    >>> clients = Clients(("a", "b", "c"), np.array([5, 1, 9]))
    >>> counts, sampler = np.zeros(3, dtype=np.int64), F3AST()
    >>> view = View(0, clients, np.array([0, 1]), counts, 1, memory=sampler.start(clients))
    >>> sampler.select(view, np.random.default_rng(0)).clients
    array([0])
    """

    weighting: WeightingSetting = "f3ast"
    beta: float = Field(default=_BETA, gt=0, lt=1)

    @model_validator(mode="before")
    @classmethod
    def _share_beta(cls, settings: object) -> object:
        """Give `beta` to the weighting `f3ast` where it is named without settings."""
        if not isinstance(settings, Mapping) or settings.get("beta", _BETA) == _BETA:
            return settings
        if settings.get("weighting", "f3ast") not in ("f3ast", {"name": "f3ast"}):
            return settings
        if not isinstance(settings["beta"], float) or not 0 < settings["beta"] < 1:
            return settings  # refused as a value of `beta`
        return {**settings, "weighting": {"name": "f3ast", "beta": settings["beta"]}}

    def model_post_init(self, context: object) -> None:
        """Refuse a weighting `f3ast` with another `beta`."""
        weighting = as_weighting(self.weighting)
        if isinstance(weighting, F3ASTWeighting) and weighting.beta != self.beta:
            raise ConfigError(
                f"method.weighting.beta must be {self.beta:g}, the beta of method 'f3ast', "
                f"got {weighting.beta:g}"
            )

    def start(self, clients: Clients) -> Memory:
        """The rates, NaN until the first round gives M, and the round that they belong to."""
        return {"rates": np.full(len(clients), np.nan), "round": np.zeros(1, dtype=np.int64)}

    def observe(self, memory: Memory, view: View, outcome: Outcome) -> Memory:
        """Move the rates; rounds without a cohort since the last call are made up for."""
        rates = moved_rates(self._rates(memory, view), self.beta, outcome.clients)
        return {"rates": rates, "round": np.array([view.round + 1])}

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        """The m available clients with the largest p_k / r_k."""
        available = view.available
        with np.errstate(divide="ignore"):
            urgency = view.shares[available] / self._rates(view.memory, view)[available]
        # `lexsort` sorts by its last key first.
        order = np.lexsort((rng.random(len(available)), -urgency))
        return Selection(np.sort(available[order[: view.cohort_size]]))

    def _rates(self, memory: Memory, view: View) -> FloatArray:
        """(N,) r_k before round t."""
        first = first_rates(len(view.clients), view.cohort_limit)
        rates: FloatArray = np.where(np.isnan(memory["rates"]), first, memory["rates"])
        # Step by step, so that the rates are those of the weighting bit for bit.
        for _ in range(view.round - int(memory["round"][0])):
            rates = moved_rates(rates, self.beta, None)
        return rates
