"""Two clients with quadratic objectives F_k(theta) = (theta - b_k)²/2, as parts of a study.

Client 1 has b = 0, client 2 has b = 1, so the minimiser of (F_1 + F_2)/2 is 1/2.

The package trains with cross-entropy. The cross-entropy of the logits (0, log(exp(q) - 1)) with
label 0 is log(1 + exp(q) - 1) = q, so a model whose output for an example x is
(0, log(exp(q) - 1)) with q = (theta - x)²/2 + 1 has the local objective F_k + 1 where client k
holds the one example x = b_k. The 1 keeps q above 0, where the logarithm exists; it changes no
gradient.

The server's test set is the one example x = -1. The test loss (theta + 1)²/2 + 1 grows with theta
from theta = -1 on, so that theta follows from the records, see `summary.py`.
"""

from pathlib import Path

import numpy as np
from pydantic import Field

import fedgs
from fedgs.registry import register

OFFSET = 1.0
TEST_AT = -1.0


@register("data", "two_quadratics")
class TwoQuadratics(fedgs.Data):
    """Client 1 holds the example 0, client 2 the example 1; both have label 0 of two."""

    @property
    def title(self) -> str:
        """Two quadratics."""
        return "Two quadratics"

    def load(self, data_dir: Path | None = None) -> fedgs.Federation:
        """The federation of two clients with one example each."""
        return fedgs.Federation.from_arrays(
            np.array([[0.0], [1.0]], dtype=np.float32),
            np.zeros(2, dtype=np.int64),
            client=np.array([1, 2]),
            test=(np.array([[TEST_AT]], dtype=np.float32), np.zeros(1, dtype=np.int64)),
            classes=2,
        )


@register("model", "quadratic")
class Quadratic(fedgs.Model):
    """One parameter theta, 1/2 at the start, with the loss (theta - x)²/2 + 1 on an example x."""

    def build(self, example_shape, num_labels):
        """The module that maps x (b, 1) to the logits (b, 2)."""
        import torch

        class Logits(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.theta = torch.nn.Parameter(torch.tensor([0.5]))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                loss = 0.5 * (self.theta - x) ** 2 + OFFSET  # (b, 1)
                return torch.cat([torch.zeros_like(loss), torch.log(torch.expm1(loss))], dim=1)

        return Logits()


@register("availability", "pair")
class Pair(fedgs.Availability):
    """Client 1 is available with probability `first`, client 2 with probability `second`."""

    steady = True

    first: float = Field(gt=0, le=1)
    second: float = Field(gt=0, le=1)

    def rates(self, round, clients):
        """(2,) the two rates, the same in every round."""
        return np.array([self.first, self.second])
