"""The verdict of figure 4."""

from collections.abc import Sequence

from tests.experiments.paper.helpers import request_of, run_with

from fedgs.experiments.paper.fig4 import render
from fedgs.experiments.paper.frame.conditions import Mode
from fedgs.experiments.paper.frame.experiment import ExperimentRecords, LoadedRun
from fedgs.records import Record


def selecting(row: str, cohorts: Sequence[Sequence[int]]) -> LoadedRun:
    """A run on CIFAR10 under LN that selected these cohorts of three clients."""
    loaded = run_with(row, "LN 0.5", loss=1.0, data="cifar10", clients=3)
    loaded.run.records[:] = [
        *(Record(t, cohort=list(cohort)) for t, cohort in enumerate(cohorts)),
        Record(len(cohorts)),
    ]
    return loaded


def verdict_on(*runs: LoadedRun) -> list[str]:
    request = request_of("fig4", None, modes=(Mode("LN"),), seeds=(0,))
    return list(render(request, ExperimentRecords(runs)).verdict)


def test_counts_are_compared_with_the_lowest_of_the_other_methods() -> None:
    even, uneven = [[0], [1], [2]], [[0], [0], [0]]
    uniform = selecting("uniform", [[0], [0], [1]])
    # Variances of the counts (1, 1, 1), (2, 1, 0) and (3, 0, 0): 0, 1 and 3.
    assert verdict_on(selecting("fedgs-1", even), uniform, selecting("md", uneven)) == [
        "Synthetic, LN 0.5: the count variance of fedgs 1 is 0.0, below that of every other "
        "method (the lowest of them: uniform, 1.0), as the paper says."
    ]
    assert verdict_on(selecting("fedgs-1", uneven), uniform) == [
        "Synthetic, LN 0.5: the count variance of fedgs 1 is 3.0, not below that of every other "
        "method (the lowest of them: uniform, 1.0), against what the paper says."
    ]


def test_one_method_alone_is_compared_with_nothing() -> None:
    sentence = "Synthetic, LN 0.5: nothing to compare FedGS's counts with."
    assert verdict_on(selecting("fedgs-1", [[0]])) == [sentence]
    assert verdict_on(selecting("uniform", [[0]]), selecting("md", [[1]])) == [sentence]
