"""Modules that are equal in every process."""

import pytest

from fedgs.errors import ConfigError
from fedgs.models import LogisticRegression, as_model
from fedgs.models.fresh import difference, fresh_module

torch = pytest.importorskip("torch")
nn = torch.nn


def test_one_seed_gives_equal_modules_and_leaves_the_generators_alone() -> None:
    before = torch.random.get_rng_state()
    first, again, other = (fresh_module(LogisticRegression(), (6,), 4, seed) for seed in (1, 1, 2))
    assert difference(first, again) is None
    assert difference(first, other) == "weight"
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_function_that_always_returns_one_module_gives_copies() -> None:
    shared = nn.Linear(6, 4)
    module = fresh_module(as_model(lambda: shared), (6,), 4, 0)
    assert module is not shared
    assert difference(module, shared) is None


def test_lazy_layers_get_their_sizes_from_the_examples() -> None:
    module = fresh_module(
        as_model(lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(4))), (2, 3), 4, 0
    )
    assert module[1].weight.shape == (4, 6)
    assert module.training


def test_lazy_layers_that_do_not_fit_are_named() -> None:
    lazy = as_model(lambda: nn.Sequential(nn.LazyConv2d(4, 3), nn.Flatten()))
    with pytest.raises(ConfigError, match=r"take their sizes from the first examples, and cannot"):
        fresh_module(lazy, (6,), 4, 0)


def test_parameters_without_values_are_refused() -> None:
    with pytest.raises(
        ConfigError, match="must have parameters with values, got some on .* 'meta'"
    ):
        fresh_module(as_model(lambda: nn.Linear(6, 4, device="meta")), (6,), 4, 0)


def test_a_parameter_that_only_one_module_has_is_a_difference() -> None:
    assert difference(nn.Linear(6, 4), nn.Linear(6, 4, bias=False)) is not None
    plain = nn.Sequential(nn.Identity())
    assert difference(plain, nn.Sequential(nn.Linear(1, 1))) == "0.weight"
