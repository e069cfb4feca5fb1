"""Values count by content; objects of libraries by name and version."""

import enum
import logging
import re
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import BaseModel, PrivateAttr
from tests.identity.conftest import Pair, digest, written
from torch import nn

import fedgs
from fedgs import solver
from fedgs.identity import Digester


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Settings(BaseModel):
    a: int = 1
    b: list[float] = []


class Hidden(BaseModel):
    _a: int = PrivateAttr(1)


class Tagged(np.ndarray):
    tag: int


def hidden(value: int) -> Hidden:
    made = Hidden()
    made._a = value
    return made


def tagged(value: int) -> Tagged:
    made = np.arange(3).view(Tagged)
    made.tag = value
    return made


def with_private_default(value: int) -> type[BaseModel]:
    class Cls(BaseModel):
        _a: int = PrivateAttr(value)

    return Cls


def filled(module: nn.Module, value: float = 1.0) -> nn.Module:
    for parameter in module.parameters():
        nn.init.constant_(parameter, value)
    return module


VALUES: dict[str, Callable[[], list[Any]]] = {
    "plain": lambda: [
        None, True, 1, 1.0, 2, "1", b"1", 1j, "", [], (), {}, set(), [1], (1,), {1: 1}, {1}, ...,
    ],
    "nested": lambda: [
        [[1], [2]], [[1, 2]], [[1], 2], [1, [2]], {"a": [1]}, {"a": (1,)}, {"b": [1]}, [{"a": 1}],
    ],
    "arrays": lambda: [
        np.arange(4), np.arange(4.0), np.arange(4, dtype=np.int32), np.arange(4).reshape(2, 2),
        np.arange(4)[::-1], np.array([1, 2], dtype=object), np.array([1, 3], dtype=object),
        np.float32(1), np.float64(1), np.dtype("f4"), np.dtype("f8"),
        np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[1, 0]), tagged(1), tagged(2),
    ],
    "tensors": lambda: [
        torch.arange(4), torch.arange(4.0), torch.arange(4).reshape(2, 2),
        torch.ones(2, dtype=torch.bfloat16), torch.zeros(2),
    ],
    "modules": lambda: [
        filled(nn.Linear(2, 2)), filled(nn.Linear(2, 2), 0.5), filled(nn.Linear(2, 2, bias=False)),
        filled(nn.Conv2d(1, 1, 2)), nn.Sequential(filled(nn.Linear(2, 2)), nn.ReLU()),
        nn.Sequential(filled(nn.Linear(2, 2)), nn.Tanh()), nn.Dropout(0.1), nn.Dropout(0.2),
        filled(nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))),
        filled(nn.Linear(2, 2)).requires_grad_(False), filled(nn.LSTM(2, 2)),
        filled(nn.LSTM(2, 2), 0.5), filled(nn.GRU(2, 2)),
    ],
    "objects": lambda: [
        hidden(1), hidden(2), with_private_default(1), with_private_default(2), Colour.RED,
        Colour.BLUE, Settings(), Settings(a=2), Settings(b=[1.0]), Pair(1), Pair(2), Pair(1, 2),
        Pair(Pair(1)), Path("a"), Path("b"), re.compile("a"), re.compile("b"), range(3), range(4),
        slice(1, 2), slice(1, 3), types.SimpleNamespace(a=1), types.SimpleNamespace(a=2),
    ],
    "names": lambda: [
        np.add, np.subtract, len, max, nn.Linear, nn.Conv2d, torch.relu, torch.tanh, int, np, torch,
        "numpy",
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", VALUES)
def test_values_count_by_content(kind: str) -> None:
    first, again = ([digest(value) for value in VALUES[kind]()] for _ in range(2))
    assert first == again
    assert len(set(first)) == len(first)


@pytest.mark.parametrize(
    "thing",
    [threading.Lock(), threading.RLock(), logging.getLogger("x"), print, np, Any],
)
def test_what_changes_no_number_is_no_obstacle(thing: Any) -> None:
    digest(written("def f(): return THING", THING=thing)["f"])


def test_what_uses_the_solver_has_its_numerics_version(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = [
        written("def f(d): return fedgs.select(d)", fedgs=fedgs)["f"],
        written("def f(d): return select(d)", select=fedgs.select)["f"],
        written("class f(FedGS): pass", FedGS=fedgs.FedGS)["f"],
        written("def f(d): return fedgs.Uniform()", fedgs=fedgs)["f"],
    ]
    before = [digest(function) for function in functions]
    monkeypatch.setattr(solver, "NUMERICS", solver.NUMERICS + 1)
    after = [digest(function) for function in functions]
    # A subclass of FedGS has the version by its property `numerics`, see test_fingerprint.
    assert [a != b for a, b in zip(before, after, strict=True)] == [True, True, False, False]


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (bytearray(b"a"), bytearray(b"b")),
        (compile("1 + x", "a", "eval"), compile("1 - y", "a", "eval")),
        (list[int], list[float]),
        (int | str, int | bytes),
        (types.MappingProxyType({1: 2}), types.MappingProxyType({1: 3})),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_of_a_kind_of_their_own_differ(first: object, other: object) -> None:
    assert digest(first) == digest(first) != digest(other)


def test_a_compiled_function_counts_by_its_source() -> None:
    numba = pytest.importorskip("numba")
    first, other = (numba.njit(written(f"def f(x): return x + {number}")["f"]) for number in (1, 2))
    assert digest(first) == digest(first) != digest(other)


def test_tensors_without_plain_storage_are_named() -> None:
    (description,) = Digester().of(torch.eye(2).to_sparse()).unknown
    assert description == "the value (torch.Tensor)"
