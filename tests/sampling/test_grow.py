"""Memories of samplers that clients join: those of runs that knew the clients from the start."""

from typing import Any

import numpy as np
import pytest

from fedgs import Clients, View
from fedgs.clients import Memory, Outcome
from fedgs.graph import landmark_building
from fedgs.registry import build, variant_names
from fedgs.sampling import Clustered, DivFL, FedGS, Grows, Sampler

SEEN: dict[str, Any] = {"similarity": "update", "start": "seen"}
SAMPLERS: list[Sampler] = [
    Clustered(),
    Clustered(measure="l1"),
    Clustered(measure="l2"),
    DivFL(),
    DivFL(distance="squared"),
    DivFL(distance="cosine", first_updates="first_contact"),
    FedGS(graph=SEEN),
    FedGS(graph={**SEEN, "normalize": False}),
    FedGS(graph={**SEEN, "refresh": 0.0}),
    FedGS(graph={**SEEN, "structure": "landmarks", "landmarks": 3}),
]


def clients_of(count: int) -> Clients:
    return Clients(tuple(range(count)), np.arange(5, 5 + count))


def observed(sampler: Any, memory: Memory, count: int, cohort: list[int], seed: int) -> Memory:
    features = np.random.default_rng(seed).normal(size=(len(cohort), 4)) + 0.5
    weights = np.full(len(cohort), 1 / len(cohort))
    outcome = Outcome(np.array(cohort), weights, features)
    view = View(0, clients_of(count), np.arange(count), np.zeros(count, dtype=np.int64), 3)
    return sampler.observe(memory, view, outcome)


@pytest.mark.parametrize("first", [[], [1], [0, 2]], ids=str)
@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_joining_later_is_as_having_been_there(sampler: Any, first: list[int]) -> None:
    """Clients 0 to 2, then 3 and 4, then 5 join; all six are known from the start."""
    early, late = sampler.start(clients_of(6)), sampler.start(clients_of(3))
    if first:
        early = observed(sampler, early, 6, first, 0)
        late = observed(sampler, late, 3, first, 0)
    for seed, (count, cohort) in enumerate([(5, [1, 3, 4]), (6, [0, 3]), (6, [2, 5])], start=1):
        late = sampler.grow(late, clients_of(count))
        early = observed(sampler, early, 6, cohort, seed)
        late = observed(sampler, late, count, cohort, seed)
    late = sampler.grow(late, clients_of(6))
    assert early.keys() == late.keys()
    for name, array in early.items():
        assert array.dtype == late[name].dtype and array.shape == late[name].shape, name
        np.testing.assert_allclose(late[name], array, atol=1e-12, err_msg=name)


def test_a_graph_of_all_pairs_gets_landmarks_when_it_has_grown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(landmark_building, "MOST_DENSE", 4)
    sampler = FedGS(graph={**SEEN, "landmarks": 3})
    early, late = sampler.start(clients_of(6)), sampler.start(clients_of(4))
    assert "seen" in late and "known" in early
    for cohort in ([0, 1], [2, 3]):
        early, late = observed(sampler, early, 6, cohort, 0), observed(sampler, late, 4, cohort, 0)
    grown = sampler.grow(late, clients_of(6))
    for name, array in early.items():
        np.testing.assert_allclose(grown[name], array, atol=1e-6, err_msg=name)
    assert sampler.grow(sampler.start(clients_of(4)), clients_of(6)).keys() == early.keys()


def test_a_graph_that_does_not_grow_with_cohorts_is_made_again() -> None:
    labels = np.eye(3, dtype=np.int64)
    few, all_ = (
        Clients(tuple(range(count)), np.ones(count, dtype=np.int64), label_counts=labels[:count])
        for count in (2, 3)
    )
    sampler = FedGS()
    grown = sampler.grow(sampler.start(few), all_)
    np.testing.assert_array_equal(grown["distance"], sampler.start(all_)["distance"])


def test_every_built_in_memory_that_compares_clients_says_what_a_newcomer_is() -> None:
    """The arrays of other memories have one axis of clients, which grows by itself."""
    for name in variant_names("method"):
        sampler: Any = build("method", name)
        own = type(sampler).__module__.startswith("fedgs.")
        if not (own and hasattr(sampler, "start")):
            continue
        clients = Clients((0, 1), np.ones(2, dtype=np.int64), label_counts=np.eye(2, dtype=int))
        memory = sampler.start(clients)
        if any(array.ndim > 1 for array in memory.values()):
            assert isinstance(sampler, Grows), name
