"""The server's half of aggregations with a state for each client, on parameters as one vector.

The clients keep their vectors (`client_mod`). The server keeps what the sum over all clients
needs, and adds the terms of the clients whose replies enter the average.
"""

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from fedgs.arrays import FloatArray
from fedgs.flower.client_mod import RATE, STEPS
from fedgs.registry import Variant
from fedgs.server_steps import Moments

__all__ = ["RULES", "Answer", "Rule"]


class Rule:
    """An aggregation as a deployment computes it.

    Args:
        settings: the aggregation.

    Attributes:
        metrics: numbers > 0 that a client has to report.
        is_stored: whether a client sends its vector with the reply.
        is_held: whether clients train from the model that they keep, which the server sends after
            each round, and not from theta^t.
    """

    metrics: ClassVar[tuple[str, ...]] = ()
    is_stored: ClassVar[bool] = False
    is_held: ClassVar[bool] = False

    def __init__(self, settings: Variant) -> None:
        self.settings = settings

    @property
    def needed(self) -> tuple[str, ...]:
        """The metrics of a reply that must be numbers > 0."""
        return self.metrics

    def numbers(self) -> dict[str, float]:
        """Settings that the clients need."""
        return {}

    def echo(self, rounds: int) -> float:
        """The factor by which a client multiplies its update before it sends the model.

        Args:
            rounds: since the client last took part.
        """
        return 1.0

    def start(self, theta: FloatArray) -> Moments:
        """The vectors before round 0."""
        return {}

    def shared(self, vectors: Moments) -> FloatArray | None:
        """A vector that goes to the cohort with theta^t."""
        return None

    def term(self, answer: "Answer", vectors: Moments) -> dict[str, FloatArray]:
        """What a client adds to the sums of the round, by name."""
        return {}

    def target(
        self,
        theta: FloatArray,
        average: FloatArray | None,
        sums: Mapping[str, FloatArray],
        vectors: Moments,
    ) -> tuple[FloatArray | None, Moments]:
        """The target of the server step, and the vectors.

        Args:
            theta: (P,) theta^t.
            average: (P,) theta^t + sum of w_k Delta_k; None: the round has no average.
            sums: of the terms; empty without an average.
            vectors: of the aggregation.
        """
        return average, vectors


class Answer:
    """A client's reply as a rule sees it.

    Attributes:
        share: p_k.
        weight: w_k.
        update: (P,) float64 Delta_k.
        stored: (P,) the vector that it sent with the model, or None.
        numbers: its metrics.
    """

    __slots__ = ("numbers", "share", "stored", "update", "weight")

    def __init__(
        self,
        update: FloatArray,
        *,
        share: float,
        weight: float,
        stored: FloatArray | None,
        numbers: Mapping[str, float],
    ) -> None:
        self.update, self.share, self.weight = update, share, weight
        self.stored, self.numbers = stored, numbers


class Scaffold(Rule):
    """SCAFFOLD: c is the server's, c_k the client's.

    c_k new - c_k old = -c - Delta_k / (E eta), so the server does not need c_k.
    """

    metrics = (RATE, STEPS)

    def start(self, theta: FloatArray) -> Moments:
        """A control variate of zero."""
        return {"control": np.zeros(len(theta))}

    def shared(self, vectors: Moments) -> FloatArray | None:
        """The control variate c."""
        control: FloatArray = vectors["control"]
        return control

    def term(self, answer: Answer, vectors: Moments) -> dict[str, FloatArray]:
        """p_k (c_k new - c_k old)."""
        steps = answer.numbers[RATE] * answer.numbers[STEPS]
        return {"control": answer.share * (-vectors["control"] - answer.update / steps)}

    def target(
        self,
        theta: FloatArray,
        average: FloatArray | None,
        sums: Mapping[str, FloatArray],
        vectors: Moments,
    ) -> tuple[FloatArray | None, Moments]:
        """The average; c moves by the sum of the terms."""
        if average is None:
            return None, vectors
        return average, {**vectors, "control": vectors["control"] + sums["control"]}


class FedDyn(Rule):
    """FedDyn: h is the server's, h_k the client's; h_k new - h_k old = -alpha Delta_k."""

    @property
    def alpha(self) -> float:
        """The weight of the regularisation."""
        return float(self.settings.alpha)  # type: ignore[attr-defined]

    def numbers(self) -> dict[str, float]:
        """Alpha."""
        return {"alpha": self.alpha}

    def start(self, theta: FloatArray) -> Moments:
        """H = 0."""
        return {"dynamic": np.zeros(len(theta))}

    def term(self, answer: Answer, vectors: Moments) -> dict[str, FloatArray]:
        """p_k (h_k new - h_k old)."""
        return {"dynamic": -self.alpha * answer.share * answer.update}

    def target(
        self,
        theta: FloatArray,
        average: FloatArray | None,
        sums: Mapping[str, FloatArray],
        vectors: Moments,
    ) -> tuple[FloatArray | None, Moments]:
        """The average minus h / alpha."""
        if average is None:
            return None, vectors
        dynamic = vectors["dynamic"] + sums["dynamic"]
        target = (average.astype(np.float64) - dynamic / self.alpha).astype(average.dtype)
        return target, {**vectors, "dynamic": dynamic}


class Stale(Rule):
    """MIFA, FedVARP, FedStale: the mean H of the h_k is the server's, h_k the client's.

    With unit = "gradient" the server counts H with the last learning rate that a client reported.
    """

    is_stored = True

    @property
    def needed(self) -> tuple[str, ...]:
        """The learning rate, where gradients are stored."""
        return (RATE,) if self._is_gradient else ()

    @property
    def _is_gradient(self) -> bool:
        return bool(self.settings.unit == "gradient")  # type: ignore[attr-defined]

    def start(self, theta: FloatArray) -> Moments:
        """H = 0."""
        return {"stale_mean": np.zeros(len(theta)), "rate": np.ones(1)}

    def term(self, answer: Answer, vectors: Moments) -> dict[str, FloatArray]:
        """w_k h_k, p_k (h_k new - h_k old) and the learning rate."""
        rate = answer.numbers[RATE] if self._is_gradient else 1.0
        assert answer.stored is not None
        return {
            "weighted": answer.weight * rate * answer.stored,
            "stale_mean": answer.share * (answer.update / rate - answer.stored),
            "rate": answer.weight * np.array([rate, 1.0]),
        }

    def target(
        self,
        theta: FloatArray,
        average: FloatArray | None,
        sums: Mapping[str, FloatArray],
        vectors: Moments,
    ) -> tuple[FloatArray | None, Moments]:
        """The average plus beta H minus the weighted h_k of the cohort."""
        beta, mean = float(self.settings.beta), vectors["stale_mean"]  # type: ignore[attr-defined]
        if average is None:
            if not self.settings.move_when_empty:  # type: ignore[attr-defined]
                return None, vectors
            moved = theta.astype(np.float64) + beta * vectors["rate"] * mean
            return moved.astype(theta.dtype), vectors
        weighted, total = sums["rate"]
        rate = np.array([weighted / total]) if total > 0 else vectors["rate"]
        target = average.astype(np.float64) + beta * (rate * mean - sums["weighted"])
        vectors = {**vectors, "stale_mean": mean + sums["stale_mean"], "rate": rate}
        return target.astype(average.dtype), vectors


class Gossip(Rule):
    """FedAWE: a client starts from the model x_k that it keeps and sends its echoed model."""

    is_held = True

    def numbers(self) -> dict[str, float]:
        """eta_g, and whether updates are echoed."""
        settings = self.settings
        return {"rate": float(settings.server_step.rate), "echo": float(settings.echo)}  # type: ignore[attr-defined]

    def echo(self, rounds: int) -> float:
        """eta_g (t - tau_k), or eta_g."""
        numbers = self.numbers()
        return numbers["rate"] * (rounds if numbers["echo"] else 1)


class Postponed(Rule):
    """FedPBC: a client first does the local trainings of the rounds since it received a model."""

    is_held = True

    def numbers(self) -> dict[str, float]:
        """eta_g."""
        return {"rate": float(self.settings.server_step.rate)}  # type: ignore[attr-defined]

    def echo(self, rounds: int) -> float:
        """eta_g."""
        return self.numbers()["rate"]


RULES: Mapping[str, type[Rule]] = {
    "scaffold": Scaffold,
    "feddyn": FedDyn,
    "stale": Stale,
    "gossip": Gossip,
    "postponed": Postponed,
}


def positive(metrics: Mapping[str, object], name: str) -> float | None:
    """A metric that is a finite number > 0, or None.

    >>> positive({"learning-rate": 0.1}, "learning-rate"), positive({}, "learning-rate")
    (0.1, None)
    """
    value = metrics.get(name)
    if isinstance(value, int | float) and math.isfinite(value) and value > 0:
        return float(value)
    return None
