"""Table 3 from stored rows."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from tests.experiments.paper.helpers import request_of

from fedgs.errors import ConfigError
from fedgs.experiments.paper.frame.experiment import Computed, ExperimentRecords
from fedgs.experiments.paper.table3 import computations, render
from fedgs.experiments.paper.table3_edges import Recovered


def recovered(similarity: str, *, seed: int, f1: float, rule: str = "grid") -> Recovered:
    return Recovered(
        data="cifar10",
        local_steps=10,
        seed=seed,
        similarity=similarity,
        oracle="raw",
        rule=rule,
        epsilon=0.1,
        precision=0.5,
        recall=0.6,
        f1=f1,
        density=0.3,
    )


def records_of(rows: list[Recovered]) -> ExperimentRecords:
    stored = np.array(json.dumps([asdict(row) for row in rows]))
    return ExperimentRecords(computed={"cifar10/E10/seed0": Computed({"rows": stored}, {})})


def test_the_best_f1_of_each_seed_is_beside_the_papers() -> None:
    rows = [
        recovered("functional", seed=0, f1=0.7),
        recovered("functional", seed=0, f1=0.8),
        recovered("functional", seed=1, f1=0.6),
        recovered("update", seed=0, f1=0.5),
        recovered("update", seed=0, f1=0.9, rule="density"),
    ]
    rendering = render(request_of("table3", None), records_of(rows))
    functional, cosine, density = rendering.tables[""].rows
    assert [cell.text for cell in functional] == [
        *("functional", "raw products", "best F1"),
        *(".500 ± .000 (.879)", ".600 ± .000 (.870)", ".700 ± .141 (.874)"),
    ]
    assert (cosine[-1].text, density[-1].text) == (".500 (.233)", ".900")
    assert rendering.verdict == [
        "CIFAR10, 10 local steps, oracle with raw products: F1 of the functional similarity (.700) "
        "is above that of the cosine (.500), as in the paper."
    ]
    assert len(rendering.csv_only["rows"].rows) == 5


def test_a_reversed_order_is_against_the_paper() -> None:
    rows = [recovered("functional", seed=0, f1=0.4), recovered("update", seed=0, f1=0.5)]
    (sentence,) = render(request_of("table3", None), records_of(rows)).verdict
    assert sentence.endswith("is not above that of the cosine (.500), against the paper.")


def test_several_numbers_of_local_steps_are_several_computations() -> None:
    overrides = (("training.local_steps", [1, 5]), ("data.seed", 7))
    request = request_of("table3", None, overrides=overrides)
    assert [computation.key for computation in computations(request)] == [
        *("cifar10/E1/seed0", "cifar10/E5/seed0"),
        *("fashion_mnist/E1/seed0", "fashion_mnist/E5/seed0"),
    ]
    request = request_of("table3", None, overrides=(("method", "md"),))
    message = "--set method means nothing for table3; it takes settings of data, training, model"
    with pytest.raises(ConfigError, match=message):
        computations(request)
