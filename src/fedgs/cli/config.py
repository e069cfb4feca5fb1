"""`fedgs config`: the resolved configuration as TOML, with where each value came from."""

from collections.abc import Mapping
from typing import Annotated

import tomli_w
import typer
from pydantic import BaseModel

from fedgs.cli.common import (
    ConfigArgument,
    DataDirOption,
    PluginOption,
    SetOption,
    console,
    read_grid,
)
from fedgs.experiments.grid import Grid
from fedgs.families import TABLES
from fedgs.registry import table

__all__ = ["config", "resolved_toml"]

_PRESET = "preset of the method"  # the source of what the name of a preset stands for


def config(
    config: ConfigArgument = None,
    set_: SetOption = None,
    plugin: PluginOption = None,
    data_dir: DataDirOption = None,
    full: Annotated[bool, typer.Option("--full", help="Include defaults.")] = False,
) -> None:
    """Print the resolved configuration as TOML, with the source of each value.

    The output is itself a configuration: `fedgs config --full > my.toml; fedgs run my.toml`.
    """
    console().print(resolved_toml(read_grid(config, set_, plugin), full=full), end="")


def resolved_toml(grid: Grid, *, full: bool) -> str:
    """The tables that all runs share, with the axes as `[grid]`.

    A comment behind each value says where it came from. A value that follows from the axes, such as
    the seed of the availability, is itself a comment: set, it would hold for all runs.
    """
    tables = grid.configs[0].tables()
    axes = set(grid.axes)
    lines: list[str] = []
    for key, value in tables.items():
        if not isinstance(value, dict) and key not in axes:
            lines += _line(key, value, dotted=key, grid=grid, full=full)
    for key, value in tables.items():
        if isinstance(value, dict) and key not in axes:
            inner = _section(key, value, grid, full)
            # A table without a value would replace the default; `[system]` is one by its presence.
            if key != "system" and all(line.startswith("# ") for line in inner):
                lines += [f"# {key}.{line[2:]}" for line in inner]
            else:
                lines += ["", f"[{key}]", *inner]
    if grid.axes:
        lines += ["", "[grid]", *(_axis_line(key, grid, full) for key in grid.axes)]
    return "\n".join(lines).strip() + "\n"


def _section(path: str, values: Mapping[str, object], grid: Grid, full: bool) -> list[str]:
    """The lines of one table of the configuration."""
    lines: list[str] = []
    for key, value in values.items():
        dotted = f"{path}.{key}"
        if dotted in grid.axes:
            continue
        if isinstance(value, dict):
            inner = _section(dotted, value, grid, full)
            lines += [
                f"# {key}.{line[2:]}" if line.startswith("# ") else f"{key}.{line}"
                for line in inner
            ]
        else:
            lines += _line(key, value, dotted=dotted, grid=grid, full=full)
    return lines


def _line(key: str, value: object, *, dotted: str, grid: Grid, full: bool) -> list[str]:
    """The line of one setting, or none where it is not shown."""
    source = _source(dotted, grid)
    is_set = dotted in grid.sources or source == _PRESET
    if not (full or is_set or dotted.endswith(".name")):
        return []
    if dotted in grid.left_out:  # set for all runs, but only some of them have the setting
        return [f"{_assignment(key, grid.left_out[dotted])}  # {source}"]
    values = _values(dotted, grid)
    if len(values) > 1:
        return [f"# {key} is {', '.join(values[:-1])} or {values[-1]}, by run"] if full else []
    return [f"{_assignment(key, value)}  # {source}"]


def _values(dotted: str, grid: Grid) -> list[str]:
    """The distinct values of a setting over the runs, as TOML, in the order of the runs.

    Variants without the setting do not count.
    """
    distinct: dict[str, None] = {}
    for config in grid.configs:
        value: object = config.tables()
        for part in dotted.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            distinct[_toml(value)] = None
        elif dotted.split(".")[0] not in TABLES:
            distinct["not set"] = None
    return list(distinct)


def _source(dotted: str, grid: Grid) -> str:
    """Where a value came from: the nearest layer that set it, or the default that applies."""
    family = dotted.split(".")[0]
    if grid.sources.get(family) and dotted == f"{family}.name":
        return grid.sources[family]
    if dotted in grid.sources:
        return grid.sources[dotted]
    if dotted in ("availability.seed", "system.seed"):
        return "seed"
    if dotted in grid.from_presets or dotted.removesuffix(".name") in grid.from_presets:
        return _PRESET
    if family in ("training", "model"):
        return f"default of {grid.configs[0].data.name}"
    return "default"


def _assignment(key: str, value: object) -> str:
    """One line of TOML; tables inside lists are written inline."""
    return f"{key} = {_toml(value)}"


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return tomli_w.dumps({"v": value}).removeprefix("v = ").strip()


def _axis_line(key: str, grid: Grid, full: bool) -> str:
    """One axis; its tables stand in lines of their own."""
    name = f'"{key}"' if "." in key else key
    values = grid.axes[key]
    if key in TABLES:
        values = [_axis_value(key, value, grid, full) for value in values]
    if not any(isinstance(value, dict) for value in values):
        return _assignment(name, values)
    return "\n".join([f"{name} = [", *(f"    {_toml(value)}," for value in values), "]"])


def _axis_value(
    family: str, value: str | Mapping[str, object] | BaseModel, grid: Grid, full: bool
) -> object:
    """A variant of an axis with all its settings, or with those that were set.

    It is the name alone where no setting was set.
    """
    if isinstance(value, str):
        given: Mapping[str, object] = {"name": value}
    else:
        given = table(value) if isinstance(value, BaseModel) else value
    variants = (
        config.tables().get(family)
        for config, choice in zip(grid.configs, grid.choices, strict=True)
        if choice.get(family) is value or choice.get(family) == value
    )
    variant = next(variants, None)
    if variant is None:  # another value of the axis stands for the same runs
        return value if isinstance(value, str) else given
    settings = _settings(variant, family, given=given, grid=grid, full=full)
    return {"name": given["name"], **settings} if settings else given["name"]


def _settings(
    variant: Mapping[str, object], path: str, *, given: object, grid: Grid, full: bool
) -> dict[str, object]:
    """The settings of a variant to show.

    Those that are an axis themselves, or follow from another axis, are left out.
    """
    shown: dict[str, object] = {}
    for key, value in variant.items():
        dotted = f"{path}.{key}"
        given_value = given.get(key) if isinstance(given, Mapping) else None
        if (dotted == f"{path}.name" and "." not in path) or dotted in grid.axes:
            continue
        if isinstance(value, dict):
            inner = _settings(value, dotted, given=given_value, grid=grid, full=full)
            if inner:
                shown[key] = inner
            continue
        by_default = full and dotted != "availability.seed"
        if given_value is not None or dotted in grid.sources or by_default:
            shown[key] = value
    return shown
