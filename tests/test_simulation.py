"""The round as a transaction: what it asks for, and what it gives."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.driving import Memorising, RecordedRun, driven, make_plan

from fedgs.availability import Availability, Ideal
from fedgs.checkpoint import State
from fedgs.clients import Clients, Selection, View
from fedgs.data import Federation
from fedgs.driver import drive
from fedgs.errors import ConfigError, SelectionError
from fedgs.local import LoopEngine, StackedEngine
from fedgs.models import LogisticRegression, as_model
from fedgs.records import Record
from fedgs.requests import Evaluate, Failure, Losses, Train, Work
from fedgs.sampling import MD, FedGS, PowerOfChoice, Sampler, Uniform
from fedgs.simulation import final_record, initial_state, run_round


def test_records_hold_the_clients_own_keys_and_only_planned_rounds_are_evaluated(
    toy_federation: Federation,
) -> None:
    (run,) = driven(make_plan(toy_federation, rounds=5))
    assert [record.round for record in run.records] == [0, 1, 2, 3, 4, 5]
    assert [record.test_loss is not None for record in run.records] == [
        True,
        False,
        True,
        False,
        True,
        True,
    ]
    for record in run.records[:-1]:
        assert (
            record.available is not None
            and record.cohort is not None
            and record.weights is not None
        )
        assert set(record.cohort) <= set(record.available) <= set(toy_federation.clients.names)
        assert record.num_available == len(record.available)
        assert len(record.cohort) == min(2, len(record.available))
        assert sum(record.weights) == pytest.approx(1)
    assert run.records[-1].cohort is None


def test_training_lowers_the_loss(toy_federation: Federation) -> None:
    (run,) = driven(make_plan(toy_federation, rounds=30))
    losses = [record.test_loss for record in run.records if record.test_loss is not None]
    assert losses[-1] < 0.7 * losses[0]


def test_record_t_holds_the_loss_of_the_model_before_the_update(toy_federation: Federation) -> None:
    plan = make_plan(toy_federation)
    (run,) = driven(plan)
    initial = dict(
        LoopEngine().answer([Evaluate(plan.work, initial_state(plan, {}).parameters, "test")])
    )[0]
    assert run.records[0].test_loss == initial.loss


def test_counts_are_the_rounds_in_which_a_client_was_selected(toy_federation: Federation) -> None:
    (run,) = driven(make_plan(toy_federation, MD(), rounds=20))
    expected = np.zeros(len(toy_federation), dtype=np.int64)
    for record in run.records[:-1]:
        assert record.cohort is not None and record.draws is not None
        assert sum(record.draws) == 2
        for name in record.cohort:
            expected[toy_federation.clients.names.index(name)] += 1
    assert run.final is not None and run.final.counts.tolist() == expected.tolist()


def test_availability_and_first_model_are_the_same_for_every_method(
    toy_federation: Federation,
) -> None:
    runs = driven(
        *(make_plan(toy_federation, s) for s in (Uniform(), MD(), PowerOfChoice(), FedGS()))
    )
    assert len({str([record.available for record in run.records]) for run in runs}) == 1
    assert len({run.records[0].test_loss for run in runs}) == 1


@pytest.mark.parametrize("sampler", [Uniform(), MD(), FedGS()])
def test_cohorts_do_not_depend_on_what_is_trained(
    toy_federation: Federation, sampler: Sampler
) -> None:
    def deep() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))

    works = [
        Work(toy_federation, LogisticRegression(), 0.0, 2, 4),
        Work(toy_federation, LogisticRegression(), 0.1, 5, 1),
        Work(toy_federation, as_model(deep), 0.0, 1, 8),
    ]
    runs = driven(*(make_plan(toy_federation, sampler, work=work) for work in works))
    assert len({str([record.cohort for record in run.records]) for run in runs}) == 1


def test_the_memory_passes_from_round_to_round(toy_federation: Federation) -> None:
    (run,) = driven(make_plan(toy_federation, Memorising(), availability=Ideal()))
    assert run.final is not None and run.final.memory["asked"].tolist() == [6]


def test_an_empty_round_keeps_the_model_and_says_so(toy_federation: Federation) -> None:
    class Nobody(Availability):
        def rates(self, round: int, clients: Clients) -> np.ndarray:
            return np.full(len(clients), float(round != 2))

    (run,) = driven(make_plan(toy_federation, availability=Nobody(seed=0), evaluate_every=1))
    assert run.records[2].selection_status == "skipped"
    assert (run.records[2].cohort, run.records[2].weights, run.records[2].num_available) == (
        [],
        [],
        0,
    )
    assert run.records[3].test_loss == run.records[2].test_loss
    assert run.records[4].test_loss != run.records[3].test_loss


@pytest.mark.parametrize("none", [np.array([], dtype=np.int64), np.array([]), [], ()], ids=repr)
@pytest.mark.parametrize("engine", [LoopEngine, StackedEngine])
def test_an_empty_selection_keeps_the_model_the_counts_and_the_memory(
    toy_federation: Federation, none: Any, engine: Callable[[], Any]
) -> None:
    class Choosy(Memorising):
        def select(self, view: View, rng: np.random.Generator) -> Selection:
            chosen = none if view.round in (0, 2, 5) else view.available[:1]
            return Selection(chosen, weighting="draws", status="optimal")

    run = RecordedRun(make_plan(toy_federation, Choosy(), availability=Ideal(), evaluate_every=1))
    drive([run.live], engine())
    assert run.failed is None and run.final is not None
    statuses = [record.selection_status for record in run.records[:-1]]
    assert statuses == ["empty", "optimal", "empty", "optimal", "optimal", "empty"]
    skipped = run.records[2]
    assert (skipped.cohort, skipped.weights, skipped.num_available) == ([], [], 6)
    losses = [record.test_loss for record in run.records]
    assert [losses[t] == losses[t + 1] for t in range(6)] == [True, False, True, False, False, True]
    assert run.final.counts.tolist() == [3, 0, 0, 0, 0, 0]
    # The sampler observes nothing in rounds in which no client trains.
    assert run.final.memory["asked"].tolist() == [3]
    assert all("NaN" not in record.to_json() for record in run.records)


def test_figures_of_any_number_type_can_be_stored(toy_federation: Federation) -> None:
    class Scored(Sampler):
        def select(self, view: View, rng: np.random.Generator) -> Selection:
            return Selection(view.available[:1], objective=np.float32(0.5), upper_bound=np.int64(2))  # type: ignore[arg-type]

    (run,) = driven(make_plan(toy_federation, Scored(), availability=Ideal()))
    record = Record.from_json(run.records[0].to_json())
    assert (record.selection_objective, record.selection_upper_bound) == (0.5, 2.0)


@pytest.mark.parametrize(
    "kind", [np.array, list, tuple, lambda chosen: np.array(chosen, dtype=np.uint8)]
)
def test_a_class_may_answer_with_the_indices_alone(toy_federation: Federation, kind: Any) -> None:
    class Bare(Sampler):
        def select(self, view: View, rng: np.random.Generator) -> Any:
            return kind(view.available[[1, 0]].tolist())

    (run,) = driven(make_plan(toy_federation, Bare(weighting="equal"), availability=Ideal()))
    assert run.final.counts.tolist() == [6, 6, 0, 0, 0, 0]


def test_a_wrong_selection_ends_the_run_with_a_sentence(toy_federation: Federation) -> None:
    class Wrong(Sampler):
        def select(self, view: View, rng: np.random.Generator) -> Selection:
            return Selection(np.array([0, 0]))

    (run,) = driven(make_plan(toy_federation, Wrong(), availability=Ideal()))
    assert run.failed is not None and isinstance(run.failed.exception, SelectionError)
    with pytest.raises(SelectionError, match="distinct"):
        raise run.failed.exception


def test_the_round_asks_for_what_it_needs_in_order(toy_federation: Federation) -> None:
    plan = make_plan(toy_federation, PowerOfChoice(loss_on="validation"))
    asking, engine, kinds = run_round(plan, initial_state(plan, {})), LoopEngine(), []
    reply: Any = None
    with contextlib.suppress(StopIteration):
        while True:
            request = asking.send(reply)
            kinds.append((type(request), getattr(request, "split", None)))
            reply = dict(engine.answer([request]))[0]
    assert kinds == [
        (Evaluate, "test"),
        (Evaluate, "validation"),
        (Losses, "validation"),
        (Train, None),
    ]


def test_a_failure_is_thrown_into_the_round(toy_federation: Federation) -> None:
    plan = make_plan(toy_federation)
    asking = run_round(plan, initial_state(plan, {}))
    asking.send(None)
    failure = Failure(None, KeyError("gone"))
    with pytest.raises(KeyError, match="gone"):
        asking.throw(failure.exception)


def test_validation_losses_without_a_validation_part_are_refused(
    toy_federation: Federation,
) -> None:
    bare = replace(toy_federation, validation=None)
    with pytest.raises(ConfigError, match="method.loss_on = 'validation' needs validation parts"):
        make_plan(bare, PowerOfChoice(loss_on="validation"))
    (run,) = driven(make_plan(bare, PowerOfChoice()))
    assert all(record.valid_loss is None for record in run.records)
    assert run.records[0].test_loss is not None


def test_final_record_of_a_plan_without_a_round_left(toy_federation: Federation) -> None:
    plan = make_plan(toy_federation, rounds=1)
    done = State(1, initial_state(plan, {}).parameters, np.zeros(6, dtype=np.int64), {})
    assert isinstance(next(final_record(plan, done)), Evaluate)
