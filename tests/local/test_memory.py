"""Full batches of any size train the same models, and tables that do not fit are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

from fedgs import Federation, compare
from fedgs.errors import ConfigError
from fedgs.local.memory import check_batch_memory
from fedgs.models import LogisticRegression
from fedgs.requests import Work

X = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
OWNER = np.repeat(np.arange(4), [9, 13, 17, 21])
LARGEST = 21


def hidden() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 2))


@pytest.fixture
def federation() -> Federation:
    return Federation.from_arrays(
        X, (X[:, 0] > 0).astype(int), client=OWNER, test=(X, (X[:, 1] > 0).astype(int))
    )


def losses(federation: Federation, model: Any, **settings: Any) -> list[Any]:
    execution = {"engine": settings.pop("engine", "auto")}
    training = {"rounds": 4, "cohort_limit": 3, "local_steps": 3, **settings}
    (run,) = compare(
        federation, methods=["uniform"], model=model, training=training, execution=execution
    ).runs
    assert run.failure is None
    return [record.test_loss for record in run.records]


@pytest.mark.parametrize(
    ("model", "engine"), [("logistic", "stacked"), ("logistic", "loop"), (hidden, "loop")]
)
def test_any_batch_size_from_the_largest_client_up_is_a_full_batch(
    federation: Federation, model: Any, engine: str
) -> None:
    exact = losses(federation, model, engine=engine, batch_size=LARGEST)
    for size in (LARGEST + 1, 10**4, 10**9, 10**30):
        assert losses(federation, model, engine=engine, batch_size=size) == exact
    assert losses(federation, model, engine=engine, batch_size=LARGEST - 8) != exact


def test_padded_batches_that_do_not_fit_are_refused_with_the_size_that_does(
    federation: Federation, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=f"training.batch_size = {LARGEST} gives full batches"):
        losses(federation, hidden, engine="stacked", batch_size=10**12)
    assert np.isfinite(losses(federation, hidden, engine="stacked", batch_size=LARGEST)[-1])


@pytest.mark.parametrize("model", ["logistic", hidden])
@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize("steps", [10**12, 10**30])
def test_steps_whose_table_does_not_fit_are_refused(
    federation: Federation, model: Any, engine: str, steps: int
) -> None:
    with pytest.raises(
        ConfigError, match=f"local_steps = {steps} .* use fewer steps or smaller batches"
    ):
        losses(federation, model, engine=engine, local_steps=steps)


@pytest.mark.parametrize(
    ("program", "needed"),
    [
        ("loop", 3 * 100 * (LARGEST + 1) * 8),
        ("linear", 3 * 100 * (2 * LARGEST + 1) * 8),
        ("stacked", 8 * (100 * (2 * 50 + 1) * 8 + 50 * 5 * 4)),
    ],
)
def test_the_estimate_counts_clients_steps_and_examples(
    federation: Federation, monkeypatch: pytest.MonkeyPatch, program: str, needed: int
) -> None:
    work = Work(federation, LogisticRegression(), 0.0, local_steps=100, batch_size=50)
    monkeypatch.setattr("fedgs.local.memory.compiled_kernels", lambda part: object())
    monkeypatch.setattr("fedgs.local.memory.memory_limit", lambda: needed)
    check_batch_memory(work, program=program, device="cpu", cohort_limit=3)
    monkeypatch.setattr("fedgs.local.memory.memory_limit", lambda: needed - 1)
    with pytest.raises(ConfigError, match="need more memory"):
        check_batch_memory(work, program=program, device="cpu", cohort_limit=3)


@pytest.mark.parametrize("setting", ["learning_rate", "mu"])
def test_rates_are_within_float32(federation: Federation, setting: str) -> None:
    with pytest.raises(
        ConfigError,
        match=f"training.{setting} must be within float32's range, at most 3.4e38, got 1e\\+300",
    ):
        losses(federation, "logistic", **{setting: 1e300})
