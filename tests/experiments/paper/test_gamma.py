"""The verdict on gamma."""

import numpy as np
from tests.experiments.paper.helpers import request_of

from fedgs.experiments.paper.frame.experiment import Computed, ExperimentRecords
from fedgs.experiments.paper.gamma import render


def result_of(sizes: list[int], factors: list[float], expected: list[float]) -> Computed:
    arrays = {
        "names": np.array([f"client {k}" for k in range(len(sizes))]),
        "sizes": np.array(sizes),
        "cohort_limit": np.array(2),
        "gamma": np.array(factors),
        "expected": np.array(expected),
    }
    return Computed(arrays, {"data_title": "Synthetic"})


def test_the_factors_of_the_smallest_and_the_largest_client_are_named() -> None:
    result = result_of([10, 30, 60], [1.5, 1.2, 0.8], [0.2, 0.3, 0.5])
    rendering = render(request_of("gamma", None), ExperimentRecords(computed={"synthetic": result}))
    assert [row[0].text for row in rendering.tables[""].rows] == [
        "client 0",
        "client 1",
        "client 2",
    ]
    assert rendering.verdict == [
        "Synthetic, M = 2: the weights gamma_k n_k / n add up to .990, not to 1.000; the expected "
        "weights add up to 1.000.",
        "The smallest client's true factor is 2.000 where gamma says 1.500, the largest client's "
        ".833 where gamma says .800: the step from E[1/(n_k + s)] to 1/(n_k + E[s]) is Jensen's "
        "gap.",
    ]


def test_clients_of_one_size_are_unbiased() -> None:
    result = result_of([5, 5], [1.0, 1.0], [0.5, 0.5])
    rendering = render(request_of("gamma", None), ExperimentRecords(computed={"synthetic": result}))
    assert rendering.verdict == [
        "Synthetic, M = 2: all clients have the same size, so gamma_k = 1 and the average is "
        "unbiased, as in the paper."
    ]
