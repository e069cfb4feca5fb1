"""`fedgs methods`: presets and samplers, with what they need, cost and work with."""

import inspect
from collections.abc import Iterable, Sequence
from typing import Annotated, cast, get_args

import tomli_w
import typer

from fedgs.cli.common import PluginOption, console
from fedgs.errors import ConfigError
from fedgs.experiments.preset import Cost, Preset
from fedgs.experiments.presets import PRESETS
from fedgs.registry import (
    Variant,
    load_plugin,
    loaded_plugins,
    table,
    variant_class,
    variant_names,
)
from fedgs.requests import ReportName
from fedgs.sampling.base import AsksLosses, AsksReports, LearnsFromModels, Sampler
from fedgs.suggestions import nearest
from fedgs.weighting import as_weighting

__all__ = ["COLUMNS", "described", "known_methods", "markdown", "methods", "row_of"]

COLUMNS = (
    "method",
    "source",
    "needs",
    "traffic of a selected client",
    "traffic of the server",
    "memory of a client",
    "memory of the server",
    "Flower",
    "secure aggregation",
)
_UNKNOWN = "?"
_LEGEND = (
    "Traffic and memory are numbers per round, besides the model itself: N clients, m selected, a "
    "available, d entries of a client's feature, P parameters."
)


def methods(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A method to describe.", show_default=False)
    ] = "",
    plugin: PluginOption = None,
) -> None:
    """List the methods by name, or show one with its settings.

    A method is a sampler, or a preset: a published method that sets several parts of a run.
    """
    for path in plugin or []:
        load_plugin(path)
    known = known_methods()
    if not name:
        console().print(text([row_of(preset) for preset in known.values()]))
        console().print(f"\n{_LEGEND}\nNext: fedgs methods NAME    fedgs run --set method=NAME")
        return
    if name not in known:
        raise ConfigError(
            f"NAME must be one of {', '.join(known)}; got {name!r}{nearest(name, known)}"
        )
    console().print(described(known[name]))


def known_methods() -> dict[str, Preset]:
    """Name -> preset; samplers that no preset describes follow with what their classes say."""
    others = [name for name in variant_names("method") if name not in PRESETS]
    return PRESETS | {name: _of_sampler(name) for name in others}


def _of_sampler(name: str) -> Preset:
    """What the class of a sampler says about it."""
    sampler = variant_class("method", name)
    needs = []
    if _has(sampler, AsksLosses) or _reports(sampler) & {"mean_loss", "rms_loss"}:
        needs.append("losses")
    if _has(sampler, LearnsFromModels):
        needs.append("updates")
    if "update_norm" in _reports(sampler):
        needs.append("norms of updates")
    file = inspect.getmodule(sampler)
    is_plugin = file is not None and file.__name__ in loaded_plugins()
    source = f"plug-in {loaded_plugins()[file.__name__].name}" if is_plugin and file else "fedgs"
    return Preset(
        name,
        source,
        {"name": name},
        needs=tuple(needs),
        cost=Cost(_UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN),
        flower=_UNKNOWN,
        secure_aggregation="no" if "updates" in needs else _UNKNOWN,
    )


def _reports(sampler: type[Variant]) -> set[str]:
    """The reports that a sampler asks for by default; all of them where that is not known."""
    if not _has(sampler, AsksReports):
        return set()
    try:
        reports: set[str] = set(cast(AsksReports, sampler()).wanted_reports)
    except Exception:  # a setting without a default, or an error of the plug-in
        return set(get_args(ReportName))
    return reports


def _has(sampler: type[Variant], protocol: type) -> bool:
    """Whether a class has the members of a protocol, as settings or otherwise."""
    members = getattr(protocol, "__protocol_attrs__", None) or [
        member for member in vars(protocol) if not member.startswith("_")
    ]
    return all(hasattr(sampler, name) or name in sampler.model_fields for name in members)


def row_of(preset: Preset) -> tuple[str, ...]:
    """The cells of a method's row, one for each of `COLUMNS`."""
    cost = preset.cost
    return (
        preset.name,
        preset.source,
        ", ".join(preset.needs) or "-",
        cost.client_traffic,
        cost.server_traffic,
        cost.client_memory,
        cost.server_memory,
        preset.flower,
        preset.secure_aggregation,
    )


def text(rows: Sequence[Sequence[str]]) -> str:
    """The rows below their headings, in columns."""
    lines = [COLUMNS, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def markdown(presets: Iterable[Preset]) -> str:
    """The rows as a table in Markdown, methods as code."""
    lines = [" | ".join(COLUMNS), " | ".join("---" for _ in COLUMNS)]
    lines += [" | ".join((f"`{row[0]}`", *row[1:])) for row in map(row_of, presets)]
    return "".join(f"| {line} |\n" for line in lines)


def described(preset: Preset) -> str:
    """A method with its row, its settings as TOML and its differences from the publication."""
    built = _built(preset)
    lines = [preset.name, "", f"  sampler    {preset.sampler}: {_summary(built)}"]
    weighting = as_weighting(built.weighting)
    weighting_name = weighting.name or type(weighting).__name__
    lines += [f"  weighting  {weighting_name}: {_summary(weighting)}", ""]
    width = max(map(len, COLUMNS))
    cells = zip(COLUMNS[1:], row_of(preset)[1:], strict=True)
    lines += [f"  {column.ljust(width)}  {cell}" for column, cell in cells]
    lines += ["", "It stands for", ""]
    lines += [f"    {line}" if line else "" for line in _toml(preset).splitlines()]
    if preset.differences:
        lines += ["", "Differences from the publication", ""]
        lines += [f"  * {sentence}" for sentence in preset.differences]
    return "\n".join(lines)


def _summary(part: object) -> str:
    """The first sentence of the part's documentation."""
    return (inspect.getdoc(type(part)) or "").partition("\n\n")[0].replace("\n", " ")


def _toml(preset: Preset) -> str:
    """The settings as TOML: those of the preset with the sampler's own defaults."""
    built = _built(preset)
    tables: dict[str, object] = {"method": table(built)}
    if preset.training:
        tables["training"] = dict(preset.training)
    if preset.aggregation:
        tables["aggregation"] = dict(preset.aggregation)
    return tomli_w.dumps(tables).strip()


def _built(preset: Preset) -> Sampler:
    settings = {key: value for key, value in preset.method.items() if key != "name"}
    return cast(Sampler, variant_class("method", preset.sampler)(**settings))
