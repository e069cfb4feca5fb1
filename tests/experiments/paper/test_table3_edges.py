"""The edges of table 3 on a federation small enough to check."""

from typing import Any

import numpy as np
import pytest

from fedgs.config import Config
from fedgs.data import Federation
from fedgs.errors import ConfigError
from fedgs.experiments.paper.table3_edges import recovered_edges, similarities
from fedgs.graph.recovery import EPSILONS, ORACLES


def separated() -> Federation:
    """Six clients, two for each of three labels that are far apart.

    The oracle joins clients of equal label.
    """
    draws = np.random.default_rng(0)
    owner = np.repeat(np.arange(6), 20)
    y = owner // 2
    x = (np.eye(3)[y] * 8 + draws.normal(size=(120, 3))).astype(np.float32)
    keep = np.arange(120) % 5 > 0
    return Federation.from_arrays(
        x[keep],
        y[keep],
        client=owner[keep],
        test=(x, y),
        validation=(x[~keep], y[~keep], owner[~keep]),
        name="separated",
    )


def config_of(**settings: Any) -> Config:
    tables: dict[str, Any] = {
        "data": "synthetic",
        "availability": "IDL",
        "method": "fedgs",
        "model": "logistic",
    }
    return Config(**{**tables, **settings})


def test_clients_with_the_same_label_are_found_by_their_models() -> None:
    rows = recovered_edges(config_of(), separated())
    # 2 similarities x 3 oracles x (5 epsilons and 2 rules)
    assert len(rows) == 2 * 3 * 7
    for kind in ("functional", "update"):
        for oracle in ORACLES:
            compared = [row for row in rows if (row.similarity, row.oracle) == (kind, oracle)]
            grid = [row for row in compared if row.rule == "grid"]
            assert sorted(row.epsilon for row in grid) == list(EPSILONS)
            assert sorted(row.rule for row in compared if row.rule != "grid") == [
                "density",
                "histogram",
            ]
            if kind == "update":
                assert max(row.f1 for row in grid) == 1.0
    assert {(row.data, row.local_steps, row.seed) for row in rows} == {("synthetic", 10, 0)}


def test_similarities_are_symmetric_and_in_0_to_1(toy_federation: Federation) -> None:
    config = config_of(training={"local_steps": 2, "batch_size": 4})
    by_kind = similarities(config, toy_federation)
    assert list(by_kind) == ["functional", "update"]
    for similarity in by_kind.values():
        np.testing.assert_array_equal(similarity, similarity.T)
        assert similarity.min() >= 0 and similarity.max() <= 1


def test_a_federation_without_a_model_is_refused(toy_federation: Federation) -> None:
    config = config_of(data={"name": "file", "path": "x.npz"}, model=None)
    with pytest.raises(ConfigError, match=r"^model must be given for Table 3, got none$"):
        recovered_edges(config, toy_federation)
