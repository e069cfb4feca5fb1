"""Columns of runs: which there are, and what their entries are."""

import sys
from dataclasses import fields
from typing import Any

import pytest

from fedgs.errors import ConfigError, MissingExtraError
from fedgs.export import to_dataframe
from fedgs.export.rows import KINDS, TYPES, columns_of, metrics_of, seconds_of
from fedgs.export.titles import titles_of
from fedgs.records import Record
from fedgs.report.run_view import Run


def run(records: list[Record] | None = None, seed: int = 0, **tables: Any) -> Run:
    records = [Record(0, cohort=["a"], test_loss=0.5), Record(1)] if records is None else records
    return Run({"seed": seed, **tables}, records, label="x", group=("data", "mode"))


def test_every_field_of_a_record_is_a_column() -> None:
    own = {"test_metrics", "valid_metrics", "per_client"}  # a column for each metric; by client
    assert {field.name for field in fields(Record)} <= {*KINDS, *own}


def test_fields_that_some_records_have_are_columns_where_they_are() -> None:
    timed = run([Record(0, cohort=["a"], clock=0.0, fates=["late"]), Record(1, stopped="target")])
    columns = columns_of([run(), timed])
    assert list(columns)[len(TYPES) :] == ["stopped", "clock", "fates"]
    assert columns["stopped"] == [None, None, None, "target"]
    assert columns["fates"] == [None, None, ["late"], None]
    scored = run([Record(0, cohort=["a"], test_loss=0.5, test_metrics={"auc": 0.9}), Record(1)])
    assert columns_of([scored])["test_auc"] == [0.9, None]
    assert metrics_of(scored.records[0])["test_auc"] == 0.9


def test_each_record_of_each_run_is_one_entry(runs: list[Run]) -> None:
    columns = columns_of(runs)
    assert {len(values) for values in columns.values()} == {sum(len(r.records) for r in runs)}
    expected = [(r.name, record.round, record.test_loss) for r in runs for record in r.records]
    assert (
        list(zip(columns["run"], columns["round"], columns["test_loss"], strict=True)) == expected
    )


def test_the_state_of_each_run_is_told(runs: list[Run]) -> None:
    columns = columns_of(runs)
    states = dict(zip(columns["run"], columns["state"], strict=True))
    assert sorted(states.values()) == ["failed", "finished", "finished", "finished", "unfinished"]
    assert [state for name, state in states.items() if "-md-" in str(name)] == ["failed"]


def settings(*runs: Run) -> list[str]:
    return list(columns_of(list(runs)))[len(TYPES) :]


def test_settings_that_differ_are_columns_by_their_dotted_keys() -> None:
    one = run(method={"name": "fedgs", "alpha": 0.5, "graph": {"epsilon": 0.1}})
    other = run(method={"name": "fedgs", "alpha": 0.5, "graph": {"epsilon": 0.2}})
    assert settings(one, other) == ["method.graph.epsilon"]
    assert columns_of([one, other])["method.graph.epsilon"] == [0.1, 0.1, 0.2, 0.2]


def test_a_setting_that_one_variant_alone_has_is_no_difference() -> None:
    one, other = run(method={"name": "fedgs", "alpha": 0.5}), run(method="md")
    assert settings(one, other) == ["method.name"]
    third = run(method={"name": "fedgs", "alpha": 2.0})
    assert settings(one, other, third) == ["method.name", "method.alpha"]
    assert columns_of([other, one])["method.name"] == ["md", "md", "fedgs", "fedgs"]


def test_a_setting_that_a_run_of_the_same_variant_lacks_is_a_difference() -> None:
    with_batches = run(training={"rounds": 1, "batch_size": 8})
    assert settings(with_batches, run(training={"rounds": 1})) == ["training.batch_size"]


def test_seeds_execution_and_labels_are_no_settings() -> None:
    one = run(seed=0, availability={"name": "LDF", "seed": 0}, execution={"workers": 1})
    other = run(seed=1, availability={"name": "LDF", "seed": 1}, execution={"workers": 2})
    assert settings(one, other) == []
    fixed = run(seed=1, availability={"name": "LDF", "seed": 0})
    assert settings(other, fixed) == ["availability.seed"]


def test_metrics_are_the_numbers_that_the_record_has() -> None:
    record = Record(2, num_available=3, cohort=["a"], selection_objective=-0.5, valid_loss=0.25)
    assert metrics_of(record) == {
        "cohort_size": 1.0,
        "num_available": 3.0,
        "selection_objective": -0.5,
        "valid_loss": 0.25,
    }
    assert metrics_of(Record(0)) == {}


def test_the_time_of_a_record_is_the_start_and_the_seconds_until_then() -> None:
    timings = [{"round": 0, "select": 0.5, "train": 1.0}, {"round": 1, "evaluate": 2.0}]
    about = {"started": "1970-01-01T00:01:00+00:00"}
    timed = Run({"run": about}, [Record(0), Record(1), Record(2)], timings=timings)
    assert seconds_of(timed) == [61.5, 63.5, 63.5]


def test_titles_are_unique_and_fit_into_paths(runs: list[Run]) -> None:
    titles = titles_of(runs)
    assert len(set(titles)) == len(runs)
    assert all(title.replace("=", "").replace("_", "").replace("-", "").replace(".", "").isalnum()
               for title in titles)  # fmt: skip
    twins = [Run({}, (), label="a/b"), Run({}, (), label="a/b")]
    assert titles_of(twins) == ["a_b-seed0-run-0", "a_b-seed0-run-1"]


def test_the_data_is_in_the_titles_where_it_differs() -> None:
    one = Run({}, (), label="md", group=("Synthetic", "LDF"))
    other = Run({}, (), label="md", group=("CIFAR10", "LDF"))
    assert titles_of([one, other])[1] == "CIFAR10-LDF-md-seed0-run"
    assert titles_of([one]) == ["LDF-md-seed0-run"]


def test_what_is_no_run_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"to_dataframe takes runs, such as .*; got 'r'"):
        to_dataframe("r")  # type: ignore[arg-type]


def test_without_pandas_a_data_frame_says_what_to_install(
    runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    message = "^to_dataframe needs 'pandas', which is not installed: pip install pandas$"
    with pytest.raises(MissingExtraError, match=message):
        to_dataframe(runs)
