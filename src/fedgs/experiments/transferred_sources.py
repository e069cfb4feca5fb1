"""Source files that are sent to other computers as text: plug-ins, and what tracebacks show.

A worker elsewhere has none of the files of the study's computer. A module that it gets is compiled
with its name and path there, so that tracebacks show the user's file and its lines.
"""

import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType

from fedgs.errors import ConfigError
from fedgs.identity.sources import origin_of_place
from fedgs.plugins import beside, imported_neighbours
from fedgs.registry import loaded_plugins

__all__ = ["Source", "import_sources", "is_installed", "plugin_sources", "show_lines", "user_lines"]

_LONGEST = 1 << 20  # characters of a file that is sent for tracebacks alone


@dataclass(frozen=True)
class Source:
    """A module.

    Attributes:
        module: its name.
        path: of its file on the study's computer.
        text: what the file holds.
        digest: SHA-256 of the text.
        is_plugin: whether it is imported at once; others are imported by plug-ins.
    """

    module: str
    path: str
    text: str
    digest: str
    is_plugin: bool

    @classmethod
    def of(cls, module: str, path: Path, *, is_plugin: bool = False) -> "Source":
        """The module in a file.

        Raises:
            ConfigError: the file cannot be read.
        """
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the plug-in {str(path)!r} cannot be read: {error}") from None
        return cls(module, str(path), text, _digest(text), is_plugin)


def plugin_sources() -> list[Source]:
    """The plug-ins that are loaded, and the modules beside them that they import."""
    sources: dict[str, Source] = {}
    for name, file in loaded_plugins().items():
        for neighbour in imported_neighbours(file):
            for path in beside(neighbour, file.parent):
                parts = list(path.relative_to(file.parent).with_suffix("").parts)
                module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                sources[module] = Source.of(module, path)
        sources[name] = Source.of(name, file, is_plugin=True)
    return list(sources.values())


def import_sources(sources: Sequence[Source]) -> None:
    """Import the plug-ins, as `load_plugin` did on the study's computer.

    Those that are imported already are left as they are.

    Raises:
        ConfigError: a text is not the one that was sent.
    """
    for source in sources:
        if _digest(source.text) != source.digest:
            raise ConfigError(f"the plug-in {source.path!r} did not arrive as it was sent")
    finder = _Given({source.module: source for source in sources})
    sys.meta_path.append(finder)
    for source in sources:
        if source.is_plugin and source.module not in sys.modules:
            spec = finder.find_spec(source.module)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[source.module] = module
            spec.loader.exec_module(module)


def user_lines() -> dict[str, str]:
    """Path -> text of the user's modules that are loaded, and of cells of a notebook."""
    texts: dict[str, str] = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(".py") and not is_installed(module):
            texts[file] = "".join(linecache.getlines(file))
    for path, entry in list(linecache.cache.items()):
        if len(entry) == 4 and entry[1] is None:  # of no file, such as a notebook's cell
            texts[path] = "".join(entry[2])
    return {path: text for path, text in texts.items() if text and len(text) <= _LONGEST}


def show_lines(texts: Mapping[str, str]) -> None:
    """Let tracebacks show lines of files that this computer does not have."""
    for path, text in texts.items():
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)


def is_installed(module: ModuleType) -> bool:
    """Whether a module belongs to Python, to fedgs or to an installed distribution.

    >>> import json, numpy
    >>> is_installed(json), is_installed(numpy), is_installed(sys.modules["fedgs"])
    (True, True, True)
    """
    if module.__name__.split(".")[0] == "fedgs":
        return True
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return not hasattr(module, "__path__") and module.__name__ != "__main__"
    return origin_of_place(file) != "own"


class _Given(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds and loads modules whose texts are given."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self._sources = sources

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        source = self._sources.get(fullname)
        if source is None:
            return None
        folders = [str(Path(source.path).parent)] if self.is_package(fullname) else None
        return importlib.util.spec_from_file_location(
            fullname, source.path, loader=self, submodule_search_locations=folders
        )

    def is_package(self, fullname: str) -> bool:
        return Path(self._sources[fullname].path).name == "__init__.py"

    def get_source(self, fullname: str) -> str:
        return self._sources[fullname].text

    def get_code(self, fullname: str) -> CodeType:
        source = self._sources[fullname]
        show_lines({source.path: source.text})
        code: CodeType = compile(source.text, source.path, "exec", dont_inherit=True)
        return code


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
