"""The data frame of pandas."""

import math

import pytest

import fedgs
from fedgs.data import Federation
from fedgs.export import to_dataframe
from fedgs.export.rows import TYPES
from fedgs.records import Record
from fedgs.report.run_view import Run

pandas = pytest.importorskip("pandas")


def test_one_row_for_each_run_and_record(runs: list[Run]) -> None:
    frame = to_dataframe(runs)
    assert len(frame) == sum(len(run.records) for run in runs)
    assert list(frame.columns) == [*TYPES, "method.name", "method.alpha"]
    lowest = frame[frame.state == "finished"].groupby("run").test_loss.min()
    for run in runs:
        if run.finished:
            losses = [r.test_loss for r in run.records if r.test_loss is not None]
            assert lowest[run.name] == min(losses)


def test_missing_numbers_are_nan_and_missing_lists_none(runs: list[Run]) -> None:
    frame = to_dataframe([run for run in runs if run.finished])
    last = frame[frame["round"] == 6].iloc[0]
    assert last.cohort is None and last.available is None
    assert last.num_available is pandas.NA
    skipped = frame[frame["round"] == 1].iloc[0]
    assert math.isnan(skipped.test_loss) and isinstance(skipped.cohort, list)


def test_columns_have_types(runs: list[Run]) -> None:
    types = {name: str(kind) for name, kind in to_dataframe(runs).dtypes.items()}
    assert types["round"] == types["seed"] == "int64"
    assert types["num_available"] == "Int64"
    assert types["test_loss"] == types["method.alpha"] == "float64"
    assert types["cohort"] == "object"


def test_settings_keep_their_types() -> None:
    values = {"a": (True, False), "b": (1, None), "c": (1, 2.5), "d": ([1], [2])}
    runs = [
        Run({"method": {"name": "x", **{k: v[i] for k, v in values.items()}}}, [Record(0)])
        for i in (0, 1)
    ]
    types = {name: str(kind) for name, kind in to_dataframe(runs).dtypes.items()}
    assert [types[f"method.{key}"] for key in "abcd"] == ["bool", "Int64", "float64", "object"]


def test_results_of_compare_have_a_data_frame(toy_federation: Federation) -> None:
    training = {"rounds": 3, "proportion": 0.4, "local_steps": 1}
    results = fedgs.compare(toy_federation, methods=["uniform", "md"], training=training)
    frame = results.to_dataframe()
    assert frame.groupby("method").size().to_dict() == {"md": 4, "uniform": 4}
    assert frame.equals(to_dataframe(results))
