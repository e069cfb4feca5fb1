"""Digests of programs that a test writes."""

import dataclasses
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedgs.identity import Digester


def digest(value: Any) -> str:
    found = Digester().of(value)
    assert found.unknown == ()
    return found.value


def written(source: str, **names: Any) -> dict[str, Any]:
    """The names that some code defines, as in a program of the user's own."""
    space = {"__name__": "__main__", **names}
    exec(source, space)
    return space


@dataclasses.dataclass
class Pair:
    a: Any
    b: Any = None


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
