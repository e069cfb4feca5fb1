"""Many runs driven together, and what a failure does."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from tests.driving import Memorising, RecordedRun, driven, make_plan
from tests.oracles.states import equal_states

from fedgs.availability import Ideal, LessDataFirst, LogNormal
from fedgs.checkpoint import State
from fedgs.clients import Selection, View
from fedgs.data import Federation
from fedgs.driver import drive, steps
from fedgs.errors import UpdateError
from fedgs.local import LoopEngine
from fedgs.models import as_model
from fedgs.records import Record
from fedgs.requests import Request, Train
from fedgs.sampling import MD, FedGS, PowerOfChoice, Sampler, Uniform


class Refusing(Sampler):
    """Fails when its round comes."""

    at: int = 3

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        if view.round == self.at:
            raise ZeroDivisionError("my sampler is broken")
        return Selection(view.available[:1])


@pytest.mark.parametrize(
    "sampler", [Uniform(), MD(), PowerOfChoice(), FedGS(), FedGS(alpha=0.0), Memorising()]
)
def test_alone_and_in_a_batch_a_run_is_the_same_to_the_last_bit(
    toy_federation: Federation, sampler: Sampler
) -> None:
    plan = make_plan(toy_federation, sampler)
    (alone,) = driven(plan)
    others = [
        make_plan(toy_federation, Uniform(), seed=9),
        make_plan(toy_federation, PowerOfChoice(), seed=8),
    ]
    _, together, _ = driven(others[0], make_plan(toy_federation, sampler), others[1])
    assert alone.records == together.records
    assert (
        alone.final is not None
        and together.final is not None
        and equal_states(alone.final, together.final)
    )


def test_a_run_can_be_continued_from_any_state(toy_federation: Federation) -> None:
    plan = make_plan(toy_federation, FedGS())
    states: list[State] = []

    class Keeping(RecordedRun):
        def on_round(self, state: State, record: Record, seconds: Mapping[str, float]) -> None:
            states.append(state)
            super().on_round(state, record, seconds)

    whole = Keeping(plan)
    drive([whole.live], LoopEngine())
    for state in states:
        rest = RecordedRun(plan, state)
        drive([rest.live], LoopEngine())
        assert rest.records == whole.records[state.round :]


def test_a_failing_sampler_ends_its_own_run_and_no_other(toy_federation: Federation) -> None:
    bad, good = driven(make_plan(toy_federation, Refusing()), make_plan(toy_federation))
    assert bad.failed is not None and (bad.failed.round, bad.failed.client) == (3, None)
    assert isinstance(bad.failed.exception, ZeroDivisionError)
    assert [record.round for record in bad.records] == [0, 1, 2]
    assert good.failed is None and len(good.records) == 7


def test_a_failing_model_names_round_and_client(toy_federation: Federation) -> None:
    class Breaking(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.training and any(torch.equal(row, poison) for row in x):
                raise ValueError("my model is broken")
            return self.linear(x)

    poisoned = 4
    poison = torch.from_numpy(toy_federation.train.x[toy_federation.train.rows(poisoned)][0])
    plan = make_plan(
        toy_federation, Uniform(), model=as_model(Breaking), rounds=40, availability=Ideal()
    )
    bad, good = driven(plan, make_plan(toy_federation))
    assert bad.failed is not None and bad.failed.client == poisoned
    assert isinstance(bad.failed.exception.__cause__, ValueError)
    assert len(bad.records) == bad.failed.round
    assert good.failed is None


def test_a_diverging_client_is_named(toy_federation: Federation) -> None:
    (run,) = driven(make_plan(toy_federation, learning_rate=1e38, rounds=10))
    assert run.failed is not None and run.failed.client is not None
    assert all(
        np.isfinite(record.weights).all() for record in run.records if record.weights is not None
    )


class NanMean:
    """An engine whose average of round 1 is not finite."""

    name = "nan"

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Any]]:
        for position, reply in LoopEngine().answer(requests):
            request = requests[position]
            broken = isinstance(request, Train) and request.key[1] == 1
            yield position, (torch.full_like(reply[0], torch.nan),) if broken else reply


def test_a_model_that_is_not_finite_never_becomes_the_state(toy_federation: Federation) -> None:
    run = RecordedRun(make_plan(toy_federation))
    drive([run.live], NanMean())
    assert (
        run.failed is not None
        and isinstance(run.failed.exception, UpdateError)
        and run.failed.round == 1
    )
    assert len(run.records) == 1 and torch.isfinite(run.live.state.parameters).all()


def test_two_modes_in_one_process_do_not_touch_each_other(toy_federation: Federation) -> None:
    modes = [LogNormal(beta=0.5, seed=3), LessDataFirst(beta=0.7, seed=3)]
    alone = [driven(make_plan(toy_federation, availability=mode))[0] for mode in modes]
    together = driven(*(make_plan(toy_federation, availability=mode) for mode in modes))
    assert [run.records for run in alone] == [run.records for run in together]


def test_extending_replaces_the_last_record(toy_federation: Federation) -> None:
    short = make_plan(toy_federation, rounds=3)
    (first,) = driven(short)
    assert first.final is not None
    longer = RecordedRun(make_plan(toy_federation, rounds=6), first.final)
    drive([longer.live], LoopEngine())
    (whole,) = driven(make_plan(toy_federation, rounds=6))
    assert first.records[:-1] + longer.records == whole.records


def test_steps_yield_a_run_after_each_round_and_each_failure(toy_federation: Federation) -> None:
    runs = [
        RecordedRun(make_plan(toy_federation, Refusing())),
        RecordedRun(make_plan(toy_federation)),
    ]
    seen: list[tuple[bool, int, bool]] = []
    for run in steps([run.live for run in runs], LoopEngine()):
        seen.append((run is runs[0].live, run.round, run.finished))
    assert [entry for entry in seen if entry[0]] == [
        (True, 1, True),
        (True, 2, True),
        (True, 3, True),
        (True, 3, True),
    ]
    assert [round for bad, round, _ in seen if not bad] == [1, 2, 3, 4, 5, 6]
