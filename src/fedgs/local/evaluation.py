"""Losses of clients and metrics of a model: forward passes over large blocks of examples, summed client by client."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from fedgs.arrays import AnyArray, FloatArray, IntArray
from fedgs.local.objective import example_losses
from fedgs.local.threads import SMALL_STEP, one_thread_if
from fedgs.local.workbench import Workbench, part_of
from fedgs.metrics import mean_losses, weighted_metrics
from fedgs.requests import Evaluate, Losses, Metrics
from fedgs.rng import seeded

__all__ = ["Asked", "block_rows", "measure", "segment_sums"]

_BLOCK_NUMBERS = (
    1 << 18
)  # numbers in the examples of one forward pass; activations take some tens of times that


@dataclass(frozen=True, eq=False)
class Asked:
    """The ranges of rows that a `Losses` or `Evaluate` request asks for, one a client.

    Attributes:
        begin, end: (s,) rows begin..end-1 of the split's part; a client may have none.
        weights: (s,) of the mean over clients, not normalised; None where each client's own mean is
            asked for.
    """

    begin: IntArray
    end: IntArray
    weights: AnyArray | None

    @staticmethod
    def by(request: Losses | Evaluate) -> "Asked":
        """What a request asks for.

        Raises:
            ConfigError: the federation has no such part.
        """
        offsets = part_of(request.work.federation, request.split).offsets
        if isinstance(request, Losses):
            return Asked(offsets[request.clients], offsets[request.clients + 1], None)
        weights = (
            np.ones(1) if request.split == "test" else request.work.federation.clients.data_sizes
        )
        return Asked(offsets[:-1], offsets[1:], weights)

    @property
    def sizes(self) -> IntArray:
        """(s,) examples in each range."""
        return self.end - self.begin

    @property
    def rows(self) -> IntArray:
        """(n,) all the rows, one range after another."""
        shift = (
            np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
            if len(self.begin)
            else np.zeros(0, dtype=np.int64)
        )
        rows: IntArray = np.arange(int(self.sizes.sum())) + np.repeat(
            self.begin - shift, self.sizes
        )
        return rows

    def reply(self, loss_sums: FloatArray, correct: FloatArray) -> FloatArray | Metrics:
        """The reply to the request from (s,) sums over its ranges."""
        if self.weights is None:
            return mean_losses(loss_sums, self.sizes)
        return weighted_metrics(loss_sums, correct, self.sizes, self.weights)


def measure(workbench: Workbench, request: Losses | Evaluate) -> FloatArray | Metrics:
    """The reply to a request for losses or metrics."""
    asked = Asked.by(request)
    examples, module = workbench.examples(request.split), workbench.flat.module
    workbench.flat.load(request.parameters)
    module.eval()
    step = block_rows(tuple(examples.x.shape[1:]))
    small = (
        workbench.is_small(request.work.batch_size)
        if workbench.convolutional
        else workbench.flat.layout.size * step < SMALL_STEP
    )
    pieces = []
    seed, round_index = request.key
    with seeded(seed, "evaluate", round_index), torch.no_grad(), one_thread_if(small):
        for rows in torch.split(torch.from_numpy(asked.rows).to(workbench.device), step):
            x, y = examples.gather(rows)
            pieces.append(example_losses(workbench.forward(x), y))
    losses, correct = (torch.cat(list(piece)).cpu().numpy() for piece in zip(*pieces, strict=True))
    return asked.reply(*segment_sums(losses, correct, asked.sizes))


def block_rows(example_shape: tuple[int, ...]) -> int:
    """Examples in one forward pass: a rule of the shape alone, so that results do not depend on what else is evaluated.

    >>> block_rows((60,)), block_rows((1, 28, 28)), block_rows((3, 32, 32))
    (2048, 334, 85)
    """
    return max(1, min(2048, _BLOCK_NUMBERS // max(1, math.prod(example_shape))))


def segment_sums(
    values: FloatArray, correct: AnyArray, sizes: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Sums over consecutive segments of the given sizes, each summed on its own; 0 for an empty one.

    >>> segment_sums(np.array([1.0, 2.0, 4.0]), np.array([True, False, True]), np.array([2, 0, 1]))
    (array([3., 0., 4.]), array([1., 0., 1.]))
    """
    owner = np.repeat(np.arange(len(sizes)), sizes)
    count = len(sizes)
    sums = np.bincount(owner, values, count).astype(np.float64)
    return sums, np.bincount(owner, correct, count).astype(np.float64)
