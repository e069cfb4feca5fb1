"""LEAF-style JSON, read as a stream."""

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs.data import Federation, Leaf, Synthetic, write_leaf
from fedgs.data.leaf_reading import read_users
from fedgs.errors import DataError
from fedgs.registry import build


def write(
    folder: Path,
    part: str,
    users: dict[str, object],
    name: str = "a.json",
    changes: dict[str, object] | None = None,
) -> None:
    (folder / part).mkdir(parents=True, exist_ok=True)
    content = {
        "users": list(users),
        "num_samples": [len(data["y"]) for data in users.values()],  # type: ignore[index]
        "user_data": users,
    }
    (folder / part / name).write_text(json.dumps({**content, **(changes or {})}), encoding="utf-8")


ANNA = {"x": [[0.5, 1.0], [2.0, 3.0]], "y": [0, 1]}


BEN = {"x": [[4.0, 5.0]], "y": [2]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Users anna and ben in two files, and a test example of each."""
    write(tmp_path, "train", {"anna": ANNA}, "b.json")
    write(tmp_path, "train", {"ben": BEN}, "a.json")
    write(
        tmp_path,
        "test",
        {"anna": {"x": [[6.0, 7.0]], "y": [1]}, "ben": {"x": [[8.0, 9.0]], "y": [0]}},
    )
    return tmp_path


def test_users_become_clients_and_their_test_examples_the_servers(folder: Path) -> None:
    federation = build("data", {"name": "leaf", "path": str(folder)}).load()  # type: ignore[attr-defined]
    assert federation.name == folder.name
    assert federation.clients.names == ("ben", "anna")  # files in order of their names
    assert federation.clients.data_sizes.tolist() == [1, 2]
    assert federation.train.x.tolist() == [[4, 5], [0.5, 1], [2, 3]]
    assert federation.train.x.dtype == np.float32
    assert federation.test.x.tolist() == [[6, 7], [8, 9]]
    assert federation.validation is None
    assert federation.num_labels == 3
    assert Leaf(path=str(folder)).defaults_for(federation).model == "logistic"


def test_a_relative_folder_is_looked_up_in_data_dir(folder: Path) -> None:
    assert len(Leaf(path=folder.name).load(folder.parent)) == 2


def test_a_user_without_training_examples_is_named_or_left_out(folder: Path) -> None:
    write(folder, "train", {"carl": {"x": [], "y": []}}, "c.json")
    with pytest.raises(DataError, match="client 'carl' has no training example"):
        Leaf(path=str(folder)).load()
    federation = Leaf(path=str(folder), drop_empty=True).load()
    assert federation.clients.names == ("ben", "anna")
    assert federation.facts["left_out"] == ["carl"]


@pytest.mark.parametrize(
    ("users", "changes", "message"),
    [
        (
            {"anna": ANNA},
            {"users": ["anna", "zoe"]},
            "`users` and `user_data` differ; 'zoe' is only in users",
        ),
        ({"anna": ANNA, "zoe": BEN}, {"users": ["anna"]}, "'zoe' is only in user_data"),
        (
            {"anna": ANNA},
            {"num_samples": [3]},
            "user 'anna' has 2 examples, but num_samples says 3",
        ),
        (
            {"anna": ANNA},
            {"num_samples": []},
            "num_samples must have a number for each of the 1 users, got 0 entries",
        ),
        (
            {"anna": {"x": ["a text"], "y": [0]}},
            {},
            "x of user 'anna' must hold numbers or booleans, got texts",
        ),
        (
            {"anna": {"x": [[1.0], [1.0, 2.0]], "y": [0, 0]}},
            {},
            "x of user 'anna' must have rows of one shape, got .* in row 1",
        ),
        (
            {"anna": {"x": [[1.0]], "y": [0.5]}},
            {},
            "y of user 'anna': labels must be integers >= 0, .* got 0.5 in row 0",
        ),
        (
            {"anna": {"x": [[1.0]], "y": [0, 1]}},
            {},
            "x of user 'anna' must be a list of 2 examples, one for each label, got 1 examples",
        ),
        (
            {"anna": {"x": [[1.0]], "y": ["a"]}},
            {},
            "y of user 'anna' in train and y of user 'ben' in train must both hold numbers or",
        ),
        (
            {"anna": {"x": [[1.0]], "y": [0], "z": 1}, "ben": {"y": [0]}},
            {},
            "user 'ben' must have x and y",
        ),
        ({"ben": BEN}, {}, "user 'ben' is in train/ twice"),
        (
            {"anna": {"x": [[1.0]], "y": [0]}},
            {},
            r"/train: .* one shape, got \(2,\) from user '\w+' and \(1,\) from user 'anna'; only",
        ),
        (
            {"anna": {"x": [[float("nan"), 0]], "y": [0]}},
            {},
            "x of user 'anna' must be finite, got nan in row 0, column 0",
        ),
    ],
)
def test_what_is_wrong_is_one_sentence(
    folder: Path, users: dict[str, object], changes: dict[str, object], message: str
) -> None:
    write(folder, "train", users, "b.json", changes)
    with pytest.raises(DataError, match=message):
        Leaf(path=str(folder)).load()


def test_a_folder_without_test_users_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "train", {"anna": ANNA})
    with pytest.raises(DataError, match=r"must have test/\*.json with at least one user"):
        Leaf(path=str(tmp_path)).load()


@settings(max_examples=40)
@given(share=st.floats(0.0, 0.999))
def test_a_truncated_file_is_named_wherever_it_ends(
    share: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("leaf")
    write(folder, "train", {"anna": ANNA, "ben": BEN})
    path = folder / "train" / "a.json"
    content = path.read_text()
    path.write_text(content[: int(share * len(content))])
    with pytest.raises(DataError, match=r"a.json is truncated or is not LEAF-style JSON"):
        list(read_users(path))


def test_only_one_user_is_in_memory_at_a_time(tmp_path: Path) -> None:
    # 5,000 numbers: 25 kB of text, some 160 kB as Python objects
    user = {"x": np.zeros((50, 100)).tolist(), "y": [0] * 50}
    write(tmp_path, "train", {f"user {k}": user for k in range(40)})
    tracemalloc.start()
    try:
        assert sum(len(y) for _, _, y in read_users(tmp_path / "train" / "a.json")) == 2000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000  # all 40 users at once: 1 MB of text and more than 6 MB of objects


def test_other_readers_find_the_keys_they_expect(tmp_path: Path) -> None:
    federation = Synthetic(clients=3).load()
    write_leaf(federation, tmp_path)
    content = json.loads((tmp_path / "train" / "data.json").read_text())
    assert content["users"] == ["0", "1", "2"]
    assert content["num_samples"] == federation.clients.data_sizes.tolist()
    assert len(content["user_data"]["1"]["x"]) == content["num_samples"][1]


def content(users: list[object], keys: list[str]) -> dict[str, object]:
    """A file with `users` and `user_data` in any orders; user k has k + 1 examples of value k."""
    every = {f"u{k}": {"x": [[float(k)]] * (k + 1), "y": [k % 2] * (k + 1)} for k in range(4)}
    counts = [len(every[str(user)]["y"]) for user in users]
    return {"users": users, "num_samples": counts, "user_data": {key: every[key] for key in keys}}


def loaded(folder: Path, files: dict[str, dict[str, object]], **settings: object) -> Federation:
    for name, written in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(written), encoding="utf-8")
    return Leaf(path=str(folder), **settings).load()  # type: ignore[arg-type]


def test_clients_come_in_the_order_of_users_in_every_part(tmp_path: Path) -> None:
    written = content(["u2", "u0", "u1"], ["u0", "u1", "u2"])
    federation = loaded(
        tmp_path, {f"{part}/a.json": written for part in ("train", "validation", "test")}
    )
    assert federation.clients.names == ("u2", "u0", "u1")
    assert federation.clients.data_sizes.tolist() == [3, 1, 2]
    assert federation.train.x[:, 0].tolist() == [2, 2, 2, 0, 1, 1]
    assert federation.validation is not None
    assert federation.validation.x.tolist() == federation.train.x.tolist()
    assert federation.test.x[:, 0].tolist() == [2, 2, 2, 0, 1, 1]


def test_files_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    files = {
        "train/b.json": content(["u1", "u0"], ["u0", "u1"]),
        "train/a.json": content(["u3"], ["u3"]),
        "validation/a.json": content(["u0", "u2"], ["u2", "u0"]),  # u2 has no training example
        "test/a.json": content(["u0"], ["u0"]),
    }
    federation = loaded(tmp_path, files, drop_empty=True)
    assert federation.clients.names == ("u3", "u1", "u0")
    assert federation.facts["left_out"] == ["u2"]


@settings(max_examples=30)
@given(
    keys=st.permutations(["u0", "u1", "u2", "u3"]),
    top=st.permutations(["users", "num_samples", "user_data", "hierarchies", "fedgs"]),
    dtype=st.sampled_from([None, "<f4", "|u1", "<i8", "<f8"]),
)
def test_files_that_are_equal_as_json_are_one_federation(
    keys: list[str], top: list[str], dtype: str | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    users: list[object] = ["u3", "u1", "u0", "u2"]
    fedgs = (
        {"names": users, "dtype": dtype, "client_features": [[3.0], [1.0], [0.0], [2.0]]}
        if dtype
        else {}
    )

    def read(keys: list[str], top: list[str]) -> Federation:
        written = {**content(users, keys), "hierarchies": ["h"] * 4, "fedgs": fedgs}
        written = {key: written[key] for key in top if key != "fedgs" or dtype}
        return loaded(
            tmp_path_factory.mktemp("leaf"), {"train/a.json": written, "test/a.json": written}
        )

    first, second = (
        read(
            ["u0", "u1", "u2", "u3"], ["fedgs", "users", "num_samples", "user_data", "hierarchies"]
        ),
        read(keys, top),
    )
    assert first.fingerprint == second.fingerprint
    assert second.train.x.dtype == np.dtype(dtype or "<f4")
    if dtype:
        assert second.clients.features is not None
        assert second.clients.features[:, 0].tolist() == [3, 1, 0, 2]


def test_features_follow_their_names_when_users_are_reordered(tmp_path: Path) -> None:
    fedgs = {"names": ["u0", "u1"], "client_features": [[0.0], [1.0]]}
    written = {"fedgs": fedgs, **content(["u1", "u0"], ["u0", "u1"])}
    federation = loaded(tmp_path, {"train/a.json": written, "test/a.json": written})
    assert federation.clients.names == ("u1", "u0")
    assert federation.clients.features is not None
    assert federation.clients.features.tolist() == [[1], [0]]


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    loaded_plain = loaded(
        tmp_path, {f"{part}/a.json": content(["u1"], ["u1"]) for part in ("train", "test")}
    )
    path = tmp_path / "train" / "a.json"
    path.write_text("\ufeff" + path.read_text(), encoding="utf-8")
    assert Leaf(path=str(tmp_path)).load().fingerprint == loaded_plain.fingerprint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"users": None}, "must have `users`, the list of the users' names in order, got none"),
        ({"users": "anna"}, "must have `users`, .* got anna"),
        ({"users": {"anna": 1}}, "must have `users`"),
        ({"users": [["anna"]]}, "must have `users`"),
        ({"users": [True]}, "must have `users`"),
        ({"users": ["anna", "anna"]}, "must have each user once, got 'anna' twice in users"),
        ({"users": [1]}, "`users` and `user_data` differ; '1' is only in users"),
        ({"num_samples": "1"}, "num_samples must have a number for each of the 1 users, got str"),
        ({"num_samples": ["2"]}, "user 'anna' has 2 examples, but num_samples says '2'"),
        ({"user_data": []}, "is truncated or is not LEAF-style JSON"),
        ({"user_data": {"anna": [1]}}, "user 'anna' must have x and y"),
        (
            {"user_data": {"anna": {"x": {}, "y": []}}},
            "x of user 'anna' must be a list of 0 examples, .* got dict",
        ),
        (
            {"user_data": {"anna": {"x": [[1, 2]], "y": []}}},
            "x of user 'anna' must be a list of 0 examples, .* got 1 examples",
        ),
        (
            {"user_data": {"anna": {"x": [["1", "2"]], "y": [0]}}},
            "must hold numbers or booleans, got texts",
        ),
        (
            {"user_data": {"anna": {"x": [[None, 2]], "y": [0]}}},
            r"got a missing value \(None\) in row 0, column 0",
        ),
        ({"user_data": {"anna": {"x": [[1e300, 2]], "y": [0]}}}, "must be within float32's range"),
        (
            {"user_data": {"anna": {"x": [[2**24 + 1, 2]], "y": [0]}}},
            "must hold integers that float32 represents exactly",
        ),
        ({"user_data": {"anna": {"x": [1.0], "y": [0]}}}, "must have a row for each example"),
        ({"fedgs": 5}, "fedgs must be a table that `fedgs data export` wrote, got 5"),
        ({"fedgs": {"dtype": "|O"}}, "fedgs must be a table"),
        ({"fedgs": {"names": 5}}, "fedgs must be a table"),
        (
            {"fedgs": {"dtype": "|u1"}},
            r"x of user 'anna' must hold uint8 as `fedgs` says, got float64 that does not fit",
        ),
        (
            {"fedgs": {"client_features": [[1], [2]], "names": ["anna"]}},
            "client_features must have a row for each of the names",
        ),
        (
            {"fedgs": {"num_labels": 1}},
            "data.classes must be an integer above the largest label, which is 2, got 1",
        ),
        ({"fedgs": {"normalization": 3}}, "normalization must be a table"),
    ],
)
def test_keys_that_are_not_leaf_s_are_one_sentence(
    folder: Path, changes: dict[str, object], message: str
) -> None:
    (folder / "train" / "a.json").unlink()
    written = {
        "users": ["anna"],
        "num_samples": [2],
        "user_data": {"anna": {"x": [[0.5, 1.0], [2.0, 3.0]], "y": [0, 2]}},
    }
    written = {key: value for key, value in {**written, **changes}.items() if value is not None}
    (folder / "train" / "b.json").write_text(json.dumps(written), encoding="utf-8")
    with pytest.raises(DataError, match=message):
        Leaf(path=str(folder)).load()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"users": [], "users": []}', "must have the key 'users' once, got it twice"),
        (
            '{"user_data": {"a": {"x": [], "y": []}, "a": {"x": [], "y": []}}}',
            "must have each user once, got 'a' twice in user_data",
        ),
        (b"\xff\xfe", "is not LEAF-style JSON: it is not UTF-8 text"),
    ],
)
def test_json_that_says_a_thing_twice_is_refused(
    folder: Path, text: str | bytes, message: str
) -> None:
    (folder / "train" / "a.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError, match=message):
        Leaf(path=str(folder)).load()


def test_test_users_without_examples_are_no_test_set(folder: Path) -> None:
    write(folder, "test", {"anna": {"x": [], "y": []}})
    with pytest.raises(
        DataError, match=r"must have at least one test example, got none in test/\*.json"
    ):
        Leaf(path=str(folder)).load()


def test_the_folder_of_the_process_has_a_name_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert Leaf(path=".").load().name == folder.name
