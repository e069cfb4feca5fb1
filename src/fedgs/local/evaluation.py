"""Losses of clients and metrics of a model: forward passes over large blocks of examples, summed client by client."""

import numpy as np
import torch

from fedgs.arrays import AnyArray, FloatArray, IntArray
from fedgs.local.bench import Bench, part_of
from fedgs.local.objective import example_losses
from fedgs.metrics import mean_losses, weighted_metrics
from fedgs.requests import Evaluate, Losses, Metrics, Split

__all__ = ["block_rows", "evaluate", "losses"]

_BLOCK_NUMBERS = 1 << 20  # stored numbers of the examples in one block; activations take some tens of times that


def block_rows(example_shape: tuple[int, ...]) -> int:
    """Examples in one forward pass: a rule of the shape alone, so that results do not depend on what else is evaluated.

    >>> block_rows((60,)), block_rows((3, 32, 32))
    (2048, 256)
    """
    return 2048 if len(example_shape) == 1 else max(1, min(256, _BLOCK_NUMBERS // max(1, int(np.prod(example_shape)))))


def losses(bench: Bench, request: Losses) -> FloatArray:
    """(m,) mean loss of the model on each client's part; NaN for an empty part."""
    part = part_of(request.work.federation, request.split)
    first, last = part.offsets[request.clients], part.offsets[request.clients + 1]
    rows = np.concatenate([np.arange(a, b) for a, b in zip(first, last, strict=True)]) if len(first) else np.zeros(0, np.int64)
    bench.flat.load(request.parameters)
    sums, _ = segment_sums(*_forward(bench, request.split, rows.astype(np.int64)), last - first)
    return mean_losses(sums, last - first)


def evaluate(bench: Bench, request: Evaluate) -> Metrics:
    """Loss and accuracy: mean over the test set, or over the clients' parts weighted by n_k."""
    part = part_of(request.work.federation, request.split)
    bench.flat.load(request.parameters)
    sizes = np.diff(part.offsets)
    sums, correct = segment_sums(*_forward(bench, request.split, np.arange(len(part))), sizes)
    weights = np.ones(1) if request.split == "test" else request.work.federation.clients.data_sizes
    return weighted_metrics(sums, correct, sizes, weights)


def segment_sums(values: FloatArray, correct: AnyArray, sizes: IntArray) -> tuple[FloatArray, FloatArray]:
    """Sums over consecutive segments of the given sizes, each summed on its own; 0 for an empty one.

    >>> segment_sums(np.array([1.0, 2.0, 4.0]), np.array([True, False, True]), np.array([2, 0, 1]))
    (array([3., 0., 4.]), array([1., 0., 1.]))
    """
    owner = np.repeat(np.arange(len(sizes)), sizes)
    count = len(sizes)
    sums = np.bincount(owner, values, count).astype(np.float64)
    return sums, np.bincount(owner, correct, count).astype(np.float64)


def _forward(bench: Bench, split: Split, rows: IntArray) -> tuple[FloatArray, AnyArray]:
    """Loss and rightness of each of the rows' examples, in evaluation mode: (n,) float64 and (n,) bool."""
    module, examples = bench.flat.module, bench.examples(split)
    module.eval()
    step = block_rows(tuple(examples.x.shape[1:]))
    where = torch.from_numpy(rows).to(bench.device)
    pieces = []
    with torch.no_grad():
        for start in range(0, len(rows), step):
            x, y = examples.gather(where[start : start + step])
            pieces.append(example_losses(bench.forward(x), y))
    if not pieces:
        return np.zeros(0), np.zeros(0, dtype=bool)
    values, correct = (torch.cat(list(piece)).cpu().numpy() for piece in zip(*pieces, strict=True))
    return values, correct
