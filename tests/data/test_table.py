"""Tables: CSV and Parquet files and data frames, and what is wrong with them by column and line."""

import gzip
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedgs.data import Federation, Quantiles, TableFile
from fedgs.data.cells import read_table
from fedgs.errors import ConfigError, DataError, MissingExtraError
from fedgs.experiments.grid import expand

COUNT = 60


def cells(count: int = COUNT) -> dict[str, list[Any]]:
    """Patients of three hospitals: two numbers, a text, a label, a number to predict, a split."""
    rng = np.random.default_rng(0)
    return {
        "age": rng.integers(20, 90, count).tolist(),
        "dose": (rng.integers(0, 40, count) / 8).tolist(),
        "ward": [("east", "north", "west")[k % 3] for k in range(count)],
        "sex": [("f", "m")[k % 2] for k in range(count)],
        "outcome": [("ill", "well")[k % 7 > 3] for k in range(count)],
        "stay": (rng.integers(1, 100, count) / 4).tolist(),
        "part": [("train", "train", "validation", "test")[k // 3 % 4] for k in range(count)],
    }


def write(path: Path, columns: dict[str, list[Any]], between: str = ",") -> Path:
    rows = zip(*columns.values(), strict=True)
    lines = [between.join(columns), *(between.join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def load(folder: Path, columns: dict[str, list[Any]] | None = None, **settings: Any) -> Federation:
    path = write(folder / "patients.csv", cells() if columns is None else columns)
    given = {"label": "outcome", "client": "ward", "features": ["age", "dose"], **settings}
    return TableFile(path=str(path), **given).load()


def test_columns_have_the_uses_that_are_named(tmp_path: Path) -> None:
    table, federation = cells(), load(tmp_path, split="part")
    assert federation.name == "patients"
    assert federation.clients.names == ("east", "north", "west")
    assert federation.facts == {"label_names": ["ill", "well"], "features": ["age", "dose"]}
    rows = [k for k in range(COUNT) if table["part"][k] == "train"]
    mine = [k for k in rows if table["ward"][k] == "north"]
    part = federation.train.rows(1)
    assert federation.train.x[part].tolist() == [[table["age"][k], table["dose"][k]] for k in mine]
    assert federation.train.y[part].tolist() == [int(table["outcome"][k] == "well") for k in mine]
    assert federation.validation is not None
    assert (len(federation.train), len(federation.validation), len(federation.test)) == (30, 15, 15)


def test_without_a_split_each_client_keeps_rows_for_test_and_validation(tmp_path: Path) -> None:
    federation = load(tmp_path, client_test=True)
    # of 20 rows of a client floor(0.2 * 20) are for test, and floor(0.2 * 16) for validation
    assert federation.clients.data_sizes.tolist() == [13, 13, 13]
    assert federation.client_test is not None and federation.validation is not None
    assert np.diff(federation.client_test.offsets).tolist() == [4, 4, 4]
    assert np.diff(federation.validation.offsets).tolist() == [3, 3, 3]
    assert load(tmp_path, client_test=True).fingerprint == federation.fingerprint
    assert load(tmp_path, client_test=True, seed=1).fingerprint != federation.fingerprint
    rows = {
        tuple(row)
        for part in (federation.train, federation.validation, federation.test)
        for row in part.x.tolist()
    }
    table = cells()
    assert rows == set(zip(table["age"], table["dose"], strict=True))


def test_all_other_columns_are_features_and_texts_are_encoded(tmp_path: Path) -> None:
    federation = load(tmp_path, features=None, split="part", one_hot=["sex"])
    assert federation.facts["features"] == ["age", "dose", "stay", "sex=f", "sex=m"]
    table = cells()
    row = next(
        k for k in range(COUNT) if table["part"][k] == "train" and table["ward"][k] == "east"
    )
    assert federation.train.x[0].tolist() == [
        table["age"][row],
        table["dose"][row],
        table["stay"][row],
        float(table["sex"][row] == "f"),
        float(table["sex"][row] == "m"),
    ]


def test_features_are_standardized_over_the_training_rows(tmp_path: Path) -> None:
    columns = {**cells(), "constant": [5] * COUNT}
    federation = load(
        tmp_path,
        columns,
        features=["age", "dose", "constant"],
        one_hot="sex",
        split="part",
        standardize=True,
    )
    assert federation.normalization is not None
    inputs = federation.normalization.apply(federation.train.x)
    np.testing.assert_allclose(inputs[:, :2].mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(inputs[:, :2].std(axis=0), 1, atol=1e-6)
    assert not inputs[:, 2].any()
    assert set(inputs[:, 3:].ravel().tolist()) == {0.0, 1.0}
    with pytest.raises(DataError, match="normalization must be left out beside standardize"):
        load(tmp_path, standardize=True, normalization={"scale": 2.0})


def test_a_table_has_the_targets_of_a_regression_and_groups(tmp_path: Path) -> None:
    table = cells()
    federation = load(
        tmp_path, label="stay", task="regression", groups={"quantiles": 3}, split="part"
    )
    assert federation.task == "regression" and federation.num_labels == 1
    rows = [k for k in range(COUNT) if table["part"][k] == "train"]
    north = [table["stay"][k] for k in rows if table["ward"][k] == "north"]
    assert federation.train.y[federation.train.rows(1)].tolist() == north
    assert federation.label_counts is not None and federation.label_counts.shape == (3, 3)
    by_sex = load(tmp_path, label="stay", task="regression", groups="sex", split="part")
    assert by_sex.label_counts is not None
    # rows 0, 3, 12, 15, ... of east alternate in sex
    assert by_sex.label_counts.tolist() == [[5, 5]] * 3
    two = load(tmp_path, label=["stay", "dose"], features="age", task="regression")
    assert two.train.y.shape[1] == two.num_labels == 2


def test_columns_of_zeros_and_ones_are_several_labels(tmp_path: Path) -> None:
    columns = {**cells(), "fever": [k % 2 for k in range(COUNT)], "cough": [1] * COUNT}
    federation = load(tmp_path, columns, label=["fever", "cough"], task="multilabel")
    assert federation.num_labels == 2
    assert federation.train.y[:, 1].tolist() == [1.0] * len(federation.train)


def test_rows_are_shared_out_by_a_partition(tmp_path: Path) -> None:
    given = {"client": None, "validation_fraction": 0.0}
    federation = load(tmp_path, partition="iid", clients=4, **given)
    # floor(0.2 * 60) rows are the test set
    assert len(federation.test) == 12
    assert federation.clients.data_sizes.tolist() == [12] * 4
    assert federation.facts["label_names"] == ["ill", "well"]
    by_room = load(
        tmp_path,
        {**cells(), "part": ["train"] * 50 + ["test"] * 10, "room": [k % 2 for k in range(COUNT)]},
        partition={"name": "by_column", "column": "room"},
        split="part",
        **given,
    )
    assert by_room.clients.names == (0, 1)  # integers, as in a column of clients
    groups = load(
        tmp_path,
        label="stay",
        task="regression",
        partition={"name": "shards", "per_client": 1},
        clients=2,
        groups={"quantiles": 2},
        **given,
    )
    assert groups.label_counts is not None
    assert sorted(groups.label_counts.tolist()) == [[0, 24], [24, 0]]


def test_integers_and_texts_name_clients(tmp_path: Path) -> None:
    columns = cells()
    numbers = load(tmp_path, {**columns, "ward": [k % 12 for k in range(COUNT)]})
    assert numbers.clients.names == tuple(range(12))
    padded = load(tmp_path, {**columns, "ward": [f"{k % 12:03}" for k in range(COUNT)]})
    assert padded.clients.names[:2] == ("000", "001")
    natural = {**columns, "ward": [f"w{k % 12}" for k in range(COUNT)]}
    assert load(tmp_path, natural).clients.names[1] == "w1"
    assert load(tmp_path, natural, client_order="natural").clients.names[2] == "w2"


def test_labels_that_are_integers_are_classes(tmp_path: Path) -> None:
    federation = load(tmp_path, {**cells(), "outcome": [k % 3 for k in range(COUNT)]}, classes=5)
    assert federation.num_labels == 5
    assert "label_names" not in federation.facts


def test_files_are_separated_by_tabs_or_compressed(tmp_path: Path) -> None:
    wanted = load(tmp_path).fingerprint
    given: dict[str, Any] = {"label": "outcome", "client": "ward", "features": ["age", "dose"]}
    tabs = write(tmp_path / "patients.tsv", cells(), "\t")
    assert TableFile(path=str(tabs), **given).load().fingerprint == wanted
    semicolons = write(tmp_path / "other.csv", cells(), ";")
    other = TableFile(path=semicolons.name, delimiter=";", **given)
    assert other.load(tmp_path).fingerprint == wanted
    packed = tmp_path / "patients.csv.gz"
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + (tmp_path / "patients.csv").read_bytes()))
    assert TableFile(path=str(packed), **given).load().fingerprint == wanted
    assert TableFile(path=str(packed), **given).title == "patients"


def test_a_data_frame_gives_the_same_federation(tmp_path: Path) -> None:
    frame = pd.DataFrame(cells())
    given: dict[str, Any] = {"client": "ward", "features": ["age", "dose"], "seed": 3}
    federation = Federation.from_dataframe(frame, "outcome", name="mine", **given)
    assert federation.name == "mine"
    assert federation.fingerprint == load(tmp_path, seed=3).fingerprint
    typed = frame.convert_dtypes()
    typed["outcome"] = typed["outcome"].astype("category")
    assert (
        Federation.from_dataframe(typed, "outcome", **given).fingerprint == federation.fingerprint
    )
    stays = Federation.from_dataframe(
        frame, "stay", client="ward", features="age", task="regression", groups=Quantiles(2)
    )
    assert stays.task == "regression"


class Arrow:
    """The part of a pyarrow table that is read."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.column_names = list(columns)
        self.columns = [pd.Series(column) for column in columns.values()]
        self.num_rows = len(self.columns[0])

    def __getitem__(self, name: str) -> Any:
        return self.columns[self.column_names.index(name)]


def test_a_table_of_arrow_and_a_parquet_file_give_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = load(tmp_path).fingerprint
    given: dict[str, Any] = {"client": "ward", "features": ["age", "dose"]}
    assert Federation.from_dataframe(Arrow(cells()), "outcome", **given).fingerprint == wanted

    class Module:
        ArrowException = ValueError

        @staticmethod
        def read_table(path: Path) -> Arrow:
            if not path.read_bytes():
                raise ValueError("no footer\nmore")
            return Arrow(cells())

    monkeypatch.setitem(sys.modules, "pyarrow", Module)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", Module)
    (tmp_path / "patients.parquet").write_bytes(b"PAR1")
    stored = TableFile(path=str(tmp_path / "patients.parquet"), label="outcome", **given)
    assert stored.load().fingerprint == wanted
    (tmp_path / "patients.parquet").write_bytes(b"")
    with pytest.raises(DataError, match="is not readable as Parquet: no footer$"):
        stored.load()


def test_parquet_needs_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "patients.pq").write_bytes(b"PAR1")
    with pytest.raises(MissingExtraError, match="pyarrow.*fedgs\\[export\\]"):
        read_table(tmp_path / "patients.pq")


@pytest.mark.parametrize(
    ("changes", "settings", "message"),
    [
        ({}, {"label": "outcom"}, "data.label = 'outcom' .* did you mean 'outcome'?"),
        ({}, {"client": None}, "either data.client or data.partition must be given, got none"),
        ({}, {"partition": "iid"}, "either data.client or data.partition must be .* got both"),
        ({}, {"features": ["sex"]}, "column 'sex' must hold numbers, got the text 'f' in line 2"),
        ({}, {"features": ["outcome"]}, "data.features must not hold the label 'outcome'"),
        ({}, {"one_hot": ["sex", "outcome"]}, "data.one_hot must not hold the label 'outcome'"),
        ({}, {"one_hot": ["ward"]}, "data.one_hot must not hold the client 'ward'"),
        ({}, {"one_hot": "part", "split": "part"}, "data.one_hot must not hold the split 'part'"),
        (
            {},
            {"one_hot": ["sex"], "groups": "sex", "label": "stay", "task": "regression"},
            "data.one_hot must not hold the group 'sex'",
        ),
        ({}, {"client": "outcome"}, "data.client must not hold the label 'outcome'"),
        ({}, {"split": "outcome"}, "data.split must not hold the label 'outcome'"),
        ({}, {"features": ["age", "dose", "age"]}, "data.features must name each .* 'age' twice"),
        ({}, {"one_hot": ["sex", "sex"]}, "data.one_hot must name each column once, got 'sex'"),
        (
            {},
            {"label": ["stay", "stay"], "task": "regression"},
            "data.label must name each column once, got 'stay' twice",
        ),
        ({}, {"features": []}, "must have at least one column of features, got none"),
        ({}, {"label": ["stay", "sex"]}, "data.label must be one column where task is 'classes'"),
        ({}, {"split": "sex"}, "'sex' must hold train, validation or test .* got 'f' in line 2"),
        ({"part": ["train"] * COUNT}, {"split": "part"}, "must have at least one test row"),
        ({"part": ["test"] * COUNT}, {"split": "part"}, "must have at least one training row"),
        ({}, {"client": None, "partition": "iid", "split": "part"}, "got 15 for validation"),
        ({}, {"client": None, "partition": "iid", "client_test": True}, "client_test must be left"),
        ({}, {"label": "sex", "task": "regression"}, "'sex' must hold numbers, got the text 'f'"),
        ({"sex": [2] * COUNT}, {"label": "sex", "task": "multilabel"}, "must be 0 or 1, got 2"),
        ({"age": ["", *[1] * 59]}, {}, "'age' must have no missing cell, got one in line 2"),
        ({"ward": [*["a"] * 59, ""]}, {}, "'ward' must have no missing cell, got one in line 61"),
        ({"outcome": [*[1] * 59, ""]}, {}, "'outcome' must have no missing cell"),
        ({"outcome": [1, "nan", *[0] * 58]}, {}, "'outcome' must have no .* got one in line 3"),
        ({"ward": ["a", "NA", *["b"] * 58]}, {}, "'ward' must have no missing .* one in line 3"),
        ({"sex": [" NaN", *["f"] * 59]}, {"one_hot": "sex"}, "'sex' must have no .* in line 2"),
        ({"age": [1, "NA", *[1] * 58]}, {}, "'age' must have no missing cell, got one in line 3"),
        ({"dose": ["nan", *[1] * 59]}, {}, "'dose' must be finite, got nan in line 2"),
        ({"dose": [1, "-inf", *[1] * 58]}, {}, "'dose' must be finite, got -inf in line 3"),
        ({"dose": ["1e39", *[1] * 59]}, {}, "'dose' must be within float32's range .* got 1e39"),
        ({"age": ["16777217", *[1] * 59]}, {}, "integers that float32 .* got 16777217 in line 2"),
        (
            {"outcome": [*[0] * 59, 1.5]},
            {},
            "outcome: labels must be integers .* got 1.5 in row 59; .* 'regression'",
        ),
    ],
)
def test_what_is_wrong_with_a_table_is_one_sentence(
    tmp_path: Path, changes: dict[str, list[Any]], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message) as refusal:
        load(tmp_path, {**cells(), **changes}, **settings)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must begin with a line of column names, got an empty file"),
        (b"a,b\n", "must have at least one row below the line of names"),
        (b"a,,c\n1,2,3\n", "must name every column, got an empty name in column 1"),
        (b"a, b,b\n1,2,3\n", "must have each column once, got 'b' twice"),
        (b"a,b\n1,2\n\n1\n", "must have 2 cells in each line, got 1 in line 4"),
        (b'a,b\n"1,2\n', "is not readable as CSV in UTF-8: unexpected end of data"),
        (b"a,b\n\xff,2\n", "is not readable as CSV in UTF-8: 'utf-8' codec"),
    ],
)
def test_a_broken_file_is_refused_by_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "mine.csv").write_bytes(content)
    with pytest.raises(DataError, match=message):
        TableFile(path=str(tmp_path / "mine.csv"), label="a", client="b").load()


def test_a_file_that_is_missing_or_not_compressed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="data.path: no file 'none.csv'"):
        TableFile(path="none.csv", label="a", client="b").load()
    (tmp_path / "mine.csv.gz").write_bytes(b"a,b\n1,2\n")
    with pytest.raises(DataError, match="is not readable as CSV"):
        TableFile(path=str(tmp_path / "mine.csv.gz"), label="a", client="b").load()


def test_a_damaged_byte_in_a_compressed_file_is_one_sentence(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(write(tmp_path / "mine.csv", cells()).read_bytes(), mtime=0))
    packed[10] |= 0b110  # after ten bytes of header: a block of the type 3, which deflate lacks
    (tmp_path / "mine.csv.gz").write_bytes(packed)
    with pytest.raises(DataError, match="mine.csv.gz is not readable as CSV.* Error -3") as refusal:
        TableFile(path=str(tmp_path / "mine.csv.gz"), label="outcome", client="ward").load()
    assert "\n" not in str(refusal.value)


def test_a_data_frame_can_have_a_client_whose_name_is_na() -> None:
    frame = pd.DataFrame({**cells(), "ward": ["NA", "b", "c"] * 20})
    federation = Federation.from_dataframe(frame, "outcome", client="ward", features="age")
    assert federation.clients.names == ("NA", "b", "c")


def test_cells_with_line_breaks_keep_the_number_of_their_line(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text('a,b,c\n1,"x\ny",0\nz,"x",1\n')
    table = TableFile(path=str(tmp_path / "mine.csv"), label="c", client="b")
    with pytest.raises(DataError, match="column 'a' must hold numbers, got the text 'z' in line 4"):
        table.load()


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"age": [1]}, "frame must be a data frame, such as that of pandas or polars, got dict"),
        (pd.DataFrame(np.zeros((2, 2)), columns=["a", "a"]), "got shape .* for 'a'"),
        (pd.DataFrame({"a": []}), r"with at least one row, got lengths \[0\]"),
        (pd.DataFrame({"a": [1, None], "b": [0, 1], "c": [0, 1]}), "'a' must have no missing cell"),
        (
            pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [0, 1], "c": [0, 1]}),
            "column 'a' must have no missing cell, got one in row 1",
        ),
        (
            pd.DataFrame({"a": pd.to_datetime(["2024-01-01"] * 2), "b": [0, 1], "c": [0, 1]}),
            "column 'a' must hold numbers",
        ),
        (pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": [0, 1]}), "'b' must have no missing"),
    ],
)
def test_other_frames_are_refused(frame: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Federation.from_dataframe(frame, "b", client="c")


def test_a_setting_that_a_table_lacks_is_refused() -> None:
    with pytest.raises(ConfigError, match="data.clint is not a setting.*did you mean"):
        Federation.from_dataframe(pd.DataFrame(cells()), "outcome", clint="ward")


@pytest.mark.parametrize(("key", "value"), [("path", "other.csv"), ("delimiter", ";")])
def test_settings_of_files_are_refused_beside_a_data_frame(key: str, value: str) -> None:
    frame = pd.DataFrame(cells())
    with pytest.raises(ConfigError, match=f"data.{key} is not a setting of a data frame") as given:
        Federation.from_dataframe(frame, "outcome", client="ward", **{key: value})
    known = str(given.value).partition("known are ")[2].partition(";")[0].split(", ")
    assert "one_hot" in known and "seed" in known
    assert not {"path", "delimiter"} & set(known)


def test_settings_without_effect_are_refused() -> None:
    tables = {"availability": "IDL", "method": "uniform"}
    for key, value, message in [
        ("clients", 5, "data.clients has no effect without data.partition"),
        ("drop_empty", True, "data.drop_empty has no effect without data.partition"),
        ("test_fraction", 0.5, "data.test_fraction has no effect beside data.split"),
    ]:
        data = {"name": "table", "path": "x.csv", "label": "y", "client": "k", "split": "part"}
        with pytest.raises(ConfigError, match=message):
            expand({**tables, "data": {**data, key: value}}, [])
