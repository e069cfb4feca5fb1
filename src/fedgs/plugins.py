"""Plug-in files: loaded as modules of their own, with the modules that lie beside them within reach.

The folder of a plug-in stands at the end of `sys.path`, so that no file in it hides a module of the
standard library or of an installed distribution. Where that would give the plug-in another module
than the one beside it, the plug-in is refused.
"""

import hashlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from fedgs.errors import ConfigError, user_code
from fedgs.identity.sources import Sources

__all__ = ["import_file"]


def import_file(path: Path, taken: dict[str, Path]) -> tuple[str, Path]:
    """Import a plug-in file; its module's name and its resolved path.

    Args:
        path: of the file.
        taken: module name -> file of the plug-ins that were loaded before.

    Raises:
        ConfigError: no such file; not a Python file; it imports a module that is beside it but
            would get another one of that name; it raised while being imported (its own part of the
            traceback is in the message).
    """
    if not path.is_file():
        raise ConfigError(f"--plugin must be a Python file; there is no file {str(path)!r}")
    file = path.resolve()
    name = _module_name(file, taken)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"--plugin must be a Python file (.py); got {str(path)!r}")
    _check_neighbours(path, file)
    module = importlib.util.module_from_spec(spec)
    before, added = sys.modules.get(name), _reach(file.parent)
    sys.modules[name] = module
    try:
        with user_code(f"--plugin {str(path)!r}"):
            spec.loader.exec_module(module)
    except BaseException:
        _undo(name, before, file.parent if added else None)
        raise
    return name, file


def _module_name(file: Path, taken: dict[str, Path]) -> str:
    """One name a file: files of one stem in several folders do not replace each other."""
    plain = f"fedgs_plugin_{file.stem}"
    if taken.get(plain, file) == file:
        return plain
    return f"{plain}_{hashlib.sha256(str(file.parent).encode()).hexdigest()[:8]}"


def _reach(folder: Path) -> bool:
    """Put the folder at the end of `sys.path`; whether it was not there."""
    if any(Path(entry or ".").resolve() == folder for entry in sys.path):
        return False
    sys.path.append(str(folder))
    return True


def _undo(name: str, before: ModuleType | None, folder: Path | None) -> None:
    if before is None:
        sys.modules.pop(name, None)
    else:
        sys.modules[name] = before
    if folder is not None and str(folder) in sys.path:
        sys.path.remove(str(folder))


def _check_neighbours(path: Path, file: Path) -> None:
    """Refuse a plug-in that imports a module which lies beside it, where the import gives another module of that name."""
    for name in _imported_neighbours(file):
        found = _what_is_imported(name, file.parent)
        if found is not None and found.parent != file.parent and found.parent.parent != file.parent:
            raise ConfigError(
                f"--plugin {str(path)!r} imports {name!r}, which is beside it, but the name belongs to {str(found)!r} already; "
                "rename the file beside the plug-in"
            )


def _imported_neighbours(file: Path) -> Iterator[str]:
    """Names of modules beside the plug-in that it imports, or that one of them imports."""
    sources, seen = Sources(), {"fedgs"}
    waiting = [file]
    while waiting:
        for module, _, level in sources.of(waiting.pop()).imports:
            name = module.partition(".")[0]
            if level or name in seen or name in sys.stdlib_module_names:
                continue
            seen.add(name)
            inside = _beside(name, file.parent)
            if inside:
                waiting += inside
                yield name


def _beside(name: str, folder: Path) -> list[Path]:
    """The files of the module or package of this name in a folder."""
    single = folder / f"{name}.py"
    return [single] if single.is_file() else sorted((folder / name).rglob("*.py"))


def _what_is_imported(name: str, folder: Path) -> Path | None:
    """The file that an import of this name would give with the folder at the end of `sys.path`."""
    module = sys.modules.get(name)
    if module is not None:
        origin = getattr(module, "__file__", None) or next(
            iter(getattr(module, "__path__", [])), None
        )
        return None if origin is None else Path(origin).resolve()
    spec = importlib.machinery.PathFinder.find_spec(name, [*sys.path, str(folder)])
    if spec is None:
        return None
    origin = (
        spec.origin
        if spec.has_location
        else next(iter(spec.submodule_search_locations or []), None)
    )
    return None if origin is None else Path(origin).resolve()
