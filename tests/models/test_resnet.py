"""The residual network and the perceptron, and their training step by step."""

import pytest
from tests.local.material import make_federation, replies, train_request
from tests.oracles import local_sgd

from fedgs.errors import ConfigError
from fedgs.models import MLP, Model, ResNet8

torch = pytest.importorskip("torch")
nn = torch.nn

from fedgs.local import LoopEngine, StackedEngine  # noqa: E402
from fedgs.local.parameters import build_module  # noqa: E402
from fedgs.local.stacking import why_not_stackable  # noqa: E402
from fedgs.requests import Work  # noqa: E402


def test_resnet8_has_the_layers_of_its_publication() -> None:
    module = ResNet8().build((3, 32, 32), 10)
    main = [
        layer
        for name, layer in module.named_modules()
        if isinstance(layer, nn.Conv2d | nn.Linear) and "shortcut" not in name
    ]
    assert len(main) == 8  # 6n + 2 with n = 1
    sides: list[int] = []
    for layer in module.modules():
        if isinstance(layer, nn.GroupNorm):
            assert layer.num_groups == 8
            layer.register_forward_hook(lambda _, __, out: sides.append(out.shape[-1]))
    assert module(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    # One after the first convolution, two a block, and one in each shortcut that changes the shape.
    assert sides == [32] + [32] * 2 + [16] * 3 + [8] * 3
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in module.modules())


def test_a_block_adds_its_input() -> None:
    """Where the last convolution is 0, so is the branch, since a new norm has bias 0."""
    block = ResNet8().build((3, 8, 8), 4)[3]
    nn.init.zeros_(block.conv2.weight)
    x = torch.randn(2, 16, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(block(x), torch.relu(x))


def test_the_default_perceptron_is_the_published_one() -> None:
    # 784·200+200 + 200·200+200 + 200·10+10
    module = MLP().build((1, 28, 28), 10)
    assert sum(parameter.numel() for parameter in module.parameters()) == 199_210
    assert [type(layer) for layer in MLP(hidden=5).build((6,), 2)] == [
        nn.Linear,
        nn.ReLU,
        nn.Linear,
    ]
    assert MLP(hidden=()).build((6,), 2)(torch.zeros(1, 6)).shape == (1, 2)


@pytest.mark.parametrize("engine", [LoopEngine, StackedEngine])
@pytest.mark.parametrize(
    ("model", "shape"), [(ResNet8(groups=4), (2, 8, 8)), (MLP(hidden=(7, 6)), (2, 3, 3))]
)
def test_training_equals_a_plain_loop_of_pytorch(
    engine: type, model: Model, shape: tuple[int, ...]
) -> None:
    federation = make_federation((9, 5), example_shape=shape, pixels=True)
    for local_steps in (1, 2, 3):  # step by step
        work = Work(federation, model, 0.01, local_steps, 4)
        ((_, models),) = replies(engine(), train_request(work, [0, 1]))
        for client in (0, 1):
            expected = local_sgd.local_model(
                build_module(model, federation),
                federation,
                client=client,
                key=(0, 0),
                mu=0.01,
                local_steps=local_steps,
                batch_size=4,
                learning_rate=0.1,
            )
            torch.testing.assert_close(models[client], expected, rtol=1e-3, atol=1e-5)


def test_both_can_be_stacked() -> None:
    assert why_not_stackable(ResNet8().build((3, 8, 8), 4), (3, 8, 8)) is None
    assert why_not_stackable(MLP().build((6,), 4), (6,)) is None


def test_settings_and_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"model.groups should be 1, 2, 4, 8 or 16, got 3"):
        ResNet8(groups=3)
    with pytest.raises(ConfigError, match=r"'resnet8' takes images .* at least 8x8, got .*\(6,\)"):
        ResNet8().build((6,), 4)
    for hidden in (0, [4, 0], "many", [True], 2.0):
        with pytest.raises(ConfigError, match=r"model.hidden must be an integer >= 1 or a list"):
            MLP(hidden=hidden)
