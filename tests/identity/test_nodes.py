"""Objects count by their state, and a user's modules however they are imported."""

import errno
import functools
import importlib
import socket
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.identity.conftest import digest, forget, fresh, written

from fedgs.identity import Digester
from fedgs.identity.sources import Source, Sources
from fedgs.registry import Variant


def closed_socket() -> socket.socket:
    """An object whose content cannot be identified."""
    made = socket.socket()
    made.close()
    return made


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


def test_an_object_that_makes_up_its_attributes_has_a_digest() -> None:
    source = "class C:\n def __getattr__(self, name): raise RuntimeError(name)\n"
    callable_too = source + " def __call__(self): return 1\n"
    for program in (source + "f = C()\nf.w = W", callable_too + "f = C()\nf.w = W"):
        first, again, other = (digest(written(program, W=width)["f"]) for width in (1, 1, 2))
        assert first == again != other


def test_an_object_may_tell_its_content_itself() -> None:
    class Connected:
        def __init__(self, digest: str) -> None:
            self.socket = closed_socket()
            self.content_digest = digest

    assert digest(Connected("a")) == digest(Connected("a")) != digest(Connected("b"))


def test_variants_count_by_their_fields() -> None:
    class Own(Variant):
        level: float = 1.0
        table: Any = None

    assert digest(Own()) == digest(Own(level=1.0)) != digest(Own(level=2.0))
    assert digest(Own(table=np.ones(2))) != digest(Own(table=np.zeros(2)))


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
    "namespace package, by attribute": {
        "idm_main.py": "import idm_space.idm_help\ndef f(): return idm_space.idm_help.w()",
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


def test_modules_without_a_file_count_by_their_names() -> None:
    made = types.ModuleType("idm_made")
    made.width = 1  # type: ignore[attr-defined]
    function = written("def f(): return MODULE", MODULE=made)["f"]
    before = digest(function)
    made.width = 2  # type: ignore[attr-defined]
    assert digest(function) != before


def test_the_program_and_libraries_are_no_obstacle() -> None:
    digest(written("def f(): return PROGRAM", PROGRAM=sys.modules["__main__"])["f"])
    digest(written("def f():\n import json\n return json")["f"])


def test_a_helper_module_that_fails_has_a_digest(folder: Path) -> None:
    (folder / "idm_bad.py").write_text("raise SystemExit\n")
    forget()
    digest(written("def f():\n import idm_bad")["f"])


def test_a_file_that_cannot_be_read_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "idm_locked.py").write_text("def f(): return 1\n")
    forget()
    function = importlib.import_module("idm_locked").f

    def refuse(sources: Sources, path: Path) -> Source:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Sources, "of", refuse)
    assert Digester().of(function).unknown == ("the file idm_locked.py (Permission denied)",)


def test_an_object_that_pickles_as_a_name_is_not_identified() -> None:
    source = "class C:\n def __reduce__(self): return 'f'\nf = C()"
    (description,) = Digester().of(written(source)["f"]).unknown
    assert description == "the value (__main__.C)"
