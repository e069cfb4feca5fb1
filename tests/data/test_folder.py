"""Federations in folders of memory-mapped arrays."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

from fedgs.cli.data import check
from fedgs.clients import Clients
from fedgs.data import Federation, Folder, FolderWriter, Part, check_folder, open_folder, to_folder
from fedgs.data import folder as folder_module
from fedgs.errors import DataError


def material(count: int = 1500, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    sizes, held = rng.integers(1, 5, count), rng.integers(0, 3, count)
    rows, valid = int(sizes.sum()), int(held.sum())
    return {
        "sizes": sizes,
        "held": held,
        "x": rng.normal(size=(rows, 3)).astype(np.float32),
        "y": rng.integers(0, 4, rows),
        "valid_x": rng.normal(size=(valid, 3)).astype(np.float32),
        "valid_y": rng.integers(0, 4, valid),
        "features": rng.random((count, 2)),
        "test": (rng.normal(size=(9, 3)).astype(np.float32), rng.integers(0, 4, 9)),
    }


def in_memory(given: dict[str, Any]) -> Federation:
    def part(x: np.ndarray, y: np.ndarray, sizes: np.ndarray) -> Part:
        return Part(x, y, np.concatenate([[0], np.cumsum(sizes)]))

    train = part(given["x"], given["y"], given["sizes"])
    clients = Clients(
        range(len(given["sizes"])), given["sizes"], train.label_counts(4), given["features"]
    )
    validation = part(given["valid_x"], given["valid_y"], given["held"])
    test = Part(*given["test"], np.array([0, 9]))
    return Federation("made", clients, 4, train, validation, test)


def write(given: dict[str, Any], folder: Path, *, ranges: int = 7, stop: int | None = None) -> None:
    ends, valid_ends = np.cumsum(given["sizes"]), np.cumsum(given["held"])
    cuts = np.array_split(np.arange(len(ends)), ranges)
    with FolderWriter(folder, name="made", num_labels=4, test=given["test"]) as writer:
        for cut in cuts[:stop]:
            first, last = int(cut[0]), int(cut[-1]) + 1
            rows = slice(int(ends[first] - given["sizes"][first]), int(ends[last - 1]))
            valid = slice(int(valid_ends[first] - given["held"][first]), int(valid_ends[last - 1]))
            writer.add(
                train=(given["x"][rows], given["y"][rows], given["sizes"][first:last]),
                validation=(
                    given["valid_x"][valid],
                    given["valid_y"][valid],
                    given["held"][first:last],
                ),
                features=given["features"][first:last],
            )


def checked(folder: Path) -> Result:
    command = typer.Typer()
    command.command()(check)
    return CliRunner().invoke(command, [str(folder)])


def test_a_federation_written_by_ranges_is_that_of_the_arrays(tmp_path: Path) -> None:
    given = material()
    expected = in_memory(given)
    write(given, tmp_path / "ranges")
    to_folder(expected, tmp_path / "whole")
    for name in ("ranges", "whole"):
        opened = open_folder(tmp_path / name)
        assert opened.fingerprint == expected.fingerprint
        assert Federation(**{f.name: getattr(opened, f.name) for f in fields(opened)}).fingerprint
        assert opened.clients.names == range(1500)
        assert np.array_equal(opened.clients.label_counts, expected.clients.label_counts)
        for part in (opened.train, opened.validation, opened.test):
            for array in (part.x, part.y, part.offsets):
                assert isinstance(array, np.memmap)
        assert check_folder(tmp_path / name) is None
    meta = json.loads((tmp_path / "whole" / "meta.json").read_text())
    assert meta["names"] == 1500 and "label_counts.npy" in meta["digests"]


def test_opening_reads_neither_examples_nor_labels(tmp_path: Path) -> None:
    given = material()
    write(given, tmp_path)
    x = np.load(tmp_path / "train-x.npy", mmap_mode="r+")
    x[17] = np.nan  # what no federation in memory may hold
    x.flush()
    opened = Folder(path=str(tmp_path)).load()
    assert opened.fingerprint == in_memory(given).fingerprint


@pytest.mark.parametrize(
    ("name", "row", "sentence"),
    [
        ("train-x", 2000, r"train-x.npy: some examples of the clients \d+ to \d+ were changed"),
        ("validation-y", 3, r"validation-y.npy: some examples of the clients \d+ to \d+"),
        ("test-x", 0, r"test-x.npy: some of the rows 0 to \d were changed"),
        ("features", 9, r"features.npy: some of the rows 0 to"),
    ],
)
def test_a_changed_range_is_named(
    name: str, row: int, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "BLOCK", 4096)
    given = material()
    write(given, tmp_path)
    rows = np.load(tmp_path / f"{name}.npy", mmap_mode="r+")
    rows[row] = 1 - rows[row]
    rows.flush()
    difference = check_folder(tmp_path)
    assert difference is not None
    assert re.match(sentence, difference)
    if name == "train-x":
        owner = int(np.searchsorted(np.cumsum(given["sizes"]), row, side="right"))
        first, last = (int(word) for word in difference.split() if word.isdigit())
        assert first <= owner <= last < first + 400
    result = checked(tmp_path)
    assert result.exit_code == 1 and name in result.output


def test_an_unchanged_folder_passes_the_command(tmp_path: Path) -> None:
    write(material(), tmp_path)
    result = checked(tmp_path)
    assert result.exit_code == 0 and "is unchanged" in result.output


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("x", np.nan, "x must be finite"),
        ("y", 4, "label"),
        ("sizes", 0, "training example"),
    ],
)
def test_a_range_that_cannot_be_trained_on_is_refused(
    key: str, value: float, sentence: str, tmp_path: Path
) -> None:
    given = material(30)
    if key == "sizes":
        given["sizes"][3], given["sizes"][2] = 0, given["sizes"][2] + given["sizes"][3]
    else:
        given[key][5] = value
    with pytest.raises(DataError, match=sentence):
        write(given, tmp_path, ranges=2)
    with pytest.raises(DataError, match="is not a complete folder"):
        open_folder(tmp_path)


def test_ranges_of_other_types_or_arrays_are_refused(tmp_path: Path) -> None:
    rows = (np.zeros((4, 2)), np.zeros(4, dtype=int), np.full(2, 2))
    writer = FolderWriter(tmp_path, name="a", num_labels=1, test=rows[:2])
    with pytest.raises(DataError, match="at least one client, got none"):
        writer.close()
    writer.add(train=rows, features=np.zeros((2, 3)))
    with pytest.raises(DataError, match="one type and shape, float64"):
        writer.add(train=rows, features=np.zeros((2, 2)))
    with pytest.raises(DataError, match="all ranges must have the same arrays"):
        writer.add(train=rows, validation=rows, features=np.zeros((2, 3)))
    with pytest.raises(DataError, match="examples are float32, training examples uint8"):
        writer.add(train=(np.zeros((4, 2), dtype=np.uint8), *rows[1:]))
    writer.close()
    assert len(open_folder(tmp_path)) == 2


def test_a_cut_or_incomplete_folder_is_refused(tmp_path: Path) -> None:
    write(material(), tmp_path)
    path = tmp_path / "train-x.npy"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match="is not a complete folder of a federation"):
        open_folder(tmp_path)
    (tmp_path / "train-x.npy").unlink()
    with pytest.raises(DataError, match="the training or the test part is missing"):
        open_folder(tmp_path)
    with pytest.raises(DataError, match="data.path must be a folder"):
        Folder(path=str(tmp_path / "none")).load()
