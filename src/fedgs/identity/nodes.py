"""The content of functions, classes, modules and objects: code, and everything it refers to."""

import copyreg
import functools
import importlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING

from pydantic import BaseModel

from fedgs.identity.code import Names, code_digest
from fedgs.identity.hashing import joined
from fedgs.identity.kinds import is_module
from fedgs.identity.sources import (
    Import,
    file_of,
    imported,
    origin_of,
    origin_of_place,
    version_of,
)

if TYPE_CHECKING:
    from fedgs.identity.digest import Walk

__all__ = ["class_body", "function_body", "instance_body", "module_body"]

_MISSING = object()
# Attributes of functions and classes that do not count as their content: names, documentation and
# places; annotations; what Python, pydantic and enumerations compute from the body of a class.
_NOT_CONTENT = frozenset({
    "__dict__", "__weakref__", "__module__", "__qualname__", "__name__", "__doc__",
    "__firstlineno__", "__signature__",
    "__static_attributes__",
    "__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__",
    "__parameters__",
    "__orig_bases__",
    "__abstractmethods__", "__match_args__", "__classcell__", "_abc_impl", "__protocol_attrs__",
    "__non_callable_proto_members__", "__dataclass_fields__", "__dataclass_params__",
    "__class_vars__", "__private_attributes__", "model_fields", "__fedgs_variant__",
    "_member_map_", "_value2member_map_", "_member_names_", "_unhashable_values_",
    "_hashable_values_",
    "_unhashable_values_map_",
})  # fmt: skip


def function_body(walk: "Walk", function: FunctionType) -> bytes:
    """A function: code, defaults, closure, attributes and, if it is the user's own, its globals."""
    name = function.__name__
    kwdefaults = sorted((function.__kwdefaults__ or {}).items())
    parts = [
        code_digest(function.__code__, walk.sources),
        walk.value(function.__defaults__, f"a default of {name}"),
        *(part for key, value in kwdefaults for part in (key.encode(), walk.value(value, key))),
    ]
    names = walk.digester.names(function.__code__)
    for key, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            content = cell.cell_contents
        except ValueError:
            parts.append(joined("empty cell", key))
        else:
            parts.append(joined("cell", key, *_reference(walk, content, key, names)))
    parts.append(_namespace(walk, vars(function), name))
    home = function.__globals__.get("__name__")
    if origin_of(home if isinstance(home, str) else "__main__") == "own":
        parts += _looked_up(walk, function.__globals__, names)
        parts += _home(walk, home)
    return joined("function", *parts)


def _looked_up(walk: "Walk", space: Mapping[str, object], names: Names) -> Iterable[bytes]:
    for name in names.globals:
        value = space.get(name, _MISSING)
        if value is not _MISSING and not (name.startswith("__") and name.endswith("__")):
            yield joined("global", name, *_reference(walk, value, name, names))
    package = space.get("__package__") or ""
    package = package if isinstance(package, str) else ""
    for statement in names.imports:
        yield joined("import", *_modules_of(walk, statement, package, None))
        module, _, level = statement
        loaded = None if level else _loaded(module)
        if loaded is not None:
            yield from _reference(walk, loaded, module, names)


def _loaded(name: str) -> ModuleType | None:
    """A module of the user's own that a function imports, or None for other modules.

    It is imported now, so that the digest is the same before and after the function is used.
    """
    modules = imported((name, "", 0), package="", folder=None)
    files = [file for _, file in modules if file is not None]
    if not files or origin_of_place(str(files[-1])) != "own":
        return None
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit):  # the function will meet the same error
        return None


def _reference(walk: "Walk", value: object, where: str, names: Names) -> Iterable[bytes]:
    """A value that code refers to.

    Of a user's module, also the attributes that the code looks up: they may have been set since.
    """
    yield walk.value(value, where)
    waiting, seen = [(value, where)], {id(value)}
    while waiting:
        module, place = waiting.pop()
        if not isinstance(module, ModuleType):
            continue
        if module.__name__ == "fedgs":
            yield from _of_the_package(walk, module, names)
        if origin_of(module.__name__) != "own":
            continue
        for name in sorted(names.attributes & vars(module).keys()):
            inner = vars(module)[name]
            yield joined("attribute", name, walk.value(inner, f"{place}.{name}"))
            if id(inner) not in seen:
                seen.add(id(inner))
                waiting.append((inner, f"{place}.{name}"))


def _of_the_package(walk: "Walk", package: ModuleType, names: Names) -> Iterable[bytes]:
    """Attributes of this package, as in `fedgs.select`: their numerics version may matter."""
    for name in sorted(names.attributes & set(package.__all__)):
        yield joined("attribute", name, walk.value(getattr(package, name), name))


def _home(walk: "Walk", name: object) -> Iterable[bytes]:
    """The user's module that a function or a class was defined in, except the program itself."""
    if not isinstance(name, str) or name == "__main__":
        return
    module = sys.modules.get(name)
    if module is not None and origin_of(name) == "own" and file_of(module) is not None:
        yield walk.value(module, name)


def class_body(walk: "Walk", cls: type) -> bytes:
    """Bases and namespace; fields of pydantic classes count by their defaults."""
    space = {key: value for key, value in vars(cls).items() if not key.startswith("__pydantic_")}
    parts = [
        walk.value(cls.__bases__, f"a base of {cls.__name__}"),
        walk.value(type(cls), f"the class of {cls.__name__}"),
    ]
    members = getattr(cls, "__members__", None)
    if isinstance(members, Mapping):  # an enumeration
        values = [(name, member.value) for name, member in members.items()]
        parts.append(walk.value(values, cls.__name__))
        space = {key: value for key, value in space.items() if key not in members}
    if issubclass(cls, BaseModel):
        apart: frozenset[str] = getattr(cls, "apart_in_identity", frozenset())
        for name, field in cls.model_fields.items():
            if name in apart:
                space.pop("__hash__", None)  # pydantic's, which holds the names of all fields
                continue
            given = (None,) if field.is_required() else (field.default, field.default_factory)
            parts.append(joined("field", name, walk.value(given, f"{cls.__name__}.{name}")))
        for name, private in sorted(cls.__private_attributes__.items()):
            given = (private.default, private.default_factory)
            parts.append(joined("private", name, walk.value(given, f"{cls.__name__}.{name}")))
    parts.append(_namespace(walk, space, cls.__name__))
    return joined("class", *parts, *_home(walk, cls.__module__))


def _namespace(walk: "Walk", space: Mapping[str, object], owner: str) -> bytes:
    names = sorted(key for key in space if isinstance(key, str) and key not in _NOT_CONTENT)
    return joined(
        "namespace",
        *(part for n in names for part in (n.encode(), walk.value(space[n], f"{owner}.{n}"))),
    )


def module_body(walk: "Walk", module: ModuleType) -> bytes:
    """A user's own module: its file and what it imports, or its names where there is no file."""
    file = file_of(module)
    if module.__name__ == "__main__":
        return joined("main")
    if file is None and hasattr(module, "__path__"):
        return joined("namespace package")
    if file is None:
        space = {key: value for key, value in vars(module).items() if not key.startswith("__")}
        return _namespace(walk, space, module.__name__)
    package = module.__package__ or ""
    return joined("module", file_node(walk, file, package))


def file_node(walk: "Walk", file: Path, package: str) -> bytes:
    """The number of a source file, whose body is its syntax tree and its imports."""
    resolved = file.resolve()
    return walk.node(resolved, lambda: _file_body(walk, resolved, package), key=resolved)


def _file_body(walk: "Walk", file: Path, package: str) -> bytes:
    try:
        source = walk.sources.of(file)
    except OSError as error:
        walk.cannot(f"the file {file.name} ({error.strerror})")
        return joined("unreadable")
    modules = [
        module
        for statement in source.imports
        for module in _modules_of(walk, statement, package, file.parent)
    ]
    return joined("file", source.digest, *modules)


def _modules_of(
    walk: "Walk", statement: Import, package: str, folder: Path | None
) -> Iterable[bytes]:
    for full, file in imported(statement, package=package, folder=folder):
        root = full.partition(".")[0]
        if root == "fedgs" or full == "__main__":
            continue
        if file is not None and origin_of_place(str(file)) == "own":
            inner = full if file.stem == "__init__" else full.rpartition(".")[0]
            yield joined("own", file_node(walk, file, inner))
        elif file is not None and origin_of_place(str(file)) == "installed":
            yield joined("installed", root, version_of(root))


def instance_body(walk: "Walk", value: object, where: str) -> bytes:
    """An object: its class, and its state as pickling reads it."""
    cls = type(value)
    parts = [walk.value(cls, where)]
    try:
        given = getattr(value, "content_digest", None)
    except Exception:
        given = None
    if isinstance(given, str):
        return joined("object", *parts, joined("given", given))
    if issubclass(cls, BaseModel):  # `isinstance` may look up attributes of the value
        fields = {name: vars(value).get(name) for name in cls.model_fields}
        more = (getattr(value, f"__pydantic_{kind}__", None) or {} for kind in ("extra", "private"))
        return joined("object", *parts, *(walk.value(held, where) for held in (fields, *more)))
    if is_module(value):
        return joined("object", *parts, _state(walk, cls, _without_numbers(vars(value)), where))
    try:
        by_copyreg = copyreg.dispatch_table.get(cls)
        reduced = by_copyreg(value) if by_copyreg is not None else value.__reduce_ex__(4)
    except Exception:
        return joined("object", *parts, walk.named(value, where))
    if isinstance(reduced, str):  # the name of a global object
        homes = (cls.__module__, str(getattr(value, "__module__", "__main__")))
        of_a_library = all(origin_of(home) != "own" for home in homes)
        return joined("object", *parts, reduced if of_a_library else walk.named(value, where))
    constructor, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    parts += [
        walk.value(constructor, where),
        walk.value(arguments, where),
        _state(walk, cls, state, where),
    ]
    parts += [walk.value(None if more is None else list(more), where) for more in (items, pairs)]
    if origin_of(cls.__module__) == "own" and state is not getattr(value, "__dict__", None):
        parts.append(_state(walk, cls, getattr(value, "__dict__", None), where))
    return joined("object", *parts)


def _without_numbers(state: Mapping[str, object]) -> dict[str, object]:
    """The state of a torch module with its hooks in order but without their numbers.

    The numbers count all hooks of the process, so they differ from process to process.
    """
    return {
        key: list(part.values()) if "_hooks" in key and isinstance(part, dict) else part
        for key, part in state.items()
    }


def _state(walk: "Walk", cls: type, state: object, where: str) -> bytes:
    """The state of an object without its cached properties, which follow from the rest."""
    if isinstance(state, tuple) and len(state) == 2:
        return joined("state", *(_state(walk, cls, part, where) for part in state))
    if type(state) is not dict:
        return walk.value(state, where)
    names = sorted(
        str(name)
        for name in state
        if not isinstance(getattr(cls, str(name), None), functools.cached_property)
    )
    values = {str(name): value for name, value in state.items()}
    return joined(
        "state",
        *(part for n in names for part in (n.encode(), walk.value(values[n], f"{where}.{n}"))),
    )
