"""Digests of nested values, the same in every process; parts that cannot be identified."""

import hashlib
import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.identity.conftest import Pair, digest, written

import fedgs
from fedgs.identity import Digester


def test_sets_have_no_order_and_dictionaries_have() -> None:
    assert digest({"a", "b", "c"}) == digest({"c", "a", "b"})
    assert digest({"a": 1, "b": 2}) != digest({"b": 2, "a": 1})


def test_values_that_hold_themselves_have_a_digest() -> None:
    def loop(last: Any) -> list[Any]:
        made: list[Any] = [1]
        made += [made, last]
        return made

    assert digest(loop(2)) == digest(loop(2)) != digest(loop(3))
    one, other = Pair(1), Pair(2)
    one.b, other.b = other, one
    assert digest(one) != digest(other)
    source = "S = set()\ndef f(): return S\nS.add(f)"
    assert digest(written(source)["f"]) == digest(written(source)["f"])


def test_a_hundred_functions_that_call_each_other_take_no_time() -> None:
    calls = " + ".join(f"f{k}()" for k in range(100))
    source = "\n".join(f"def f{k}(): return {k} + {calls}" for k in range(100))
    assert digest(written(source)["f0"]) != digest(written(source)["f1"])


def unknown_objects() -> Iterator[Any]:
    yield socket.socket()
    yield (number for number in range(3))
    yield iter([1])
    yield open(os.devnull)  # noqa: SIM115
    yield np.random.default_rng(0)
    yield random.Random(0)
    yield torch.Generator()
    yield subprocess.Popen  # by name: known


@pytest.mark.parametrize(
    "thing", list(unknown_objects())[:-1], ids=lambda thing: type(thing).__name__
)
@pytest.mark.parametrize(
    "where", ["global", "closure", "default", "attribute", "element", "method"]
)
def test_what_cannot_be_identified_is_named_wherever_it_is(thing: Any, where: str) -> None:
    functions = {
        "global": written("def f(): return THING", THING=thing)["f"],
        "closure": (lambda given: lambda: given)(thing),
        "default": written("def f(x=THING): return x", THING=thing)["f"],
        "attribute": Pair(1, thing),
        "element": [{"a": (thing,)}],
        "method": written("class f:\n THING = T\n def a(self): return self.THING", T=thing)["f"],
    }
    (description,) = Digester().of(functions[where]).unknown
    assert type(thing).__qualname__ in description


def test_digests_are_the_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("NAMES = {'a', 'b', 'c'}\ndef w(x): return x in NAMES\n")
    (tmp_path / "program.py").write_text(
        "import functools, numpy as np, torch, helper\n"
        "from fedgs.identity import Digester\n"
        "W = frozenset(['x', 'y', 'z'])\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self, width=3):\n"
        "        super().__init__()\n"
        "        self.inner = torch.nn.Linear(2, width)\n"
        "    def forward(self, x): return self.inner(x) if 'x' in {'x', 'y'} else W\n"
        "torch.manual_seed(0)\n"
        "values = [Net, Net(), lambda: Net(4), functools.partial(Net, 5), helper.w]\n"
        "values += [{'p', 'q', 'r'}, np.arange(3), W]\n"
        "print([Digester().of(value) for value in values])\n"
    )
    source = str(Path(fedgs.__file__).parents[1])
    outputs = []
    for seed, where in (("1", tmp_path), ("2", tmp_path.parent)):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": source}
        command = [sys.executable, str(tmp_path / "program.py")]
        done = subprocess.run(
            command,
            cwd=where,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1] and outputs[0].count("unknown=()") == 8


def test_files_are_hashed_by_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    assert Digester().file(tmp_path / "a") == hashlib.sha256(b"x").hexdigest()


def test_parts_that_cannot_be_identified_are_named_in_sets_too() -> None:
    assert Digester().of({iter([1])}).unknown == ("the value (builtins.list_iterator)",)
    assert Digester().of({"a": {iter([1])}}).unknown == ("the value['a'] (builtins.list_iterator)",)


def test_values_that_are_nested_too_deeply_are_not_identified() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert Digester().of(deep).unknown == ("values that are nested too deeply",)


def test_a_digester_remembers_what_it_has_seen(tmp_path: Path) -> None:
    digester, table = Digester(), {"a": [np.arange(3)]}
    assert digester.of(table) is digester.of(table)
    (tmp_path / "a").write_bytes(b"x")
    first = digester.file(tmp_path / "a")
    (tmp_path / "a").write_bytes(b"y")
    assert digester.file(tmp_path / "a") == first


def test_a_dictionary_that_holds_itself_has_a_digest() -> None:
    first: dict[str, Any] = {"a": 1}
    first["b"] = first
    other: dict[str, Any] = {"a": 2}
    other["b"] = other
    assert digest(first) != digest(other)
