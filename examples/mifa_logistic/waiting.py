"""FedAvg that waits for the clients it has sampled: a sampler, a weighting and an aggregation.

The server draws S of the N clients, available or not. In each round those of them that are
available and have not answered yet train from the present model. When all S have answered, the
model moves by the mean of their updates, and the next S are drawn. A round in which the server
waits is a communication round like any other.
"""

import numpy as np
import torch
from pydantic import Field

import fedgs
from fedgs.aggregation import Aggregation, WeightedSum
from fedgs.registry import register
from fedgs.rng import stream
from fedgs.weighting import Weighting


@register("method", "waiting")
class Waiting(fedgs.Sampler):
    """The clients of the present draw that are available and have not answered yet.

    The memory holds the number of finished draws and who has answered.

    Attributes:
        wait_for: S, the clients of a draw, at most N.
        draw_seed: of the draws, >= 0.
    """

    wait_for: int = Field(default=50, ge=1)
    draw_seed: int = Field(default=0, ge=0)

    def check(self, clients, cohort_limit):
        """Refuse more clients than there are, and a cohort limit that could cut a draw."""
        if self.wait_for > len(clients) or cohort_limit < len(clients):
            raise fedgs.errors.ConfigError(
                f"method.wait_for must be at most {len(clients)}, the number of clients, and "
                f"training.proportion must be 1; got {self.wait_for} and cohorts of at most "
                f"{cohort_limit}"
            )

    def start(self, clients):
        """No draw is finished, and no client has replied."""
        return {"draw": np.array(0), "answered": np.zeros(len(clients), dtype=bool)}

    def drawn(self, memory, clients):
        """(S,) indices of the clients of the present draw."""
        rng = stream(self.draw_seed, "waiting", int(memory["draw"]))
        return rng.choice(len(clients), self.wait_for, replace=False)

    def select(self, view, rng):
        """The available clients of the draw that have not answered; there may be none."""
        missing = np.zeros(len(view.clients), dtype=bool)
        missing[self.drawn(view.memory, view.clients)] = True
        missing &= ~view.memory["answered"]
        chosen = view.available[missing[view.available]]
        return fedgs.Selection(chosen, weighting=Share(count=self.wait_for))

    def observe(self, memory, view, outcome):
        """Note the answers; after the last one the next draw begins."""
        answered = memory["answered"].copy()
        answered[outcome.clients] = True
        if answered[self.drawn(memory, view.clients)].all():
            return {"draw": memory["draw"] + 1, "answered": np.zeros_like(answered)}
        return {"draw": memory["draw"], "answered": answered}


@register("weighting", "share")
class Share(Weighting):
    """w_k = 1/S, any sum.

    Attributes:
        count: S.
    """

    count: int = Field(default=50, ge=1)

    @property
    def is_normalised(self):
        """False."""
        return False

    def weights(self, view, selection, memory):
        """(m,) 1/S."""
        return np.full(len(selection.clients), 1 / self.count)


@register("aggregation", "collected")
class Collected(Aggregation):
    """Collects weighted updates, and moves by them when their weights sum to 1."""

    def start(self, parameters, clients):
        """The sum of no updates."""
        return {
            "collected": torch.zeros_like(parameters, dtype=torch.float64),
            "weight": torch.zeros(1, dtype=torch.float64),
        }

    def folds(self, round):
        """theta^t plus the weighted updates of this round."""
        return (WeightedSum(round.weights, round.parameters),)

    def step(self, round, results):
        """Add the updates, and move if they are complete."""
        if not results:
            return round.parameters, round.vectors
        collected = round.vectors["collected"] + (results[0].double() - round.parameters.double())
        weight = round.vectors["weight"] + float(round.weights.sum())
        if float(weight) < 1 - 1e-9:
            return round.parameters, {"collected": collected, "weight": weight}
        moved = (round.parameters.double() + collected).float()
        return moved, self.start(moved, round.clients)
