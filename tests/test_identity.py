"""Digests of content: equal in every process, different for different content.

Content that cannot be identified is named.
"""

import dataclasses
import enum
import functools
import hashlib
import importlib
import os
import random
import re
import socket
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import BaseModel, PrivateAttr
from torch import nn

import fedgs
from fedgs import solver
from fedgs.identity import Digester
from fedgs.registry import Variant


def digest(value: Any) -> str:
    found = Digester().of(value)
    assert found.unknown == ()
    return found.value


def written(source: str, **names: Any) -> dict[str, Any]:
    """The names that some code defines, as in a program of the user's own."""
    space = {"__name__": "__main__", **names}
    exec(source, space)
    return space


POINT = "from pydantic.dataclasses import dataclass\n@dataclass\nclass Point:\n x: int\n"
DECORATOR = "import functools\ndef d(g):\n @functools.wraps(g)\n def w(): return g()\n return w\n"
DISPATCHED = "import functools\n@functools.singledispatch\ndef f(x): return 1\n"
CALLABLE = "class C:\n def __init__(self, w): self.w = w\n def __call__(self): return self.w\n"

# Functions: each pair of programs does something else, though names, files and lines are the same.
OTHERS = {
    "code": ("def f(x): return x + 1", "def f(x): return x - 1"),
    "constant": ("def f(x): return x + 1", "def f(x): return x + 2"),
    "type of a constant": ("def f(): return 1", "def f(): return 1.0"),
    "sign of zero": ("def f(): return 0.0", "def f(): return -0.0"),
    "attribute name": ("def f(x): return x.real", "def f(x): return x.imag"),
    "default": ("def f(x=1): return x", "def f(x=2): return x"),
    "keyword default": ("def f(*, x=1): return x", "def f(*, x=2): return x"),
    "order of parameters": ("def f(x, y): return x", "def f(y, x): return x"),
    "closure": ("def m(w):\n return lambda: w\nf = m(1)", "def m(w):\n return lambda: w\nf = m(2)"),
    "closure of a closure": (
        "def m(w):\n def g(): return w\n return lambda: g()\nf = m(1)",
        "def m(w):\n def g(): return w\n return lambda: g()\nf = m(2)",
    ),
    "pydantic dataclass": (
        f"{POINT}P = Point(1)\ndef f(): return P.x",
        f"{POINT}P = Point(2)\ndef f(): return P.x",
    ),
    "cached function": (
        "import functools\n@functools.lru_cache\ndef g(): return 1\ndef f(): return g()",
        "import functools\n@functools.lru_cache\ndef g(): return 2\ndef f(): return g()",
    ),
    "global": ("W = 1\ndef f(): return W", "W = 2\ndef f(): return W"),
    "global in an inner function": (
        "W = 1\ndef f(): return [lambda: W]",
        "W = 2\ndef f(): return [lambda: W]",
    ),
    "global of a called function": (
        "W = 1\ndef g(): return W\ndef f(): return g()",
        "W = 2\ndef g(): return W\ndef f(): return g()",
    ),
    "called function": (
        "def g(): return 1\ndef f(): return g()",
        "def g(): return 2\ndef f(): return g()",
    ),
    "lambda": ("f = lambda: 1", "f = lambda: 2"),
    "second lambda of a line": ("f = [lambda: 0, lambda: 1]", "f = [lambda: 0, lambda: 2]"),
    "partial": (
        "import functools\nf = functools.partial(pow, 2)",
        "import functools\nf = functools.partial(pow, 3)",
    ),
    "keyword of a partial": (
        "import functools\nf = functools.partial(int, base=2)",
        "import functools\nf = functools.partial(int, base=3)",
    ),
    "decorated": (
        DECORATOR + "@d\ndef f(): return 1",
        DECORATOR + "@d\ndef f(): return 2",
    ),
    "cached": (
        "import functools\n@functools.cache\ndef f(): return 1",
        "import functools\n@functools.cache\ndef f(): return 2",
    ),
    "dispatched": (
        DISPATCHED + "@f.register\ndef _(x: int): return 1",
        DISPATCHED + "@f.register\ndef _(x: int): return 2",
    ),
    "function attribute": ("def f(): return f.w\nf.w = 1", "def f(): return f.w\nf.w = 2"),
    "recursion": ("def f(n): return f(n - 1) if n else 1", "def f(n): return f(n - 1) if n else 2"),
    "mutual recursion": (
        "def f(n): return g(n)\ndef g(n): return f(n) if n else 1",
        "def f(n): return g(n)\ndef g(n): return f(n) if n else 2",
    ),
    "method": ("class f:\n def a(self): return 1", "class f:\n def a(self): return 2"),
    "static method": (
        "class f:\n @staticmethod\n def a(): return 1",
        "class f:\n @staticmethod\n def a(): return 2",
    ),
    "class method": (
        "class f:\n @classmethod\n def a(cls): return 1",
        "class f:\n @classmethod\n def a(cls): return 2",
    ),
    "property": (
        "class f:\n @property\n def a(self): return 1",
        "class f:\n @property\n def a(self): return 2",
    ),
    "class attribute": ("class f: a = 1", "class f: a = 2"),
    "base": ("class b: a = 1\nclass f(b): pass", "class b: a = 2\nclass f(b): pass"),
    "metaclass": (
        "class m(type):\n def n(cls): return 1\nclass f(metaclass=m): pass",
        "class m(type):\n def n(cls): return 2\nclass f(metaclass=m): pass",
    ),
    "super": (
        "class b:\n def a(self): return 1\nclass f(b):\n def a(self): return super().a()",
        "class b:\n def a(self): return 2\nclass f(b):\n def a(self): return super().a()",
    ),
    "state of a callable": (
        CALLABLE + "f = C(1)",
        CALLABLE + "f = C(2)",
    ),
    "slots": (
        "class C:\n __slots__ = ('w',)\nf = C()\nf.w = 1",
        "class C:\n __slots__ = ('w',)\nf = C()\nf.w = 2",
    ),
    "bound method": (
        "class C:\n def __init__(self, w): self.w = w\n def a(self): return self.w\nf = C(1).a",
        "class C:\n def __init__(self, w): self.w = w\n def a(self): return self.w\nf = C(2).a",
    ),
    "list subclass": ("class L(list): pass\nf = L([1])", "class L(list): pass\nf = L([2])"),
    "dict subclass": ("class D(dict): pass\nf = D(a=1)", "class D(dict): pass\nf = D(a=2)"),
    "default factory": (
        "from dataclasses import dataclass, field\n"
        "@dataclass\nclass f:\n a: list = field(default_factory=list)",
        "from dataclasses import dataclass, field\n"
        "@dataclass\nclass f:\n a: list = field(default_factory=dict)",
    ),
    "dataclass": (
        "import dataclasses\n@dataclasses.dataclass\nclass C:\n a: int = 1\nf = C()",
        "import dataclasses\n@dataclasses.dataclass\nclass C:\n a: int = 2\nf = C()",
    ),
    "enumeration": (
        "import enum\nclass E(enum.Enum):\n A = 1\ndef f(): return E.A",
        "import enum\nclass E(enum.Enum):\n A = 2\ndef f(): return E.A",
    ),
    "named tuple": (
        "from collections import namedtuple\nf = namedtuple('P', 'a b')(1, 2)",
        "from collections import namedtuple\nf = namedtuple('P', 'a b')(1, 3)",
    ),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_does_something_else_has_another_digest(kind: str) -> None:
    one, other = (digest(written(source)["f"]) for source in OTHERS[kind])
    assert one != other
    assert digest(written(OTHERS[kind][0])["f"]) == one


@pytest.mark.parametrize(
    "source",
    [
        "def f(x, y=2): return x + y * W",
        "\n\n\ndef f(x, y=2):  # other lines, a comment\n    return x + y * W",
        "def g(x, y=2): return x + y * W\nf = g",
        "UNUSED = 5\ndef f(x, y=2): return x + y * W",
    ],
)
def test_name_lines_and_what_is_not_referred_to_do_not_count(source: str) -> None:
    assert digest(written(source, W=3)["f"]) == digest(
        written("def f(x, y=2): return x + y * W", W=3)["f"]
    )


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Settings(BaseModel):
    a: int = 1
    b: list[float] = []


@dataclasses.dataclass
class Pair:
    a: Any
    b: Any = None


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


def filled(module: nn.Module, value: float = 1.0) -> nn.Module:
    for parameter in module.parameters():
        nn.init.constant_(parameter, value)
    return module


@pytest.mark.parametrize("kind", VALUES)
def test_values_count_by_content(kind: str) -> None:
    first, again = ([digest(value) for value in VALUES[kind]()] for _ in range(2))
    assert first == again
    assert len(set(first)) == len(first)


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


def test_values_of_cached_properties_do_not_count() -> None:
    class Lazy:
        def __init__(self, a: int) -> None:
            self.a = a

        @functools.cached_property
        def twice(self) -> int:
            return 2 * self.a

    used = Lazy(1)
    assert used.twice == 2
    assert digest(used) == digest(Lazy(1)) != digest(Lazy(2))


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
    (told,) = Digester().of(functions[where]).unknown
    assert type(thing).__qualname__ in told


@pytest.mark.parametrize(
    "thing",
    [threading.Lock(), threading.RLock(), __import__("logging").getLogger("x"), print, np, Any],
)
def test_what_changes_no_number_is_no_obstacle(thing: Any) -> None:
    digest(written("def f(): return THING", THING=thing)["f"])


def test_an_object_that_makes_up_its_attributes_has_a_digest() -> None:
    source = "class C:\n def __getattr__(self, name): raise RuntimeError(name)\nf = C()\nf.w = W"
    assert (
        digest(written(source, W=1)["f"])
        == digest(written(source, W=1)["f"])
        != digest(written(source, W=2)["f"])
    )


def test_an_object_may_tell_its_content_itself() -> None:
    class Connected:
        def __init__(self, digest: str) -> None:
            self.socket = socket.socket()
            self.content_digest = digest

    assert digest(Connected("a")) == digest(Connected("a")) != digest(Connected("b"))


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


# Modules of the user's own


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder at the front of sys.path; what is imported from it is forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    forget()


def forget() -> None:
    for name in [name for name in sys.modules if name.startswith("idm_")]:
        del sys.modules[name]
    importlib.invalidate_caches()


def fresh(name: str, attribute: str) -> str:
    """The digest of what a module defines, as a new process finds it."""
    forget()
    return digest(getattr(importlib.import_module(name), attribute))


PROGRAMS = {
    "direct": {
        "idm_main.py": "import idm_help\ndef f(): return idm_help.w()",
        "idm_help.py": "def w(): return 1",
    },
    "from": {
        "idm_main.py": "from idm_help import w\ndef f(): return w()",
        "idm_help.py": "def w(): return 1",
    },
    "nested": {
        "idm_main.py": "import idm_mid\ndef f(): return idm_mid.w()",
        "idm_mid.py": "from idm_help import w",
        "idm_help.py": "def w(): return 1",
    },
    "lazy": {
        "idm_main.py": "def f():\n import idm_help\n return idm_help.w()",
        "idm_help.py": "def w(): return 1",
    },
    "lazy of lazy": {
        "idm_main.py": "def f():\n import idm_mid\n return idm_mid.w()",
        "idm_mid.py": "def w():\n from idm_help import w\n return w()",
        "idm_help.py": "def w(): return 1",
    },
    "by import_module": {
        "idm_main.py": "import importlib\ndef f(): return importlib.import_module('idm_help').w()",
        "idm_help.py": "def w(): return 1",
    },
    "package": {
        "idm_main.py": "from idm_pack import idm_help\ndef f(): return idm_help.w()",
        "idm_pack/__init__.py": "",
        "idm_pack/idm_help.py": "def w(): return 1",
    },
    "package, lazy": {
        "idm_main.py": "def f():\n import idm_pack.inner.idm_help as h\n return h.w()",
        "idm_pack/__init__.py": "",
        "idm_pack/inner/__init__.py": "",
        "idm_pack/inner/idm_help.py": "def w(): return 1",
    },
    "package, relative": {
        "idm_main.py": "import idm_pack\ndef f(): return idm_pack.w()",
        "idm_pack/__init__.py": "from .idm_help import w",
        "idm_pack/idm_help.py": "def w(): return 1",
    },
    "package, relative and lazy": {
        "idm_main.py": "import idm_pack\ndef f(): return idm_pack.w()",
        "idm_pack/__init__.py": "def w():\n from . import idm_help\n return idm_help.w()",
        "idm_pack/idm_help.py": "def w(): return 1",
    },
    "namespace package": {
        "idm_main.py": "from idm_space import idm_help\ndef f(): return idm_help.w()",
        "idm_space/idm_help.py": "def w(): return 1",
    },
    "cycle": {
        "idm_main.py": "import idm_help\ndef f(): return idm_help.w()",
        "idm_help.py": "import idm_main\ndef w(): return 1",
    },
    "import for its effect": {
        "idm_main.py": "import idm_help\ndef f(): return 0",
        "idm_help.py": "def w(): return 1",
    },
    "class": {
        "idm_main.py": "import idm_help\nclass f(idm_help.B): pass",
        "idm_help.py": "class B:\n def w(self): return 1",
    },
}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_helper_module_counts_however_it_is_imported(kind: str, folder: Path) -> None:
    files = PROGRAMS[kind]
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content + "\n")
    before = fresh("idm_main", "f")
    assert fresh("idm_main", "f") == before
    (helper,) = folder.rglob("idm_help.py")
    helper.write_text("# only a comment\n" + helper.read_text())
    assert fresh("idm_main", "f") == before
    helper.write_text(helper.read_text().replace("return 1", "return 2"))
    assert fresh("idm_main", "f") != before


def test_what_a_module_holds_now_counts_where_it_is_looked_up(folder: Path) -> None:
    (folder / "idm_set.py").write_text("WIDTH = 1\nOTHER = 1\n")
    idm_set = importlib.import_module("idm_set")
    built = written("def f(): return idm_set.WIDTH", idm_set=idm_set)["f"]
    lazily = written("def f():\n import idm_set\n return idm_set.WIDTH")["f"]
    before = digest(built), digest(lazily)
    idm_set.OTHER = 2
    assert (digest(built), digest(lazily)) == before
    idm_set.WIDTH = 2
    assert digest(built) != before[0] and digest(lazily) != before[1]


def test_code_that_its_file_does_not_hold_any_more_counts_as_it_is(folder: Path) -> None:
    """A file is edited after its import: the old code must not get the new code's digest."""
    (folder / "idm_old.py").write_text("def f(): return 1\n")
    forget()
    old = importlib.import_module("idm_old").f
    (folder / "idm_old.py").write_text("def f(): return 2\n")
    assert digest(old) != fresh("idm_old", "f")


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


def test_variants_count_by_their_fields() -> None:
    class Own(Variant):
        level: float = 1.0
        table: Any = None

    assert digest(Own()) == digest(Own(level=1.0)) != digest(Own(level=2.0))
    assert digest(Own(table=np.ones(2))) != digest(Own(table=np.zeros(2)))


def test_files_are_hashed_by_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    assert Digester().file(tmp_path / "a") == hashlib.sha256(b"x").hexdigest()
