"""CSV and Parquet hold every value of the records."""

import csv
import io
import json
import sys
from pathlib import Path

import pytest

from fedgs.errors import ConfigError, MissingExtraError, OutputError
from fedgs.export import TARGETS, export
from fedgs.export.files import as_csv, as_parquet
from fedgs.export.rows import TYPES, columns_of
from fedgs.records import Record
from fedgs.report.run_view import Run


def test_csv_holds_every_value_of_the_records(runs: list[Run]) -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(runs).decode())))
    columns = columns_of(runs)
    assert list(rows[0]) == list(columns)
    for name, values in columns.items():
        kind = TYPES.get(name, float if name == "method.alpha" else str)
        read = [
            None if row[name] == "" else json.loads(row[name]) if kind is list else kind(row[name])
            for row in rows
        ]
        assert read == values, name


def test_the_same_runs_give_the_same_files(runs: list[Run], tmp_path: Path) -> None:
    assert as_csv(runs) == as_csv(runs)
    for _ in range(2):  # an earlier file is replaced
        export(runs, to="csv", out=tmp_path / "new" / "records.csv")
    assert (tmp_path / "new" / "records.csv").read_bytes() == as_csv(runs)


def test_parquet_holds_every_value_with_its_type(runs: list[Run]) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(io.BytesIO(as_parquet(runs)))
    columns = columns_of(runs)
    assert {name: table[name].to_pylist() for name in table.column_names} == columns
    kinds = {name: str(table.schema.field(name).type) for name in table.column_names}
    assert kinds["round"] == kinds["num_available"] == "int64"
    assert kinds["test_loss"] == kinds["method.alpha"] == "double"
    assert table.schema.field("cohort").type.value_type == arrow.string()
    assert table.schema.field("draws").type.value_type == arrow.int64()
    assert table.schema.field("weights").type.value_type == arrow.float64()


def test_clients_keys_in_parquet_are_integers_where_all_are() -> None:
    parquet = pytest.importorskip("pyarrow.parquet")

    def cohorts(*keys: list[str | int]) -> list[object]:
        runs = [Run({"method": "md"}, [Record(0, cohort=key)]) for key in keys]
        return parquet.read_table(io.BytesIO(as_parquet(runs)))["cohort"].to_pylist()

    assert cohorts([1, 2], []) == [[1, 2], []]
    assert cohorts([1, 2], ["a"]) == [["1", "2"], ["a"]]


def test_settings_of_several_types_in_parquet_are_texts() -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    values = (1, 2.5, "three", [4], True)
    runs = [Run({"method": {"name": "mine", "x": x}}, [Record(0)]) for x in values]
    table = parquet.read_table(io.BytesIO(as_parquet(runs)))
    assert table["method.x"].to_pylist() == ["1", "2.5", "three", "[4]", "True"]
    numbers = parquet.read_table(io.BytesIO(as_parquet(runs[:2])))
    assert numbers["method.x"].to_pylist() == [1.0, 2.5]


@pytest.mark.parametrize("to", [name for name, target in TARGETS.items() if target.needs])
def test_without_its_library_each_tool_says_what_to_install(
    to: str, runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs = TARGETS[to].needs
    monkeypatch.setitem(sys.modules, needs, None)
    message = f"--to {to} needs '{needs}', which is not installed: pip install {needs}"
    with pytest.raises(MissingExtraError, match=f"^{message}$"):
        export(runs, to=to, out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_tool_is_refused(runs: list[Run], tmp_path: Path) -> None:
    message = r"to must be one of 'csv', 'parquet', .*; got 'excel'"
    with pytest.raises(ConfigError, match=message):
        export(runs, to="excel", out=tmp_path)


def test_a_folder_that_holds_something_is_refused(
    runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", sys)  # as if it were installed
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="is not an empty folder; remove it, or give another"):
        export(runs, to="tensorboard", out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
