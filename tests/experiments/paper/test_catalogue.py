"""The names of `fedgs reproduce`."""

import pytest

from fedgs.errors import ConfigError
from fedgs.experiments.paper.catalogue import NAMES, find


def test_every_name_has_an_experiment_that_runs_or_computes() -> None:
    assert (
        *("table1", "table2", "table3", "table4"),
        *("fig3", "fig4", "fig5", "fig7", "fig8"),
        *("tuning", "gamma", "theorem1"),
    ) == NAMES
    for name in NAMES:
        experiment = find(name)
        assert experiment.name == name
        assert (experiment.plan is None) != (experiment.compute is None), name


def test_an_unknown_name_is_one_sentence() -> None:
    with pytest.raises(
        ConfigError,
        match=r"^NAME must be one of table1, .*; got 'table5'; did you mean 'table\d'\?$",
    ):
        find("table5")
    with pytest.raises(
        ConfigError, match=r"got 'fig6'; figures 1, 2 and 6 of the paper are illustrations$"
    ):
        find("fig6")
    with pytest.raises(ConfigError, match=r"^NAME must be one of"):
        find("frame")
