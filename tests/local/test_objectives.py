"""Every loss: engines agree, and equal plain PyTorch; and what is recorded of a model."""

import numpy as np
import pytest
import torch
from tests.local.material import replies, train_request
from tests.local.problems import PROBLEMS, Problem, examples, federation
from tests.oracles import local_sgd
from tests.oracles.local_training import trained

from fedgs.local import LoopEngine, StackedEngine
from fedgs.local.engines import choose_engine, program_of
from fedgs.local.parameters import build_module, initial_parameters
from fedgs.local.stacking import StackedProgram
from fedgs.losses import CrossEntropy, Loss
from fedgs.metrics import Accuracy, MacroF1, MeanAbsoluteError
from fedgs.models import LogisticRegression
from fedgs.requests import Evaluate, Losses, Train, Work

ALL = pytest.mark.parametrize("problem", PROBLEMS, ids=str)


@ALL
@pytest.mark.parametrize("engine", [LoopEngine(), StackedEngine()], ids=lambda one: one.name)
def test_a_local_model_is_that_of_a_plain_loop(problem: Problem, engine: LoopEngine) -> None:
    work, clients = problem.work(mu=0.1), [0, 1, 2, 3, 4, 5]
    (_, models) = replies(engine, train_request(work, clients, key=(2, 3)))[0]
    module = build_module(work.model, work.federation, 2)
    for client in clients:
        x, y = examples(problem, client)
        expected = trained(
            module,
            (x, y),
            batches=local_sgd.batches(2, 3, client, len(y), 5, 4),
            loss=problem.plain,
            optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
            mu=0.1,
        )
        torch.testing.assert_close(models[client], expected, rtol=2e-5, atol=2e-6)


@ALL
def test_one_step_on_full_batches_is_a_step_on_all_data(problem: Problem) -> None:
    """FedAvg with all clients, for losses in which all examples have weight 1."""
    work = problem.work(local_steps=1, batch_size=1000)
    mean, _ = replies(LoopEngine(), train_request(work, range(6), key=(4, 0)))[0]
    module = build_module(work.model, work.federation, 4)
    x = torch.cat([examples(problem, client)[0] for client in range(6)])
    y = torch.cat([examples(problem, client)[1] for client in range(6)])
    central = trained(
        module,
        (x, y),
        batches=[range(len(y))],
        loss=problem.plain,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    )
    if problem.weighs_equally:
        torch.testing.assert_close(mean, central, rtol=1e-5, atol=1e-6)
    else:  # each client divides by the weights of its own examples
        assert not torch.allclose(mean, central, rtol=1e-5, atol=1e-6)


@ALL
def test_losses_of_clients_and_parts_are_those_of_plain_functions(problem: Problem) -> None:
    work = problem.work()
    theta = initial_parameters(work.model, work.federation, 0)
    clients = np.arange(6)
    requests = [Losses(work, theta, clients, "train"), Evaluate(work, theta, "test")]
    module = build_module(work.model, work.federation, 0).eval()
    with torch.no_grad():
        plain = [float(problem.plain(module(x), y)) for x, y in map(examples_of(problem), clients)]
        test = work.federation.test
        x, y = torch.from_numpy(test.x.astype(np.float32)), torch.from_numpy(test.y.copy())
        whole = float(problem.plain(module(x), y))
    for engine in (LoopEngine(), StackedEngine()):
        losses, metrics = replies(engine, *requests)
        np.testing.assert_allclose(losses, plain, rtol=2e-6)
        assert metrics.loss == pytest.approx(whole, rel=2e-6)
        assert (metrics.accuracy is None) == (problem.task == "regression")


def examples_of(problem: Problem):  # type: ignore[no-untyped-def]
    return lambda client: examples(problem, int(client))


@ALL
def test_reported_losses_are_those_of_the_batches(problem: Problem) -> None:
    """The mean over E steps of the batch's loss, before each step."""
    work = problem.work(local_steps=1, batch_size=1000)
    theta = initial_parameters(work.model, work.federation, 0)
    clients = np.array([0, 2, 4])
    request = Train(work, theta, clients, 0.1, (0, 0), (), reports=("mean_loss",))
    module = build_module(work.model, work.federation, 0)
    with torch.no_grad():
        plain = [float(problem.plain(module(x), y)) for x, y in map(examples_of(problem), clients)]
    for engine in (LoopEngine(), StackedEngine()):
        (reports,) = replies(engine, request)[0]
        np.testing.assert_allclose(reports["mean_loss"], plain, rtol=2e-6)


def test_further_metrics_are_computed_from_the_outputs_in_the_order_of_the_examples() -> None:
    problem = PROBLEMS[2]
    work = problem.work()
    theta = initial_parameters(work.model, work.federation, 0)
    request = Evaluate(work, theta, "test", metrics=(MeanAbsoluteError(),))
    module, test = build_module(work.model, work.federation, 0).eval(), work.federation.test
    with torch.no_grad():
        outputs = module(torch.from_numpy(test.x)).numpy()
    expected = float(np.abs(outputs.astype(np.float64) - test.y).mean())
    for engine in (LoopEngine(), StackedEngine()):
        (reply,) = replies(engine, request)
        assert reply.others["mean_absolute_error"] == pytest.approx(expected, rel=1e-6)


def test_metrics_of_sequences_leave_out_masked_places() -> None:
    work = next(problem for problem in PROBLEMS if problem.task == "sequence").work()
    theta = initial_parameters(work.model, work.federation, 0)
    request = Evaluate(work, theta, "test", metrics=(Accuracy(), MacroF1()))
    (reply,) = replies(LoopEngine(), request)
    module, test = build_module(work.model, work.federation, 0).eval(), work.federation.test
    with torch.no_grad():
        answers = module(torch.from_numpy(test.x.astype(np.float32))).argmax(-1).numpy()
    counted = test.y >= 0
    assert 0 < counted.sum() < counted.size
    assert reply.accuracy == pytest.approx((answers == test.y)[counted].mean())
    assert reply.others["accuracy"] == pytest.approx(reply.accuracy)


def test_a_linear_model_keeps_the_figures_of_its_kernels_beside_further_metrics() -> None:
    work = Work(federation("classes"), LogisticRegression(), 0.0, local_steps=2, batch_size=4)
    theta = initial_parameters(work.model, work.federation, 0)
    engine = StackedEngine()
    plain, more = replies(
        engine, Evaluate(work, theta, "test"), Evaluate(work, theta, "test", metrics=(MacroF1(),))
    )
    assert (more.loss, more.accuracy) == (plain.loss, plain.accuracy)
    assert plain.others is None and set(more.others) == {"macro_f1"}


def test_models_of_sequences_can_be_stacked_by_the_rule_of_engines() -> None:
    work = next(problem for problem in PROBLEMS if problem.task == "sequence").work()
    assert choose_engine("auto", device="cpu", work=work).name == "stacked"


def test_other_losses_are_not_left_to_the_kernels_of_logistic_regression() -> None:
    losses: list[Loss | None] = [None, CrossEntropy(), CrossEntropy(label_smoothing=0.1)]
    works = [
        Work(federation("classes"), LogisticRegression(), 0.0, 2, 4, loss=one) for one in losses
    ]
    programs = [program_of("stacked", device="cpu", work=work) for work in works]
    assert programs == ["linear", "linear", "stacked"]
    regression = Work(federation("regression"), LogisticRegression(), 0.0, 2, 4)
    assert program_of("stacked", device="cpu", work=regression) == "stacked"
    assert isinstance(StackedEngine().program(works[2]), StackedProgram)
