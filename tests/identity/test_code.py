"""Functions that do the same have equal digests, others have others."""

from pathlib import Path

import pytest
from tests.identity.conftest import digest, fresh, written

POINT = "from pydantic.dataclasses import dataclass\n@dataclass\nclass Point:\n x: int\n"
DECORATED = """import functools
def d(g):
 @functools.wraps(g)
 def w(): return g()
 return w
@d
def f(): return """
DISPATCHED = """import functools
@functools.singledispatch
def f(x): return 1
@f.register
def _(x: int): return """
CALLABLE = """class C:
 def __init__(self, w): self.w = w
 def __call__(self): return self.w
f = """
FIELD = """import dataclasses
@dataclasses.dataclass
class f:
 a: list = dataclasses.field(default_factory="""


OTHERS = {
    "code": ("def f(x): return x + 1", "def f(x): return x - 1"),
    "constant": ("def f(x): return x + 1", "def f(x): return x + 2"),
    "type of a constant": ("def f(): return 1", "def f(): return 1.0"),
    "sign of zero": ("def f(): return 0.0", "def f(): return -0.0"),
    "attribute name": ("def f(x): return x.real", "def f(x): return x.imag"),
    "set of constants": ("def f(x): return x in {1, 2}", "def f(x): return x in {1, 3}"),
    "tuple of constants": ("def f(): return (1, (2, 3))", "def f(): return (1, (2, 4))"),
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
    "decorated": (f"{DECORATED}1", f"{DECORATED}2"),
    "cached": (
        "import functools\n@functools.cache\ndef f(): return 1",
        "import functools\n@functools.cache\ndef f(): return 2",
    ),
    "dispatched": (f"{DISPATCHED}1", f"{DISPATCHED}2"),
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
    "state of a callable": (f"{CALLABLE}C(1)", f"{CALLABLE}C(2)"),
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
    "default factory": (f"{FIELD}list)", f"{FIELD}dict)"),
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


def test_a_lambda_of_a_file_counts_without_comments(folder: Path) -> None:
    file = folder / "idm_lambda.py"
    file.write_text("f = lambda x: x + 1\n")
    before = fresh("idm_lambda", "f")
    file.write_text("# a comment\nf = lambda x: x + 1  # another\n")
    assert fresh("idm_lambda", "f") == before
    file.write_text("f = lambda x: x + 2\n")
    assert fresh("idm_lambda", "f") != before


def test_a_cell_that_is_still_empty_is_no_obstacle() -> None:
    source = "def m():\n def f(): return w\n return f\n w = 1\nf = m()"
    assert digest(written(source)["f"]) == digest(written(source)["f"])
