"""What an unknown name or setting was meant to be."""

import pytest
from pydantic import BaseModel

from fedgs.config import Config
from fedgs.errors import ConfigError
from fedgs.experiments.grid import expand, parse_override
from fedgs.registry import variant_classes
from fedgs.suggestions import meant_setting, nearest, setting_paths


class Leaf(BaseModel):
    depth: int = 0
    width: int = 0


class Branch(BaseModel):
    leaf: Leaf = Leaf()
    width: int = 0


class Tree(BaseModel):
    branch: Branch | None = None
    height: int = 0


def no_variants(family: str) -> list[type[BaseModel]]:
    return []


def test_paths_are_listed_by_depth() -> None:
    assert list(setting_paths([Tree], no_variants)) == [
        "branch", "height", "branch.leaf", "branch.width", "branch.leaf.depth",
        "branch.leaf.width",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("heigth", "height"),  # of the model itself: without the prefix, as it was written
        ("width", "tree.branch.width"),  # the shallower one of two
        ("depth", "tree.branch.leaf.depth"),
        ("WITDH", "tree.branch.width"),
    ],
)
def test_a_setting_is_suggested_with_its_path(key: str, path: str) -> None:
    meant = meant_setting(key, [Tree], prefix="tree.", variants=no_variants)
    assert meant == f"; did you mean {path!r}?"


def test_nothing_is_suggested_for_a_name_unlike_all_others() -> None:
    assert meant_setting("zzz", [Tree], prefix="", variants=no_variants) == ""
    assert nearest("zzz", ["height", "width"]) == nearest("zzz", []) == ""


@pytest.mark.parametrize(
    ("setting", "hint"),
    [
        ("beta=.5", "did you mean 'availability.beta', 'method.beta' or 'aggregation.beta'?"),
        ("alpha=2", "did you mean 'method.alpha' or 'aggregation.alpha'?"),
        ("clients=4", "did you mean 'data.clients'?"),
        ("learnin_rate=.1", "did you mean 'training.learning_rate'?"),
        ("similarity=private", "did you mean 'method.graph.similarity'?"),
        ("graph.similarity=private", "did you mean 'method.graph'?"),
        ("method.similarity=private", "did you mean 'method.graph.similarity'?"),
        ("method.rounds=3", "did you mean 'training.rounds'?"),
        ("method.graph.similarity=orcale", "got 'orcale'; did you mean 'oracle'?"),
        ("training.precision=bf15", "got 'bf15'; did you mean 'bf16'?"),
        ("execution.engine=lop", "got 'lop'; did you mean 'loop'?"),
        ("availability.period=3", "known are seed, empty_round, beta; it is a setting of 'YC', "),
    ],
)
def test_a_mistyped_setting_gets_a_suggestion(setting: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        expand(None, [parse_override(setting)])
    assert hint in str(caught.value)


def test_a_setting_of_another_variant_names_its_owners() -> None:
    with pytest.raises(ConfigError, match="known are weighting; it is a setting of 'fedgs'$"):
        expand({"method": {"name": "uniform", "alpha": 2.0}})


def test_every_suggested_path_is_a_setting() -> None:
    """Each path leads through tables and variants that a configuration can have."""
    paths = list(setting_paths([Config], variant_classes))
    assert len(paths) == len(set(paths)) > 80
    assert {"data.partition.labels", "method.weighting.cutoff", "aggregation.server.rate"} <= set(
        paths
    )
