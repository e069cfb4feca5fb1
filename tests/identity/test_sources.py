"""Source files as they are now, and the modules that an import statement loads."""

import importlib
import json
import types
from pathlib import Path

import numpy as np
import pytest
from tests.identity.conftest import digest, forget, fresh

from fedgs.identity.sources import Import, Sources, file_of, imported, origin_of, version_of


def test_code_that_its_file_does_not_hold_any_more_counts_as_it_is(folder: Path) -> None:
    # The file was edited after it was imported: the old code must not get the new code's digest.
    (folder / "idm_old.py").write_text("def f(): return 1\n")
    forget()
    old = importlib.import_module("idm_old").f
    (folder / "idm_old.py").write_text("def f(): return 2\n")
    assert digest(old) != fresh("idm_old", "f")


def test_a_definition_is_found_only_where_it_is_certain(folder: Path) -> None:
    (folder / "idm_two.py").write_text(
        "def f(): return 1\n\npair = [lambda: 1, lambda: 2]\nalone = lambda: 3\n"
    )
    forget()
    module = importlib.import_module("idm_two")
    sources = Sources()
    assert type(sources.definition(module.f.__code__)).__name__ == "FunctionDef"
    assert type(sources.definition(module.alone.__code__)).__name__ == "Lambda"
    assert sources.definition(module.pair[0].__code__) is None
    assert sources.definition(eval("lambda: 1").__code__) is None


def test_a_file_that_is_no_python_counts_by_its_bytes(tmp_path: Path) -> None:
    digests = []
    for name, content in (("a.py", b"def f(:"), ("b.py", b"def f(:"), ("c.py", b"def f(::")):
        (tmp_path / name).write_bytes(content)
        digests.append(Sources().of(tmp_path / name))
    assert digests[0].digest == digests[1].digest != digests[2].digest
    assert digests[0].definitions == {} and digests[0].imports == ()
    with pytest.raises(FileNotFoundError):
        Sources().of(tmp_path / "missing.py")


@pytest.mark.parametrize(
    ("statement", "package", "expected"),
    [
        (("idm_pack", "", 0), "", ["idm_pack"]),
        (("idm_pack.part", "", 0), "", ["idm_pack", "idm_pack.part"]),
        (("idm_pack", "part", 0), "", ["idm_pack", "idm_pack.part"]),
        (("idm_pack", "*", 0), "", ["idm_pack"]),
        (("idm_pack", "a_name_in_it", 0), "", ["idm_pack"]),
        (("", "part", 1), "idm_pack", ["idm_pack", "idm_pack.part"]),
        (("part", "", 1), "idm_pack", ["idm_pack", "idm_pack.part"]),
        (("", "part", 2), "idm_pack.inner", ["idm_pack", "idm_pack.part"]),
        (("part", "", 1), "", []),
        (("idm_missing", "", 0), "", []),
        (("json", "", 0), "", ["json"]),
        (("itertools", "", 0), "", ["itertools"]),
    ],
)
def test_an_import_statement_names_its_modules(
    statement: Import, package: str, expected: list[str], folder: Path
) -> None:
    for name in ("idm_pack/__init__.py", "idm_pack/part.py", "idm_pack/inner/__init__.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    forget()
    modules = list(imported(statement, package=package, folder=None))
    assert [name for name, _ in modules] == expected
    own = [file for name, file in modules if name.startswith("idm_")]
    assert all(file is not None and file.is_relative_to(folder) for file in own)


def test_modules_beside_a_file_are_found_though_they_are_not_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "idm_beside.py").write_text("")
    statement = ("idm_beside", "", 0)
    assert list(imported(statement, package="", folder=None)) == []
    modules = imported(statement, package="", folder=tmp_path)
    assert list(modules) == [("idm_beside", tmp_path / "idm_beside.py")]


def test_each_module_has_an_origin(folder: Path) -> None:
    (folder / "idm_own.py").write_text("")
    forget()
    importlib.import_module("idm_own")
    names = ("idm_own", "idm_never_loaded", "json.decoder", "sys", "numpy.linalg", "fedgs.rng")
    origins = ["own", "own", "standard", "standard", "installed", "fedgs"]
    assert [origin_of(name) for name in names] == origins
    assert version_of("numpy") == np.__version__.partition("+")[0]
    assert version_of("idm_own") == ""
    assert file_of(json) == Path(json.__file__)
    assert file_of(types.ModuleType("idm_made")) is None
