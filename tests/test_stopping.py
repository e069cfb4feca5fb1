"""Runs that end before their last round."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import make_federation
from tests.driving import Keeping, RecordedRun, driven, make_plan

from fedgs.checkpoint import load_checkpoint, save_checkpoint
from fedgs.config import Config
from fedgs.data import Federation
from fedgs.driver import drive
from fedgs.errors import ConfigError
from fedgs.experiments.compare import compare
from fedgs.experiments.grid import build_config
from fedgs.experiments.preparing import prepare
from fedgs.local import LoopEngine
from fedgs.records import Record, RunFolder
from fedgs.report.methods import Method
from fedgs.report.metric_columns import further_figures, metric_columns
from fedgs.stopping import Stopping

DEFAULTS: dict[str, Any] = {"availability": "LDF", "training": {"rounds": 12, "proportion": 0.4}}


def reason(values: list[float], **settings: Any) -> str | None:
    stopping = Stopping(**settings)
    return stopping.reason({name: np.array(values) for name in stopping.figures})


def test_a_target_needs_two_evaluations_in_a_row() -> None:
    assert reason([0.4], target_loss=0.5) is None
    assert reason([0.4, 0.6, 0.4], target_loss=0.5) is None
    assert reason([0.4, 0.5], target_loss=0.5) == "target"
    assert reason([0.5, 0.4], target_accuracy=0.5) is None
    assert reason([0.4, 0.5, 0.9], target_accuracy=0.5) == "target"


@given(
    st.lists(st.sampled_from([0.1, 0.2, 0.3, math.nan]), min_size=1, max_size=7), st.integers(1, 4)
)
def test_patience_counts_evaluations_since_the_best(values: list[float], patience: int) -> None:
    """The plain version: walk through the values and count those that are not better."""
    best, since = math.inf, -1
    for value in values:
        since = 0 if value < best else since + 1
        best = value if value < best else best
    expected = "patience" if max(since, 0) >= patience else None
    assert reason(values, patience=patience) == expected
    falling = [-value for value in values]
    assert reason(falling, patience=patience, figure="test_accuracy") == expected


def stopping_plan(federation: Federation, **settings: Any) -> Any:
    return make_plan(federation, rounds=30, evaluate_every=1, stopping=Stopping(**settings))


def test_a_stopped_run_has_the_records_of_the_whole_one_up_to_its_end(
    toy_federation: Federation,
) -> None:
    whole = make_plan(toy_federation, rounds=30, evaluate_every=1)
    losses = [record.test_loss for record in driven(whole)[0].records]
    assert losses[0] is not None
    target = float(np.quantile(np.array(losses, dtype=float), 0.5))
    end = next(t for t in range(1, 31) if max(losses[t - 1 : t + 1]) <= target)  # type: ignore[type-var]
    assert 1 < end < 30
    plan = stopping_plan(toy_federation, target_loss=target)
    alone, other = driven(plan, whole)  # a batch of two runs, of which the other goes on
    assert len(other.records) == 31 and not other.live.stopped
    assert alone.records[:-1] == other.records[:end]
    last = alone.records[-1]
    assert last == Record(
        end,
        test_loss=losses[end],
        test_accuracy=other.records[end].test_accuracy,
        valid_loss=other.records[end].valid_loss,
        stopped="target",
    )
    assert alone.live.stopped and alone.final is not None and alone.final.round == end


@pytest.mark.parametrize(
    "settings", [{"target_loss": 0.9}, {"patience": 1, "figure": "test_accuracy"}]
)
def test_a_resumed_run_stops_at_the_same_round(
    toy_federation: Federation, tmp_path: Path, settings: dict[str, Any]
) -> None:
    plan = stopping_plan(toy_federation, **settings)
    whole = Keeping(plan)
    drive([whole.live], LoopEngine())
    assert whole.records[-1].stopped is not None and len(whole.states) >= 1
    folder = RunFolder(tmp_path)
    folder.create({"seed": 0}, toy_federation.clients, {})
    for state in whole.states:
        save_checkpoint(folder, state, engine="loop", start_memory={})
        checkpoint = load_checkpoint(folder, {})
        assert checkpoint is not None
        rest = RecordedRun(plan, checkpoint.state)
        drive([rest.live], LoopEngine())
        assert rest.records == whole.records[state.round :]


def test_a_stopped_run_is_finished_and_is_reused_with_more_rounds(
    toy_federation: Federation, tmp_path: Path
) -> None:
    def study(rounds: int, **settings: Any) -> Any:
        training = {"rounds": rounds, "proportion": 0.4}
        settings = {"evaluation": {"every": 1}, "seeds": (0, 1), "out": tmp_path, **settings}
        return compare(toy_federation, methods=["uniform"], training=training, **settings)

    progress: list[Any] = []
    first = study(12, stopping={"target_loss": 5.0}, on_progress=progress.append)
    assert [run.stopped for run in first.runs] == ["target", "target"]
    assert [run.rounds_done for run in first.runs] == [1, 1]
    assert progress[-1].rounds == progress[-1].total == 2
    again = study(20, stopping={"target_loss": 5.0})
    assert again.reused == 2 and all(run.finished for run in again.runs)
    assert "Stopped early: uniform seed 0 (round 1, target), uniform seed 1" in str(again.table())
    assert study(3).reused == 0  # without stopping it is another run


def test_stopping_is_part_of_the_identity_only_where_it_is_on(toy_federation: Federation) -> None:
    def config(**stopping: Any) -> Config:
        tables = {"data": "synthetic", "method": "uniform", "stopping": stopping, **DEFAULTS}
        return build_config(tables)

    plain, target, patient = (
        prepare([config(**one)])[0].fingerprint
        for one in ({}, {"target_loss": 0.5}, {"patience": 3})
    )
    assert len({plain, target, patient}) == 3
    assert "stopping" not in config().tables()
    assert config(patience=3).tables()["stopping"] == {"patience": 3, "figure": "valid_loss"}
    assert config(target_loss=0.5).tables()["stopping"] == {"target_loss": 0.5}
    without = build_config({"data": "synthetic", "method": "uniform", **DEFAULTS})
    assert prepare([without])[0].fingerprint == plain
    assert "stopped" not in Record(3, test_loss=0.5).to_json()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"patience": 0}, "stopping.patience should be greater than or equal to 1, got 0"),
        ({"target_accuracy": 1.5}, "stopping.target_accuracy should be less than or equal to 1"),
        ({"target_loss": math.inf}, "stopping.target_loss should be a finite number"),
        ({"figure": "test_loss"}, "stopping.figure = 'test_loss' has no effect without"),
        ({"patience": 2, "figure": "loss"}, "stopping.figure must be 'valid_loss', .* got 'loss'"),
        ({"patience": 2, "figure": "test_"}, "stopping.figure must be .* got 'test_'"),
        ({"patience": 2, "figure": "accuracy"}, "must be .* got 'accuracy'"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Stopping(**settings)


def test_a_target_of_a_metric_follows_its_direction(toy_federation: Federation) -> None:
    def stopped(**settings: Any) -> list[int]:
        runs = compare(
            toy_federation,
            methods=["uniform"],
            training={"rounds": 6, "proportion": 0.4},
            evaluation={"every": 1, "metrics": "macro_f1"},
            stopping=settings,
        ).runs
        return [run.rounds_done for run in runs]

    assert stopped(target_metrics={"macro_f1": 0.0}) == [1]  # at least 0 in rounds 0 and 1
    assert stopped(target_metrics={"macro_f1": 1.0}) == [6]
    falling = Stopping(target_metrics={"mae": 0.5})
    history = falling.extended({"test_mae": np.array([0.4])}, {"test_metrics": {"mae": 0.5}})
    assert falling.reason(history, lower=["mae"]) == "target"
    assert falling.reason(history) is None
    with pytest.raises(ConfigError, match="names 'auc', which evaluation.metrics does not have; "):
        stopped(target_metrics={"auc": 0.5})
    with pytest.raises(ConfigError, match="must be at least 0 and at most 1 for 'macro_f1', got 7"):
        stopped(target_metrics={"macro_f1": 7})


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ({"auc": math.nan}, "must have finite numbers, got nan for 'auc'"),
        ({"auc": math.inf}, "must have finite numbers, got inf for 'auc'"),
        ({"accuracy": 0.1}, "got 'accuracy', whose target is stopping.target_accuracy"),
        ({"loss": 0.1}, "got 'loss', whose target is stopping.target_loss"),
        ({"valid_loss": 0.1}, "got 'valid_loss', whose target is stopping.target_valid_loss"),
    ],
)
def test_targets_that_no_run_can_have_are_refused(targets: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Stopping(target_metrics=targets)


def test_a_target_is_in_the_range_of_its_metric_which_may_have_no_end() -> None:
    stopping = Stopping(target_metrics={"mae": -1})
    known = {"has_validation": True, "has_accuracy": False, "metrics": ["mae"]}
    stopping.check(**known)  # nothing is known of it
    with pytest.raises(ConfigError, match="must be at least 0 for 'mae', got -1"):
        stopping.check(**known, ranges={"mae": (0, math.inf)})


def test_figures_that_a_federation_does_not_have_are_refused(toy_federation: Federation) -> None:
    stopping = Stopping(patience=2)
    with pytest.raises(ConfigError, match="no validation parts; set stopping.figure = 'test_loss'"):
        stopping.check(has_validation=False, has_accuracy=True)
    with pytest.raises(ConfigError, match="stopping cannot look at the test accuracy"):
        Stopping(target_accuracy=0.5).check(has_validation=True, has_accuracy=False)
    x, y = np.eye(4, dtype=np.float32), np.arange(4) % 2
    bare = Federation.from_arrays(x, y, client=y, test=(x, y))
    with pytest.raises(ConfigError, match="stopping.patience looks at the validation loss"):
        compare(bare, methods=["uniform"], stopping={"patience": 2})


def falling(figure: str, further: str, settings: dict[str, Any]) -> list[str | None]:
    """The reasons after evaluations of a figure: 1, .5, .5, .5."""
    stopping, history, reasons = Stopping(**settings), {}, []
    for value in (1.0, 0.5, 0.5, 0.5):
        figures = {figure: value} if not further else {further: {figure: value}}
        history = stopping.extended(history, figures)
        reasons.append(stopping.reason(history, lower=["mae"]))
    return reasons


def test_targets_and_patience_look_at_validation_and_at_metrics() -> None:
    none = [None, None]
    target = {"target_valid_loss": 0.5}
    assert falling("valid_loss", "", target) == [*none, "target", "target"]
    target = {"target_metrics": {"valid_mae": 0.5}}
    assert falling("mae", "valid_metrics", target) == [*none, "target", "target"]
    assert falling("mae", "test_metrics", target) == [*none, *none]
    lower = {"patience": 2, "figure": "valid_mae"}
    assert falling("mae", "valid_metrics", lower) == [*none, None, "patience"]
    higher = {"patience": 2, "figure": "test_auc"}
    assert falling("auc", "test_metrics", higher) == [*none, "patience", "patience"]


def test_figures_of_stopping_are_checked_against_the_run() -> None:
    known = {"has_validation": False, "has_accuracy": True, "metrics": ["auc"]}
    Stopping(patience=2, figure="test_auc").check(**known)
    with pytest.raises(ConfigError, match="stopping.figure names 'f1', which evaluation.metrics"):
        Stopping(patience=2, figure="test_f1").check(**known)
    for settings, sentence in (
        ({"patience": 2, "figure": "valid_auc"}, "stopping.patience looks at the figure"),
        ({"target_valid_loss": 0.1}, "a target of stopping looks at the validation loss"),
        ({"target_metrics": {"valid_auc": 0.9}}, "a target of stopping looks at the figure"),
    ):
        with pytest.raises(ConfigError, match=f"{sentence}.* has no validation parts"):
            Stopping(**settings).check(**known)
    with pytest.raises(ConfigError, match="must be at least 0 and at most 1 for 'valid_auc'"):
        Stopping(target_metrics={"valid_auc": 2}).check(
            **{**known, "has_validation": True}, ranges={"auc": (0, 1)}
        )


def test_metrics_of_validation_parts_are_recorded_and_stop_a_run(
    toy_federation: Federation,
) -> None:
    def study(**stopping: Any) -> Any:
        return compare(
            toy_federation,
            methods=["uniform"],
            training={"rounds": 4, "proportion": 0.4},
            evaluation={"every": 1, "metrics": "macro_f1"},
            stopping=stopping,
        ).runs[0]

    whole = study()
    values = [record.value("valid_macro_f1") for record in whole.records]
    assert len(values) == 5 and all(0 <= value <= 1 for value in values)
    assert Record.from_json(whole.records[1].to_json()).valid_metrics == {"macro_f1": values[1]}
    stopped = study(target_metrics={"valid_macro_f1": 0.0})
    assert stopped.rounds_done == 1 and stopped.records[-1].value("valid_macro_f1") == values[1]


@pytest.mark.parametrize("validation", [True, False])
def test_the_accuracy_on_validation_parts_is_recorded_where_it_is_named(validation: bool) -> None:
    federation = make_federation(validation=validation)

    def study(**settings: Any) -> Any:
        return compare(
            federation,
            methods=["uniform"],
            training={"rounds": 4, "proportion": 0.4},
            **{"evaluation": {"every": 1, "metrics": ["accuracy"]}, **settings},
        )

    named, default = study(), study(evaluation={"every": 1})
    run, plain = named.runs[0], default.runs[0]
    assert [record.test_metrics for record in run.records] == [None] * 5
    rows = [replace(record, valid_metrics=None) for record in run.records]
    assert rows == plain.records
    values = [record.value("valid_accuracy") for record in run.records]
    assert [value is not None for value in values] == [validation] * 5
    assert set(further_figures([run])) == ({"valid_accuracy"} if validation else set())
    titles = [column.title for column, _ in metric_columns([Method("uniform", (run,), {})])]
    assert titles == (["highest valid. accuracy", "last valid. accuracy"] if validation else [])
    if not validation:
        with pytest.raises(ConfigError, match="names 'valid_accuracy', which evaluation.metrics"):
            study(stopping={"patience": 1, "figure": "valid_accuracy"})
        return
    part = federation.validation
    assert part is not None
    x, y = torch.from_numpy(part.x.copy()), torch.from_numpy(part.y.copy())
    right = named.model(run, "last")(x).argmax(dim=1) == y
    assert values[-1] == pytest.approx(float(right.float().mean()))
    stopped = study(stopping={"patience": 1, "figure": "valid_accuracy"}).runs[0]
    end = stopped.records[-1].round
    assert [record.value("valid_accuracy") for record in stopped.records] == values[: end + 1]
