"""Source files: syntax trees without positions, imports, and the code objects they compile to."""

import ast
import functools
import importlib.machinery
import importlib.metadata
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType
from typing import Literal

from fedgs.identity.hashing import joined

__all__ = [
    "Import",
    "Origin",
    "Source",
    "Sources",
    "file_of",
    "imported",
    "origin_of",
    "origin_of_place",
    "version_of",
]

Origin = Literal["fedgs", "standard", "installed", "own"]
Import = tuple[str, str, int]
"""(module, name or "", level), as in `from ..module import name`; level 0 is absolute."""

_IGNORED = {"ctx", "type_comment", "kind", "type_ignores"}
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def origin_of(name: str) -> Origin:
    """The origin of a module.

    It belongs to this package, the standard library, an installed distribution, or is the user's
    own.

    >>> origin_of("fedgs.rng"), origin_of("json"), origin_of("numpy"), origin_of("__main__")
    ('fedgs', 'standard', 'installed', 'own')
    """
    root = name.partition(".")[0]
    if root == "fedgs":
        return "fedgs"
    if root == "__main__":
        return "own"
    for module in (sys.modules.get(name), sys.modules.get(root)):
        places = [] if module is None else _places(module)
        if places:
            return origin_of_place(places[0])
    return "standard" if root in sys.stdlib_module_names else "own"


def _places(module: ModuleType) -> list[str]:
    """Absolute paths of a module's file, or of a package's folders.

    Types are checked, since some modules of libraries return an object for any attribute.
    """
    file, folders = getattr(module, "__file__", None), getattr(module, "__path__", None)
    places = [file] if isinstance(file, str) else folders if isinstance(folders, Iterable) else []
    return [place for place in places if isinstance(place, str) and Path(place).is_absolute()]


@functools.lru_cache(maxsize=4096)
def origin_of_place(place: str) -> Origin:
    """The origin of a file; see `origin_of`."""
    parts = Path(place).parts
    if "site-packages" in parts or "dist-packages" in parts:
        return "installed"
    standard, installed = _folders()
    resolved = Path(place).resolve()
    if any(resolved.is_relative_to(folder) for folder in installed):
        return "installed"
    return "standard" if any(resolved.is_relative_to(folder) for folder in standard) else "own"


@functools.lru_cache(maxsize=1)
def _folders() -> tuple[list[Path], list[Path]]:
    """Folders of the standard library, and of installed distributions."""
    paths = sysconfig.get_paths()
    standard = {paths["stdlib"], paths["platstdlib"]}
    installed = {paths["purelib"], paths["platlib"], site.getusersitepackages()}
    installed.update(site.getsitepackages())
    return [Path(place).resolve() for place in standard], [Path(p).resolve() for p in installed]


@functools.lru_cache(maxsize=256)
def version_of(root: str) -> str:
    """The version of an installed distribution without the part after a "+", else "".

    It is "" where the distribution's name is not that of its module.
    """
    try:
        return importlib.metadata.version(root).partition("+")[0]
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return ""


def file_of(module: ModuleType) -> Path | None:
    """The file that a module was loaded from, if there is one."""
    file = getattr(module, "__file__", None)
    return Path(file) if isinstance(file, str) and Path(file).is_file() else None


@dataclass(frozen=True)
class Source:
    """A file with Python code, or a compiled module.

    Attributes:
        digest: of the syntax tree, without comments, layout and positions; of the bytes where it is
            not Python.
        imports: every import statement in it, also those inside functions.
        definitions: (first line, name) -> functions and lambdas that begin there.
        codes: the code objects that it compiles to.
    """

    digest: bytes
    imports: tuple[Import, ...] = ()
    definitions: dict[tuple[int, str], list[ast.AST]] = field(default_factory=dict)
    codes: frozenset[CodeType] = frozenset()


class Sources:
    """Source files, each read once."""

    def __init__(self) -> None:
        self._read: dict[Path, Source] = {}

    def of(self, path: Path) -> Source:
        """The content of a file.

        Raises:
            OSError: the file cannot be read.
        """
        if path not in self._read:
            self._read[path] = _parsed(path, path.read_bytes())
        return self._read[path]

    def definition(self, code: CodeType) -> ast.AST | None:
        """The syntax tree of a function's code, or None if it is not certain.

        Its file must still compile to exactly this code, and no other function of its name may
        begin on its line.
        """
        path = Path(code.co_filename)
        if code.co_filename.startswith("<") or not path.is_file():
            return None
        try:
            source = self.of(path)
        except OSError:
            return None
        nodes = source.definitions.get((code.co_firstlineno, code.co_name), [])
        return nodes[0] if len(nodes) == 1 and code in source.codes else None


def _parsed(path: Path, content: bytes) -> Source:
    try:
        tree = ast.parse(content)
        digest = joined("tree", canonical(tree))
        whole = compile(content, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Source(joined("bytes", content))
    definitions: dict[tuple[int, str], list[ast.AST]] = {}
    for node in ast.walk(tree):
        if isinstance(node, _DEFINITIONS):
            line = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
            definitions.setdefault((line, getattr(node, "name", "<lambda>")), []).append(node)
    imports = tuple(dict.fromkeys(_imports(tree)))
    return Source(digest, imports, definitions, frozenset(_codes(whole)))


def canonical(node: object) -> str:
    """A syntax tree as text without positions, the same in every version of Python.

    >>> canonical(ast.parse("x = 1  # one")) == canonical(ast.parse("x=1"))
    True
    """
    if isinstance(node, ast.AST):
        fields = (
            (name, getattr(node, name, None)) for name in node._fields if name not in _IGNORED
        )
        inner = ",".join(
            f"{name}={canonical(value)}"
            for name, value in fields
            if value is not None and value != []
        )
        return f"{type(node).__name__}({inner})"
    if isinstance(node, list):
        return f"[{','.join(canonical(item) for item in node)}]"
    return f"{type(node).__name__}:{node!r}"


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _imports(tree: ast.AST) -> Iterator[Import]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "", 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name, node.level) for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            name = node.args[0].value
            if (
                called in ("import_module", "__import__")
                and isinstance(name, str)
                and not name.startswith(".")
            ):
                yield name, "", 0


def imported(
    statement: Import, *, package: str, folder: Path | None
) -> Iterator[tuple[str, Path | None]]:
    """The modules that an import statement loads: (full name, file or None without one).

    Nothing is imported: modules that are loaded are looked up, others are searched on `sys.path`,
    then in `folder`.

    Args:
        statement: the import statement.
        package: of the module that holds the statement.
        folder: where that module lies.
    """
    name, attribute, level = statement
    if level:
        parents = package.split(".")[: len(package.split(".")) - level + 1] if package else []
        if not parents:
            return
        name = ".".join([*parents, *([name] if name else [])])
    parts = [*name.split("."), *([attribute] if attribute and attribute != "*" else [])]
    known = len(name.split("."))
    for count in range(1, len(parts) + 1):
        full = ".".join(parts[:count])
        place = _located(full, folder)
        if place is None:
            return
        if count <= known or place != "none":
            yield full, None if isinstance(place, str) else place


def _located(full: str, folder: Path | None) -> Path | Literal["none"] | None:
    """Where a module lies; "none" for one without a file; None if there is no such module."""
    module = sys.modules.get(full)
    if module is not None:
        return file_of(module) or "none"
    parent = full.rpartition(".")[0]
    if parent and origin_of(parent) != "own":
        return None
    if not parent and full in sys.stdlib_module_names:
        return "none"
    for place in _search(parent, folder):
        spec = importlib.machinery.PathFinder.find_spec(full, place)
        if spec is not None:
            return Path(spec.origin) if spec.origin and Path(spec.origin).is_file() else "none"
    return None


def _search(parent: str, folder: Path | None) -> Iterator[list[str] | None]:
    if not parent:
        yield None  # sys.path
        if folder is not None:
            yield [str(folder)]
        return
    loaded = sys.modules.get(parent)
    if loaded is not None:
        folders = getattr(loaded, "__path__", None)
        yield [str(place) for place in folders] if isinstance(folders, Iterable) else []
        return
    above, _, _ = parent.rpartition(".")
    for place in _search(above, folder):
        spec = importlib.machinery.PathFinder.find_spec(parent, place)
        if spec is not None and spec.submodule_search_locations:
            yield list(spec.submodule_search_locations)
            return
