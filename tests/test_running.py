"""Long sessions and many runs do not mix clients up, nor leak memory, threads or handles."""

import os
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.driving import RecordedRun

from fedgs.arrays import IntArray
from fedgs.availability import AvailabilityDraws, Ideal
from fedgs.data import Federation
from fedgs.driver import drive
from fedgs.experiments.compare import compare
from fedgs.local import LoopEngine
from fedgs.local.parameters import initial_parameters
from fedgs.models import LogisticRegression
from fedgs.plan import Plan
from fedgs.requests import Train, Work
from fedgs.sampling import Uniform


class Keep:
    """A fold that keeps every local model under its client."""

    def start(self) -> dict[int, torch.Tensor]:
        return {}

    def add(
        self, accumulator: dict[int, torch.Tensor], clients: IntArray, models: torch.Tensor
    ) -> dict[int, torch.Tensor]:
        return {
            **accumulator,
            **{
                client: model.clone()
                for client, model in zip(clients.tolist(), models, strict=True)
            },
        }

    def finish(self, accumulator: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
        return accumulator


def test_every_client_keeps_its_own_data_whatever_the_order_of_execution(
    toy_federation: Federation,
) -> None:
    work = Work(toy_federation, LogisticRegression(), 0.0, 3, 4)
    start = initial_parameters(work.model, toy_federation, 0)
    engine = LoopEngine()
    for round in range(4):
        together = Train(work, start, np.arange(6), 0.1, (0, round), (Keep(),))
        expected = dict(engine.answer([together]))[0][0]
        order = np.random.default_rng(round).permutation(6)
        alone = [
            Train(work, start, np.array([client]), 0.1, (0, round), (Keep(),)) for client in order
        ]
        for position, (models,) in engine.answer(alone):
            client = int(order[position])
            assert torch.equal(models[client], expected[client])


def crowd(clients: int) -> Federation:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2 * clients, 4)).astype(np.float32), rng.integers(0, 2, 2 * clients)
    return Federation.from_arrays(
        x, y, client=np.arange(2 * clients) % clients, test=(x[:50], y[:50])
    )


@pytest.mark.long
def test_memory_does_not_grow_with_the_rounds() -> None:
    federation = crowd(1000)
    seen: list[int] = []

    class Measuring(RecordedRun):
        def on_round(self, state: Any, record: Any, seconds: Any) -> None:
            seen.append(tracemalloc.get_traced_memory()[0])

    work = Work(federation, LogisticRegression(), 0.0, 1, 2)
    plan = Plan(
        federation,
        AvailabilityDraws(Ideal(seed=0), federation.clients),
        Uniform(),
        work,
        rounds=120,
        cohort_limit=5,
        learning_rate=0.1,
        decay=1.0,
        evaluate_every=1000,
        seed=0,
    )
    tracemalloc.start()
    try:
        drive([Measuring(plan).live], LoopEngine())
    finally:
        tracemalloc.stop()
    assert len(seen) == 120
    growth = max(seen[-20:]) - max(seen[20:40])
    assert growth < 100_000  # bytes; a round's record holds 1000 names


@pytest.mark.long
def test_fifty_runs_leave_no_threads_and_no_handles(
    toy_federation: Federation, tmp_path: Path
) -> None:
    def study(number: int) -> None:
        training = {"rounds": 1, "proportion": 0.4, "local_steps": 1, "batch_size": 4}
        compare(
            toy_federation,
            methods=["uniform"],
            training=training,
            seeds=[number],
            out=tmp_path / "out",
        )

    study(0)
    threads, handles = (
        threading.active_count(),
        len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0,
    )
    for number in range(1, 50):
        study(number)
    assert threading.active_count() <= threads
    if handles:
        assert len(os.listdir("/proc/self/fd")) <= handles
    assert len(list((tmp_path / "out").glob("*/rounds.jsonl"))) == 50
