"""Models from functions, and what is no model."""

import pytest
from tests.models.material import federation

from fedgs.errors import ConfigError
from fedgs.models import LSTM, MLP, Model, as_model, check_model, model
from fedgs.models.base import check_size
from fedgs.registry import table, variant_names
from fedgs.sampling import Uniform

torch = pytest.importorskip("torch")
nn = torch.nn


def test_a_registered_function_is_named_in_the_configuration() -> None:
    @model("registered_by_a_test")
    def tiny() -> object:
        return nn.Linear(6, 4)

    assert "registered_by_a_test" in variant_names("model")
    assert table(as_model("registered_by_a_test")) == {"name": "registered_by_a_test"}
    check_model(as_model(tiny), federation((6,)))


def test_an_unnamed_function_is_told_by_where_it_is_defined() -> None:
    def mine() -> object:
        return nn.Linear(6, 4)

    assert table(as_model(mine))["function"].endswith("<locals>.mine")


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"model must be a name, a table with `name` or a \w+ object; got 3"
    ):
        as_model(3)
    with pytest.raises(
        ConfigError, match=r"model.name must be one of .*; got 'logistics'; did you mean 'logistic'"
    ):
        as_model("logistics")


def test_a_model_without_build_is_named() -> None:
    class Empty(Model):
        pass

    with pytest.raises(TypeError, match=r"^Empty must define build\(example_shape, num_labels\)$"):
        Empty().build((4,), 2)


def test_a_variant_of_another_family_is_no_model() -> None:
    with pytest.raises(ConfigError, match="^model must be "):
        as_model(Uniform())


@pytest.mark.parametrize(
    ("large", "shape"), [(MLP(hidden=(10**6,)), (4,)), (LSTM(hidden=1000, embedding=8), (5,))]
)
def test_a_model_that_memory_cannot_hold_is_refused_before_it_is_built(
    large: Model, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedgs.models.base.memory_limit", lambda: 10**8)
    with pytest.raises(ConfigError, match=r"at most 5,000,000 parameters.*0\.1 GB.*got \d+,\d"):
        large.build(shape, 3)
    monkeypatch.setattr("fedgs.models.base.memory_limit", lambda: None)
    check_size(large, 10**9)
