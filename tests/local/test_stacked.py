"""How the stacked engine cuts requests into stacks, and what happens where a stack fails."""

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.local.material import Keep, make_federation, mlp, model_of, replies, train_request
from tests.local.test_loop import Picky, poisoned
from torch import nn

from fedgs.aggregation import WeightedMean, WeightedSum
from fedgs.data.federation import Federation
from fedgs.errors import ClientError, UpdateError
from fedgs.local import LoopEngine, StackedEngine, initial_parameters
from fedgs.local import stacked as stacked_module
from fedgs.local.evaluation import RequestedRows
from fedgs.local.pieces import stacks
from fedgs.local.stacking import PERIOD
from fedgs.models import LogisticRegression, Model
from fedgs.requests import Failure, Losses, Train, Work


def test_stacked_evaluation_of_the_general_program_agrees_with_loop(federation: Federation) -> None:
    # The path that CUDA takes, on the CPU.
    work = Work(federation, mlp(5, [8], 3), 0.0, 1, 4)
    requests = [
        Losses(work, initial_parameters(work.model, federation, seed), clients, "validation")
        for seed, clients in ((0, np.array([0, 3])), (1, np.array([5, 2, 1])))
    ]
    engine = StackedEngine()
    rows = [RequestedRows.of(request) for request in requests]
    found = stacked_module._measure_stacked(engine.program(work), requests, rows)
    for a, b in zip(found, replies(LoopEngine(), *requests), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_large_requests_are_cut_without_changing_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    many = make_federation([3, 9, 1, 5] * 6)
    for model in (LogisticRegression(), mlp(5, [7], 3)):
        work = Work(many, model, 0.0, 3, 4)
        requests = [train_request(work, range(1 + run, 20), key=(run, 0)) for run in range(3)]
        whole = replies(StackedEngine(), *requests)
        monkeypatch.setattr(StackedEngine, "_limit", lambda self, request: PERIOD)
        cut = replies(StackedEngine(), *requests)
        monkeypatch.undo()
        assert all(torch.equal(a[i], b[i]) for a, b in zip(whole, cut, strict=True) for i in (0, 1))


def test_what_is_constant_in_a_run_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Work] = []
    work_key = stacked_module.work_key

    def counted(work: Work) -> object:
        asked.append(work)
        return work_key(work)

    monkeypatch.setattr(stacked_module, "work_key", counted)
    federation = make_federation((3, 5))
    works = [Work(federation, LogisticRegression(), mu, 2, 4) for mu in (0.0, 0.0, 0.5)]
    engine = StackedEngine()
    requests = [train_request(work, [0, 1]) for work in works]
    first, again = replies(engine, *requests), replies(engine, *requests)
    assert [id(work) for work in asked] == [id(work) for work in works]
    assert engine.program(works[0]) is engine.program(works[1]) is not engine.program(works[2])
    assert all(torch.equal(one[1], other[1]) for one, other in zip(first, again, strict=True))


@given(st.lists(st.integers(0, 70), max_size=6), st.integers(1, 5))
def test_stacks_hold_every_client_once_and_in_order(lengths: list[int], limit: int) -> None:
    limit *= PERIOD
    found = list(stacks(lengths, limit))
    assert all(piece.start % PERIOD == 0 for stack in found for piece in stack)
    assert all(0 <= sum(piece.stop - piece.start for piece in stack) <= limit for stack in found)
    pieces = [piece for stack in found for piece in stack]
    for request, length in enumerate(lengths):
        clients = [
            client
            for piece in pieces
            if piece.request == request
            for client in range(piece.start, piece.stop)
        ]
        assert clients == list(range(length))


def test_failing_client_in_a_stack_is_found_and_the_others_go_on() -> None:
    work = Work(poisoned(99.0), model_of(Picky), 0.0, 2, 2)
    for engine in (LoopEngine(), StackedEngine()):
        failed, fine = replies(engine, train_request(work, [0, 1, 2]), train_request(work, [0, 2]))
        assert isinstance(failed, Failure)
        assert failed.client == 1
        assert isinstance(failed.exception, ClientError)
        assert isinstance(failed.exception.__cause__, ValueError)
        assert torch.isfinite(fine[0]).all()


def relu() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))


@pytest.mark.parametrize("model", [LogisticRegression(), model_of(relu)], ids=["logistic", "relu"])
def test_local_model_that_is_not_finite_is_found_in_a_stack(model: Model) -> None:
    work = Work(poisoned(1e30), model, 0.0, 3, 2)
    failed, fine = replies(
        StackedEngine(), train_request(work, [0, 1]), train_request(work, [0, 2])
    )
    assert failed.client == 1
    assert isinstance(failed.exception, UpdateError)
    assert (
        str(failed.exception)
        == "the local model of client 'b' is not finite (NaN or inf) after 3 steps"
    )
    assert torch.isfinite(fine[0]).all()


def test_engine_holds_no_thread_after_an_answer(federation: Federation) -> None:
    work = Work(federation, LogisticRegression(), 0.0, 10, 10)
    torch.set_num_threads(2)
    before = threading.active_count()
    replies(StackedEngine(), *[train_request(work, [0, 2, 5], key=(run, 0)) for run in range(300)])
    assert threading.active_count() == before


def test_weighted_means_of_a_stack_are_those_of_the_folds(federation: Federation) -> None:
    work = Work(federation, LogisticRegression(), 0.0, 3, 4)
    both = [
        train_request(work, clients, key=(run, 0))
        for run, clients in enumerate(([0, 2], [1, 4, 5], [0, 3], [5]))
    ]
    means = [
        Train(r.work, r.parameters, r.clients, r.learning_rate, r.key, r.folds[:1]) for r in both
    ]
    for expected, found in zip(
        replies(StackedEngine(), *both), replies(StackedEngine(), *means), strict=True
    ):
        assert len(found) == 1
        assert torch.equal(found[0], expected[0])


def test_weighted_sums_of_a_stack_are_those_of_the_folds(federation: Federation) -> None:
    work = Work(federation, LogisticRegression(), 0.0, 3, 4)
    requests = [
        train_request(work, clients, key=(run, 0)) for run, clients in enumerate(([0, 2], [5]))
    ]
    theta = requests[0].parameters + 0.25
    sums = [replace(r, folds=(WeightedSum(np.full(len(r.clients), 2.0), theta),)) for r in requests]
    both = [replace(r, folds=(*r.folds, Keep())) for r in sums]
    alone = replies(StackedEngine(), *sums)
    for expected, found in zip(replies(StackedEngine(), *both), alone, strict=True):
        assert torch.equal(found[0], expected[0])


def test_request_whose_weighted_mean_is_not_finite_fails_alone() -> None:
    work = Work(poisoned(1e30), LogisticRegression(), 0.0, 3, 2)
    requests = [train_request(work, clients) for clients in ([0, 1], [0, 2])]
    means = [
        Train(r.work, r.parameters, r.clients, r.learning_rate, r.key, r.folds[:1])
        for r in requests
    ]
    failed, fine = replies(StackedEngine(), *means)
    assert isinstance(failed, Failure)
    assert failed.client == 1
    assert torch.isfinite(fine[0]).all()


def test_stack_that_fails_through_nobodys_fault_is_not_passed_over_in_silence(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(self: StackedEngine, *_: Any) -> Any:
        raise RuntimeError("out of order")

    monkeypatch.setattr(StackedEngine, "_models", broken)
    request = train_request(Work(federation, LogisticRegression(), 0.0, 3, 4), [0, 2])
    ((found, _),) = replies(StackedEngine(), request)
    ((expected, _),) = replies(LoopEngine(), request)
    assert torch.equal(found, expected)
    assert (
        "failed (RuntimeError('out of order')) and was answered by the loop engine instead"
        in caplog.text
    )
    caplog.clear()


def test_cut_request_that_fails_in_its_first_stack_says_nothing_of_the_others(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Refuses(WeightedMean):
        def add(self, accumulator: Any, clients: Any, models: torch.Tensor) -> Any:
            raise ValueError("not these")

    monkeypatch.setattr(StackedEngine, "_limit", lambda self, request: PERIOD)
    wide = make_federation((3,) * (2 * PERIOD + 2))
    request = train_request(Work(wide, LogisticRegression(), 0.0, 2, 4), range(2 * PERIOD + 2))
    folds = (Refuses(np.full(2 * PERIOD + 2, 1 / (2 * PERIOD + 2))),)
    (found,) = replies(
        StackedEngine(),
        Train(request.work, request.parameters, request.clients, 0.1, (0, 0), folds),
    )
    assert isinstance(found, Failure) and "not these" in str(found.exception)
    assert caplog.text == ""
