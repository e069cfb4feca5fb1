"""Runs of the samplers that rank clients by losses: resume, engines, mini-batches, workers."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from tests.conftest import make_federation
from tests.driving import Gaps, Keeping, RecordedRun, make_plan, resumes_everywhere

from fedgs.arrays import IntArray
from fedgs.clients import View
from fedgs.data import Federation
from fedgs.driver import drive
from fedgs.errors import ConfigError
from fedgs.experiments.grid import build_config
from fedgs.experiments.preparing import prepare
from fedgs.experiments.runner import run_all
from fedgs.local import LoopEngine, StackedEngine
from fedgs.plan import Plan
from fedgs.registry import build
from fedgs.requests import Engine, Losses, Train
from fedgs.sampling import ActiveFL, CPowD, PowerOfChoice, RPowD, Sampler, Uniform

SAMPLERS: list[Sampler] = [
    ActiveFL(),
    ActiveFL(excluded_share=0.0, inverse_temperature=5.0, uniform_share=0.5),
    RPowD(),
    RPowD(candidates=3),
    CPowD(loss_batch=2),
    CPowD(loss_batch=3, candidates=3),
    PowerOfChoice(candidates=3),
]
ENGINES: list[type[Any]] = [LoopEngine, StackedEngine]


def run_of(plan: Plan, engine: Engine) -> Keeping:
    run = Keeping(plan)
    drive([run.live], engine)
    assert run.failed is None
    return run


class Listening:
    """An engine whose requests and replies are kept."""

    name = "listening"

    def __init__(self) -> None:
        self.engine, self.heard = LoopEngine(), list[tuple[Any, Any]]()

    def answer(self, requests: Any) -> Any:
        for place, reply in self.engine.answer(requests):
            self.heard.append((requests[place], reply))
            yield place, reply


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_a_run_resumes_from_any_checkpoint_with_the_same_bits(
    sampler: Sampler, toy_federation: Federation, tmp_path: Path
) -> None:
    resumes_everywhere(toy_federation, sampler, tmp_path / "run")


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_engines_agree(sampler: Sampler, toy_federation: Federation) -> None:
    one, other = (run_of(make_plan(toy_federation, sampler), engine()) for engine in ENGINES)
    assert [record.cohort for record in one.records] == [record.cohort for record in other.records]
    assert one.final is not None and other.final is not None
    torch.testing.assert_close(one.final.parameters, other.final.parameters, rtol=1e-4, atol=1e-5)
    for name, array in one.final.memory.items():
        np.testing.assert_allclose(other.final.memory[name], array, rtol=1e-4)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_is_the_same_alone_and_beside_others(
    engine: type[Any], toy_federation: Federation
) -> None:
    # Requests with reports and with mini-batches are answered together with plain ones.
    work = make_plan(toy_federation).work
    plans = [make_plan(toy_federation, one, work=work) for one in [*SAMPLERS, Uniform()]]
    together = [Keeping(plan) for plan in plans]
    drive([run.live for run in together], engine())
    for plan, run in zip(plans, together, strict=True):
        alone = run_of(plan, engine())
        assert run.records == alone.records
        assert run.final is not None and alone.final is not None
        assert torch.equal(run.final.parameters, alone.final.parameters)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("candidates", [None, 3])
@pytest.mark.parametrize("loss_on", ["train", "validation"])
@pytest.mark.parametrize("batch", [12, 10**9])
def test_cpow_d_with_all_examples_in_the_batch_is_power_of_choice_in_a_whole_run(
    toy_federation: Federation,
    engine: type[Any],
    candidates: int | None,
    loss_on: Literal["train", "validation"],
    batch: int,
) -> None:
    assert toy_federation.clients.data_sizes.max() == 12
    settings: dict[str, Any] = {"candidates": candidates, "loss_on": loss_on}
    one, other = (
        run_of(make_plan(toy_federation, sampler, rounds=12), engine())
        for sampler in (PowerOfChoice(**settings), CPowD(loss_batch=batch, **settings))
    )
    assert other.records == one.records
    assert one.final is not None and other.final is not None
    assert torch.equal(other.final.parameters, one.final.parameters)


def test_a_smaller_batch_selects_other_cohorts(toy_federation: Federation) -> None:
    one, other = (
        run_of(make_plan(toy_federation, sampler, rounds=12), LoopEngine())
        for sampler in (PowerOfChoice(), CPowD(loss_batch=1))
    )
    assert [record.cohort for record in one.records] != [record.cohort for record in other.records]


def test_losses_are_asked_for_on_the_batch_of_the_sampler(toy_federation: Federation) -> None:
    engine = Listening()
    run_of(make_plan(toy_federation, CPowD(loss_batch=3)), engine)
    assert {request.batch for request, _ in engine.heard if isinstance(request, Losses)} == {3}
    engine = Listening()
    run_of(make_plan(toy_federation, PowerOfChoice()), engine)
    assert {request.batch for request, _ in engine.heard if isinstance(request, Losses)} == {None}


@pytest.mark.parametrize("sampler", [ActiveFL(), RPowD()], ids=repr)
def test_the_memory_holds_the_losses_that_came_with_the_updates(
    sampler: Sampler, toy_federation: Federation
) -> None:
    engine = Listening()
    run = run_of(make_plan(toy_federation, sampler, availability=Gaps(seed=1), rounds=9), engine)
    expected = np.full(len(toy_federation), np.inf)
    for request, reply in engine.heard:
        assert not isinstance(request, Losses)  # no extra pass
        if isinstance(request, Train):
            expected[request.clients] = reply[-1]["mean_loss"]
    assert run.final is not None
    np.testing.assert_array_equal(run.final.memory["losses"], expected)
    assert np.isinf(expected[-1]) and np.isfinite(expected).sum() >= 3


@pytest.mark.parametrize("batch", [0, -2, 1.5, True, "all"])
def test_a_batch_that_is_no_number_of_examples_is_refused_by_the_plan(
    toy_federation: Federation, batch: Any
) -> None:
    class Own(PowerOfChoice):
        loss_batch: Any = None

        def loss_candidates(self, view: View, rng: np.random.Generator) -> IntArray:
            return view.available

    make_plan(toy_federation, Own(loss_batch=2))
    make_plan(toy_federation, Own())
    message = rf"^method\.loss_batch must be an integer >= 1 or None, got {batch!r}$"
    with pytest.raises(ConfigError, match=message):
        make_plan(toy_federation, Own(loss_batch=batch))


@pytest.mark.long
def test_workers_and_later_starts_give_the_same_records(tmp_path: Path) -> None:
    def records(rounds: int, workers: int, out: Path | None = None) -> list[list[Any]]:
        settings = {
            "data": {"name": "synthetic", "clients": 8},
            "availability": "LDF",
            "training": {"rounds": rounds, "local_steps": 1, "cohort_limit": 3},
            "execution": {"engine": "loop", "workers": workers, "checkpoint_every": 1},
        }
        methods = ["active_fl", "rpow_d", {"name": "cpow_d", "loss_batch": 3}]
        configs = [build_config({**settings, "method": method}) for method in methods]
        return [list(finished.records) for finished in run_all(prepare(configs), out=out)]

    whole = records(6, 1)
    assert records(6, 2) == whole
    records(3, 2, tmp_path / "out")
    assert records(6, 2, tmp_path / "out") == whole


@pytest.mark.parametrize("name", ["active_fl", "rpow_d", "cpow_d"])
def test_one_client_alone_trains_in_every_round(name: str) -> None:
    sampler = build("method", name)
    assert isinstance(sampler, Sampler)
    run = RecordedRun(make_plan(make_federation((9,)), sampler, cohort_limit=1))
    drive([run.live], LoopEngine())
    assert run.failed is None and run.final is not None
    trained = [record.cohort for record in run.records[:-1] if record.num_available]
    assert trained and all(cohort == ["site-0"] for cohort in trained)
