"""From files, `--set` and grids to configurations: one `Config` a run.

A configuration is laid in layers (defaults, the file, `--set`), each a nest of plain tables.
`[grid]` names axes: every combination of their values is a run. A key that a variant does not have,
or that changes nothing beside its other settings, is dropped for it, and equal runs collapse into
one.
"""

import contextlib
import copy
import itertools
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedgs.config import Config
from fedgs.errors import ConfigError
from fedgs.experiments.presets import preset_of
from fedgs.families import TABLES
from fedgs.registry import Variant, variant_class, variant_classes
from fedgs.suggestions import meant_setting, setting_paths

__all__ = ["COMPARISON", "Grid", "build_config", "expand", "parse_override", "read_config"]

Tables = dict[str, Any]
BASE: Tables = {"data": "synthetic", "availability": "IDL", "method": "fedgs", "seed": 0}
COMPARISON: Tables = {
    "data": "synthetic",
    "availability": "LDF",
    "method": "fedgs",
    "training": {"rounds": 200},
    "grid": {"method": ["fedgs", "uniform", "md", "fedprox", "power_of_choice"], "seed": [0, 1, 2]},
}
# Set late, this key replaces what a file says in its table, as another name of a variant does.
_STANDS_ALONE = ("method.graph.path",)


@dataclass(frozen=True)
class Grid:
    """The configurations of a study, one a run, and where their values came from.

    Attributes:
        configs: distinct, in the order of the axes.
        axes: dotted key -> its values; empty for a single run.
        sources: dotted key -> "default", the file's name or "--set".
        choices: for each configuration, dotted key of an axis -> the value of the axis that it was
            made of.
        left_out: dotted key -> value of settings that some runs are without, since they change
            nothing there.
        from_presets: dotted key of a setting that a preset gave some run -> the preset's name.
    """

    configs: list[Config]
    axes: dict[str, list[Any]]
    sources: dict[str, str]
    choices: list[dict[str, object]]
    left_out: dict[str, object] = field(default_factory=dict)
    from_presets: dict[str, str] = field(default_factory=dict)


def read_config(path: Path) -> Tables:
    """A configuration file as nested tables.

    Raises:
        ConfigError: no such file, or not TOML (with line and column).
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(
            f"the configuration {str(path)!r} cannot be read: {error.strerror}"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration {str(path)!r} is not TOML: {error}") from None


def parse_override(text: str) -> tuple[str, object]:
    """`K=V` as a dotted key and a value; V is TOML, and what is not TOML is taken as a string.

    Numbers may begin with the decimal point, as TOML's may not.

    >>> parse_override("training.rounds=50"), parse_override("availability=MDF")
    (('training.rounds', 50), ('availability', 'MDF'))
    >>> parse_override("method.alpha=[.5, 2]")
    ('method.alpha', [0.5, 2])
    >>> parse_override("seed=[0, 1]")
    ('seed', [0, 1])

    Raises:
        ConfigError: no `=` or no key.
    """
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key or not all(key.split(".")):
        raise ConfigError(
            f"--set takes KEY=VALUE with a dotted key, such as training.rounds=50; got {text!r}"
        )
    for text in (value, re.sub(r"(?<![\w.])\.(?=\d)", "0.", value)):
        with contextlib.suppress(tomllib.TOMLDecodeError):
            return key, tomllib.loads(f"value = {text}")["value"]
    return key, value.strip()


def expand(
    given: Mapping[str, object] | None,
    overrides: Iterable[tuple[str, object]] = (),
    *,
    file: str = "file",
) -> Grid:
    """The configurations that a file (None: the standard comparison) and overrides ask for.

    Args:
        given: tables of a configuration file.
        overrides: dotted keys and values, applied in order; a list makes an axis of the grid.
        file: what to call the file in `sources`.

    Raises:
        ConfigError: an unknown key, a value out of range, an empty axis, an axis that no variant of
            the grid knows.

    >>> grid = expand({"grid": {"method": ["fedgs", "uniform"], "method.alpha": [0.0, 1.0]}})
    >>> [(config.method.name, getattr(config.method, "alpha", None)) for config in grid.configs]
    [('fedgs', 0.0), ('fedgs', 1.0), ('uniform', None)]
    """
    base = COMPARISON if given is None else BASE
    sources: dict[str, str] = {}
    tables = _merged({}, base, sources, "default")
    if given is not None:
        tables = _merged(tables, given, sources, file)
    axes = _axes(tables.pop("grid", {}))
    late: list[tuple[str, object]] = _beside_axes(tables, axes)
    for key, value in sorted(overrides, key=_in_order):
        if key in _STANDS_ALONE and value is not None:
            late = _without_beside(tables, late, key)
        _override(tables, axes, late, (key, value))
        sources[key] = "--set"
    from_presets: dict[str, str] = {}
    configs, choices, left_out = _combinations(tables, axes, late, from_presets)
    return Grid(configs, axes, sources, choices, left_out, from_presets)


def _merged(
    lower: Tables, upper: Mapping[str, object], sources: dict[str, str], source: str
) -> Tables:
    """The lower layer with the upper one laid over it.

    A variant of another name replaces the whole variant of the lower layer.
    """
    merged = copy.deepcopy(lower)
    for key, value in upper.items():
        if key == "grid":
            merged[key] = (
                {**merged.get(key, {}), **copy.deepcopy(value)}
                if isinstance(value, Mapping)
                else value
            )
        elif key in TABLES:
            table = {"name": value} if isinstance(value, str) else copy.deepcopy(value)
            below = merged.get(key, {})
            name = below.get("name")
            if isinstance(table, Mapping) and table.get("name", name) == name:
                table = _deep(below, table)
            merged[key] = table
        elif isinstance(value, Mapping):
            merged[key] = _deep(merged.get(key, {}), value)
        else:
            merged[key] = value
        for path in _paths(key, merged[key] if key in TABLES else value):
            sources[path] = source
    return merged


def _deep(lower: object, upper: Mapping[str, object]) -> Tables:
    result = copy.deepcopy(dict(lower)) if isinstance(lower, Mapping) else {}
    for key, value in upper.items():
        result[key] = (
            _deep(result.get(key), value) if isinstance(value, Mapping) else copy.deepcopy(value)
        )
    return result


def _paths(key: str, value: object) -> list[str]:
    if isinstance(value, Mapping):
        return [path for inner, item in value.items() for path in _paths(f"{key}.{inner}", item)]
    return [key]


def _value(tables: Tables, key: str) -> object:
    """What stands under a dotted key."""
    path, _, last = key.rpartition(".")
    return _table(tables, path)[last]


def _table(tables: Tables, path: str) -> Tables:
    """The table under a dotted path, "" for the outermost."""
    for part in path.split(".") if path else ():
        tables = tables[part]
    return tables


def _axes(grid: object) -> dict[str, list[object]]:
    """Dotted axes of a `[grid]` table, written dotted or nested."""
    if not isinstance(grid, Mapping):
        raise ConfigError(f"grid must be a table of lists, got {grid!r}")
    axes: dict[str, list[object]] = {}
    for key, value in grid.items():
        if isinstance(value, Mapping):
            axes |= {f"{key}.{inner}": values for inner, values in _axes(value).items()}
        elif isinstance(value, list) and value:
            axes[key] = list(value)
        else:
            raise ConfigError(f"grid.{key} must be a list of at least one value, got {value!r}")
    return axes


def _beside_axes(tables: Tables, axes: Mapping[str, list[object]]) -> list[tuple[str, object]]:
    """Settings of a variant that stand beside an axis of variants.

    They apply to all variants of the axis that have them.
    """
    settings: list[tuple[str, object]] = []
    for family in TABLES:
        table = tables.get(family)
        if family in axes and isinstance(table, Mapping):
            keys = [
                key for key in _paths(family, table) if key != f"{family}.name" and key not in axes
            ]
            settings += [(key, _value(tables, key)) for key in keys]
    return settings


def _in_order(override: tuple[str, object]) -> tuple[int, int]:
    """The position of an override in the order of application.

    Whole variants and names come before their settings, and settings that replace a table before
    others of that table.

    >>> _in_order(("model.name", "mlp")) < _in_order(("model.start", "weights.safetensors"))
    True
    """
    key = override[0]
    if "." not in key:
        return 0, 0
    replaces = key in _STANDS_ALONE or key.endswith(".name")
    return (1, key.count(".")) if replaces else (2, 0)


def _without_beside(
    tables: Tables, late: list[tuple[str, object]], key: str
) -> list[tuple[str, object]]:
    """Clear the table that an override replaces.

    Returns:
        The settings of `late` that are not in that table.
    """
    table = key.rpartition(".")[0]
    replaced: object = tables
    for part in table.split("."):
        replaced = replaced.get(part) if isinstance(replaced, Mapping) else None
    if isinstance(replaced, dict):
        replaced.clear()
    return [(other, value) for other, value in late if not other.startswith(f"{table}.")]


def _override(
    tables: Tables,
    axes: dict[str, list[object]],
    late: list[tuple[str, object]],
    override: tuple[str, object],
) -> None:
    """Apply an override to the tables, the axes or the settings beside the axes."""
    key, value = override[0].removeprefix("grid."), override[1]
    family, _, setting = key.partition(".")
    if isinstance(value, list):
        if not value:
            raise ConfigError(f"--set {key} must be a list of at least one value, got []")
        axes[key] = value
        return
    axes.pop(key, None)
    if setting and family in axes:
        late.append((key, value))
    else:
        _put(tables, key, value)


def _put(tables: Tables, key: str, value: object) -> None:
    """Set a dotted key; a bare variant name replaces the whole variant."""
    *path, last = key.split(".")
    table = tables
    for position, part in enumerate(path):
        inner = table.setdefault(part, {})
        if isinstance(inner, str):
            inner = table[part] = {"name": inner}
        if not isinstance(inner, dict):
            raise ConfigError(
                f"{'.'.join(path[: position + 1])} is not a table, so {key} cannot be set"
            )
        table = inner
    if not path and key in TABLES and isinstance(value, str):
        value = {"name": value}
    if path and last == "name" and table.get("name") != value:
        table.clear()
    table[last] = copy.deepcopy(value)


def _combinations(
    tables: Tables,
    axes: dict[str, list[object]],
    late: Sequence[tuple[str, object]],
    from_presets: dict[str, str],
) -> tuple[list[Config], list[dict[str, object]], dict[str, object]]:
    """The distinct configurations of a grid.

    Args:
        tables: of the layers.
        axes: dotted key -> values.
        late: settings beside the axes.
        from_presets: what presets give is added, dotted setting -> the preset's name.

    Returns:
        The configurations, for each the values of the axes that it was made of, and the settings
        that some are without.
    """
    keys = sorted(axes, key=lambda key: key.count("."))  # whole variants first, then their settings
    used: set[str] = set()
    made: list[Tables] = []
    left_out: dict[str, tuple[object, str]] = {}  # settings without an effect -> value, why
    configs: list[Config] = []
    choices: list[dict[str, object]] = []
    seen: set[str] = set()
    for values in itertools.product(*(axes[key] for key in keys)):
        combination = copy.deepcopy(tables)
        for key, value in zip(keys, values, strict=True):
            if _has(combination, key):
                used.add(key)
                _put(combination, key, value)
        for key, value in late:
            if _has(combination, key):
                used.add(key)
                _put(combination, key, value)
        tables_on_axes = (
            (key, value)
            for key, value in zip(keys, values, strict=True)
            if isinstance(value, Mapping)
        )
        left_out |= _without_useless(
            combination, {path for key, value in tables_on_axes for path in _paths(key, value)}
        )
        made.append(combination)
        if (preset := preset_of(combination)) is not None:
            from_presets |= dict.fromkeys(preset.settings(combination), preset.name)
        config = build_config(combination)
        identity = repr(config)
        if identity not in seen:
            seen.add(identity)
            configs.append(config)
            choices.append(dict(zip(keys, values, strict=True)))
    for key in [*keys, *(key for key, _ in late)]:
        if key not in used:
            raise ConfigError(_unknown(key, tables, axes))
    for key, (value, why) in left_out.items():
        if not any(_has_effect(combination, key, value) for combination in made):
            raise ConfigError(why)
    return configs, choices, {key: value for key, (value, _) in left_out.items() if key not in axes}


def _without_useless(combination: Tables, whole: Collection[str]) -> dict[str, tuple[object, str]]:
    """Take settings out that change nothing beside the others.

    Those of a table that an axis names whole stay, and are refused later.

    Args:
        combination: changed in place.
        whole: dotted keys that the tables on axes hold.

    Returns:
        What was taken out, dotted -> its value, and why.
    """
    useless = {
        key: why
        for family in TABLES
        for key, why in _useless(combination, family).items()
        if key not in whole
    }
    taken: dict[str, tuple[object, str]] = {}
    for key, why in useless.items():
        path, _, last = key.rpartition(".")
        taken[key] = _table(combination, path).pop(last), why
    return taken


def _useless(combination: Tables, family: str) -> dict[str, str]:
    """Dotted settings of a family's variant that change nothing beside the others -> why."""
    settings = combination.get(family)
    if not isinstance(settings, Mapping) or not isinstance(settings.get("name"), str):
        return {}
    without_effect = _variant(combination, family).without_effect(settings)
    return {f"{family}.{path}": why for path, why in without_effect.items()}


def _has_effect(combination: Tables, key: str, value: object) -> bool:
    """Whether a setting would change anything in these tables."""
    if not _has(combination, key):
        return False
    tried = copy.deepcopy(combination)
    _put(tried, key, value)
    return key not in _useless(tried, key.split(".")[0])


def build_config(tables: Mapping[str, Any]) -> Config:
    """One configuration from tables or objects.

    A preset such as "fedprox" becomes the settings that it stands for. An aggregation without a
    name is `mean`.

    >>> build_config({"data": "synthetic", "availability": "IDL", "method": "fedprox"}).training.mu
    0.01
    """
    preset = preset_of(tables)
    laid = dict(tables) if preset is None else preset.laid_under(tables)
    aggregation = laid.get("aggregation")
    if isinstance(aggregation, Mapping) and "name" not in aggregation:
        laid["aggregation"] = {"name": "mean", **aggregation}
    return Config(**laid)


def _variant(tables: Tables, family: str) -> type[Variant]:
    value = tables.get(family)
    name = value.get("name") if isinstance(value, Mapping) else value
    if isinstance(value, Variant):
        return type(value)
    preset = preset_of(tables)
    if family == "method" and preset is not None:
        name = preset.sampler
    elif family == "aggregation" and name is None:
        name = (preset.aggregation if preset is not None else {}).get("name", "mean")
    return variant_class(family, str(name))


def _has(tables: Tables, key: str) -> bool:
    """Whether a dotted key is a setting in these tables.

    The key of a variant is looked up in the named variant; others count as settings, and are
    checked later.
    """
    family, _, path = key.partition(".")
    if not path or family not in TABLES or path == "name":
        return True
    if family not in tables:
        return True
    fields = _variant(tables, family).model_fields
    return path.split(".")[0] in fields


def _unknown(key: str, tables: Tables, axes: Mapping[str, list[object]]) -> str:
    """The refusal of a setting that no variant has which these tables name."""
    family, _, setting = key.partition(".")
    variants = [
        {family: {"name": v} if isinstance(v, str) else v}
        for v in axes.get(family, [tables.get(family)])
    ]
    models = [_variant(variant, family) for variant in variants]
    known = sorted({name for model in models for name in model.model_fields})
    names = ", ".join(sorted({model.__name__ for model in models}))
    own = {path.rpartition(".")[2] for path in setting_paths(models, variant_classes)}
    elsewhere = [path for path in setting_paths([Config], variant_classes) if "." in path]
    if setting in {path.rpartition(".")[2] for path in elsewhere} - own:
        meant = meant_setting(setting, [Config], prefix="", variants=variant_classes)
    else:
        meant = meant_setting(setting, models, prefix=f"{family}.", variants=variant_classes)
    return f"{key} is not a setting of {names}; known are {', '.join(known)}{meant}"
