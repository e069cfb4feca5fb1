"""The memory of a graph over landmarks that grows with the cohorts."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedgs
from fedgs import Clients, View
from fedgs.clients import Memory, Outcome
from fedgs.data import Federation
from fedgs.errors import ConfigError
from fedgs.graph import Graph, LandmarkDistances, MatrixDistances
from fedgs.rng import stream
from fedgs.sampling import FedGS, growing_landmarks
from fedgs.sampling.landmarks import remembered
from fedgs.solver import SelectionProblem, objective, solve

SIMILARITIES = ("oracle", "update", "functional")


def clients_of(count: int, seed: int = 0) -> Clients:
    features = np.random.default_rng(seed).dirichlet(np.full(4, 0.4), count)
    return Clients(tuple(range(count)), np.ones(count, dtype=np.int64), features=features)


def memories(graph: dict[str, Any], count: int, seed: int, rounds: int = 5) -> tuple[Memory, ...]:
    """The last memory over landmarks and the last dense one, after the same cohorts."""
    clients, draws = clients_of(count, seed), np.random.default_rng(seed)
    without = {name: value for name, value in graph.items() if name != "landmarks"}
    samplers = [
        FedGS(graph={**graph, "start": "seen", "structure": "landmarks"}),
        FedGS(graph={**without, "start": "seen"}),
    ]
    held = [sampler.start(clients) for sampler in samplers]
    for _ in range(rounds):
        cohort = np.sort(draws.choice(count, 3, replace=False))
        features = np.abs(draws.normal(size=(3, 5)))
        outcome = Outcome(cohort, np.full(3, 1 / 3), features)
        for place, sampler in enumerate(samplers):
            view = View(0, clients, np.arange(count), np.zeros(count, dtype=np.int64), 3)
            held[place] = sampler.observe(held[place], view, outcome)
    return tuple(held)


def every_row(metric: LandmarkDistances) -> np.ndarray:
    return metric.rows(np.arange(len(metric)))


@given(
    similarity=st.sampled_from(SIMILARITIES),
    refresh=st.sampled_from([0.0, 0.4, 1.0]),
    seed=st.integers(0, 300),
)
@settings(max_examples=12, deadline=None)
def test_with_as_many_landmarks_as_known_clients_the_distances_are_those_of_the_graph(
    similarity: str, refresh: float, seed: int
) -> None:
    graph = {"similarity": similarity, "landmarks": 15}
    if similarity != "oracle":
        graph["refresh"] = refresh
    grown, dense = memories(graph, 18, seed)
    np.testing.assert_array_equal(grown["known"], np.flatnonzero(dense["seen"]))
    # features are held in float32
    np.testing.assert_allclose(
        every_row(remembered(grown)), dense["distance"], rtol=2e-4, atol=1e-5
    )


@given(similarity=st.sampled_from(SIMILARITIES), seed=st.integers(0, 300))
@settings(max_examples=12, deadline=None)
def test_no_distance_of_known_clients_is_shorter_than_in_the_graph(
    similarity: str, seed: int
) -> None:
    # Without a rescaling and in the same units, every distance is the length of a path.
    graph: dict[str, Any] = {"similarity": similarity, "normalize": False, "sigma_squared": 0.3}
    if similarity == "oracle":
        graph["normalize_over"] = "none"
    grown, dense = memories({**graph, "landmarks": 5}, 40, seed, rounds=6)
    known, metric = grown["known"], remembered(grown)
    assert len(metric.landmarks) == 5 < len(known)
    through = metric.rows(known)[:, known]
    shortest = dense["distance"][np.ix_(known, known)]
    joined = through < metric.maximum
    assert (through[joined] >= shortest[joined] * (1 - 1e-5) - 1e-7).all()


def test_clients_that_were_never_selected_have_the_largest_distance() -> None:
    grown, _ = memories({"similarity": "oracle", "landmarks": 4}, 30, 1)
    metric = remembered(grown)
    unknown = np.setdiff1d(np.arange(30), grown["known"])
    rows = metric.rows(unknown)
    rows[np.arange(len(unknown)), unknown] = metric.maximum
    assert (rows == metric.maximum).all()
    assert metric.maximum == pytest.approx(1.0)


@pytest.mark.parametrize("known", [0, 1, 2, 12])
def test_reduction_loses_nothing(known: int) -> None:
    # Unknown clients have no edge; the dropped ones are dominated, so the search on the metric
    # reaches what it reaches on its matrix of all pairs.
    clients, sampler = clients_of(26), FedGS(graph={"start": "seen", "structure": "landmarks"})
    memory = sampler.start(clients)
    if known:
        cohort = np.arange(0, 2 * known, 2)
        outcome = Outcome(cohort, np.full(known, 1 / known), None)
        view = View(0, clients, np.arange(26), np.zeros(26, dtype=np.int64), known)
        memory = sampler.observe(memory, view, outcome)
    metric = remembered(memory)
    rng = np.random.default_rng(known)
    for _ in range(5):
        penalty = rng.integers(0, 3, 26).astype(float)
        pool = np.sort(rng.choice(26, 20, replace=False))
        on_metric, on_matrix = (
            SelectionProblem(distances, penalty, 5, 0.7, pool)
            for distances in (metric, MatrixDistances(every_row(metric)))
        )
        reached = objective(on_matrix, solve(on_metric, seed=0).cohort)
        assert reached == pytest.approx(objective(on_matrix, solve(on_matrix, seed=0).cohort))


def test_a_cohort_without_a_new_client_changes_nothing_where_features_are_not_refreshed() -> None:
    clients = clients_of(6)
    view = View(0, clients, np.arange(6), np.zeros(6, dtype=np.int64), 2)
    outcome = Outcome(np.array([1, 4]), np.full(2, 0.5), np.eye(2))
    for graph in ({}, {"similarity": "update", "refresh": 0.0}):
        sampler = FedGS(graph={"start": "seen", "structure": "landmarks", **graph})
        memory = sampler.observe(sampler.start(clients), view, outcome)
        assert sampler.observe(memory, view, outcome) is memory


def test_only_selected_clients_have_features_in_memory() -> None:
    count = 20_000  # above 10,000 clients "auto" has landmarks
    clients = Clients(range(count), np.ones(count, dtype=np.int64))
    sampler = FedGS(graph={"similarity": "update", "start": "seen"})
    memory = sampler.start(clients)
    view = View(0, clients, np.arange(count), np.zeros(count, dtype=np.int64), 3, memory=memory)
    assert sampler.select(view, stream(0, "select", 0)).status == "landmarks"
    outcome = Outcome(np.array([5, 70, 19_999]), np.full(3, 1 / 3), np.eye(3, 8))
    memory = sampler.observe(memory, view, outcome)
    assert memory["features"].shape == (3, 8) and memory["features"].dtype == np.float32
    assert memory["known"].tolist() == memory["landmarks"].tolist() == [5, 70, 19_999]
    assert sum(array.nbytes for array in memory.values()) < 13 * count
    assert sampler.describe(memory) == {"graph": "at most 1024 landmarks among selected clients"}


def test_quality_is_measured_when_the_known_clients_have_doubled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[int] = []

    def measured(graph: Graph, metric: LandmarkDistances, rows: Any, *, of: str) -> Any:
        asked.append(len(metric))
        return np.array([0.98, 7.0])

    monkeypatch.setattr(growing_landmarks, "measured_quality", measured)
    clients = clients_of(40)
    sampler = FedGS(graph={"start": "seen", "structure": "landmarks", "landmarks": 6})
    memory = sampler.start(clients)
    view = View(0, clients, np.arange(40), np.zeros(40, dtype=np.int64), 2)
    with caplog.at_level(logging.WARNING, "fedgs"):
        for first in range(0, 36, 2):
            outcome = Outcome(np.array([first, first + 1]), np.full(2, 0.5), None)
            memory = sampler.observe(memory, view, outcome)
    assert asked == [8, 16, 32] == [*asked[:2], int(memory["measured"][0])]
    assert caplog.messages[0] == (
        "the graph of the 8 clients known so far has 6 landmarks: .980 of the full graph on a "
        "sample of 7, less than 0.99: more landmarks bring cohorts nearer to the full graph's"
    )
    assert len(caplog.messages) == 3


@pytest.mark.parametrize("similarity", ["oracle", "update"])
def test_a_run_resumes_to_the_same_bytes(
    similarity: str, toy_federation: Federation, tmp_path: Path
) -> None:
    graph = {"similarity": similarity, "start": "seen", "structure": "landmarks", "landmarks": 2}

    def study(out: Path, rounds: int) -> bytes:
        results = fedgs.compare(
            toy_federation,
            methods={"one": {"name": "fedgs", "graph": graph}},
            model="logistic",
            availability="LDF",
            training={"rounds": rounds, "cohort_limit": 2, "local_steps": 1, "batch_size": 4},
            seeds=[0],
            out=out,
            execution={"checkpoint_every": 1},
        )
        (run,) = results.runs
        assert run.path is not None
        return (run.path / "rounds.jsonl").read_bytes()

    lines = study(tmp_path / "whole", 6)
    study(tmp_path / "parts", 3)
    assert study(tmp_path / "parts", 6) == lines
    assert b'"selection_status":"landmarks"' in lines


def test_long_features_of_clients_are_refused() -> None:
    clients = Clients((0, 1), np.ones(2, int), features=np.zeros((2, 300)))
    with pytest.raises(ConfigError, match="at most 256 numbers, got 300"):
        FedGS(graph={"start": "seen", "structure": "landmarks"}).start(clients)
