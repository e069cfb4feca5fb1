"""Availability from a file: what it may hold, and how it is refused."""

from pathlib import Path

import numpy as np
import pytest

from fedgs import Clients
from fedgs.availability import AvailabilityFile, activity
from fedgs.errors import ConfigError, DataError, UserError
from fedgs.registry import build, table

MATRIX = np.array([[1, 0, 0, 1], [0, 0, 0, 1], [1, 1, 0, 0], [0, 0, 0, 0]], dtype=bool)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    np.save(tmp_path / "who.npy", MATRIX)
    return tmp_path / "who.npy"


def test_activity_is_the_matrix_of_the_file(toy: Clients, saved: Path) -> None:
    np.testing.assert_array_equal(activity(AvailabilityFile(path=saved), toy, 4), MATRIX)


@pytest.mark.parametrize(
    "text",
    [
        "1,0,0,1\n0,0,0,1\n1,1,0,0\n0,0,0,0\n",
        "\ufeff1,0,0,1\r\n0,0,0,1\r\n\r\n1,1,0,0\r\n0,0,0,0",
        "True, false,FALSE,1\n0,0,0,true\n1,1,0,0\n0,0,0,0\n",
        "1.0,0.0,0.0,1.0\n0.0,0.0,0.0,1.0\n1.0,1.0,0.0,0.0\n0.0,0.0,0.0,0.0\n",
        "1.,-0.0, 0e0,1.000000000000000000e+00\n0,0.0,0,+1\n1,1.00,0,.0\n0,0,0,00\n",
    ],
)
def test_csv_holds_the_same_as_npy(toy: Clients, tmp_path: Path, saved: Path, text: str) -> None:
    (tmp_path / "who.csv").write_text(text, encoding="utf-8")
    recorded = AvailabilityFile(path=tmp_path / "who.csv")
    np.testing.assert_array_equal(recorded.matrix, MATRIX)
    assert recorded.content_digest == AvailabilityFile(path=saved).content_digest


def test_content_digest_tells_matrices_apart(tmp_path: Path, saved: Path) -> None:
    np.save(tmp_path / "other.npy", ~MATRIX)
    np.save(tmp_path / "wide.npy", MATRIX.reshape(2, 8))
    paths = (saved, tmp_path / "other.npy", tmp_path / "wide.npy")
    assert len({AvailabilityFile(path=path).content_digest for path in paths}) == 3


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float64])
def test_numbers_zero_and_one_are_allowed(toy: Clients, tmp_path: Path, dtype: type) -> None:
    np.save(tmp_path / "numbers.npy", MATRIX.astype(dtype))
    np.testing.assert_array_equal(AvailabilityFile(path=tmp_path / "numbers.npy").matrix, MATRIX)


def test_a_configuration_table_round_trips(saved: Path) -> None:
    recorded = build("availability", {"name": "file", "path": str(saved), "seed": 3})
    assert table(recorded) == {
        "name": "file",
        "seed": 3,
        "empty_round": "redraw",
        "path": str(saved),
    }
    assert build("availability", table(recorded)) == recorded


def test_a_copy_with_another_seed_serves_the_same_rates(toy: Clients, saved: Path) -> None:
    recorded = AvailabilityFile(path=saved)
    recorded.check(toy, 4)
    np.testing.assert_array_equal(
        recorded.model_copy(update={"seed": 5}).rates(0, toy), MATRIX[:, 0]
    )


def test_more_rounds_than_columns_is_an_error(toy: Clients, saved: Path) -> None:
    AvailabilityFile(path=saved).check(toy, 4)
    with pytest.raises(
        ConfigError,
        match=r"^training\.rounds must be at most 4, the number of columns of .*who\.npy', got 5$",
    ):
        AvailabilityFile(path=saved).check(toy, 5)
    with pytest.raises(ConfigError, match="has 4 columns, there is none for round 4"):
        AvailabilityFile(path=saved).rates(4, toy)


def test_rows_must_be_the_clients(saved: Path) -> None:
    three = Clients((0, 1, 2), np.ones(3, dtype=np.int64))
    with pytest.raises(ConfigError, match=r"who\.npy' must have 3 rows, one a client, got 4$"):
        AvailabilityFile(path=saved).check(three, 2)


def test_a_matrix_without_anybody_is_an_error(toy: Clients, tmp_path: Path) -> None:
    np.save(tmp_path / "nobody.npy", np.array([[0, 1]] * 4, dtype=bool))
    recorded = AvailabilityFile(path=tmp_path / "nobody.npy")
    recorded.check(toy, 2)
    with pytest.raises(ConfigError, match="with 'file' all 4 clients have rate 0 in all 1 rounds"):
        recorded.check(toy, 1)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("who.txt", b"1,0\n", r"must end in \.npy or \.csv, got '.*who\.txt'"),
        ("who.npy", b"not numpy", r"is not a readable \.npy file"),
        ("who.npy", b"", r"is not a readable \.npy file"),
        ("who.csv", b"", r"must have a line a client, got an empty file"),
        ("who.csv", b"1,0\n1\n", r"must have lines of equal length, got 2 and 1 values"),
        ("who.csv", b"1,0\n1,2\n", r"must hold 0, 1, true or false, got '2' in line 2"),
        ("who.csv", b"round0,round1\n1,0\n", r"got 'round0' in line 1"),
        ("who.csv", b"1.0,0.5\n", r"must hold 0, 1, true or false, got '0.5' in line 1"),
        ("who.csv", b"1.0,2.0\n", r"got '2.0' in line 1"),
        ("who.csv", b"1,nan\n", r"got 'nan' in line 1"),
        ("who.csv", b"1,inf\n", r"got 'inf' in line 1"),
        ("who.csv", b"1,1e-9\n", r"got '1e-9' in line 1"),
        ("who.csv", b"1,yes\n", r"got 'yes' in line 1"),
        ("who.csv", b"1,\n", r"got '' in line 1"),
        ("who.csv", b"\xff\xfe\x00", r"is not a text file"),
    ],
)
def test_unusable_files_are_refused(
    toy: Clients, tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        AvailabilityFile(path=tmp_path / name).check(toy, 1)


def test_a_truncated_npy_is_refused(toy: Clients, saved: Path) -> None:
    saved.write_bytes(saved.read_bytes()[:-3])
    with pytest.raises(DataError, match="is not a readable"):
        AvailabilityFile(path=saved).check(toy, 1)


def test_a_missing_file_is_named(toy: Clients, tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match=r"^availability\.path must be a file, got '.*gone\.csv', which does not exist$",
    ):
        AvailabilityFile(path=tmp_path / "gone.csv").check(toy, 1)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones(4, dtype=bool), r"must hold a matrix, clients x rounds, got shape \(4,\)"),
        (np.ones((4, 0), dtype=bool), r"must hold a matrix, clients x rounds, got shape \(4, 0\)"),
        (np.full((4, 2), 0.5), "must hold booleans or the numbers 0 and 1 alone"),
        (np.full((4, 2), np.nan), "must hold booleans or the numbers 0 and 1 alone"),
        (np.array([["1"], ["0"]]), "must hold booleans or the numbers 0 and 1 alone"),
        (
            np.array([[1], [0]], dtype=object),
            r"got an array of objects; save it with .astype\(bool\)$",
        ),
    ],
)
def test_arrays_that_are_no_boolean_matrix_are_refused(
    toy: Clients, tmp_path: Path, matrix: np.ndarray, message: str
) -> None:
    np.save(tmp_path / "odd.npy", matrix)
    with pytest.raises(DataError, match=message):
        AvailabilityFile(path=tmp_path / "odd.npy").check(toy, 1)


def test_path_must_be_given() -> None:
    with pytest.raises(ConfigError, match=r"^availability\.path must be given$"):
        build("availability", "file")
