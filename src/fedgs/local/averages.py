"""The weighted means of many requests at once, with the same bits as each request's own fold."""

from collections.abc import Sequence

import numpy as np
import torch

from fedgs.aggregation import BLOCK, all_finite
from fedgs.aggregation.tree import Node, merged, root
from fedgs.arrays import BoolArray, FloatArray, IntArray
from fedgs.errors import DataError
from fedgs.local.batches import compiled_kernels
from fedgs.local.bounds import checked_ranges

__all__ = ["tree_means", "weighted_means"]


def weighted_means(
    models: torch.Tensor,
    begin: IntArray,
    *,
    end: IntArray,
    weights: Sequence[FloatArray],
    references: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The weighted means or sums of R ranges of models, as by the folds of `fedgs.aggregation`.

    Args:
        models: (r, P) float32.
        begin: (R,) first row of each range.
        end: (R,) row after the last of each range, which has 1 to 32 rows, a block of the folds.
        weights: R vectors of end - begin numbers.
        references: (R, P) float32 parameters that `WeightedSum` adds to; None: `WeightedMean`.

    Returns:
        (R, P) float32 averages, and (R,) bool: whether a range's models and their average are all
        finite.

    Raises:
        DataError: models that are no float32 matrix, ranges that are empty, longer than a block or
            out of bounds, weights of another length.

    >>> models = torch.tensor([[0.0], [4.0], [torch.nan]])
    >>> weights = [np.array([0.25, 0.75]), np.array([1.0])]
    >>> weighted_means(models, np.array([0, 2]), end=np.array([2, 3]), weights=weights)
    (tensor([[3.],
            [nan]]), tensor([ True, False]))
    """
    if models.dtype != torch.float32 or models.ndim != 2:
        raise DataError(
            f"models must be a float32 matrix, got {models.dtype} of shape {tuple(models.shape)}"
        )
    models = models.contiguous()
    begin, end = checked_ranges(begin, end, (len(weights),), len(models))
    for length, of_range in zip((end - begin).tolist(), weights, strict=True):
        if not 1 <= length <= BLOCK or np.shape(of_range) != (length,):
            raise DataError(
                f"each range must hold 1 to {BLOCK} models and as many weights, got {length}, "
                f"weights {np.shape(of_range)}"
            )
    averages = models.new_empty(len(begin), models.shape[1])
    fine = torch.empty(len(begin), dtype=torch.bool, device=models.device)
    kernels = compiled_kernels("averages")
    if kernels is not None and models.device.type == "cpu":
        flat = np.zeros(len(models))  # (r,) each model's weight in its range
        for a, b, of_range in zip(begin.tolist(), end.tolist(), weights, strict=True):
            flat[a:b] = of_range
        first = models[:0] if references is None else references.contiguous()
        kernels.averages(
            models.numpy(), begin, end, flat, first.numpy(), averages.numpy(), fine.numpy()
        )
        return averages, fine
    lengths = end - begin
    for length in np.unique(lengths).tolist():  # ranges of one length are averaged together
        members = np.flatnonzero(lengths == length)
        rows = torch.from_numpy(begin[members][:, None] + np.arange(length)).to(models.device)
        of_members = np.stack([weights[index] for index in members.tolist()])  # (R', m)
        shares = torch.from_numpy(of_members).to(models.device)
        stack, place = models[rows], torch.from_numpy(members).to(models.device)
        first = stack[:, 0] if references is None else references[place]
        averages[place] = _averages(stack, shares, first.double())
        fine[place] = all_finite(stack).all(dim=1) & all_finite(averages[place])
    return averages, fine


def tree_means(
    models: torch.Tensor,
    begin: IntArray,
    *,
    end: IntArray,
    weights: Sequence[FloatArray],
    references: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same as `weighted_means`, for ranges of any length but 0, whose blocks a tree joins.

    Blocks of all ranges are summed at once. Each range has as many weights as models.
    """
    models = models.contiguous()
    begin, end = checked_ranges(begin, end, (len(weights),), len(models))
    begins = [np.arange(a, b, BLOCK) for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
    owner = np.repeat(np.arange(len(begins)), [len(of_range) for of_range in begins])
    starts = np.concatenate(begins)
    stops = np.minimum(starts + BLOCK, end[owner])
    flat = np.zeros(len(models))  # (r,) each model's weight in its range
    for a, b, of_range in zip(begin.tolist(), end.tolist(), weights, strict=True):
        flat[a:b] = of_range
    places = torch.from_numpy(starts if references is None else owner).to(models.device)
    first = (models if references is None else references)[places]  # (R', P)
    totals, finite = _block_sums(models, starts, stops, flat=flat, first=first)
    averages = models.new_empty(len(begin), models.shape[1])
    for place in range(len(begin)):
        nodes: tuple[Node, ...] = ()
        for block in np.flatnonzero(owner == place).tolist():
            a, b = int(starts[block]), int(stops[block])
            weight = 0.0
            for value in flat[a:b].tolist():
                weight += value
            leaf = Node(a - int(begin[place]), b - a, first[block], totals[block], weight)
            nodes = merged(nodes, (leaf,))
        whole = root(nodes)
        averages[place] = (whole.first + whole.total).float()
    of_models = np.logical_and.reduceat(finite, np.searchsorted(owner, np.arange(len(begin))))
    return averages, torch.from_numpy(of_models).to(models.device) & all_finite(averages)


def _block_sums(
    models: torch.Tensor,
    begin: IntArray,
    end: IntArray,
    *,
    flat: FloatArray,
    first: torch.Tensor,
) -> tuple[torch.Tensor, BoolArray]:
    """(R, P) float64 sums of w_k·(theta_k - first) over ranges, and (R,) whether all are finite."""
    kernels = compiled_kernels("averages")
    if kernels is not None and models.device.type == "cpu":
        totals, fine = np.empty(tuple(first.shape)), np.empty(len(begin), dtype=bool)
        kernels.block_sums(models.numpy(), begin, end, flat, first.numpy(), totals, fine)
        return torch.from_numpy(totals), fine
    sums = torch.zeros_like(first, dtype=torch.float64)
    finite = np.ones(len(begin), dtype=bool)
    for position in range(int((end - begin).max())):
        live = np.flatnonzero(begin + position < end)
        rows, place = (
            torch.from_numpy(i).to(models.device) for i in (begin[live] + position, live)
        )
        shares = torch.from_numpy(flat[begin[live] + position]).to(models.device)
        sums[place] += (models[rows].double() - first[place]) * shares[:, None]
        finite[live] &= all_finite(models[rows]).cpu().numpy()
    return sums, finite


def _averages(models: torch.Tensor, weights: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    """The (R, P) float32 averages of (R, m, P) models with (R, m) float64 weights.

    Differences are taken to `first`, (R, P) float64.

    Models are added in the order in which the fold adds them.
    """
    total = torch.zeros_like(first)
    for position in range(models.shape[1]):
        total += (models[:, position] - first) * weights[:, position, None]
    return (first + total).float()
