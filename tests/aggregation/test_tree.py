"""The tree of folds: its bits do not depend on who added which blocks."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs.aggregation import BLOCK, Rows, WeightedMean, WeightedSum
from fedgs.requests import MergingFold

Fold = WeightedMean | WeightedSum


def plain(models: torch.Tensor, weights: np.ndarray, first: torch.Tensor | None = None) -> Any:
    """The sum over the fixed tree, written down by recursion: first, S and W."""
    count = len(models)
    if count <= BLOCK:
        reference = models[0] if first is None else first
        total, weight = torch.zeros(models.shape[1], dtype=torch.float64), 0.0
        for model, share in zip(models, weights.tolist(), strict=True):
            total += (model.double() - reference) * share
            weight += share
        return reference, total, weight
    half = BLOCK
    while 2 * half < count:
        half *= 2
    first_a, sum_a, weight_a = plain(models[:half], weights[:half], first)
    first_b, sum_b, weight_b = plain(models[half:], weights[half:], first)
    move = (first_b.double() - first_a) * weight_b
    return first_a, sum_a + sum_b + move, weight_a + weight_b


def sequence(models: torch.Tensor, weights: np.ndarray) -> torch.Tensor:
    """The average by one sum over all models, without a tree."""
    total = torch.zeros(models.shape[1], dtype=torch.float64)
    for model, weight in zip(models, weights.tolist(), strict=True):
        total += (model.double() - models[0]) * weight
    return (models[0] + total).float()


def drawn(count: int, seed: int, size: int = 5) -> tuple[torch.Tensor, np.ndarray]:
    rng = np.random.default_rng(seed)
    models = rng.standard_normal((count, size)) * 10.0 ** rng.integers(-4, 4)
    return torch.from_numpy(models.astype(np.float32)), rng.dirichlet(np.ones(count))


def gathered(fold: Any, models: torch.Tensor, cuts: list[int]) -> Any:
    """What the fold has after it got the models in pieces that end at these places."""
    accumulator, begin = fold.start(), 0
    for end in [*cuts, len(models)]:
        accumulator = fold.add(accumulator, np.arange(begin, end), models[begin:end])
        begin = end
    return accumulator


@given(st.integers(1, 400), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_the_fold_is_the_sum_over_the_tree(count: int, seed: int) -> None:
    models, weights = drawn(count, seed)
    mean, theta = WeightedMean(weights), models[-1] * 2
    first, total, _ = plain(models, weights)
    assert torch.equal(mean.finish(gathered(mean, models, [])), (first + total).float())
    of_sum = WeightedSum(weights, theta)
    first, total, _ = plain(models, weights, theta)
    assert torch.equal(of_sum.finish(gathered(of_sum, models, [])), (first + total).float())


@given(st.integers(1, BLOCK), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_one_block_has_the_bits_of_a_plain_sequence(count: int, seed: int) -> None:
    models, weights = drawn(count, seed)
    fold = WeightedMean(weights)
    assert torch.equal(fold.finish(gathered(fold, models, [])), sequence(models, weights))


@given(st.integers(1, 400), st.integers(0, 10**6), st.data())
@settings(max_examples=60, deadline=None)
def test_any_places_that_add_blocks_give_the_same_bits(
    count: int, seed: int, data: st.DataObject
) -> None:
    models, weights = drawn(count, seed)
    blocks = -(-count // BLOCK)
    cuts = sorted(data.draw(st.sets(st.integers(1, blocks - 1)))) if blocks > 1 else []
    ends = [*(cut * BLOCK for cut in cuts), count]
    folds: list[Any] = [WeightedMean(weights), WeightedSum(weights, models[0] / 3), Rows()]
    for fold in folds:
        assert isinstance(fold, MergingFold)
        whole = fold.finish(gathered(fold, models, []))
        parts = []
        for begin, end in zip([0, *ends], ends, strict=False):
            inner = sorted(data.draw(st.sets(st.integers(1, end - begin), max_size=3)))
            part = fold.part(begin, end)
            parts.append(gathered(part, models[begin:end], [c for c in inner if c < end - begin]))
        while len(parts) > 1:  # neighbours, in any order
            place = data.draw(st.integers(0, len(parts) - 2))
            parts[place : place + 2] = [fold.merge(*parts[place : place + 2])]
        assert torch.equal(fold.finish(parts[0]), whole)


@given(st.integers(1, 300), st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_identical_models_of_many_blocks_average_to_themselves(count: int, seed: int) -> None:
    model, _ = drawn(1, seed)
    weights = np.random.default_rng(seed).dirichlet(np.ones(count))
    fold = WeightedMean(weights)
    assert torch.equal(fold.finish(gathered(fold, model.repeat(count, 1), [])), model[0])


def test_merging_writes_to_nothing() -> None:
    models, weights = drawn(128, 3)
    fold = WeightedMean(weights)
    one = gathered(fold.part(0, 64), models[:64], [])
    other = gathered(fold.part(64, 128), models[64:], [])
    before = [node.total.clone() for node in (*one, *other)]
    results = [fold.finish(fold.merge(one, other)) for _ in range(2)]
    assert torch.equal(*results)
    assert all(torch.equal(a, b.total) for a, b in zip(before, (*one, *other), strict=True))


@pytest.mark.parametrize("count", [128, 100])
def test_an_aligned_half_is_one_sum(count: int) -> None:
    models, weights = drawn(count, 0)
    half = WeightedMean(weights).part(64, count)
    assert len(gathered(half, models[64:], [])) == (1 if count == 128 else 2)
