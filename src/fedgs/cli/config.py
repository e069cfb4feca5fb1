"""`fedgs config`: the resolved configuration as TOML, with where each value came from."""

from typing import Annotated, Any

import tomli_w
import typer

from fedgs.cli.common import ConfigArgument, DataDirOption, PluginOption, SetOption, console, read_grid
from fedgs.experiments.grid import FAMILIES, Grid
from fedgs.registry import table

__all__ = ["config", "resolved_toml"]


def config(
    config: ConfigArgument = None,
    set_: SetOption = None,
    plugin: PluginOption = None,
    data_dir: DataDirOption = None,
    full: Annotated[bool, typer.Option("--full", help="Defaults too, not only what was set.")] = False,
) -> None:
    """Print the resolved configuration as TOML, with where each value came from.

    What is printed is itself a configuration: `fedgs config --full > my.toml; fedgs run my.toml`.
    """
    console().print(resolved_toml(read_grid(config, set_, plugin), full=full), end="")


def resolved_toml(grid: Grid, *, full: bool) -> str:
    """The first run's tables, axes as `[grid]`; a comment behind each value says where it came from."""
    tables = grid.configs[0].tables()
    axes = set(grid.axes)
    lines: list[str] = []
    for key, value in tables.items():
        if not isinstance(value, dict) and key not in axes:
            lines += _line(key, value, key, grid, full)
    for key, value in tables.items():
        if isinstance(value, dict) and key not in axes:
            inner = _section(key, value, grid, full)
            if inner:
                lines += ["", f"[{key}]", *inner]
    if grid.axes:
        lines += ["", "[grid]", *(_assignment(f'"{k}"' if "." in k else k, _axis(k, grid)) for k in grid.axes)]
    return "\n".join(lines).strip() + "\n"


def _section(path: str, values: dict[str, Any], grid: Grid, full: bool) -> list[str]:
    lines: list[str] = []
    for key, value in values.items():
        dotted = f"{path}.{key}"
        if dotted in grid.axes:
            continue
        if isinstance(value, dict):
            lines += [f"{key}.{line}" for line in _section(dotted, value, grid, full)]
        else:
            lines += _line(key, value, dotted, grid, full)
    return lines


def _line(key: str, value: Any, dotted: str, grid: Grid, full: bool) -> list[str]:
    source = _source(dotted, grid)
    wanted = full or dotted in grid.sources or dotted.endswith(".name")
    return [f"{_assignment(key, value)}  # {source}"] if wanted else []


def _source(dotted: str, grid: Grid) -> str:
    """Where a value came from: the nearest layer that set it, or the default that applies."""
    if dotted in grid.sources:
        return grid.sources[dotted]
    family = dotted.split(".")[0]
    if grid.sources.get(family) and dotted == f"{family}.name":
        return grid.sources[family]
    if dotted == "availability.seed":
        return "seed"
    if family in ("training", "model"):
        return f"default of {grid.configs[0].data.name}"
    return "default"


def _assignment(key: str, value: Any) -> str:
    """One line of TOML; tables inside lists are written inline."""
    return f"{key} = {_toml(value)}"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return tomli_w.dumps({"v": value}).removeprefix("v = ").strip()


def _axis(key: str, grid: Grid) -> list[Any]:
    """The axis as it was written, variant objects as tables."""
    values = grid.axes[key]
    return [table(value) if key in FAMILIES and not isinstance(value, str | dict) else value for value in values]
