"""The check of a model before round 0."""

from collections.abc import Callable

import pytest
from tests.models.material import federation

from fedgs.errors import ConfigError
from fedgs.models import LogisticRegression, Model, as_model, check_model
from fedgs.registry import variant_names

torch = pytest.importorskip("torch")
nn = torch.nn


def test_every_built_in_model_passes_the_check_on_a_federation_that_fits() -> None:
    fits = {"logistic": (6,), "cifar_cnn": (3, 16, 16), "fashion_cnn": (1, 8, 8)}
    fits |= {"resnet8": (3, 8, 8), "mlp": (6,)}
    assert set(fits) <= set(variant_names("model"))
    for name, shape in fits.items():
        check_model(as_model(name), federation(shape))


def own(*layers: object) -> Model:
    def mine() -> object:
        return nn.Sequential(*layers)

    return as_model(mine)


class Broken(nn.Module):
    """Raises in its own forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 4)

    def forward(self, x: object) -> object:
        raise KeyError("my own mistake")


class Pair(nn.Linear):
    """Returns two tensors."""

    def forward(self, x: object) -> object:
        return super().forward(x), x


def test_a_function_that_returns_a_module_fits() -> None:
    check_model(own(nn.Linear(6, 4)), federation((6,)))
    check_model(own(nn.Flatten(), nn.Linear(48, 4)), federation((3, 4, 4)))


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        (
            own(nn.Linear(6, 5)),
            r"model 'mine' must map a batch \(2, 6\) to logits \(2, 4\), one for each of the 4 "
            r"labels; got \(2, 5\); where the data lack the last labels, give them classes = 5$",
        ),
        (
            own(nn.Linear(7, 4)),
            r"model 'mine' cannot take examples of shape \(6,\) \(a batch is \(2, 6\) float32\): "
            r"mat1 and mat2",
        ),
        (
            as_model(lambda: Broken()),
            r"model '<lambda>' cannot take examples of shape \(6,\).*my own mistake",
        ),
        (as_model(lambda: Pair(6, 4)), r"must return a tensor of shape \(2, 4\), got tuple"),
        (as_model(lambda: 3), r"model '<lambda>' must build a torch.nn.Module, got int"),
        (own(nn.Flatten()), "model 'mine' has no parameter to train"),
        (
            own(nn.Linear(6, 4), nn.LogSoftmax(dim=0), nn.Threshold(1e9, float("nan"))),
            "must return finite floating-point logits",
        ),
    ],
)
def test_what_does_not_fit_is_one_sentence_with_the_shapes(variant: Model, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_model(variant, federation((6,)))


def test_the_users_own_exception_is_kept_as_the_cause() -> None:
    with pytest.raises(ConfigError) as caught:
        check_model(as_model(lambda: Broken()), federation((6,)))
    assert isinstance(caught.value.__cause__, KeyError)


def test_the_check_leaves_the_random_state_as_it_was() -> None:
    before = torch.random.get_rng_state()
    check_model(as_model(lambda: nn.Sequential(nn.Linear(6, 4), nn.Dropout())), federation((6,)))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_single_training_example_is_enough() -> None:
    check_model(LogisticRegression(), federation((6,), labels=1, examples=1))


class _Doubling(nn.Module):  # type: ignore[misc, name-defined]
    """It takes float32 as it is built, and nothing once it is trained in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(60, 4).double()

    def forward(self, x: object) -> object:
        return self.layer(x.double())  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "build", [lambda: nn.Linear(60, 4).double(), lambda: nn.Linear(60, 4).half(), _Doubling]
)
def test_a_module_that_is_not_in_float32_is_told_to_be(build: Callable[[], object]) -> None:
    def wide() -> object:
        return build()

    message = (
        r"must take and hold float32, .* got float(64|16) in .*weight'; return module.float\(\)"
    )
    with pytest.raises(ConfigError, match=message):
        check_model(as_model(wide), federation((60,)))
