"""Tensors in messages: the same bits, type, shape and place in memory, and no cycles."""

import gc
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from fedgs.experiments.cohort_worker import _packed
from fedgs.experiments.transfer import dumps, loads

WAYS: dict[str, Callable[[Any], Any]] = {
    "piece": lambda value: loads(dumps(value, {}), {}),
    "answer": lambda value: pickle.loads(_packed(value)),
}
DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
    torch.uint8, torch.bool, torch.complex64,
]  # fmt: skip
SHAPES = [(), (0,), (1,), (7,), (3, 5), (2, 0, 4), (2, 3, 4)]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    return WAYS[request.param]


class Marked(torch.Tensor):
    """A class of tensors of a user."""


def marked() -> torch.Tensor:
    tensor: Any = torch.ones(3)
    tensor.mark = "kept"
    assert isinstance(tensor, torch.Tensor)
    return tensor


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_of_all_types_and_shapes_arrive_as_they_were(
    way: Callable[[Any], Any], dtype: torch.dtype
) -> None:
    for shape in SHAPES:
        tensor = (torch.arange(24)[: torch.Size(shape).numel()].reshape(shape) - 3).to(dtype)
        (found,) = way((tensor,))
        assert found.dtype == dtype and found.shape == tensor.shape
        assert torch.equal(found, tensor) and found.is_contiguous()
        assert found.data_ptr() % 64 == 0
        found.fill_(1)  # memory of its own, which may be written to


def test_bits_of_nan_and_negative_zero_arrive(way: Callable[[Any], Any]) -> None:
    bits = torch.tensor([0x7FC00001, -0x80000000, 0x7F800000, -1], dtype=torch.int32)
    assert torch.equal(way(bits.view(torch.float32)).view(torch.int32), bits)


def test_other_tensors_are_left_to_pytorch(way: Callable[[Any], Any]) -> None:
    ones = torch.arange(12.0).reshape(3, 4)
    given: list[Any] = [
        ones.T, ones[:, 1], ones.expand(2, 3, 4), ones.to_sparse(), (ones + 1j).conj(),
        ones.clone().requires_grad_(), nn.Parameter(ones), ones.as_subclass(Marked),
        marked(),
    ]  # fmt: skip
    for tensor in given:
        found = way(tensor)
        assert type(found) is type(tensor) and found.requires_grad == tensor.requires_grad
        assert found.layout == tensor.layout and found.__dict__ == tensor.__dict__
        if tensor.layout == torch.strided:
            assert found.stride() == tensor.stride()
        assert torch.equal(found.detach().to_dense(), tensor.detach().to_dense())


def test_a_row_is_sent_without_the_others(way: Callable[[Any], Any]) -> None:
    matrix = torch.zeros(1000, 50)
    assert len(dumps(matrix[3:5], {})) < 1000 and len(_packed(matrix[3:5])) < 1000
    assert way(matrix[3:5]).untyped_storage().nbytes() == 400


def test_one_tensor_in_two_places_stays_one(way: Callable[[Any], Any]) -> None:
    tensor = torch.ones(3)
    one, other = way([tensor, tensor])
    assert one is other


@pytest.mark.parametrize("named", [False, True])
def test_a_message_is_freed_without_the_garbage_collector(
    way: Callable[[Any], Any], named: bool
) -> None:
    gc.collect()
    gc.disable()
    try:
        tensor = torch.ones(1000)
        sent = weakref.ref(tensor)
        if named:
            names, known = {id(tensor): "theta"}, {"theta": tensor}
            found = loads(dumps([tensor], names), known)[0]
            assert found is tensor
            del names, known
        else:
            found = way([tensor])[0]
        arrived = weakref.ref(found)
        del tensor, found
        assert sent() is None and arrived() is None
    finally:
        gc.enable()
