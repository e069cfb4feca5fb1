from pathlib import Path

import numpy as np
import pytest
from tests.report import folders

from fedgs.clients import Clients
from fedgs.records import Record
from fedgs.report.reading import read_runs
from fedgs.report.run_view import Run
from fedgs.report.summary import count_variance, sampling_counts, summarize


def test_summary_follows_the_records() -> None:
    records = [
        Record(0, cohort=["a", "b"], test_loss=0.9, test_accuracy=0.5, valid_loss=0.8),
        Record(1, cohort=["a"]),
        Record(2, cohort=["a"], test_loss=0.3, test_accuracy=0.9, valid_loss=0.7),
        Record(3, cohort=[], test_loss=float("nan"), test_accuracy=0.2, valid_loss=0.1),
        Record(4, test_loss=0.5, test_accuracy=0.8, valid_loss=0.6),
    ]
    figures = summarize(Run({"training": {"rounds": 4}, "run": {"num_clients": 4}}, records))
    assert (figures.test_loss, figures.loss_at_best_valid) == (
        0.3,
        0.5,
    )  # .6 is the lowest validation loss with a finite test loss
    assert (figures.best_accuracy, figures.final_accuracy) == (0.9, 0.8)
    assert figures.count_variance == pytest.approx(np.var([3, 1, 0, 0], ddof=1))
    assert (figures.rounds_done, figures.finished) == (4, True)


def test_counts_need_the_clients_and_are_in_their_order(tmp_path: Path) -> None:
    folders.write_run(tmp_path, "fedgs", 0)
    (run,), _ = read_runs(tmp_path)
    counts = sampling_counts(run)
    slow = [
        sum(name in record.cohort for record in run.records if record.cohort)
        for name in run.clients.names
    ]
    assert counts.tolist() == slow
    assert count_variance(run) == pytest.approx(counts.var(ddof=1))


def test_without_the_clients_there_are_no_counts_but_their_variance() -> None:
    run = Run({"run": {"num_clients": 2}}, [Record(0, cohort=["a"])])
    assert sampling_counts(run) is None
    assert count_variance(run) == 0.5
    assert count_variance(Run({}, run.records)) is None


def weighted(*weights: list[float], **about: object) -> Run:
    cohort = ["a", "b", "c"]
    records = [Record(t, cohort=cohort[: len(w)], weights=w) for t, w in enumerate(weights)]
    return Run({"run": about}, [*records, Record(len(records))])


def test_weights_that_do_not_sum_to_1_have_a_range() -> None:
    figures = summarize(weighted([0.5, 0.25], [], [2.0, 0.5], [0.25]))
    assert figures.largest_weight == 2.0
    assert (figures.lowest_weight_sum, figures.highest_weight_sum) == (0.25, 2.5)
    zero = summarize(weighted([0.0, 0.0], [1.0]))
    assert (zero.largest_weight, zero.lowest_weight_sum, zero.highest_weight_sum) == (1, 0, 1)


@pytest.mark.parametrize(
    "run",
    [
        weighted([0.1, 0.2, 0.7], [1 / 49] * 49, [], [1.0]),
        weighted(),
        weighted([0.0, 0.0], [1.0], engine="flower"),  # an aborted round of a deployment
    ],
)
def test_weights_that_sum_to_1_have_no_range(run: Run) -> None:
    figures = summarize(run)
    assert figures.largest_weight is None
    assert figures.lowest_weight_sum is None and figures.highest_weight_sum is None


def test_the_range_of_a_deployment_leaves_out_aborted_rounds() -> None:
    figures = summarize(weighted([0.0, 0.0], [0.5, 0.0], engine="flower"))
    assert (figures.lowest_weight_sum, figures.highest_weight_sum) == (0.5, 0.5)


def test_records_without_cohorts_have_losses_and_rounds_but_no_counts() -> None:
    records = [Record(0, test_loss=0.9), Record(1), Record(2, test_loss=0.4)]
    clients = Clients(("a", "b"), np.array([1, 2]), None, None)
    run = Run({"training": {"rounds": 2}}, records, clients=clients)
    assert (run.rounds_done, run.finished, summarize(run).test_loss) == (2, True, 0.4)
    assert sampling_counts(run) is None and count_variance(run) is None
    begun = Run({"training": {"rounds": 2}}, records[:0], clients=clients)
    assert sampling_counts(begun).tolist() == [0, 0] and count_variance(begun) is None
    nobody = Run(
        {"training": {"rounds": 2}},
        [Record(0, cohort=[]), Record(1, cohort=[]), Record(2)],
        clients=clients,
    )
    assert sampling_counts(nobody).tolist() == [0, 0] and count_variance(nobody) == 0.0
