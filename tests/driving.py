"""Plans on small federations, and runs whose records are kept."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedgs.arrays import FloatArray
from fedgs.availability import Availability, AvailabilityDraws, LessDataFirst
from fedgs.checkpoint import State, load_checkpoint, save_checkpoint
from fedgs.clients import Clients, Memory, Outcome, Selection, View
from fedgs.data import Federation
from fedgs.driver import Failed, LiveRun, drive
from fedgs.local import LoopEngine
from fedgs.models import LogisticRegression
from fedgs.plan import Plan
from fedgs.records import Record, RunFolder
from fedgs.requests import Work
from fedgs.sampling import Sampler, Uniform


def make_plan(federation: Federation, sampler: Sampler | None = None, **settings: Any) -> Plan:
    objective = getattr(settings.get("aggregation"), "objective", None) or "data_size"
    mu = getattr(settings.get("aggregation"), "proximal", None) or 0.0
    work = settings.pop("work", None) or Work(
        federation, settings.pop("model", LogisticRegression()), mu, 2, 4, objective=objective
    )
    values: dict[str, Any] = {
        "rounds": 6,
        "cohort_limit": 2,
        "learning_rate": 0.1,
        "decay": 0.998,
        "evaluate_every": 2,
        "seed": 0,
    }
    availability = settings.pop("availability", LessDataFirst(beta=0.7, seed=1))
    availability_draws = AvailabilityDraws(availability, federation.clients)
    return Plan(
        federation=federation,
        availability=availability_draws,
        sampler=sampler or Uniform(),
        work=work,
        **{**values, **settings},
    )


class RecordedRun:
    """A run whose records and end are kept."""

    def __init__(self, plan: Plan, state: State | None = None) -> None:
        self.records: list[Record] = []
        self.seconds: list[dict[str, float]] = []
        self.failed: Failed | None = None
        self.final: State | None = None
        self.starts: list[State] = []
        self.live = LiveRun(plan, state, self)

    def on_start(self, state: State) -> State:
        self.starts.append(state)
        return state

    def on_round(self, state: State, record: Record, seconds: Mapping[str, float]) -> None:
        self.records.append(record)
        self.seconds.append(dict(seconds))

    def on_end(self, state: State, record: Record, seconds: Mapping[str, float]) -> None:
        self.records.append(record)
        self.final = state

    def on_failure(self, failed: Failed) -> None:
        self.failed = failed


def driven(*plans: Plan) -> list[RecordedRun]:
    runs = [RecordedRun(plan) for plan in plans]
    drive([run.live for run in runs], LoopEngine())
    return runs


class Memorising(Sampler):
    """Remembers how often it was asked."""

    def start(self, clients: Clients) -> Memory:
        return {"asked": np.zeros(1, dtype=np.int64)}

    def observe(self, memory: Memory, view: View, outcome: Outcome) -> Memory:
        assert outcome.weights.sum() == pytest.approx(1)
        return {"asked": memory["asked"] + 1}

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        assert view.memory["asked"][0] == view.round
        return Selection(view.available[:1])


class Gaps(Availability):
    """Nobody is available in every third round, half of the clients are in the others.

    The last client never is.
    """

    def rates(self, round: int, clients: Clients) -> FloatArray:
        rates = np.full(len(clients), 0.0 if round % 3 == 1 else 0.6)
        rates[-1] = 0.0
        return rates


class Keeping(RecordedRun):
    """A run whose states are kept."""

    def __init__(self, plan: Any, state: State | None = None) -> None:
        super().__init__(plan, state)
        self.states: list[State] = []

    def on_round(self, state: State, record: Any, seconds: Any) -> None:
        self.states.append(state)
        super().on_round(state, record, seconds)


def resumes_everywhere(federation: Federation, sampler: Sampler, path: Path) -> None:
    """Assert that a run with empty rounds goes on from any of its checkpoints with the same bits.

    Args:
        federation: its last client is never available.
        sampler: the method.
        path: folder of the checkpoints.
    """
    plan = make_plan(federation, sampler, availability=Gaps(seed=1), rounds=9)
    whole = Keeping(plan)
    drive([whole.live], LoopEngine())
    assert whole.failed is None
    assert any(record.selection_status == "skipped" for record in whole.records)
    assert whole.final is not None and whole.final.counts[-1] == 0
    folder = RunFolder(path)
    folder.create({"seed": 0}, federation.clients, {})
    for state in whole.states:
        save_checkpoint(folder, state, engine="loop", start_memory={})
        checkpoint = load_checkpoint(folder, {})
        assert checkpoint is not None
        rest = RecordedRun(plan, checkpoint.state)
        drive([rest.live], LoopEngine())
        assert rest.records == whole.records[state.round :]
        assert rest.final is not None
        assert torch.equal(rest.final.parameters, whole.final.parameters)
