"""The paper's models, users' own functions, and the check before round 0."""

from collections.abc import Callable

import numpy as np
import pytest

from fedgs.data import Federation, Normalization
from fedgs.errors import ConfigError
from fedgs.models import CifarCNN, FashionCNN, LogisticRegression, as_model, check_model, model
from fedgs.registry import table, variant_names

torch = pytest.importorskip("torch")
nn = torch.nn


def federation(shape: tuple[int, ...], labels: int = 4, examples: int = 6) -> Federation:
    """Two clients with uint8 images or float vectors of the given shape."""
    rng = np.random.default_rng(0)
    images = len(shape) == 3
    x = rng.integers(0, 256, (examples, *shape)).astype(np.uint8 if images else np.float32)
    y = np.arange(examples) % labels
    y[-1] = labels - 1
    scaling = Normalization(255.0, (0.5,) * shape[0], (0.5,) * shape[0]) if images else None
    return Federation.from_arrays(
        x, y, client=np.arange(examples) % 2, test=(x, y), normalization=scaling
    )


@pytest.mark.parametrize(
    ("variant", "shape", "parameters"),
    [
        (LogisticRegression(), (60,), 60 * 10 + 10),
        # 3·64·25+64, 64·64·25+64, 64·5·5 = 1600: 1600·384+384, 384·192+192, 192·10+10
        (CifarCNN(), (3, 32, 32), 4864 + 102464 + 614784 + 73920 + 1930),
        # 32·25+32, 32·64·25+64, 64·7·7 = 3136: 3136·512+512, 512·10+10
        (FashionCNN(), (1, 28, 28), 832 + 51264 + 1606144 + 5130),
    ],
)
def test_the_papers_models_have_their_parameters(
    variant: object, shape: tuple[int, ...], parameters: int
) -> None:
    module = variant.build(shape, 10)  # type: ignore[attr-defined]
    assert sum(parameter.numel() for parameter in module.parameters()) == parameters
    kinds = {type(layer) for layer in module.modules()}
    assert not kinds & {nn.Dropout, nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm}
    assert module(torch.zeros(5, *shape)).shape == (5, 10)


def test_logistic_regression_starts_with_zero_bias_and_flattens_images() -> None:
    module = LogisticRegression().build((1, 4, 4), 3)
    assert module(torch.zeros(2, 1, 4, 4)).abs().max() == 0  # zero bias, zero input
    assert module[1].weight.abs().max() > 0


def test_pooling_before_relu_is_the_same_function_as_after() -> None:
    x = torch.randn(4, 3, 10, 10, generator=torch.Generator().manual_seed(0))
    pool, relu = nn.MaxPool2d(2), nn.ReLU()
    assert torch.equal(relu(pool(x)), pool(relu(x)))


@pytest.mark.parametrize(
    ("variant", "shape"),
    [(CifarCNN(), (3, 15, 15)), (FashionCNN(), (1, 3, 28)), (CifarCNN(), (60,))],
)
def test_examples_that_a_cnn_cannot_take_are_named_with_their_shape(
    variant: object, shape: tuple[int, ...]
) -> None:
    with pytest.raises(
        ConfigError,
        match=r"takes images \(channels, height, width\) of at least .* got examples of shape \(",
    ):
        variant.build(shape, 10)  # type: ignore[attr-defined]


def test_every_built_in_model_passes_the_check_on_a_federation_that_fits() -> None:
    fits = {"logistic": (6,), "cifar_cnn": (3, 16, 16), "fashion_cnn": (1, 8, 8)}
    assert set(fits) <= set(variant_names("model"))
    for name, shape in fits.items():
        check_model(as_model(name), federation(shape))


def own(*layers: object) -> object:
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
    check_model(own(nn.Linear(6, 4)), federation((6,)))  # type: ignore[arg-type]
    check_model(own(nn.Flatten(), nn.Linear(48, 4)), federation((3, 4, 4)))  # type: ignore[arg-type]


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
def test_what_does_not_fit_is_one_sentence_with_the_shapes(variant: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_model(variant, federation((6,)))  # type: ignore[arg-type]


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


def test_a_registered_function_is_named_in_the_configuration() -> None:
    @model("registered_by_a_test")
    def tiny() -> object:
        return nn.Linear(6, 4)

    assert "registered_by_a_test" in variant_names("model")
    assert table(as_model("registered_by_a_test")) == {"name": "registered_by_a_test"}
    check_model(as_model(tiny), federation((6,)))


def test_an_unnamed_function_is_told_by_where_it_is_defined() -> None:
    assert table(own(nn.Linear(6, 4)))["function"].endswith("own.<locals>.mine")  # type: ignore[arg-type]


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"model must be a name, a table with `name` or a \w+ object; got 3"
    ):
        as_model(3)
    with pytest.raises(
        ConfigError, match=r"model.name must be one of .*; got 'logistics'; did you mean 'logistic'"
    ):
        as_model("logistics")


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
