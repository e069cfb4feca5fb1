"""A federation from one .npz file."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from fedgs.data import ByColumn, File, Iid, LabelsPerClient
from fedgs.errors import ConfigError, DataError
from fedgs.registry import build, table


def arrays(**changes: object) -> dict[str, object]:
    """Three clients (10, 20, 40) and the server; 12 rows."""
    base: dict[str, object] = {
        "x": np.arange(24.0).reshape(12, 2),
        "y": np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]),
        "client": np.array([20, 10, 10, 40, 20, 40, 10, 20, 40, -1, -1, 20]),
        "split": np.array([0, 0, 0, 0, 0, 0, 1, 1, 0, 2, 2, 2], dtype=np.int8),
    }
    return {key: value for key, value in {**base, **changes}.items() if value is not None}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mine.npz"


def loaded(path: Path, content: dict[str, object], **settings: object):  # type: ignore[no-untyped-def]
    np.savez(path, **content)  # type: ignore[arg-type]
    return File(path=str(path), **settings).load()


def test_rows_go_to_their_clients_and_parts(path: Path) -> None:
    federation = loaded(path, arrays())
    assert federation.name == "mine"
    assert federation.clients.names == (10, 20, 40)
    assert federation.clients.data_sizes.tolist() == [2, 2, 3]
    assert federation.train.x.dtype == np.float32
    # rows 1, 2 of client 10; 0, 4 of 20; 3, 5, 8 of 40
    assert federation.train.x[:, 0].tolist() == [2, 4, 0, 8, 6, 10, 16]
    assert np.diff(federation.validation.offsets).tolist() == [1, 1, 0]
    # the server's rows and client 20's test row, in file order
    assert federation.test.x[:, 0].tolist() == [18, 20, 22]
    assert federation.clients.label_counts.tolist() == [[0, 1, 1], [1, 1, 0], [1, 0, 2]]


def test_without_split_clients_train_and_the_server_tests(path: Path) -> None:
    federation = loaded(path, arrays(split=None))
    assert federation.clients.data_sizes.tolist() == [3, 4, 3]
    assert federation.validation is None
    assert len(federation.test) == 2


def test_client_features_belong_to_ascending_clients(path: Path) -> None:
    federation = loaded(path, arrays(client_features=np.array([[1.0], [2.0], [4.0]])))
    assert federation.clients.features.tolist() == [[1.0], [2.0], [4.0]]


def test_integer_examples_stay_as_they_are(path: Path) -> None:
    assert loaded(path, arrays(x=np.zeros((12, 1, 4, 4), dtype=np.uint8))).train.x.dtype == np.uint8


def test_a_client_without_training_examples_is_named_or_left_out(path: Path) -> None:
    content = arrays(
        split=np.array([0, 1, 1, 0, 0, 0, 1, 1, 0, 2, 2, 2]),
        client_features=np.array([[1.0], [2.0], [4.0]]),
    )
    with pytest.raises(
        DataError, match=r"client 10 has no training example; data.drop_empty = true"
    ):
        loaded(path, content)
    federation = loaded(path, content, drop_empty=True)
    assert federation.clients.names == (20, 40)
    assert federation.clients.features.tolist() == [[2.0], [4.0]]
    assert federation.facts["left_out"] == [10]
    # client 10's validation rows went with it
    assert np.diff(federation.validation.offsets).tolist() == [1, 0]


def test_a_client_with_features_but_no_row_at_all_is_named(path: Path) -> None:
    content = arrays(
        client=np.array([2, 0, 0, 3, 2, 3, 0, 2, 3, -1, -1, 2]), client_features=np.eye(4)
    )
    with pytest.raises(DataError, match="client 1 has no training example"):
        loaded(path, content)
    federation = loaded(path, content, drop_empty=True)
    assert federation.clients.features.tolist() == np.eye(4)[[0, 2, 3]].tolist()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"y": None},
            r"needs the arrays x, y and client; y is missing \(it has x, client, split\)",
        ),
        ({"client": None}, "client is missing"),
        (
            {"client": np.zeros(12, dtype=complex)},
            "client must hold integers >= -1, got complex128$",
        ),
        (
            {"y": np.zeros(11, dtype=int)},
            r"y must have shape \(12,\), one for each example of x, got \(11,\)",
        ),
        (
            {"split": np.zeros((12, 1), dtype=int)},
            r"split must have shape \(n,\), one for each example of x, got \(12, 1\)",
        ),
        ({"y": np.full(12, 0.5)}, "y: labels must be integers >= 0, .* got 0.5 in row 0"),
        ({"y": np.full(12, -1)}, "y: labels must be integers >= 0, .* got -1 in row 0"),
        (
            {"client": np.full(12, -2)},
            r"client must hold integers >= -1, got -2 in row 0 \(and 11 more\)",
        ),
        ({"split": np.full(12, 3)}, r"split must hold integers in 0..2, got 3 in row 0"),
        (
            {"split": np.zeros(12, dtype=int)},
            "client -1 marks the server's test set, so its rows must have split 2",
        ),
        (
            {"client": np.arange(12), "split": np.zeros(12, dtype=int)},
            "has no test example: mark them with split 2 or client -1",
        ),
        ({"x": np.array(["a"] * 12)}, r"x must hold numbers or booleans, got texts \(<U1\)"),
        ({"x": np.zeros(12)}, r"x must have a row for each example, shape .* got \(12,\)"),
        (
            {"client_features": np.zeros((2, 5))},
            r"client_features must have 3 rows, one a client, got 2",
        ),
        ({"client_features": np.full((3, 5), np.nan)}, "client_features must be finite numbers"),
        ({"x": np.full((12, 2), np.nan)}, "x must be finite, got nan in row 0, column 0"),
        (
            {"x": np.array([{}] * 12, dtype=object)},
            r"x must be an array of numbers or texts, .* objects; save texts with x.astype\(str\)",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_one_sentence(
    path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        loaded(path, arrays(**changes))


@pytest.mark.parametrize("key", ["x", "y", "client", "split", "client_features", "site"])
def test_a_column_of_objects_is_named_with_a_way_out(path: Path, key: str) -> None:
    content = arrays(client_features=np.eye(3), site=np.array(["a"] * 12))
    content[key] = np.asarray(content[key]).astype(object)
    with pytest.raises(
        DataError,
        match=rf"mine.npz: {key} must be an array of numbers or texts, .* objects; save texts",
    ):
        loaded(path, content)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"client": np.array(["a"] * 12)},
            r"client must hold integers >= -1, got <U1; number them with np.unique",
        ),
        (
            {"client": np.where(np.arange(12) == 3, np.nan, 1.0)},
            "client must hold integers >= -1, got nan in row 3$",
        ),
        (
            {"client": np.where(np.arange(12) > 3, np.inf, 1.0)},
            r"client must hold integers >= -1, got inf in row 4 \(and 7 more\)",
        ),
        ({"client": np.where(np.arange(12) == 3, 0.5, 1.0)}, "got 0.5 in row 3"),
        ({"client": np.full(12, 2**63, dtype=np.uint64)}, "got 9223372036854775808 in row 0"),
        ({"client": np.ones(12, dtype=bool)}, "client must hold integers >= -1, got bool"),
        (
            {"client": np.array(1)},
            r"client must have shape \(n,\), one for each example of x, got \(\)",
        ),
        (
            {"split": np.where(np.arange(12) == 3, np.nan, 2.0)},
            "split must hold integers in 0..2, got nan in row 3",
        ),
        ({"x": np.array(1.0)}, "x must have a row for each example"),
        (
            {"x": np.zeros((12, 1), dtype=[("a", float)])},
            "x must hold numbers or booleans, got records",
        ),
        ({"x": np.full((12, 1), 1e300)}, "x must be within float32's range"),
        (
            {"x": np.full((12, 1), 2**24 + 1)},
            "x must hold integers that float32 represents exactly",
        ),
        ({"client_features": np.array(1)}, "client_features must be finite numbers of shape"),
        (
            {"client_features": np.array([["a"]] * 3)},
            "client_features must be finite numbers of shape",
        ),
        ({"y": np.where(np.arange(12) == 3, 10**6, 0)}, "confirm it with data.classes = 1000001"),
    ],
)
def test_every_column_of_a_file_is_checked(
    path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        loaded(path, arrays(**changes))


def test_whole_floats_and_booleans_are_read_as_what_they_are(path: Path) -> None:
    plain = loaded(path, arrays())
    content = {key: np.asarray(value).astype(np.float64) for key, value in arrays().items()}
    assert loaded(path, content).fingerprint == plain.fingerprint
    assert loaded(path, arrays(x=np.eye(12, dtype=bool))).train.x.dtype == np.bool_


@pytest.mark.parametrize(
    ("sites", "names"),
    [
        (["b10", "b2"] * 24, ("b10", "b2")),
        ([b"b10", "ä".encode()] * 24, ("b10", "ä")),
        ([2.0, 10.0] * 24, (2, 10)),
    ],
)
def test_a_column_of_ids_of_any_type_names_the_clients(
    path: Path, sites: list[object], names: tuple[object, ...]
) -> None:
    content = pool(site=np.array(sites), split=np.repeat([0, 2], [40, 8]))
    assert loaded(path, content, partition=ByColumn(column="site")).clients.names == names


def test_a_column_with_a_missing_id_is_refused(path: Path) -> None:
    sites = np.where(np.arange(48) == 7, np.nan, 1.0)
    with pytest.raises(
        DataError,
        match=r"'site' must name the owner of every example, got 1 missing id \(nan\), .* row 7",
    ):
        loaded(path, pool(site=sites), partition=ByColumn(column="site"))


def test_nan_in_the_test_set_names_it(path: Path) -> None:
    x = np.zeros((12, 2))
    x[9] = np.inf
    with pytest.raises(DataError, match="x must be finite, got inf in row 9, column 0"):
        loaded(path, arrays(x=x))


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.98])
def test_a_truncated_file_is_named(path: Path, kept: float) -> None:
    np.savez(path, **arrays())  # type: ignore[arg-type]
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(DataError, match=r"mine.npz is truncated or is not an .npz file"):
        File(path=str(path)).load()


def test_a_damaged_byte_is_noticed(path: Path) -> None:
    np.savez(path, **arrays())  # type: ignore[arg-type]
    content = bytearray(path.read_bytes())
    content[200] ^= 255  # inside x
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"is truncated or is not an .npz file"):
        File(path=str(path)).load()


def test_a_plain_array_or_no_file_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(DataError, match=r"is not an .npz file"):
        File(path=str(tmp_path / "x.npy")).load()
    with pytest.raises(DataError, match=r"data.path: no file .*nothing.npz"):
        File(path=str(tmp_path / "nothing.npz")).load()


def test_a_relative_path_is_looked_up_in_data_dir(path: Path) -> None:
    np.savez(path, **arrays())  # type: ignore[arg-type]
    assert len(File(path="mine.npz").load(path.parent)) == 3


def test_path_must_be_given() -> None:
    with pytest.raises(ConfigError, match=r"data.path must be given"):
        build("data", "file")


def test_default_model_is_logistic_for_vectors_only(path: Path) -> None:
    vectors = loaded(path, arrays())
    images = loaded(path, arrays(x=np.zeros((12, 1, 4, 4), dtype=np.uint8)))
    data = File(path=str(path))
    assert data.defaults_for(vectors).model == "logistic"
    assert data.defaults_for(images).model is None
    assert data.defaults_for(images).training["batch_size"] == 10


def pool(**changes: object) -> dict[str, object]:
    """40 training rows and 8 test rows without owners, and a column with the site of each."""
    base = {
        "x": np.arange(48.0)[:, None],
        "y": np.arange(48) % 4,
        "split": np.repeat([0, 2], [40, 8]),
        "site": np.array(["north", "south", "east"] * 16),
    }
    return {**base, **changes}


def test_a_file_without_owners_is_shared_out(path: Path) -> None:
    federation = loaded(path, pool(), partition=LabelsPerClient(labels=2), clients=4)
    assert len(federation) == 4
    rows = np.concatenate([federation.train.index, federation.validation.index])
    assert np.array_equal(np.sort(rows), np.arange(40))
    assert ((federation.clients.label_counts > 0).sum(axis=1) == 2).all()
    assert federation.test.x[:, 0].tolist() == list(range(40, 48))


def test_a_column_of_the_file_can_name_the_clients(path: Path) -> None:
    federation = loaded(path, pool(), partition=ByColumn(column="site"), validation_fraction=0.0)
    assert federation.clients.names == ("east", "north", "south")
    assert federation.clients.data_sizes.tolist() == [13, 14, 13]  # rows 0..39: i % 3 = 2, 0, 1
    assert federation.validation is None


def test_owners_in_the_file_give_way_to_the_partition(path: Path) -> None:
    federation = loaded(
        path, arrays(split=None), partition=Iid(), clients=2, validation_fraction=0.0
    )
    assert federation.clients.data_sizes.tolist() == [5, 5]
    assert len(federation.test) == 2


def test_rows_that_are_validation_already_are_refused_with_a_partition(path: Path) -> None:
    with pytest.raises(DataError, match="rows with split 1 belong to clients already"):
        loaded(path, arrays(), partition=Iid())


def test_a_partition_needs_a_test_set(path: Path) -> None:
    with pytest.raises(
        DataError, match=r"needs training and test examples \(split 0 and 2\), got 48 and 0"
    ):
        loaded(path, pool(split=np.zeros(48, dtype=int)), partition=Iid())


def test_the_settings_are_a_table_and_back() -> None:
    data = File(path="a.npz", partition=ByColumn(column="site"))
    assert build("data", table(data)) == data
    assert "partition" not in table(File(path="a.npz"))


@pytest.mark.parametrize("setting", [{"clients": 5}, {"validation_fraction": 0.0}])
def test_settings_of_a_partition_need_one(setting: dict[str, float]) -> None:
    (key,) = setting
    with pytest.raises(
        ConfigError,
        match=rf"^data.{key} has no effect without data.partition: the file says who owns what$",
    ):
        build("data", {"name": "file", "path": "a.npz", **setting})
    assert build("data", {"name": "file", "path": "a.npz", "partition": "iid", **setting})
    assert build("data", table(File(path="a.npz"))) == File(path="a.npz")  # every value stated


def test_a_damaged_header_is_named(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00\x10\x00" + b"no header at all")
    with pytest.raises(DataError, match=r"mine.npz is truncated or is not an .npz file"):
        File(path=str(path)).load()


def test_a_file_without_any_training_example_is_refused(path: Path) -> None:
    content = arrays(split=np.where(np.asarray(arrays()["client"]) == -1, 2, 1))
    with pytest.raises(DataError, match="no client has a training example"):
        loaded(path, content, drop_empty=True)


def test_members_that_are_no_arrays_are_ignored(path: Path) -> None:
    split = np.where(np.asarray(arrays()["client"]) == -1, 2, 0)
    np.savez(path, **arrays(split=split))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("README.txt", "where the data are from")
    assert len(File(path=str(path)).load()) == 3
    assert len(File(path=str(path), partition=Iid(), clients=2).load()) == 2


def test_a_single_label_is_no_column(path: Path) -> None:
    with pytest.raises(DataError, match=r"y: labels must be a 1-d array, got shape \(\)"):
        loaded(path, arrays(y=np.array(3), client=None), partition=Iid())
