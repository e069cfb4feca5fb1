"""The interface of data sets."""

import pytest

from fedgs.data import Data, Synthetic
from fedgs.registry import variant_class, variant_names


@pytest.mark.parametrize("name", variant_names("data"))
def test_every_data_set_names_what_stands_where_nothing_is_given(name: str) -> None:
    kind = variant_class("data", name)
    assert issubclass(kind, Data)
    needed = {key: "some" for key, field in kind.model_fields.items() if field.is_required()}
    data = kind(**needed)
    assert data.title
    assert data.seed == 0
    defaults = data.defaults_for(Synthetic(clients=2).load())
    assert set(defaults.training) == {
        "rounds",
        "proportion",
        "batch_size",
        "local_steps",
        "learning_rate",
    }
    assert defaults.model is not None


@pytest.mark.parametrize(
    ("name", "model", "row"),
    [
        ("synthetic", "logistic", (1000, 0.2, 10, 10, 0.1)),
        ("cifar10", "cifar_cnn", (1000, 0.1, 32, 10, 0.03)),
        ("fashion_mnist", "fashion_cnn", (500, 0.1, 32, 10, 0.1)),
    ],
)
def test_the_papers_settings(name: str, model: str, row: tuple[float, ...]) -> None:
    defaults = variant_class("data", name).defaults  # type: ignore[attr-defined]
    keys = ("rounds", "proportion", "batch_size", "local_steps", "learning_rate")
    assert (defaults.model, tuple(defaults.training[key] for key in keys)) == (model, row)


def test_a_data_set_without_load_says_so() -> None:
    with pytest.raises(TypeError, match=r"Data must define load\(data_dir\)"):
        Data().load()


def test_a_data_set_is_called_by_its_name() -> None:
    class Mine(Data):
        name = "mine"

    assert Mine().title == "mine"
