"""A hook of MkDocs: the page of all settings, made from the models of the configuration."""

import importlib
import inspect
import types
import typing
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from fedgs.config import Evaluation, Execution, System, Training
from fedgs.evaluation_settings import ClientEvaluation
from fedgs.families import FAMILIES, Family
from fedgs.graph import Graph
from fedgs.registry import Variant, variant_class, variant_names
from fedgs.sampling import Solver
from fedgs.stopping import Stopping

__all__ = ["meanings", "on_files", "settings_page", "values_of"]

_PARTS: dict[str, type[Variant]] = {
    "training": Training,
    "evaluation": Evaluation,
    "evaluation.per_client": ClientEvaluation,
    "stopping": Stopping,
    "execution": Execution,
    "system": System,
    "method.graph": Graph,
    "method.solver": Solver,
}
_BOUNDS = (("gt", ">"), ("ge", "≥"), ("lt", "<"), ("le", "≤"))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page to the site."""
    files.append(File.generated(config, "reference/settings.md", content=settings_page()))
    return files


def settings_page() -> str:
    """Every setting of every variant: its key, values, default and meaning."""
    lines = [
        "# All settings",
        "",
        "This page is generated from the classes that check a configuration. "
        "The [configuration page](configuration.md) explains how files, `--set` and grids work. "
        "Write `--set KEY=VALUE`, or the same key in a TOML file. "
        "A name without a table stands for that variant with its defaults.",
    ]
    for prefix, model in _PARTS.items():
        lines += ["", f"## `[{prefix}]`", "", *_table(prefix, model)]
    for family in FAMILIES.values():
        lines += _family(family)
    return "\n".join(lines) + "\n"


def _family(family: Family) -> list[str]:
    """The settings that all variants of a family have, then those of each variant."""
    place, base = family.setting, _base(family)
    lines = ["", f"## {_heading(family)}"]
    if base.model_fields:
        lines += ["", f"Every variant of `{place}` has:", "", *_table(place, base)]
    for name in variant_names(family.key):
        model = variant_class(family.key, name)
        if not model.__module__.startswith("fedgs."):  # of a plug-in
            continue
        value = f'["{name}"]' if family.key == "metric" else f'"{name}"'
        lines += ["", f"### `{place} = {value}`", "", _summary(model)]
        if own := [setting for setting in model.model_fields if not _as_in(base, model, setting)]:
            lines += ["", *_table(place, model, own)]
    return lines


def _heading(family: Family) -> str:
    """The title of a family, with a capital."""
    return family.title[0].upper() + family.title[1:]


def _base(family: Family) -> type[Variant]:
    module, _, name = family.base.rpartition(".")
    base = getattr(importlib.import_module(module), name)
    return base if isinstance(base, type) and issubclass(base, Variant) else Variant


def _as_in(base: type[Variant], model: type[Variant], name: str) -> bool:
    """Whether a class takes a setting from the base of its family unchanged."""
    inherited = base.model_fields.get(name)
    return inherited is not None and _default(inherited) == _default(model.model_fields[name])


def _table(prefix: str, model: type[Variant], names: Iterable[str] | None = None) -> list[str]:
    """The Markdown table of the settings of one class, or of some of them."""
    known = meanings(model)
    rows = ["| key | values | default | meaning |", "|---|---|---|---|"]
    for name in model.model_fields if names is None else names:
        field = model.model_fields[name]
        cells = (f"`{prefix}.{name}`", values_of(field), _default(field), known.get(name, ""))
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return rows


def values_of(field: FieldInfo) -> str:
    """The type of a setting and its range, in words for a table."""
    bounds = [
        f"{sign} {getattr(bound, key)}"
        for bound in _constraints(field)
        for key, sign in _BOUNDS
        if hasattr(bound, key)
    ]
    words = dict.fromkeys(_words(field.annotation))
    shown = [word for word in words if word != "none"]
    shown[0] = " ".join([shown[0], " and ".join(bounds)]).strip()
    return ", ".join(shown) + (", or none" if "none" in words else "")


def _constraints(field: FieldInfo) -> Iterator[Any]:
    yield from field.metadata
    for part in typing.get_args(field.annotation):
        for bound in getattr(part, "__metadata__", ()):
            yield from bound.metadata if isinstance(bound, FieldInfo) else [bound]


def _words(annotation: Any) -> Iterable[str]:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is None or annotation is types.NoneType:
        return ["none"]
    if origin is Literal:
        return [f'`"{value}"`' if isinstance(value, str) else f"`{value}`" for value in arguments]
    if origin in (typing.Union, types.UnionType):
        return [word for part in arguments for word in _words(part)]
    if origin is typing.Annotated:
        return _words(arguments[0])
    if origin in (list, tuple):
        return ["list of " + " or ".join(dict.fromkeys(_words(arguments[0])))]
    known = {str: "text", int: "integer", float: "number", bool: "`true`, `false`", dict: "table"}
    return [known.get(annotation, "name or table")]


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "required"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, Variant):
        return f"`{value.name}`" if value.name else "see its table"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


def meanings(model: type[Variant]) -> dict[str, str]:
    """Setting -> what the docstrings of a class and its bases say about it, in one line."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        for section in _sections(base):
            if section.kind is griffe.DocstringSectionKind.attributes:
                for item in section.value:
                    words = " ".join(item.description.split())
                    found |= dict.fromkeys(item.name.split(", "), words)
    return found


def _sections(cls: type) -> list[griffe.DocstringSection]:
    text = cls.__dict__.get("__doc__") or ""
    options: dict[str, Any] = {"warn_unknown_params": False, "warn_missing_types": False}
    return griffe.Docstring(inspect.cleandoc(text), lineno=1).parse("google", **options)


def _summary(model: type[Variant]) -> str:
    lines = (model.__doc__ or "").strip().split("\n\n")[0]
    return " ".join(lines.split())
