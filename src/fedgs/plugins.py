"""Plug-in files: loaded as modules of their own, which can import the modules beside them.

The folder of a plug-in is appended to `sys.path`, so that no file in it hides a module of the
standard library or of an installed distribution. A plug-in that would therefore import another
module than the one beside it is refused.
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

__all__ = ["beside", "import_file", "imported_neighbours"]


def import_file(path: Path, taken: dict[str, Path]) -> tuple[str, Path]:
    """Import a plug-in file.

    Args:
        path: of the file.
        taken: module name -> file of the plug-ins that were loaded before.

    Returns:
        The name of its module, and its resolved path.

    Raises:
        ConfigError: no such file; not a Python file; it imports a module that is beside it but
            would get another one of that name; it raised while being imported (the plug-in's part
            of the traceback is in the message).
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
    previous, appended = sys.modules.get(name), _append_to_path(file.parent)
    sys.modules[name] = module
    try:
        with user_code(f"--plugin {str(path)!r}"):
            spec.loader.exec_module(module)
    except BaseException:
        _undo(name, previous, file.parent if appended else None)
        raise
    return name, file


def _module_name(file: Path, taken: dict[str, Path]) -> str:
    """A name that is unique to the file, also among files of equal stem in several folders."""
    plain = f"fedgs_plugin_{file.stem}"
    if taken.get(plain, file) == file:
        return plain
    return f"{plain}_{hashlib.sha256(str(file.parent).encode()).hexdigest()[:8]}"


def _append_to_path(folder: Path) -> bool:
    """Append the folder to `sys.path` unless it is listed there; whether it was appended."""
    if any(Path(entry or ".").resolve() == folder for entry in sys.path):
        return False
    sys.path.append(str(folder))
    return True


def _undo(name: str, previous: ModuleType | None, folder: Path | None) -> None:
    """Restore the module that had the name before, and take the folder out of `sys.path`."""
    if previous is None:
        sys.modules.pop(name, None)
    else:
        sys.modules[name] = previous
    if folder is not None and str(folder) in sys.path:
        sys.path.remove(str(folder))


def _check_neighbours(path: Path, file: Path) -> None:
    """Refuse a plug-in that imports a module beside it but would get another one of that name."""
    for name in imported_neighbours(file):
        origin = _import_origin(name, file.parent)
        if origin is not None and file.parent not in (origin.parent, origin.parent.parent):
            raise ConfigError(
                f"--plugin {str(path)!r} imports {name!r}, which is beside it, but the name "
                f"belongs to {str(origin)!r} already; rename the file beside the plug-in"
            )


def imported_neighbours(file: Path) -> Iterator[str]:
    """Names of modules beside the plug-in that it imports, or that one of them imports."""
    sources, seen = Sources(), {"fedgs"}
    waiting = [file]
    while waiting:
        for module, _, level in sources.of(waiting.pop()).imports:
            name = module.partition(".")[0]
            if level or name in seen or name in sys.stdlib_module_names:
                continue
            seen.add(name)
            files = beside(name, file.parent)
            if files:
                waiting += files
                yield name


def beside(name: str, folder: Path) -> list[Path]:
    """The files of the module or package of this name in a folder."""
    single = folder / f"{name}.py"
    return [single] if single.is_file() else sorted((folder / name).rglob("*.py"))


def _import_origin(name: str, folder: Path) -> Path | None:
    """The file or folder that an import of this name gives with the folder last in `sys.path`."""
    module = sys.modules.get(name)
    if module is not None:
        origin, folders = getattr(module, "__file__", None), getattr(module, "__path__", [])
    else:
        spec = importlib.machinery.PathFinder.find_spec(name, [*sys.path, str(folder)])
        if spec is None:
            return None
        origin = spec.origin if spec.has_location else None
        folders = spec.submodule_search_locations or []
    origin = origin or next(iter(folders), None)
    return None if origin is None else Path(origin).resolve()
