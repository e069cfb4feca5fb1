import pytest

from fedgs.errors import ConfigError
from fedgs.registry import Variant, build, register, table, variant_class, variant_names
from fedgs.suggestions import nearest


def test_unknown_name_lists_the_known_ones_and_the_nearest() -> None:
    with pytest.raises(
        ConfigError,
        match=r"server.name must be one of sgd, .*yogi.*; got 'sdg'; did you mean 'sgd'\?",
    ):
        build("server", "sdg")


def test_many_known_names_are_named_by_the_command_that_lists_them() -> None:
    with pytest.raises(
        ConfigError,
        match=r"one of the \d+ names that `fedgs list availability` lists; got 'LFD'; did you mean",
    ):
        build("availability", "LFD")
    with pytest.raises(
        ConfigError, match=r"the \d+ names that `fedgs methods` lists; got 'unifrm'"
    ):
        build("method", "unifrm")


def test_unknown_setting_names_the_known_ones() -> None:
    with pytest.raises(
        ConfigError,
        match=r"method.alhpa is not a setting; known are .*alpha.*; did you mean 'alpha'\?",
    ):
        build("method", {"name": "fedgs", "alhpa": 1})


def test_value_of_the_wrong_type_is_refused_with_setting_and_value() -> None:
    with pytest.raises(ConfigError, match=r"method.alpha should be a valid number, got 'much'"):
        build("method", {"name": "fedgs", "alpha": "much"})


def test_nested_setting_is_named_in_full() -> None:
    with pytest.raises(ConfigError, match=r"method.graph.epsilon should be .*, got -1"):
        build("method", {"name": "fedgs", "graph": {"epsilon": -1}})


def test_booleans_are_no_numbers() -> None:
    with pytest.raises(ConfigError, match="method.alpha"):
        build("method", {"name": "fedgs", "alpha": True})


@pytest.mark.parametrize("value", [3, None, ["fedgs"], {"alpha": 1}])
def test_what_names_no_variant_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="^method"):
        build("method", value)


def test_a_taken_name_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="method 'uniform' is already registered by fedgs.sampling"
    ):

        @register("method", "uniform")
        class Mine(Variant):
            pass


@pytest.mark.parametrize("family", ["availability", "method", "data", "model", "partition"])
def test_every_built_in_variant_is_frozen_and_goes_through_its_table(family: str) -> None:
    made = 0
    for name in variant_names(family):
        cls = variant_class(family, name)
        if any(field.is_required() for field in cls.model_fields.values()):
            continue
        variant = cls()
        if not cls.__module__.startswith("fedgs."):
            continue  # registered by a test or an example
        made += 1
        assert build(family, table(variant)) == variant
        with pytest.raises(Exception, match="frozen"):
            variant.seed = 1  # type: ignore[attr-defined]
    assert made >= 1


def test_nearest_is_silent_for_far_names() -> None:
    assert nearest("zzz", ["IDL", "LDF"]) == ""
