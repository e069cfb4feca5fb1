"""Optimisers whose state lasts from one participation of a client to the next."""

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.conftest import make_federation
from tests.driving import Gaps, Keeping, RecordedRun, make_plan
from tests.local.material import replies, train_request
from tests.oracles import local_sgd
from torch.nn import functional

import fedgs.checkpoint as checkpoint_module
from fedgs.aggregation import Postponed
from fedgs.checkpoint import load_checkpoint, save_checkpoint, with_table_files
from fedgs.config import Training
from fedgs.data import Federation
from fedgs.driver import drive
from fedgs.errors import ConfigError, DataError
from fedgs.experiments.compare import compare
from fedgs.experiments.grid import build_config
from fedgs.experiments.preparing import prepare
from fedgs.local import LoopEngine, StackedEngine
from fedgs.local.parameters import build_module
from fedgs.models import LogisticRegression
from fedgs.optimizers import SGD, Adam, AdamW, Optimizer
from fedgs.plan import Plan
from fedgs.records import RunFolder
from fedgs.requests import OptimizerState, Work
from fedgs.sampling import Uniform

Plain = Callable[[Any], torch.optim.Optimizer]
OPTIMIZERS: list[tuple[Optimizer, Plain]] = [
    (SGD(momentum=0.9), lambda p: torch.optim.SGD(p, lr=1.0, momentum=0.9)),
    (
        SGD(momentum=0.7, nesterov=True, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, lr=1.0, momentum=0.7, nesterov=True, weight_decay=0.1),
    ),
    (Adam(beta1=0.8), lambda p: torch.optim.Adam(p, lr=1.0, betas=(0.8, 0.999))),
    (AdamW(epsilon=1e-4), lambda p: torch.optim.AdamW(p, lr=1.0, eps=1e-4)),
]
IDS = ["momentum", "nesterov", "adam", "adamw"]
ADAM = {"optimizer": "adam", "optimizer_state": "client"}


def plan_of(federation: Federation, optimizer: Optimizer | None, **settings: Any) -> Plan:
    """Two of the clients make 3 steps of batches of 4 in each of 9 rounds, some of them empty."""
    work = Work(
        federation,
        LogisticRegression(),
        0.1,
        3,
        4,
        optimizer=optimizer,
        clip=2.0,
        optimizer_state="client",
    )
    return make_plan(
        federation, work=work, availability=Gaps(seed=1), rounds=9, decay=0.9, **settings
    )


def plain_run(run: Keeping, federation: Federation, plain: Plain) -> list[torch.Tensor]:
    """theta after each round: every client has one module and one optimiser of PyTorch for all."""
    plan, train = run.live.plan, federation.train
    theta = run.starts[0].parameters
    first = build_module(LogisticRegression(), federation, 0)
    modules = [copy.deepcopy(first) for _ in range(len(federation))]
    optimizers = [plain(module.parameters()) for module in modules]
    after = []
    for record in run.records[: plan.rounds]:
        total = torch.zeros_like(theta, dtype=torch.float64)
        for name, weight in zip(record.cohort or [], record.weights or [], strict=True):
            client = federation.clients.names.index(name)
            module, optimizer = modules[client], optimizers[client]
            torch.nn.utils.vector_to_parameters(theta.clone(), module.parameters())
            start = [parameter.detach().clone() for parameter in module.parameters()]
            optimizer.param_groups[0]["lr"] = plan.learning_rate_of(record.round)
            x = torch.from_numpy(train.x[train.rows(client)].copy())
            y = torch.from_numpy(train.y[train.rows(client)].copy())
            for batch in local_sgd.batches(0, record.round, client, len(y), 3, 4):
                optimizer.zero_grad()
                loss = functional.cross_entropy(module(x[batch]), y[batch])
                for parameter, origin in zip(module.parameters(), start, strict=True):
                    loss = loss + 0.1 / 2 * ((parameter - origin) ** 2).sum()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(module.parameters(), 2.0)
                optimizer.step()
            local = torch.nn.utils.parameters_to_vector(module.parameters()).detach()
            total += weight * (local.double() - theta.double())
        theta = (theta.double() + total).float()
        after.append(theta)
    return after


@pytest.mark.parametrize(("optimizer", "plain"), OPTIMIZERS, ids=IDS)
def test_a_run_is_a_plain_loop_with_one_optimiser_of_torch_for_each_client(
    toy_federation: Federation, optimizer: Optimizer, plain: Plain
) -> None:
    run = Keeping(plan_of(toy_federation, optimizer))
    drive([run.live], LoopEngine())
    assert run.failed is None
    counts = run.states[-1].counts
    assert counts.max() >= 3 and counts.min() == 0
    expected = plain_run(run, toy_federation, plain)
    for state, theta in zip(run.states, expected, strict=True):
        torch.testing.assert_close(state.parameters, theta, rtol=1e-4, atol=2e-5)
    steps = run.states[-1].optimizer["steps"]
    assert isinstance(steps, torch.Tensor) and steps.tolist() == (3 * counts).tolist()
    anew = Keeping(
        replace(run.live.plan, work=replace(run.live.plan.work, optimizer_state="round"))
    )
    drive([anew.live], LoopEngine())
    assert (anew.states[-1].parameters - expected[-1]).abs().max() > 1e-3


@pytest.mark.parametrize("mapped", [False, True])
def test_a_resumed_run_has_the_same_bits(
    toy_federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mapped: bool
) -> None:
    """From any checkpoint, with the states in the checkpoint or in a file beside it."""
    monkeypatch.setattr(checkpoint_module, "MAPPED_NUMBERS", 1 if mapped else 1 << 24)
    folder = RunFolder(tmp_path)
    folder.create({"seed": 0}, toy_federation.clients, {})

    class Saving(RecordedRun):
        """Interrupted after so many rounds, each of which is saved."""

        def on_start(self, state: Any) -> Any:
            return with_table_files(folder, super().on_start(state))

        def on_round(self, state: Any, record: Any, seconds: Any) -> None:
            super().on_round(state, record, seconds)
            save_checkpoint(folder, state, engine="loop", start_memory={})

    plan = plan_of(toy_federation, Adam())
    whole = RecordedRun(plan)
    drive([whole.live], LoopEngine())
    assert whole.final is not None
    state = None
    for round in range(1, 9):
        begun = Saving(replace(plan, rounds=round), state)
        drive([begun.live], LoopEngine())
        checkpoint = load_checkpoint(folder, {})
        assert checkpoint is not None and checkpoint.state.round == round
        state = checkpoint.state
        rest = RecordedRun(plan, state)
        drive([rest.live], LoopEngine())
        assert rest.records == whole.records[round:] and rest.final is not None
        assert torch.equal(rest.final.parameters, whole.final.parameters)
    assert (folder.path / "optimizer-entries.bin").exists() == mapped


def test_all_clients_keep_their_states_where_all_of_them_train(toy_federation: Federation) -> None:
    work = Work(
        toy_federation,
        LogisticRegression(),
        0.0,
        3,
        4,
        objective="equal",
        optimizer=Adam(),
        optimizer_state="client",
    )
    plan = make_plan(
        toy_federation,
        Uniform(weighting="equal"),
        work=work,
        availability=Gaps(seed=1),
        aggregation=Postponed(),
    )
    run = Keeping(plan)
    drive([run.live], LoopEngine())
    steps = run.states[-1].optimizer["steps"]
    assert isinstance(steps, torch.Tensor) and steps.tolist() == [18] * len(toy_federation)


def test_a_stack_hands_states_to_the_loop_engine() -> None:
    work = Work(make_federation((7, 5)), LogisticRegression(), 0.0, 3, 4, optimizer=Adam())
    known = OptimizerState(3, torch.rand(2 * len(train_request(work, [0]).parameters)))
    request = replace(train_request(work, [0, 1], rate=0.05), states=(None, known))
    before = known.entries.clone()
    (loop,), (stacked,) = (replies(engine, request) for engine in (LoopEngine(), StackedEngine()))
    assert torch.equal(loop[1], stacked[1])
    for states in (loop[-1], stacked[-1]):
        assert [state.steps for state in states] == [3, 6]
    assert torch.equal(known.entries, before)
    with pytest.raises(DataError, match="states must be one for each of 2 clients, got 1"):
        replace(request, states=(None,))


def test_the_setting_is_part_of_a_run_and_the_default_is_not() -> None:
    assert "optimizer_state" not in Training(optimizer="adam").model_dump(mode="json")
    assert Training(**ADAM).model_dump(mode="json")["optimizer_state"] == "client"
    with pytest.raises(ConfigError, match=r"training\.optimizer_state"):
        Training(optimizer_state="run")


def prepared(training: dict[str, Any], **settings: Any) -> Any:
    tables = {"data": {"name": "synthetic", "clients": 4}, "availability": "IDL"}
    (run,) = prepare(
        [build_config({**tables, "method": "uniform", "training": training, **settings})]
    )
    return run


def test_auto_is_the_loop_engine_and_others_are_refused() -> None:
    run = prepared(ADAM)
    assert run.engine == ("loop", "loop: training.optimizer_state = 'client'")
    assert run.identity.parts["numerics"] == "loop 1"
    assert prepared({"optimizer": "adam"}).fingerprint != run.fingerprint
    with pytest.raises(ConfigError, match=r"^execution\.engine is 'stacked', which does not keep"):
        prepared(ADAM, execution={"engine": "stacked"})


class Sign(Optimizer):
    """Remembers the last gradient, which it does not say."""

    def directions(self, step: int, gradients: Any, parameters: Any, state: Any) -> Any:
        state["last"] = [gradient.clone() for gradient in gradients[:1]]
        return [gradient.sign() for gradient in gradients]


class Named(Sign):
    """Says so, but leaves out some of the tensors."""

    @property
    def memory(self) -> tuple[str, ...]:
        return ("last",)


@pytest.mark.parametrize(
    ("optimizer", "got"),
    [
        (None, "'sgd' without momentum"),
        ({"name": "sgd", "weight_decay": 0.1}, "'sgd' without momentum"),
        (Sign(), "'Sign', whose class names no entries in `memory`"),
    ],
)
def test_an_optimiser_without_memory_is_refused(optimizer: object, got: str) -> None:
    with pytest.raises(ConfigError, match=rf"needs an optimiser with a memory, .*; got {got}$"):
        prepared({"optimizer": optimizer, "optimizer_state": "client"})


def test_a_memory_that_does_not_fit_is_refused(toy_federation: Federation) -> None:
    run = RecordedRun(plan_of(toy_federation, Named()))
    drive([run.live], LoopEngine())
    assert run.failed is not None
    with pytest.raises(Exception, match=r"'Named' must keep in state\['last'\] one tensor of the"):
        raise run.failed.exception


@pytest.mark.long
def test_workers_and_resumed_studies_have_the_same_records(tmp_path: Path) -> None:
    federation = make_federation((7, 12, 5, 9, 4))

    def study(rounds: int, workers: int, out: Path) -> list[Any]:
        results = compare(
            federation,
            methods=["uniform", "md"],
            training={"rounds": rounds, "proportion": 0.5, **ADAM},
            availability="LDF",
            execution={"workers": workers},
            seeds=(0, 1),
            out=out,
        )
        return [run.records for run in results.runs]

    alone = study(8, 1, tmp_path / "alone")
    assert study(8, 2, tmp_path / "workers") == alone
    study(5, 2, tmp_path / "resumed")
    assert study(8, 1, tmp_path / "resumed") == alone
    assert np.isfinite([records[-1].test_loss for records in alone]).all()
