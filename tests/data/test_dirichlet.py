"""Dirichlet partitions: exact sizes and class counts, in a bounded number of draws."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency
from tests.data.material import counts_of

from fedgs.data import (
    DirichletOverClasses,
    DirichletOverClients,
    LogNormalDirichlet,
    Partition,
)
from fedgs.data.dirichlet import draw_proportions
from fedgs.errors import ConfigError, DataError
from fedgs.rng import stream


@pytest.mark.parametrize("concentration", [1e-9, 0.01, 0.2, 100.0, 1e4])
@pytest.mark.parametrize("seed", range(3))
def test_half_and_half_is_exact_at_any_concentration(concentration: float, seed: int) -> None:
    labels = np.arange(1000) % 10
    assignment = DirichletOverClasses(concentration=concentration).assign(
        labels, 2, stream(seed, "partition")
    )
    assert np.diff(assignment.offsets).tolist() == [500, 500]
    assert np.isfinite(assignment.facts["shift"]).all()


def test_a_high_concentration_is_near_identical_and_a_low_one_is_not() -> None:
    labels = np.arange(5000) % 10
    # concentration 10⁴: p_kc has sd sqrt(.1·.9/10⁴) = .003, so 1000 examples move by about 3 of 100
    # a class: chi-square with 36 degrees of freedom stays far below its mean. Concentration 1:
    # nearly all of a client's examples are of few classes.
    near = counts_of(
        DirichletOverClasses(concentration=1e4).assign(labels, 5, stream(0, "partition")), labels
    )
    far = counts_of(
        DirichletOverClasses(concentration=1.0).assign(labels, 5, stream(0, "partition")), labels
    )
    assert chi2_contingency(near).pvalue > 0.5
    assert chi2_contingency(far).pvalue < 1e-50


@pytest.mark.parametrize("concentration", [1e-9, 0.01, 0.2, 100.0, 1e4])
def test_over_clients_keeps_class_counts_and_the_minimum(concentration: float) -> None:
    labels = np.repeat(np.arange(4), [400, 300, 200, 100])
    assignment = DirichletOverClients(concentration=concentration, minimum=20).assign(
        labels, 10, stream(1, "partition")
    )
    counts = counts_of(assignment, labels)
    assert counts.sum(axis=0).tolist() == [400, 300, 200, 100]
    assert counts.sum(axis=1).min() >= 20
    assert (assignment.facts["moved"] > 0) == (concentration < 1)


@pytest.mark.parametrize(
    "partition", [DirichletOverClients, DirichletOverClasses, LogNormalDirichlet]
)
def test_an_impossible_minimum_states_the_feasible_maximum_at_once(
    partition: type[Partition],
) -> None:
    started = time.monotonic()
    with pytest.raises(
        DataError, match="needs 10000 examples, but there are 5000; at most 5 is possible"
    ):
        partition(minimum=10).assign(np.arange(5000) % 10, 1000, stream(0, "partition"))
    assert time.monotonic() - started < 60  # it ends; how soon is a benchmark's matter


@pytest.mark.parametrize(
    "partition", [DirichletOverClients(minimum=5), DirichletOverClasses(minimum=5, sigma=2.0)]
)
def test_the_largest_possible_minimum_is_met(partition: Partition) -> None:
    assignment = partition.assign(np.arange(5000) % 10, 1000, stream(0, "partition"))
    assert set(np.diff(assignment.offsets)) == {5}


def test_the_two_dirichlets_are_named_apart_with_the_implied_concentration() -> None:
    labels = np.repeat(np.arange(4), [100, 100, 100, 200])
    over_classes = (
        DirichletOverClasses(concentration=2.0)
        .assign(labels, 5, stream(0, "partition"))
        .facts["concentration"]
    )
    over_clients = (
        DirichletOverClients(concentration=0.5)
        .assign(labels, 5, stream(0, "partition"))
        .facts["concentration"]
    )
    assert over_classes["over"] == "classes, for each client"
    # 2.0 times the label proportions (.2, .2, .2, .4)
    assert over_classes["of_each_class"] == pytest.approx({"0": 0.4, "1": 0.4, "2": 0.4, "3": 0.8})
    assert over_clients["over"] == "clients, for each class"
    # .5 x 5 clients; .5 x 4 classes
    assert (over_clients["total"], over_clients["implied_over_classes"]) == (2.5, 2.0)


def test_implied_concentration_agrees_with_the_drawn_proportions() -> None:
    # Client label proportions of "over clients" are about Dirichlet(a, ..., a) over C classes: Var
    # p = (1/C)(1-1/C)/(aC+1).
    labels, clients, concentration = np.arange(200_000) % 10, 2000, 0.5
    counts = counts_of(
        DirichletOverClients(concentration=concentration).assign(
            labels, clients, stream(0, "partition")
        ),
        labels,
    )
    weights = counts.sum(axis=1) / counts.sum()
    shares = counts / counts.sum(axis=1, keepdims=True)
    variance = float((weights[:, None] * (shares - 0.1) ** 2).sum() / 10)
    implied = (0.09 / variance - 1) / 10
    # finite sizes and weighting move it by a few per cent
    assert implied == pytest.approx(concentration, rel=0.2)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000), clients=st.integers(60, 90))
def test_the_papers_partition_stays_within_its_tolerance(seed: int, clients: int) -> None:
    labels = np.arange(6000) % 10
    assignment = LogNormalDirichlet(tolerance=0.1).assign(
        labels, clients, stream(seed, "partition")
    )
    facts = assignment.facts
    assert facts["mismatch"] <= 0.1
    assert facts["draws"] <= 10_000
    assert np.diff(assignment.offsets).min() >= 1
    # Moving examples between classes can change a client by more than the mean, but all shifts
    # together are bounded by the mismatch (half of it is moved) and by rounding (at most C/2
    # examples a client).
    sizes = np.diff(assignment.offsets)
    assert (np.array(facts["shift"]) * sizes).sum() <= 0.1 * 6000 / 2 + 5 * clients


def test_a_tolerance_out_of_reach_says_how_close_it_came() -> None:
    with pytest.raises(
        DataError,
        match=r"partition.tolerance = 0.001: after 50 draws .* miss the global ones by 0\.\d+",
    ):
        LogNormalDirichlet(tolerance=0.001, max_draws=50).assign(
            np.arange(500) % 10, 3, stream(0, "partition")
        )


@pytest.mark.parametrize(
    "partition", [LogNormalDirichlet, DirichletOverClasses, DirichletOverClients]
)
def test_concentration_zero_is_refused(partition: type[Partition]) -> None:
    with pytest.raises(
        ConfigError, match=r"partition.concentration:? should be greater than 0, got 0"
    ):
        partition(concentration=0.0)


@pytest.mark.parametrize("drawn", [[np.nan] * 3, [0.0] * 3])
def test_where_every_component_underflows_one_takes_all(drawn: list[float]) -> None:
    class Underflow(np.random.Generator):
        def dirichlet(self, alpha: object, size: object = None) -> np.ndarray:
            return np.array(drawn)

    rng = Underflow(np.random.PCG64(0))
    draws = np.stack([draw_proportions(np.array([1e-9, 1e-9, 8e-9]), rng) for _ in range(200)])
    assert set(draws.ravel().tolist()) == {0.0, 1.0}
    assert (draws.sum(axis=1) == 1).all()
    # the third component has 8 of 10 parts: 160 of 200 with sd 5.7, here within 5 of them
    assert 131 <= draws[:, 2].sum() <= 189
