"""The figures and the verdict of figure 5."""

from collections.abc import Sequence

import pytest
from tests.experiments.paper.helpers import request_of, run_with

from fedgs.experiments.paper.fig5 import render
from fedgs.experiments.paper.frame.conditions import Mode
from fedgs.experiments.paper.frame.experiment import ExperimentRecords, LoadedRun, Rendering
from fedgs.records import Record


def losing(row: str, losses: Sequence[float | None]) -> LoadedRun:
    """A run on CIFAR10 under LN with a test loss at the begin of each round."""
    loaded = run_with(row, "LN 0.5", loss=1.0, data="cifar10")
    loaded.run.records[:] = [Record(t, test_loss=loss) for t, loss in enumerate(losses)]
    loaded.run.config["training"]["rounds"] = len(losses) - 1
    return loaded


def rendering_of(*runs: LoadedRun) -> Rendering:
    request = request_of("fig5", None, modes=(Mode("LN"),), seeds=(0,))
    return render(request, ExperimentRecords(runs))


def test_unsteadiness_is_the_mean_change_in_the_second_half() -> None:
    fedgs = losing("fedgs-1", [9.0, 5.0, 0.5, 0.6, 0.4])
    uniform = losing("uniform", [9.0, 8.0, 0.6, 1.0, 0.6])
    rendering = rendering_of(fedgs, uniform, losing("md", [0.1, 0.1, 0.1, 0.1, 0.1]))
    (row,) = [row for row in rendering.tables[""].rows if row[0].text == "fedgs 1"]
    lowest, last, unsteadiness = (cell.values[0] for cell in row[1:])
    assert (lowest, last) == (0.4, 0.4)
    assert unsteadiness == pytest.approx((0.1 + 0.2) / 2)
    assert rendering.verdict == [
        "Synthetic, LN 0.5: the lowest test loss of fedgs 1 is below that of uniform, not of md; "
        "the unsteadiness of fedgs 1 is below that of uniform, not of md."
    ]


def test_fedgs_may_be_below_no_other_method() -> None:
    rendering = rendering_of(losing("fedgs-1", [0.5, 0.5, 0.5]), losing("md", [0.1, 0.1, 0.1]))
    assert rendering.verdict == [
        "Synthetic, LN 0.5: the lowest test loss of fedgs 1 is below that of no other method; "
        "the unsteadiness of fedgs 1 is below that of no other method."
    ]


def test_runs_without_a_test_loss_are_compared_with_nothing() -> None:
    rendering = rendering_of(losing("fedgs-1", [None, None]), losing("md", [None, None]))
    assert {cell.text for row in rendering.tables[""].rows for cell in row[1:]} == {"–"}
    assert rendering.verdict == ["Synthetic, LN 0.5: nothing to compare FedGS's curve with."]
