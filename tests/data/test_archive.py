"""A federation that is written loads back identically, whatever it holds."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs.clients import Clients
from fedgs.data import (
    DirichletOverClasses,
    Federation,
    File,
    Iid,
    Labelled,
    Leaf,
    Normalization,
    Part,
    Synthetic,
    export,
    first_difference,
    open_folder,
    share_out,
    to_folder,
    write_leaf,
)
from fedgs.data.verify import verify
from fedgs.errors import DataError, OutputError

SCALING = Normalization(255.0, (0.1, 0.2), (0.3, 0.4))


@st.composite
def federations(draw: st.DrawFn) -> Federation:
    """With or without validation, features, images, text names, facts; labels that nobody has."""
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    clients, classes = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    count = clients * 3 + draw(st.integers(0, 30))
    images = draw(st.booleans())
    shape = (2, 3, 3) if images else (4,)
    x = (
        rng.integers(0, 256, (count, *shape)).astype(np.uint8)
        if images
        else rng.normal(size=(count, 4)).astype(np.float32)
    )
    y = rng.integers(0, classes, count)
    source = Labelled(
        "made", x, y, (x[:2], y[:2]), classes + draw(st.integers(0, 1)), SCALING if images else None
    )
    partition = draw(st.sampled_from([Iid(), DirichletOverClasses(concentration=0.4)]))
    federation = share_out(
        source, partition, clients, seed=seed, validation_fraction=draw(st.sampled_from([0.0, 0.4]))
    )
    names = federation.clients.names
    if draw(st.booleans()):
        names = tuple(f"Zürich {name}" for name in names)
    features = rng.normal(size=(clients, 3)) if draw(st.booleans()) else None
    counts = federation.clients.label_counts
    return replace(
        federation, clients=Clients(names, federation.clients.data_sizes, counts, features)
    )


def assert_identical(loaded: Federation, made: Federation) -> None:
    assert loaded.fingerprint == made.fingerprint
    assert first_difference(loaded, made) is None
    assert (loaded.name, loaded.num_labels, loaded.normalization) == (
        made.name,
        made.num_labels,
        made.normalization,
    )
    assert loaded.clients.names == made.clients.names
    assert [type(name) for name in loaded.clients.names] == [
        type(name) for name in made.clients.names
    ]
    assert np.array_equal(loaded.clients.label_counts, made.clients.label_counts)
    assert (loaded.validation is None) == (made.validation is None)


@settings(max_examples=30)
@given(federation=federations())
def test_npz_and_folder_and_leaf_load_back_identically(
    federation: Federation, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("kept")
    from_npz = File(path=str(export(federation, folder / "kept.npz"))).load()
    from_folder = open_folder(to_folder(federation, folder / "mapped"))
    from_leaf = Leaf(path=str(write_leaf(federation, folder / "leaf"))).load()
    for loaded in (from_npz, from_folder, from_leaf):
        assert_identical(loaded, federation)
    for loaded in (from_npz, from_folder):  # LEAF has no place for these
        assert loaded.facts == federation.facts
        assert np.array_equal(loaded.train.index, federation.train.index)
    for reference in (
        folder / "kept.npz",
        folder / "leaf",
        federation.fingerprint,
        federation.fingerprint[:12],
    ):
        assert verify(federation, str(reference)) is None


def test_an_index_stays_a_permutation_after_a_save_and_load(tmp_path: Path) -> None:
    x, y = np.zeros((90, 2), dtype=np.float32), np.arange(90) % 3
    federation = share_out(Labelled("made", x, y, (x, y), 3), DirichletOverClasses(), 7)
    loaded = File(path=str(export(federation, tmp_path / "kept.npz"))).load()
    assert loaded.validation is not None
    assert np.array_equal(
        np.sort(np.concatenate([loaded.train.index, loaded.validation.index])), np.arange(90)
    )


def test_synthetic_with_features_and_no_index(tmp_path: Path) -> None:
    federation = Synthetic(clients=4).load()
    loaded = File(
        path=str(export(federation, str(tmp_path / "kept")))
    ).load()  # the ending is added
    assert_identical(loaded, federation)
    assert loaded.train.index is None


def test_examples_are_memory_mapped_from_a_folder(tmp_path: Path) -> None:
    loaded = open_folder(to_folder(Synthetic(clients=2).load(), tmp_path))
    assert isinstance(loaded.train.x, np.memmap)
    assert not loaded.train.x.flags.writeable


def test_two_exports_are_the_same_bytes(tmp_path: Path) -> None:
    federation = Synthetic(clients=2).load()
    assert (
        export(federation, tmp_path / "a.npz").read_bytes()
        == export(federation, tmp_path / "b.npz").read_bytes()
    )


def test_an_exported_file_is_a_plain_federation_file_too(tmp_path: Path) -> None:
    federation = Synthetic(clients=3).load()
    with np.load(export(federation, tmp_path / "kept.npz")) as archive:
        plain = {key: archive[key] for key in archive.files if key not in ("fedgs", "index")}
    np.savez(tmp_path / "plain.npz", **plain)
    assert File(path=str(tmp_path / "plain.npz")).load().fingerprint == federation.fingerprint


def test_an_exported_file_with_a_partition_is_refused(tmp_path: Path) -> None:
    path = export(Synthetic(clients=2).load(), tmp_path / "kept.npz")
    with pytest.raises(DataError, match=r"holds a federation already: leave data.partition out"):
        File(path=str(path), partition=Iid()).load()


@pytest.mark.parametrize(
    ("key", "value"), [("split", None), ("y", np.zeros(3, dtype=int)), ("fedgs", np.array("{}"))]
)
def test_a_damaged_export_is_one_sentence(tmp_path: Path, key: str, value: object) -> None:
    with np.load(export(Synthetic(clients=2).load(), tmp_path / "kept.npz")) as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays = {
        name: content for name, content in {**arrays, key: value}.items() if content is not None
    }
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(
        DataError, match=r"is not a federation that fedgs exported|has \d+ examples"
    ):
        File(path=str(tmp_path / "bad.npz")).load()


def test_a_later_format_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "later.npz", fedgs=np.array('{"format": 99}'))
    with pytest.raises(DataError, match="has format 99; this version of fedgs reads format 1"):
        File(path=str(tmp_path / "later.npz")).load()


def test_a_folder_that_cannot_be_written_to_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for write in (
        lambda f: export(f, tmp_path / "file" / "a.npz"),
        lambda f: write_leaf(f, tmp_path / "file"),
    ):
        with pytest.raises(OutputError, match="cannot be written"):
            write(Synthetic(clients=2).load())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"names": [float("nan"), 1]},
            "client names must be non-empty texts or 64-bit integers, got nan for client 0",
        ),
        ({"names": [1, "1"]}, "client names must be distinct as text"),
        (
            {"num_labels": 10**12},
            "data.classes must leave room for a count by client and class in memory",
        ),
        ({"num_labels": 0}, "data.classes must be an integer above the largest label"),
        ({"num_labels": "10"}, "data.classes must be an integer above the largest label"),
        (
            {"normalization": {"scale": 1.0, "mean": [0.0], "sd": [0.0]}},
            "normalization.sd must be above 0",
        ),
        ({"normalization": 5}, "normalization must be a table"),
    ],
)
def test_what_an_export_says_about_itself_is_checked(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with np.load(export(Synthetic(clients=2).load(), tmp_path / "kept.npz")) as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays["fedgs"] = np.array(json.dumps({**json.loads(str(arrays["fedgs"])), **changes}))
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(DataError, match=message):
        File(path=str(tmp_path / "bad.npz")).load()


def test_a_federation_without_test_examples_loads_back(tmp_path: Path) -> None:
    federation = Synthetic(clients=2).load()
    x, y = federation.test.x[:0], federation.test.y[:0]
    empty = replace(federation, test=Part(x, y, np.zeros(2, dtype=np.int64)))
    assert_identical(File(path=str(export(empty, tmp_path / "kept.npz"))).load(), empty)
    assert_identical(open_folder(to_folder(empty, tmp_path / "kept")), empty)
