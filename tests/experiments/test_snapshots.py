"""The best and the last model of runs, in memory and in folders."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.conftest import make_federation
from tests.experiments.test_this_process import prepared_runs
from torch import nn

from fedgs.data import Federation
from fedgs.errors import ConfigError, OutputError
from fedgs.experiments.compare import compare
from fedgs.experiments.snapshots import best_record, stored_snapshot
from fedgs.experiments.study import Results
from fedgs.experiments.this_process import carry_out
from fedgs.records import Record, RunFolder
from fedgs.report.run_view import Run

MAE = (0.5, 0.4, 0.9, 0.4)


def study(federation: Federation, rounds: int = 7, **settings: Any) -> Results:
    training = {"rounds": rounds, "proportion": 0.4, "learning_rate": 40.0, "decay": 1.0}
    given: dict[str, Any] = {"evaluation": {"every": 2}, "availability": "LDF", **settings}
    return compare(federation, methods=["uniform", "md"], training=training, **given)


def losses_of(module: nn.Module, federation: Federation) -> float:
    """The plain test loss of a module."""
    x, y = torch.from_numpy(federation.test.x.copy()), torch.from_numpy(federation.test.y.copy())
    return float(nn.functional.cross_entropy(module(x), y).detach())


@pytest.mark.parametrize("stored", [False, True])
def test_models_have_the_losses_of_their_records(
    toy_federation: Federation, tmp_path: Path, stored: bool
) -> None:
    results = study(toy_federation, out=tmp_path if stored else None)
    best_rounds = set()
    for run in results.runs:
        best = best_record(run.records)
        assert best is not None and best.test_loss is not None
        best_rounds.add(best.round)
        module = results.model(run)
        assert losses_of(module, toy_federation) == pytest.approx(best.test_loss, rel=1e-5)
        last = run.records[-1].test_loss
        assert losses_of(results.model(run, "last"), toy_federation) == pytest.approx(
            last, rel=1e-5
        )
        assert not module.training and all(p.is_leaf for p in module.parameters())
    assert best_rounds - {7}, "the best model is the last one in all runs: nothing was tested"


def test_records_do_not_depend_on_the_models_that_are_stored(
    toy_federation: Federation, tmp_path: Path
) -> None:
    results = study(toy_federation, out=tmp_path)
    in_memory = study(toy_federation)
    assert [run.records for run in results.runs] == [run.records for run in in_memory.runs]
    for run, other in zip(results.runs, in_memory.runs, strict=True):
        for which in ("best", "last"):
            pairs = zip(
                results.model(run, which).parameters(),
                in_memory.model(other, which).parameters(),
                strict=True,
            )
            assert all(torch.equal(a, b) for a, b in pairs)


def test_a_resumed_and_an_extended_run_have_the_models_of_an_unbroken_one(
    toy_federation: Federation, tmp_path: Path
) -> None:
    whole = study(toy_federation, 9)
    for rounds in (3, 6, 9):
        resumed = study(toy_federation, rounds, out=tmp_path)
    for run, other in zip(resumed.runs, whole.runs, strict=True):
        assert run.path is not None and best_record(run.records) == best_record(other.records)
        for which in ("best", "last"):
            first, second = resumed.model(run, which), whole.model(other, which)
            assert all(map(torch.equal, first.parameters(), second.parameters()))
    shorter = study(toy_federation, 6, out=tmp_path)
    with pytest.raises(OutputError, match="does not hold the last model, which is that of round 6"):
        shorter.model(shorter.runs[0], "last")


def test_an_interrupted_run_has_the_models_of_its_checkpoint(
    toy_federation: Federation, tmp_path: Path
) -> None:
    runs = prepared_runs(toy_federation, tmp_path)
    messages = carry_out(runs)
    for _ in range(8):
        next(messages)
    messages.close()
    folder = runs[0].folder
    assert folder is not None
    last = stored_snapshot(folder, "last")
    assert last.round == 4 and [name for name, _ in last.tensors] == ["weight", "bias"]
    assert stored_snapshot(folder, "best").round <= 4


def test_what_is_not_there_is_said(toy_federation: Federation, tmp_path: Path) -> None:
    results = study(toy_federation, 1)
    run = results.runs[0]
    with pytest.raises(ConfigError, match="which must be 'best' or 'last', got 'first'"):
        results.model(run, "first")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="run must be one of the runs of these results, got"):
        results.model(Run({}, ()))
    with pytest.raises(OutputError, match="holds no model yet: it has no checkpoint"):
        stored_snapshot(RunFolder(tmp_path), "last")


def test_a_run_of_an_earlier_version_has_its_last_model_alone(
    toy_federation: Federation, tmp_path: Path
) -> None:
    results = study(toy_federation, out=tmp_path)
    run = next(r for r in results.runs if best_record(r.records).round < 7)  # type: ignore[union-attr]
    assert run.path is not None
    (run.path / "best.npz").unlink()
    with pytest.raises(OutputError, match="does not hold the best model, .* model of round 7"):
        results.model(run, "best")
    assert isinstance(results.model(run, "last"), nn.Module)


def test_a_model_of_a_function_is_built_again(toy_federation: Federation) -> None:
    def narrow() -> nn.Module:
        inputs, labels = toy_federation.example_shape[0], toy_federation.num_labels
        return nn.Sequential(nn.Linear(inputs, 3), nn.Tanh(), nn.Linear(3, labels))

    results = study(toy_federation, 2, model=narrow)
    last = results.runs[0].records[-1].test_loss
    module = results.model(results.runs[0], "last")
    assert losses_of(module, toy_federation) == pytest.approx(last, rel=1e-5)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("figure", ["test_accuracy", "test_macro_f1", "valid_macro_f1"])
def test_the_best_model_follows_the_chosen_figure_and_its_direction(
    toy_federation: Federation, tmp_path: Path, stored: bool, figure: str
) -> None:
    evaluation = {"every": 1, "metrics": ["macro_f1"], "best": figure}
    out = tmp_path if stored else None
    if stored:  # begun with fewer rounds, and resumed
        study(toy_federation, 3, evaluation=evaluation, out=out)
    results = study(toy_federation, evaluation=evaluation, out=out)
    others = 0
    for run in results.runs:
        values = [record.value(figure) for record in run.records]
        assert all(value is not None for value in values)
        best = run.records[int(np.argmax(np.array(values, dtype=float)))]
        by_loss = best_record(run.records)
        others += by_loss is not None and by_loss.round != best.round
        module = results.model(run)
        assert losses_of(module, toy_federation) == pytest.approx(best.test_loss, rel=1e-5)
    assert others, "the lowest loss gives the same model in all runs: nothing was tested"


def test_lower_values_of_an_error_are_better() -> None:
    records = [Record(t, test_loss=1.0, test_metrics={"mae": value}) for t, value in enumerate(MAE)]
    lowest, highest = (best_record(records, "test_mae", higher=higher) for higher in (False, True))
    assert lowest is not None and lowest.round == 1
    assert highest is not None and highest.round == 2


@pytest.mark.parametrize(
    ("best", "message"),
    [
        ("auc", r"evaluation\.best must be 'valid_loss', .* got 'auc'"),
        ("test_auc", r"evaluation\.best names 'test_auc', whose metric .* recorded are none"),
        ("valid_loss", r"evaluation\.best = 'valid_loss' needs validation parts, and this"),
    ],
)
def test_a_figure_that_is_not_recorded_is_refused(best: str, message: str) -> None:
    federation = make_federation((4, 5), validation=False)
    with pytest.raises(ConfigError, match=message):
        study(federation, 1, evaluation={"best": best})
