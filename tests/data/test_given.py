"""Labels as texts, channels that are last, examples of unequal length, own test parts."""

import datetime
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs.data import (
    Federation,
    File,
    Iid,
    Labelled,
    Normalization,
    describe,
    export,
    first_difference,
    open_folder,
    share_out,
    to_folder,
)
from fedgs.errors import DataError

X, Y = np.eye(4, dtype=np.float32), np.array([0, 1, 0, 1])
OWNER = np.array(["b", "a", "b", "a"])


def made(**changes: object) -> Federation:
    settings: dict[str, object] = {"x": X, "y": Y, "client": OWNER, "test": (X, Y), **changes}
    return Federation.from_arrays(settings.pop("x"), settings.pop("y"), **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("y", "names"),
    [
        (["ill", "well", "ill", "well"], ["ill", "well"]),
        (np.array(["ill", "well", "ill", "well"]), ["ill", "well"]),
        (np.array(["ill", "well", "ill", "well"], dtype=object), ["ill", "well"]),
        (["0", "1", "0", "1"], ["0", "1"]),
        ([b"a", b"b", b"a", b"b"], ["a", "b"]),
        (
            [datetime.date(2024, 1, day) for day in (1, 2, 1, 2)],
            ["2024-01-01", "2024-01-02"],
        ),
        ([("ill", 1), ("well", 0)] * 2, ["('ill', 1)", "('well', 0)"]),
        ([(0, "ill"), (1, b"well")] * 2, ["(0, 'ill')", "(1, b'well')"]),
    ],
)
def test_texts_and_other_hashable_labels_become_classes_in_sorted_order(
    y: object, names: list[str]
) -> None:
    federation = made(y=y, test=(X, y))
    assert federation.fingerprint == made().fingerprint  # the same numbers
    assert federation.facts["label_names"] == names
    assert [f"y={name}" in "\n".join(describe(federation).lines()) for name in names] == [True] * 2


def test_labels_without_an_order_are_sorted_by_type_and_text() -> None:
    y = np.empty(4, dtype=object)
    y[:] = [("b", 1), "z", ("a", 1), "y"]
    federation = made(y=y, test=(X, y))
    # str before tuple
    assert federation.facts["label_names"] == ["y", "z", "('a', 1)", "('b', 1)"]
    assert federation.test.y.tolist() == [3, 1, 2, 0]


def test_the_classes_of_all_parts_are_numbered_together() -> None:
    federation = made(
        y=["d", "b", "d", "b"], test=(X, ["a", "b", "c", "d"]), validation=(X[:1], ["e"], ["a"])
    )
    assert federation.facts["label_names"] == list("abcde")
    assert federation.num_labels == 5
    assert federation.train.y.tolist() == [1, 1, 3, 3]
    assert federation.validation is not None and federation.validation.y.tolist() == [4]


def test_numbers_stay_classes_with_their_own_numbers() -> None:
    assert made(y=[0, 3, 0, 3]).num_labels == 4
    assert "label_names" not in made().facts


def test_more_classes_than_names_keep_their_numbers() -> None:
    y = ["ill", "well", "ill", "well"]
    lines = describe(made(y=y, test=(X, y), classes=3)).lines()
    assert any("y=ill  y=well  y=2" in line for line in lines)


def test_text_labels_are_partitioned_and_read_from_files(tmp_path: Path) -> None:
    y = np.array(["ill", "well", "ill", "well"])
    federation = share_out(Labelled("mine", X, y, (X, y), 2), Iid(), 2)
    assert federation.facts["label_names"] == ["ill", "well"]
    np.savez(tmp_path / "mine.npz", x=X, y=y, client=np.array([0, 1, 0, -1]))
    loaded = File(path=str(tmp_path / "mine.npz")).load()
    assert loaded.facts["label_names"] == ["ill", "well"]
    assert loaded.train.y.tolist() == [0, 0, 1]
    path = export(loaded, tmp_path / "kept.npz")
    assert File(path=str(path)).load().facts["label_names"] == ["ill", "well"]
    np.savez(tmp_path / "mine.npz", x=X, y=y, client=np.array([0, 0, 0, -1]))
    shared = File(path=str(tmp_path / "mine.npz"), partition="iid", clients=2).load()  # type: ignore[arg-type]
    assert shared.facts["label_names"] == ["ill", "well"]


def test_channels_that_are_last_come_first(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (4, 5, 6, 3), dtype=np.uint8)
    scaling = Normalization(255.0, (0.5, 0.4, 0.3), (0.5, 0.5, 0.5))
    federation = made(x=images, test=(images, Y), channels="last", normalization=scaling)
    assert federation.example_shape == (3, 5, 6)
    # client a has rows 1 and 3
    assert federation.train.x[0, 2].tolist() == images[1, :, :, 2].tolist()
    np.savez(tmp_path / "mine.npz", x=images, y=Y, client=np.array([0, 1, 0, -1]))
    loaded = File(path=str(tmp_path / "mine.npz"), channels="last", normalization=scaling).load()
    assert loaded.train.x.tolist() == np.moveaxis(images[[0, 2, 1]], 3, 1).tolist()


def test_sequences_of_unequal_length_are_padded_where_labels_are_masked() -> None:
    x, y = [[1, 2], [3], [4, 0], [1]], [[2, 5], [0], [-1, 1], [2]]
    federation = made(x=x, y=y, test=([[1, 1, 1]], [[1, 1, 1]]), task="sequence")
    # all parts have the length of the longest, which is in the test set
    assert federation.train.x.tolist() == [[3, 0, 0], [1, 0, 0], [1, 2, 0], [4, 0, 0]]
    assert federation.train.y.tolist() == [[0, -1, -1], [2, -1, -1], [2, 5, -1], [-1, 1, -1]]
    assert federation.num_labels == 6


@settings(max_examples=30, deadline=None)
@given(lengths=st.lists(st.integers(1, 5), min_size=4, max_size=4), seed=st.integers(0, 99))
def test_a_mask_says_which_entries_an_example_has(lengths: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = [rng.normal(size=(length, 2)) for length in lengths]
    federation = made(x=x, test=(x[:1], Y[:1]), mask=True)
    assert federation.example_shape == (max(lengths), 3)
    for row, source in enumerate([1, 3, 0, 2]):  # client a has rows 1 and 3
        example, length = federation.train.x[row], lengths[source]
        assert example[:, 2].tolist() == [1.0] * length + [0.0] * (max(lengths) - length)
        np.testing.assert_array_equal(example[:length, :2], x[source].astype(np.float32))
        assert not example[length:].any()


def test_examples_of_unequal_length_are_refused_without_a_mask() -> None:
    with pytest.raises(DataError, match="x must have rows of one shape"):
        made(x=[[1, 2], [3], [4, 0], [1]])
    with pytest.raises(DataError, match=r"must be integers >= 0.* got 0.5 in row 0, column 0"):
        made(
            x=[[1, 2], [3], [4, 0], [1]],
            y=[[0.5, 5], [0], [-1, 1], [2]],
            test=([[1]], [[1]]),
            task="sequence",
        )


def test_clients_have_test_parts_of_their_own(tmp_path: Path) -> None:
    test_x, test_y = X[[3, 2, 1, 0]], Y[[3, 2, 1, 0]]
    federation = made(test=(test_x, test_y, ["b", "a", "b", "b"]))
    own = federation.client_test
    assert own is not None
    # a has row 1, b the rows 0, 2 and 3 in their order
    assert own.offsets.tolist() == [0, 1, 4]
    assert own.x.tolist() == federation.test.x.tolist() == test_x[[1, 0, 2, 3]].tolist()
    assert own.y.tolist() == test_y[[1, 0, 2, 3]].tolist()
    assert federation.test.offsets.tolist() == [0, 4]
    same_without = made(test=(test_x[[1, 0, 2, 3]], test_y[[1, 0, 2, 3]]))
    assert same_without.client_test is None
    others = {federation.fingerprint, same_without.fingerprint}
    others.add(made(test=(test_x[[1, 0, 2, 3]], test_y[[1, 0, 2, 3]], list("aabb"))).fingerprint)
    assert len(others) == 3
    assert "some owners of test examples" in str(first_difference(federation, same_without))
    for loaded in (
        File(path=str(export(federation, tmp_path / "kept.npz"))).load(),
        open_folder(to_folder(federation, tmp_path / "folder")),
    ):
        assert first_difference(loaded, federation) is None
        assert loaded.fingerprint == federation.fingerprint


def test_a_client_may_have_no_test_example() -> None:
    federation = made(test=(X[:2], Y[:2], ["b", "b"]))
    assert federation.client_test is not None
    assert np.diff(federation.client_test.offsets).tolist() == [0, 2]


def test_a_file_has_test_parts_of_its_clients(tmp_path: Path) -> None:
    client, split = np.array([1, 0, 1, 0, 2]), np.array([0, 0, 2, 2, 2])
    x, y = np.vstack([X, X[:1]]), np.append(Y, 0)
    np.savez(tmp_path / "mine.npz", x=x, y=y, client=client, split=split)
    path = str(tmp_path / "mine.npz")
    with pytest.raises(DataError, match="client 2 has no training example"):
        File(path=path, client_test=True).load()
    federation = File(path=path, client_test=True, drop_empty=True).load()
    assert federation.test_offsets is not None
    assert federation.test_offsets.tolist() == [0, 1, 2]
    assert federation.test.x.tolist() == X[[3, 2]].tolist()
    # without it, all test rows are the server's
    assert len(File(path=path, drop_empty=True).load().test) == 3
    with pytest.raises(DataError, match="data.client_test must be left out where data.partition"):
        File(path=path, client_test=True, partition="iid").load()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([0, 4], "test_offsets must be 3 integers, got int64 of shape"),
        ([0.0, 1.0, 4.0], "test_offsets must be 3 integers, got float64"),
        ([0, 2, 3], "must begin with 0, never fall and end with 4"),
        ([1, 2, 4], "must begin with 0"),
        ([0, 5, 4], "never fall"),
    ],
)
def test_offsets_of_test_parts_cover_the_test_set(offsets: list[float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        replace(made(), test_offsets=np.array(offsets))
