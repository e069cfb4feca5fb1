"""Settings that were added after the first versions, and the runs of the versions before."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from fedgs.availability import Diurnal, Trace
from fedgs.data import Synthetic
from fedgs.evaluation_settings import Evaluation
from fedgs.execution_settings import Execution
from fedgs.families import FAMILIES
from fedgs.graph.settings import Graph
from fedgs.registry import Variant, table, variant_classes
from fedgs.sampling import FedGS
from fedgs.stopping import Stopping
from fedgs.training_settings import Training
from fedgs.weighting import F3ASTWeighting, FedAU, InverseParticipation

# Class -> settings that must be given, and for each later setting others with a value of it.
CASES: dict[type[Variant], tuple[dict[str, Any], dict[str, dict[str, Any]]]] = {
    FedGS: ({}, {"balance": {"balance": "answered"}}),
    Graph: ({}, {"structure": {"structure": "dense"}, "landmarks": {"landmarks": 64}}),
    Trace: ({"path": "some.npz"}, {"zones": {"zones": "local"}}),
    Diurnal: ({}, {"couple": {"couple": "data_size"}}),
    Synthetic: ({}, {"on_demand": {"on_demand": True}}),
    FedAU: ({}, {"counts": {"counts": "selected"}}),
    F3ASTWeighting: ({}, {"counts": {"counts": "selected"}}),
    InverseParticipation: ({}, {"counts": {"counts": "answered"}}),
    Stopping: ({}, {"target_metrics": {"target_metrics": {"auc": 0.9}}}),
    Execution: (
        {},
        {
            "trust_network": {"trust_network": True, "cluster": "auto"},
            "share": {"share": "runs", "cluster": "auto"},
        },
    ),
    Evaluation: (
        {},
        {
            "metrics": {"metrics": ["auc"]},
            "per_client": {"per_client": {"every": 3}},
            "sample": {"sample": 5},
            "best": {"best": "test_loss"},
        },
    ),
    Training: (
        {},
        {
            "objective": {"objective": "equal"},
            "local_epochs": {"local_epochs": 2},
            "drop_last": {"drop_last": True},
            "schedule": {"schedule": {"name": "cosine", "rounds": 9}},
            "warmup": {"warmup": 3},
            "loss": {"loss": {"name": "cross_entropy", "label_smoothing": 0.1}},
            "optimizer": {"optimizer": "adam"},
            "clip": {"clip": 1.0},
            "optimizer_state": {"optimizer_state": "client", "optimizer": "adam"},
        },
    ),
}
# Digests of the tables of the defaults, which are parts of the identities of stored runs. One that
# changes makes stored runs other runs: a new setting belongs into `later_settings`.
DIGESTS = {
    "FedGS": "ff92411c",
    "Graph": "fb4f8219",
    "Trace": "c25abca9",
    "Diurnal": "08b5bafa",
    "Synthetic": "8b8eff41",
    "FedAU": "5e659d65",
    "F3ASTWeighting": "ab6e30b0",
    "InverseParticipation": "076db9c9",
    "Stopping": "44136fa3",
    "Execution": "21f552f4",
    "Evaluation": "7e8b4bd1",
    "Training": "9060c9a1",
}


def _below(cls: type[Variant]) -> Iterator[type[Variant]]:
    for child in cls.__subclasses__():
        yield child
        yield from _below(child)


def _digest(variant: Variant) -> str:
    return hashlib.sha256(json.dumps(table(variant), sort_keys=True).encode()).hexdigest()[:8]


def test_every_class_with_later_settings_is_tested() -> None:
    for family in FAMILIES:
        variant_classes(family)
    found = {cls for cls in _below(Variant) if cls.__module__.startswith("fedgs.")}
    own = {cls for cls in found if "later_settings" in vars(cls)}
    assert own == set(CASES)


@pytest.mark.parametrize("cls", CASES)
def test_tables_of_the_defaults_are_those_of_earlier_versions(cls: type[Variant]) -> None:
    given, values = CASES[cls]
    later = {name for names in cls.later_settings for name in names}
    assert {names[0] for names in cls.later_settings} == set(values)
    assert later <= set(cls.model_fields)
    assert not later & set(table(cls(**given)))
    assert _digest(cls(**given)) == DIGESTS[cls.__name__]


@pytest.mark.parametrize(
    ("cls", "names"),
    [(cls, names) for cls in CASES for names in cls.later_settings],
    ids=lambda value: value.__name__ if isinstance(value, type) else value[0],
)
def test_a_later_setting_is_in_the_table_with_what_depends_on_it(
    cls: type[Variant], names: tuple[str, ...]
) -> None:
    given, values = CASES[cls]
    variant = cls(**given, **values[names[0]])
    stored = table(variant)
    assert set(names) <= set(stored)
    stored.pop("name", None)
    assert cls(**stored) == variant
    assert variant != cls(**given)
