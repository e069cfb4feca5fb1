"""The paper's networks."""

import pytest

from fedgs.errors import ConfigError
from fedgs.models import CifarCNN, FashionCNN, LogisticRegression, Model

torch = pytest.importorskip("torch")
nn = torch.nn


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
    variant: Model, shape: tuple[int, ...], parameters: int
) -> None:
    module = variant.build(shape, 10)
    assert sum(parameter.numel() for parameter in module.parameters()) == parameters
    kinds = {type(layer) for layer in module.modules()}
    assert not kinds & {nn.Dropout, nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm}
    assert module(torch.zeros(5, *shape)).shape == (5, 10)


def test_pooling_before_relu_is_the_same_function_as_after() -> None:
    x = torch.randn(4, 3, 10, 10, generator=torch.Generator().manual_seed(0))
    pool, relu = nn.MaxPool2d(2), nn.ReLU()
    assert torch.equal(relu(pool(x)), pool(relu(x)))


@pytest.mark.parametrize(
    ("variant", "shape"),
    [(CifarCNN(), (3, 15, 15)), (FashionCNN(), (1, 3, 28)), (CifarCNN(), (60,))],
)
def test_examples_that_a_cnn_cannot_take_are_named_with_their_shape(
    variant: Model, shape: tuple[int, ...]
) -> None:
    with pytest.raises(
        ConfigError,
        match=r"takes images \(channels, height, width\) of at least .* got examples of shape \(",
    ):
        variant.build(shape, 10)
