"""The table of variant families: what it says is true of the package."""

import functools
import importlib
import typing

import pytest

from fedgs.config import Config
from fedgs.families import FAMILIES, TABLES, Family
from fedgs.registry import Variant, register, variant_class, variant_names


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.key)
def test_built_in_variants_extend_the_named_base(family: Family) -> None:
    module, _, name = family.base.rpartition(".")
    base = functools.reduce(getattr, [name], importlib.import_module(module))
    names = variant_names(family.key)
    assert names
    assert all(issubclass(variant_class(family.key, name), base) for name in names)


def test_the_tables_are_the_variants_of_a_configuration() -> None:
    fields = [
        key
        for key, field in Config.model_fields.items()
        if field.annotation in (Variant, Variant | None)
    ]
    assert tuple(fields) == TABLES


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.key)
def test_a_setting_that_can_be_none_is_none_by_default(family: Family) -> None:
    # Tables leave out None, and a table without the setting would stand for the default.
    for name in variant_names(family.key):
        for setting, field in variant_class(family.key, name).model_fields.items():
            can_be_none = type(None) in typing.get_args(field.annotation)
            assert not can_be_none or field.default is None, f"{name}.{setting}"


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.key)
def test_a_refused_registration_names_the_base(family: Family) -> None:
    with pytest.raises(Exception, match=f"takes a subclass of {family.base}, got"):
        register(family.key, "no-variant")(int)  # type: ignore[type-var]
