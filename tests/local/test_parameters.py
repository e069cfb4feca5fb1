import numpy as np
import pytest
import torch
from tests.local.material import model_of
from torch import nn

from fedgs.data.federation import Federation
from fedgs.errors import ConfigError
from fedgs.local.parameters import FlatModule, initial_parameters, layout_of, pack
from fedgs.models import LogisticRegression


class Mixed(nn.Module):
    """Parameters, a floating and an integer buffer, and a tensor under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(2)
        self.a = nn.Linear(2, 3)
        self.tied = self.a


def test_layout_holds_parameters_then_floating_buffers() -> None:
    layout = layout_of(Mixed())
    assert [entry.name for entry in layout.parameters] == [
        "norm.weight",
        "norm.bias",
        "a.weight",
        "a.bias",
    ]
    assert [entry.name for entry in layout.buffers] == ["norm.running_mean", "norm.running_var"]
    assert (layout.num_parameters, layout.size) == (2 + 2 + 6 + 3, 13 + 4)


def test_flat_module_shares_its_memory_with_the_vector() -> None:
    flat = FlatModule(Mixed(), torch.device("cpu"))
    flat.load(torch.arange(17.0))
    assert flat.module.a.weight.tolist() == [[4, 5], [6, 7], [8, 9]]
    assert flat.module.tied.bias.tolist() == [10, 11, 12]
    assert flat.module.norm.running_var.tolist() == [15, 16]
    with torch.no_grad():
        flat.module.a.bias += 1
    assert flat.vector[10:13].tolist() == [11, 12, 13]
    assert torch.equal(pack(flat.module), flat.vector)


def test_loading_puts_integer_buffers_back() -> None:
    flat = FlatModule(Mixed(), torch.device("cpu"))
    flat.module.norm(torch.ones(3, 2))
    assert int(flat.module.norm.num_batches_tracked) == 1
    flat.load(torch.zeros(17))
    assert int(flat.module.norm.num_batches_tracked) == 0


def test_initial_parameters_depend_on_the_seed_alone_and_leave_torch_alone(
    federation: Federation,
) -> None:
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = initial_parameters(LogisticRegression(), federation, 4)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(99)
    assert torch.equal(initial_parameters(LogisticRegression(), federation, 4), first)
    assert not torch.equal(initial_parameters(LogisticRegression(), federation, 5), first)
    assert first[15:].tolist() == [0, 0, 0]
    # PyTorch's default is uniform within 1/sqrt(inputs).
    assert float(first[:15].abs().max()) <= 1 / np.sqrt(5)


def test_model_that_builds_something_else_is_refused(federation: Federation) -> None:
    with pytest.raises(ConfigError, match=r"model must build a torch\.nn\.Module, got int"):
        initial_parameters(model_of(lambda: 3), federation, 0)
    with pytest.raises(
        ConfigError, match="model must have at least one parameter to train, got ReLU without any"
    ):
        initial_parameters(model_of(nn.ReLU), federation, 0)
