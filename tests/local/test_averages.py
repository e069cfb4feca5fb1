"""Averages of many requests at once against each request's own fold."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs.aggregation import WeightedMean, WeightedSum
from fedgs.compiling import load_kernels
from fedgs.errors import UpdateError
from fedgs.local import averages as module

SEEDS = st.integers(0, 10**6)
RANGES = st.lists(st.integers(1, 6), min_size=1, max_size=8)


@pytest.fixture(params=["compiled", "plain"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "plain":
        monkeypatch.setattr(module, "compiled_kernels", lambda part: None)
    else:
        pytest.importorskip("numba")
    return request.param


def random_stack(
    lengths: list[int], size: int, seed: int
) -> tuple[torch.Tensor, np.ndarray, np.ndarray, list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    models = torch.from_numpy(
        (rng.standard_normal((sum(lengths), size)) * 10.0 ** rng.integers(-6, 6)).astype(np.float32)
    )
    end = np.cumsum(lengths)
    return models, end - lengths, end, [rng.dirichlet(np.ones(length)) for length in lengths]


def folded(models: torch.Tensor, weights: np.ndarray) -> torch.Tensor:
    fold = WeightedMean(weights)
    return fold.finish(fold.add(fold.start(), np.arange(len(models)), models))


@pytest.mark.parametrize("path", ["compiled", "plain"], indirect=True)
def test_compiled_path_is_what_it_says(path: str) -> None:
    assert (module.compiled_kernels("averages") is None) == (path == "plain")
    assert load_kernels("fedgs.local.kernels") is not None or path == "plain"


@pytest.mark.parametrize("plain", [False, True])
@given(st.lists(st.sampled_from([1, 31, 32, 33, 64, 70, 130]), min_size=1, max_size=4), SEEDS)
@settings(max_examples=15, deadline=None)
def test_averages_over_several_blocks_have_the_bits_of_the_folds(
    plain: bool, lengths: list[int], seed: int
) -> None:
    models, begin, end, weights = random_stack(lengths, 7, seed)
    references = torch.stack([models[a] / 3 for a in begin])
    with pytest.MonkeyPatch.context() as patch:
        if plain:
            patch.setattr(module, "compiled_kernels", lambda part: None)
        found, fine = module.tree_means(models, begin, end=end, weights=weights)
        sums, _ = module.tree_means(models, begin, end=end, weights=weights, references=references)
        broken = models.clone()
        broken[int(end[0]) - 1, 3] = torch.nan
        _, good = module.tree_means(broken, begin, end=end, weights=weights)
    assert fine.all() and good.tolist() == [False] + [True] * (len(lengths) - 1)
    for place, (a, b) in enumerate(zip(begin, end, strict=True)):
        assert torch.equal(found[place], folded(models[a:b], weights[place]))
        fold = WeightedSum(weights[place], references[place])
        gathered = fold.add(fold.start(), np.arange(b - a), models[a:b])
        assert torch.equal(sums[place], fold.finish(gathered))


@pytest.mark.parametrize("plain", [False, True])
@given(RANGES, st.integers(1, 70), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_averages_have_the_bits_of_the_folds(
    plain: bool, lengths: list[int], size: int, seed: int
) -> None:
    models, begin, end, weights = random_stack(lengths, size, seed)
    with pytest.MonkeyPatch.context() as patch:
        if plain:
            patch.setattr(module, "compiled_kernels", lambda part: None)
        found, fine = module.weighted_means(models, begin, end=end, weights=weights)
    assert fine.all()
    for average, a, b, own in zip(found, begin, end, weights, strict=True):
        assert torch.equal(average, folded(models[a:b], own))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_told_and_harms_no_other(path: str, value: float) -> None:
    models, begin, end, weights = random_stack([2, 3, 3], 9, 0)
    models[3, 4] = value
    found, fine = module.weighted_means(models, begin, end=end, weights=weights)
    assert fine.tolist() == [True, False, True]
    assert torch.equal(found[2], folded(models[5:], weights[2]))


def test_largest_float32_numbers_are_finite(path: str) -> None:
    models = torch.full((4, 50), 3e38)
    found, fine = module.weighted_means(
        models, np.array([0]), end=np.array([4]), weights=[np.full(4, 0.25)]
    )
    assert fine.tolist() == [True]
    assert torch.equal(found[0], models[0])


def test_average_that_overflows_is_not_fine(path: str) -> None:
    models = torch.tensor([[3e38], [-3e38]])
    _, fine = module.weighted_means(
        models, np.array([0]), end=np.array([2]), weights=[np.array([3.0, -2.0])]
    )
    assert fine.tolist() == [False]
    with pytest.raises(UpdateError, match="not finite"):
        folded(models, np.array([3.0, -2.0]))


def test_opposite_infinities_are_not_finite(path: str) -> None:
    models = torch.tensor([[np.inf, -np.inf], [0.0, 0.0]])
    assert module.weighted_means(
        models, np.array([0]), end=np.array([2]), weights=[np.full(2, 0.5)]
    )[1].tolist() == [False]


@pytest.mark.parametrize("plain", [False, True])
@given(RANGES, st.integers(1, 70), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_sums_have_the_bits_of_the_folds(
    plain: bool, lengths: list[int], size: int, seed: int
) -> None:
    models, begin, end, shares = random_stack(lengths, size, seed)
    weights = [2.5 * share for share in shares]
    references = torch.from_numpy(
        np.random.default_rng(seed).standard_normal((len(begin), size)).astype(np.float32)
    )
    with pytest.MonkeyPatch.context() as patch:
        if plain:
            patch.setattr(module, "compiled_kernels", lambda part: None)
        sums, fine = module.weighted_means(
            models, begin, end=end, weights=weights, references=references
        )
    assert fine.all()
    for position, (a, b) in enumerate(zip(begin, end, strict=True)):
        fold = WeightedSum(weights[position], references[position])
        expected = fold.finish(fold.add(fold.start(), np.arange(b - a), models[a:b]))
        assert torch.equal(sums[position], expected)
