"""The model evaluated on the examples of each client."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.driving import driven, make_plan
from tests.local.material import make_federation, mlp

from fedgs.data import Federation
from fedgs.errors import ConfigError
from fedgs.evaluation_settings import ClientEvaluation
from fedgs.experiments.compare import compare
from fedgs.local import LoopEngine, StackedEngine, initial_parameters
from fedgs.local.parameters import build_module
from fedgs.models import LogisticRegression, Model
from fedgs.requests import ClientMetrics, Evaluate, Losses, Metrics, Work

SIZES = (7, 1, 40, 12, 3)


def with_owners(sizes: tuple[int, ...] = SIZES) -> Federation:
    """Clients with own test examples; the second one has none."""
    rng = np.random.default_rng(0)

    def draw(counts: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        owner = np.repeat(np.arange(len(counts)), counts)
        x = rng.standard_normal((len(owner), 5)).astype(np.float32)
        return x, rng.integers(3, size=len(owner)), owner

    x, y, owner = draw(list(sizes))
    return Federation.from_arrays(x, y, client=owner, test=draw([4, 0, 2, 9, 1]), classes=3)


def plain_figures(federation: Federation, model: Model, part: Any) -> tuple[Any, Any]:
    """Loss and accuracy of each client, one after another."""
    module, losses, accuracies = build_module(model, federation), [], []
    for client in range(len(federation)):
        x, y = (torch.from_numpy(a[part.rows(client)].copy()) for a in (part.x, part.y))
        with torch.no_grad():
            logits = module(x)
        losses.append(float(torch.nn.functional.cross_entropy(logits, y)))
        accuracies.append(float((logits.argmax(1) == y).float().mean()))
    return losses, accuracies


@pytest.mark.parametrize("engine", [LoopEngine, StackedEngine])
@pytest.mark.parametrize("model", [LogisticRegression(), mlp(5, [4], 3)], ids=["linear", "mlp"])
def test_figures_are_those_of_each_client_alone(engine: Any, model: Model) -> None:
    for federation, split in ((with_owners(), "test"), (make_federation(SIZES), "validation")):
        part = federation.client_test if split == "test" else federation.validation
        work = Work(federation, model, 0.0, 1, 4)
        theta = initial_parameters(model, federation, 0)
        alone = Evaluate(work, theta, split, by_client=True)  # type: ignore[arg-type]
        requests = [alone, Evaluate(work, theta, split)]  # type: ignore[arg-type]
        reply, whole = (value for _, value in sorted(engine().answer(requests)))
        assert isinstance(reply, ClientMetrics) and isinstance(whole, Metrics)
        losses, accuracies = plain_figures(federation, model, part)
        np.testing.assert_allclose(reply.losses, losses, rtol=1e-5)
        assert reply.accuracies is not None
        np.testing.assert_allclose(reply.accuracies, accuracies, rtol=1e-6)
        counts = np.diff(part.offsets)  # type: ignore[union-attr]
        weights = counts if split == "test" else federation.clients.data_sizes * (counts > 0)
        known = weights > 0
        mean = np.average(reply.losses[known], weights=weights[known])
        assert whole.loss == pytest.approx(mean, rel=1e-6)


def test_rounds_divisible_by_every_and_the_last_model_are_evaluated_by_client() -> None:
    federation = with_owners()
    plain, plan = (
        make_plan(federation, rounds=7, evaluate_every=5, per_client=settings)
        for settings in (None, ClientEvaluation(every=3))
    )
    without, run = driven(plain, plan)
    having = [record.round for record in run.records if record.per_client is not None]
    assert having == [0, 3, 6, 7]
    stripped = [record.__dict__ | {"per_client": None} for record in run.records]
    assert stripped == [record.__dict__ for record in without.records]
    first = run.records[0].per_client
    assert first is not None and first["part"] == "test"
    losses, accuracies = plain_figures(federation, plan.work.model, federation.client_test)
    assert first["loss"][1] is None and first["accuracy"][1] is None
    known = [0, 2, 3, 4]
    assert [first["loss"][k] for k in known] == pytest.approx([losses[k] for k in known], rel=1e-5)
    assert [first["accuracy"][k] for k in known] == pytest.approx([accuracies[k] for k in known])
    assert "per_client" not in without.records[0].to_json()


def test_runs_that_stop_or_resume_have_the_figures_of_their_last_model(
    toy_federation: Federation, tmp_path: Path
) -> None:
    def study(rounds: int, out: Path | None) -> Any:
        return compare(
            toy_federation,
            methods=["uniform"],
            training={"rounds": rounds, "proportion": 0.4},
            evaluation={"every": 1, "per_client": {"every": 4}},
            stopping={"target_loss": 0.0, "patience": 50},
            out=out,
        ).runs[0]

    whole = study(10, None)
    assert study(6, tmp_path).records[-1].per_client is not None  # not divisible by four
    resumed = study(10, tmp_path)
    assert list(resumed.records) == list(whole.records)
    assert resumed.records[6].per_client is None and resumed.records[10].per_client is not None
    stopped = compare(
        toy_federation,
        methods=["uniform"],
        training={"rounds": 10, "proportion": 0.4},
        evaluation={"every": 1, "per_client": {"every": 4}},
        stopping={"target_loss": 9.0},
    ).runs[0]
    assert stopped.rounds_done == 1 and stopped.records[-1].per_client is not None


def test_parts_that_a_federation_does_not_have_are_refused() -> None:
    x, y = np.eye(4, dtype=np.float32), np.arange(4) % 2
    bare = Federation.from_arrays(x, y, client=y, test=(x, y))
    for settings, message in (
        ({}, "evaluation.per_client needs test examples with owners or validation parts"),
        ({"part": "test"}, "part = 'test' needs test examples with owners"),
        ({"part": "validation"}, "part = 'validation' needs validation parts"),
    ):
        with pytest.raises(ConfigError, match=message):
            make_plan(bare, per_client=ClientEvaluation(**settings))
    with pytest.raises(ConfigError, match="evaluation.per_client.every should be greater than"):
        compare(bare, methods=["uniform"], evaluation={"per_client": {"every": 0}})


def test_figures_in_one_call_have_the_bits_of_each_client_alone() -> None:
    """Blocks of rows that go across the ends of clients change no bit."""
    federation = make_federation((3, 5, 2, 9, 1, 4, 30, 2))
    work = Work(federation, LogisticRegression(), 0.0, 1, 4)
    theta = initial_parameters(work.model, federation, 3)
    engine = StackedEngine()
    ((_, together),) = engine.answer([Evaluate(work, theta, "validation", by_client=True)])
    for client in range(len(federation)):
        ((_, alone),) = engine.answer([Losses(work, theta, np.array([client]), "validation")])
        np.testing.assert_array_equal(together.losses[client], alone[0])
