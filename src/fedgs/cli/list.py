"""`fedgs list`: what a configuration can name, by family: modes, data sets, models and others."""

import inspect
import json
from typing import Annotated

import typer
from pydantic import BaseModel

from fedgs.cli.common import PluginOption, console
from fedgs.errors import ConfigError, missing_extra
from fedgs.families import FAMILIES, Family
from fedgs.registry import (
    Variant,
    load_plugin,
    preset_names,
    table,
    variant_class,
    variant_names,
)
from fedgs.suggestions import nearest

__all__ = ["described", "list_", "names_of", "overview", "settings_of"]


def list_(
    family: Annotated[
        str,
        typer.Argument(metavar="FAMILY", help=f"One of {', '.join(FAMILIES)}.", show_default=False),
    ] = "",
    plugin: PluginOption = None,
) -> None:
    """List availability modes, data sets, models, partitions and all other variants.

    With a family, each of its variants is described with its settings and their defaults.
    """
    for path in plugin or []:
        load_plugin(path)
    if not family:
        console().print("\n".join(map(overview, FAMILIES.values())))
        console().print("\nNext: fedgs list availability    fedgs methods    fedgs config --full")
        return
    by_word = {found.title.split()[-1]: key for key, found in FAMILIES.items()}
    key = by_word.get(family, family)
    if key not in FAMILIES:
        known = {**dict.fromkeys(FAMILIES), **by_word}
        raise ConfigError(
            f"FAMILY must be one of {', '.join(FAMILIES)}; got {family!r}{nearest(family, known)}"
        )
    console().print(described(FAMILIES[key]))


def names_of(family: Family) -> list[str]:
    """The names that a configuration can give, variants before presets.

    >>> names_of(FAMILIES["weighting"])[:3]
    ['data_size', 'draws', 'equal']
    """
    variants = variant_names(family.key)
    return variants + [name for name in preset_names(family.key) if name not in variants]


def overview(family: Family) -> str:
    """Two lines: how a family's variants are chosen, and their names.

    >>> print(overview(FAMILIES["availability"]))  # doctest: +ELLIPSIS
    availability modes    --set availability=NAME
      IDL, MDF, LDF, YMF, YC, LN, SLN, file, ...
    """
    try:
        names = ", ".join(names_of(family))
    except ModuleNotFoundError as error:  # the models need PyTorch
        if (missing := missing_extra(error)) is None:
            raise
        names = str(missing)
    return f"{family.title:<20}  --set {family.setting}=NAME\n  {names}"


def described(family: Family) -> str:
    """Every variant of a family with what it does, its settings and their defaults."""
    lines = [f"{family.title}: --set {family.setting}=NAME"]
    for name in variant_names(family.key):
        variant = variant_class(family.key, name)
        lines += ["", f"  {name}", f"    {_summary(variant)}"]
        if settings := settings_of(variant):
            lines += [f"    Settings: {settings}"]
    if presets := preset_names(family.key):
        lines += ["", f"  Presets: {', '.join(presets)}"]
        lines += ["    A preset sets several parts of a run; see fedgs methods NAME."]
    return "\n".join(lines)


def settings_of(variant: type[Variant]) -> str:
    """A variant's settings in one line, as TOML with their defaults.

    >>> settings_of(variant_class("availability", "SLN"))
    'seed (optional), empty_round = "redraw", beta = 0.5, period = 24'
    >>> settings_of(variant_class("availability", "file"))
    'seed (optional), empty_round = "redraw", path (required)'
    """
    settings = []
    for name, field in variant.model_fields.items():
        if field.exclude:  # a user's function, which the name of its variant stands for
            continue
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        if default is None:
            settings += [f"{name} ({'required' if field.is_required() else 'optional'})"]
        elif isinstance(default, BaseModel):
            named = table(default).get("name")
            settings += [f"{name}.*" if named is None else f"{name} = {json.dumps(named)}"]
        else:
            settings += [f"{name} = {json.dumps(default)}"]
    return ", ".join(settings)


def _summary(variant: type[Variant]) -> str:
    """The first paragraph of the variant's documentation, in one line."""
    return (inspect.getdoc(variant) or "").partition("\n\n")[0].replace("\n", " ")
