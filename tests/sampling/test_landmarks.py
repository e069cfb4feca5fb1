"""FedGS on the landmark metric: when it is used, what is remembered, and how good cohorts are."""

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedgs
from fedgs import Clients, View
from fedgs.data import Federation
from fedgs.errors import ConfigError, SelectionError
from fedgs.graph import Graph, MatrixDistances, feature_products, landmark_distances
from fedgs.registry import table
from fedgs.rng import stream
from fedgs.sampling import FedGS, landmarks
from fedgs.sampling.landmarks import landmark_memory, landmark_words, measured_quality, remembered
from fedgs.solver import SelectionProblem, objective, solve

LANDMARKS = Graph(structure="landmarks", landmarks=30)
SIX = ("dirichlet 0.1", "dirichlet 0.5", "dirichlet 5", "unequal", "equal", "groups")


def federation(kind: str, count: int) -> np.ndarray:
    """(N, 10) label proportions of one of six kinds of federations."""
    rng = stream(0, kind, count)
    if kind.startswith("dirichlet"):
        return rng.dirichlet(np.full(10, float(kind.split()[1])), count)
    if kind == "groups":
        centers = rng.dirichlet(np.full(10, 0.3), 8)
        return np.array(
            [rng.dirichlet(40 * centers[g] + 0.01) for g in rng.integers(8, size=count)]
        )
    shares = np.zeros((count, 10))
    for row in shares:  # two labels a client
        part = 0.5 if kind == "equal" else rng.uniform(0.2, 0.8)
        row[rng.choice(10, 2, replace=False)] = part, 1.0 - part
    return shares


def clients_of(features: np.ndarray) -> Clients:
    return Clients(tuple(range(len(features))), np.ones(len(features), int), features=features)


def share_of_full(kind: str, count: int, number: int, size: int) -> float:
    """The smallest share of the full graph's dispersion in three rounds with half of the clients.

    Both cohorts are judged by the full graph's distances.
    """
    features = federation(kind, count)
    full = MatrixDistances(Graph().of_products(feature_products(features)).distance)
    metric = landmark_distances(features, Graph(landmarks=number))
    shares = []
    for seed in range(3):
        pool = np.flatnonzero(stream(seed, "available", count).random(count) < 0.5)
        whole, part = (
            SelectionProblem(distance, np.zeros(count), size, 2 / count, pool)
            for distance in (full, metric)
        )
        cohorts = (solve(part, seed=seed).cohort, solve(whole, seed=seed).cohort)
        shares.append(objective(whole, cohorts[0]) / objective(whole, cohorts[1]))
    return min(shares)


@pytest.mark.parametrize("kind", SIX)
def test_cohorts_of_400_clients_are_as_far_apart_as_those_of_the_full_graph(kind: str) -> None:
    assert share_of_full(kind, 400, 320, 20) >= 0.99


@pytest.mark.long
@pytest.mark.parametrize("kind", SIX)
def test_cohorts_of_4000_clients_are_as_far_apart_as_those_of_the_full_graph(kind: str) -> None:
    assert share_of_full(kind, 4000, 1024, 100) >= 0.99


def test_the_memory_is_small_and_its_words_say_how_good_it_is() -> None:
    features = federation("dirichlet 0.5", 500)
    memory = FedGS(graph=LANDMARKS).start(clients_of(features))
    assert "distance" not in memory
    # 12 N + 8 L² bytes, the landmarks' indices, and two numbers
    assert sum(array.nbytes for array in memory.values()) == 12 * 500 + 8 * 30**2 + 8 * 30 + 16
    assert memory["quality"][1] == 470
    assert landmark_words({**memory, "quality": np.array([0.998, 470.0])}, 30) == (
        "30 landmarks: .998 of the full graph on a sample of 470"
    )
    assert landmark_words({"distance": np.eye(2)}, 30) is None


@pytest.mark.parametrize(("share", "words"), [(0.989, ".989"), (0.9, ".900")])
def test_a_share_below_99_in_100_is_warned_of(
    share: float, words: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landmarks, "measured_quality", lambda *a, **k: np.array([share, 40.0]))
    with caplog.at_level(logging.WARNING, "fedgs"):
        memory = landmark_memory(LANDMARKS, federation("unequal", 60), of="clients")
    sentence = (
        f"30 landmarks: {words} of the full graph on a sample of 40, less than 0.99: more "
        "landmarks bring cohorts nearer to the full graph's"
    )
    assert caplog.messages == [f"the client graph has {sentence}"]
    assert landmark_words(memory, 30) == sentence
    assert landmark_words(memory, 31) == sentence.replace(
        "more landmarks bring cohorts nearer to the full graph's",
        "all features of the clients that landmarks are chosen from have one, so a larger "
        "graph.landmarks changes little",
    )


def test_a_share_of_99_in_100_is_not_warned_of(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landmarks, "measured_quality", lambda *a, **k: np.array([0.99, 40.0]))
    with caplog.at_level(logging.WARNING, "fedgs"):
        landmark_memory(LANDMARKS, federation("unequal", 60), of="clients")
    assert caplog.messages == []


def test_the_quality_is_that_of_the_two_cohorts_in_the_full_graph() -> None:
    # Every client that is no landmark is in the sample: 60 - 20 = 40, of which 40 // 20 = 2 are
    # selected, the pair that is farthest apart.
    features = federation("dirichlet 0.5", 60)
    graph = Graph(landmarks=20)
    metric = landmark_distances(features, graph)
    others = np.setdiff1d(np.arange(60), metric.landmarks)
    full = graph.of_products(feature_products(features)).distance[np.ix_(others, others)]
    near = metric.rows(others)[:, others]
    pair = np.unravel_index(np.argmax(near), near.shape)
    quality = measured_quality(graph, metric, features, of="clients")
    assert quality.tolist() == [pytest.approx(full[pair] / full.max(), abs=5e-4), 40.0]


@pytest.mark.parametrize("scale", ["paper", "cohort"])
def test_a_round_selects_by_the_metric_and_says_so(scale: Any) -> None:
    features = federation("dirichlet 0.5", 300)
    sampler = FedGS(graph=LANDMARKS, scale=scale)
    clients = clients_of(features)
    memory = sampler.start(clients)
    counts = np.random.default_rng(0).integers(0, 2, 300)
    view = View(0, clients, np.arange(0, 300, 2), counts, 15, memory=memory)
    chosen = sampler.select(view, stream(0, "select", 0))
    assert chosen.status == "landmarks"
    assert len(chosen.clients) == 15
    assert chosen.upper_bound is not None and chosen.objective is not None
    assert chosen.upper_bound >= chosen.objective
    if scale == "paper":  # the smallest counts come first
        assert (counts[chosen.clients] == 0).all()
    timed = FedGS(graph=LANDMARKS, solver={"time_limit": 1e-9})
    assert timed.select(view, stream(0, "select", 0)).status in ("time_limit", "landmarks")
    everyone = View(0, clients, np.arange(9), counts, 15, memory=memory)
    assert sampler.select(everyone, stream(0, "select", 0)).status is None
    with pytest.raises(SelectionError, match=r"start\(clients\)"):
        sampler.select(View(0, clients, view.available, counts, 15), stream(0, "select", 0))


def test_the_metric_of_a_memory_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = landmark_memory(LANDMARKS, federation("equal", 80), of="clients")
    first = remembered(memory)
    monkeypatch.setattr(landmarks, "LandmarkDistances", type(first))
    monkeypatch.setattr(type(first), "__init__", None)  # a second check would fail
    again = remembered(memory)
    assert again.maximum == first.maximum
    assert again.landmark_forest is first.landmark_forest


@pytest.mark.parametrize("similarity", ["update", "functional"])
def test_graphs_of_local_models_have_landmarks_too(similarity: Any) -> None:
    graph = Graph(similarity=similarity, structure="landmarks", landmarks=20)
    features = np.random.default_rng(0).normal(size=(90, 6))
    clients = Clients(tuple(range(90)), np.ones(90, int))
    memory = FedGS(graph=graph).start_from(clients, features)
    assert len(memory["landmarks"]) == 20
    assert remembered(memory).maximum == pytest.approx(1.0)


def test_settings_of_earlier_versions_are_written_as_before() -> None:
    assert "structure" not in table(Graph())
    assert "landmarks" not in table(FedGS())["graph"]
    assert table(LANDMARKS)["structure"] == "landmarks"
    assert Graph(**{k: v for k, v in table(LANDMARKS).items() if k != "name"}) == LANDMARKS


def test_a_shared_memory_is_that_of_its_structure() -> None:
    clients = clients_of(federation("equal", 40))
    keys = {
        FedGS(graph=Graph(structure=structure)).memory_key(clients)
        for structure in ("auto", "dense", "landmarks")
    }
    assert len(keys) == 3


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"similarity": "private"}, "structure has no effect with similarity 'private'"),
        ({"construction": "complete"}, "structure has no effect with construction 'complete'"),
        ({"path": "graph.npz"}, "structure has no effect where method.graph.path gives the graph"),
    ],
)
def test_graphs_without_landmarks_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Graph(structure="landmarks", **settings)


def test_the_number_of_landmarks_has_no_effect_on_a_dense_graph() -> None:
    messages = Graph.without_effect({"structure": "dense", "landmarks": 64})
    assert list(messages) == ["landmarks"]


def test_a_run_resumes_to_the_same_bytes_and_stores_the_words(
    toy_federation: Federation, tmp_path: Path
) -> None:
    count = len(toy_federation.clients)
    graph = {"structure": "landmarks", "landmarks": count - 1}

    def study(out: Path, rounds: int) -> Path:
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
        return run.path

    whole = study(tmp_path / "whole", 6)
    study(tmp_path / "parts", 2)
    resumed = study(tmp_path / "parts", 6)
    lines = (whole / "rounds.jsonl").read_bytes()
    assert (resumed / "rounds.jsonl").read_bytes() == lines
    assert b'"selection_status":"landmarks"' in lines
    for path in (whole, resumed):
        assert "landmarks: " in fedgs.records.RunFolder(path).config()["run"]["graph"]


@pytest.mark.long
def test_any_number_of_threads_gives_equal_memories_and_cohorts(tmp_path: Path) -> None:
    program = """
import hashlib, numpy as np
from fedgs import Clients, View
from fedgs.graph import Graph
from fedgs.sampling import FedGS
from fedgs.rng import stream
features = stream(0, "threads").dirichlet(np.full(10, .4), 6000)
clients = Clients(tuple(range(6000)), np.ones(6000, int), features=features)
sampler = FedGS(graph=Graph(structure="landmarks", landmarks=500))
memory = sampler.start(clients)
digest = hashlib.sha256()
for name in sorted(memory):
    digest.update(np.ascontiguousarray(memory[name]).tobytes())
counts = np.zeros(6000, int)
for t in range(5):
    view = View(t, clients, np.arange(t % 2, 6000, 2), counts, 60, memory=memory)
    cohort = sampler.select(view, stream(0, "select", t)).clients
    counts[cohort] += 1
    digest.update(cohort.tobytes())
print(digest.hexdigest())
"""
    printed = set()
    for threads in ("1", "2", "7"):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
        environment = {**os.environ, **dict.fromkeys(names, threads)}
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment, capture_output=True, text=True, check=True, cwd=tmp_path,
        )  # fmt: skip
        printed.add(done.stdout)
    assert len(printed) == 1
