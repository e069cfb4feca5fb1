"""A federation in one `.npz`: it loads back identically.

The file has the arrays that `File` reads (`x`, `y`, `client`, `split`, `client_features`), rows
ordered by part and client, and in addition `index` (row of the partitioned set) and `fedgs` (names,
labels, normalization and facts as JSON).
"""

import contextlib
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NotRequired, TypedDict

import numpy as np

from fedgs.arrays import AnyArray, IntArray, frozen
from fedgs.clients import Clients
from fedgs.data.checks import check_held
from fedgs.data.classes import given_classes
from fedgs.data.federation import Federation, Normalization, Part
from fedgs.data.normalization import chosen_normalization
from fedgs.data.part import counted_labels
from fedgs.data.targets import Task, checked_task, output_count
from fedgs.errors import DataError, OutputError

__all__ = ["META", "PARTS", "Meta", "assembled", "export", "from_archive", "meta_of", "parts_of"]

META = "fedgs"
_FORMAT = 1
PARTS = ("train", "validation", "test")


class Meta(TypedDict):
    """What is stored about a federation next to its arrays."""

    format: int
    name: str
    names: list[str | int]
    num_labels: int
    normalization: object  # None, or a table with scale, mean and sd
    has_validation: bool
    facts: dict[str, object]
    classes_given: NotRequired[bool]  # only where the number of classes was given
    task: NotRequired[Task]  # only where it is not "classes"


def export(federation: Federation, path: str | Path) -> Path:
    """Write the federation to one uncompressed `.npz` and return its path.

    The file is written completely or not at all.

    Raises:
        DataError: the federation makes its examples on demand.
        OutputError: the folder cannot be written to.
    """
    check_held(federation)
    path = Path(path)
    path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
    parts = [(name, part) for name, part in parts_of(federation).items() if part is not None]
    columns: dict[str, list[AnyArray]] = {
        "x": [part.x for _, part in parts],
        "y": [part.y for _, part in parts],
        "client": [
            np.full(len(part), -1, dtype=np.int64) if name == "test" else _owners(part.offsets)
            for name, part in parts
        ],
        "split": [np.full(len(part), PARTS.index(name), dtype=np.int8) for name, part in parts],
    }
    if federation.test_offsets is not None:
        columns["client"][-1] = _owners(federation.test_offsets)
    if federation.train.index is not None:
        columns["index"] = [_index(part) for _, part in parts]
    if federation.clients.features is not None:
        columns["client_features"] = [federation.clients.features]
    if federation.groups is not None:
        columns["groups"] = [federation.groups]
    columns[META] = [np.array(json.dumps(meta_of(federation)))]
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(partial, "w") as archive:
            for name, pieces in columns.items():
                _write_array(archive, name, pieces)
        partial.replace(path)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error}") from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
    return path


def from_archive(
    arrays: Mapping[str, AnyArray],
    where: str,
    *,
    normalization: Normalization | None = None,
    classes: int | None = None,
    task: Task | None = None,
) -> Federation:
    """The federation that `export` wrote, from the file's arrays; its parts are views of them.

    Args:
        arrays: those of the file.
        where: what messages call the file.
        normalization: for a file without one; None: the file's own.
        classes: C; None: the file's own.
        task: None: the file's own.

    Raises:
        DataError: arrays that are missing or do not fit each other, another normalization or task
            than the file's own, too few classes.
    """
    try:
        meta: Meta = json.loads(str(arrays[META]))
        if meta["format"] != _FORMAT:
            raise DataError(
                f"{where} has format {meta['format']}; this version of fedgs reads format {_FORMAT}"
            )
        split, client = arrays["split"], arrays["client"]
        x, y = frozen(arrays["x"]), frozen(arrays["y"])
        ends = np.searchsorted(split, [0, 1, 2, 3])
        parts: dict[str, Part | None] = {}
        for code, name in enumerate(PARTS):
            rows = slice(int(ends[code]), int(ends[code + 1]))
            counts = (
                np.bincount(client[rows], minlength=len(meta["names"]))
                if code < 2
                else [rows.stop - rows.start]
            )
            offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            index = arrays["index"][rows] if "index" in arrays and code < 2 else None
            parts[name] = Part(x[rows], y[rows], offsets, index)
        scaling = chosen_normalization(normalization, meta["normalization"], where)
        stored = checked_task(meta.get("task", "classes"))
        if task not in (None, stored):
            raise DataError(
                f"data.task must be left out or equal to the one stored in {where}, {stored!r}, "
                f"got {task!r}"
            )
        task = stored
        if task in ("classes", "sequence"):
            meta["num_labels"] = output_count(
                task,
                [arrays["y"]],
                [arrays["x"]],
                meta["num_labels"] if classes is None else classes,
                clients=len(meta["names"]),
                setting="data.classes",
            )
        if classes is not None and task == "classes":
            meta["classes_given"] = given_classes([arrays["y"]], classes) is not None
        return assembled(
            meta,
            parts,
            scaling,
            features=arrays.get("client_features"),
            groups=arrays.get("groups"),
            test_offsets=_test_offsets(client[int(ends[2]) : int(ends[3])], len(meta["names"])),
        )
    except (KeyError, ValueError, TypeError, IndexError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{where} is not a federation that fedgs exported: {error!r}") from None


def parts_of(federation: Federation) -> dict[str, Part | None]:
    """The parts of a federation by their names in files."""
    return {
        "train": federation.train,
        "validation": federation.validation,
        "test": federation.test,
    }


def meta_of(federation: Federation) -> Meta:
    """What is stored about a federation next to its arrays."""
    scaling = federation.normalization
    meta: Meta = {
        "format": _FORMAT,
        "name": federation.name,
        "names": list(federation.clients.names),
        "num_labels": federation.num_labels,
        "normalization": scaling
        and {"scale": scaling.scale, "mean": list(scaling.mean), "sd": list(scaling.sd)},
        "has_validation": federation.validation is not None,
        "facts": dict(federation.facts),
    }
    if federation.clients.classes is not None:
        meta["classes_given"] = True
    if federation.task != "classes":
        meta["task"] = federation.task
    return meta


def assembled(
    meta: Meta,
    parts: Mapping[str, Part | None],
    scaling: Normalization | None,
    *,
    features: AnyArray | None,
    groups: IntArray | None,
    test_offsets: IntArray | None,
) -> Federation:
    """The federation of stored arrays, with all checks."""
    train, test = parts["train"], parts["test"]
    assert train is not None
    assert test is not None
    num_labels, task = meta["num_labels"], checked_task(meta.get("task", "classes"))
    clients = Clients(
        names=tuple(meta["names"]),
        data_sizes=np.diff(train.offsets),
        label_counts=counted_labels(train, task, num_labels, groups),
        features=features,
        classes=num_labels if meta.get("classes_given") else None,
    )
    return Federation(
        name=meta["name"],
        clients=clients,
        num_labels=meta["num_labels"],
        train=train,
        validation=parts["validation"] if meta["has_validation"] else None,
        test=test,
        normalization=scaling,
        facts=meta["facts"],
        task=task,
        groups=groups,
        test_offsets=test_offsets,
    )


def _owners(offsets: IntArray) -> IntArray:
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def _test_offsets(owners: IntArray, count: int) -> IntArray | None:
    """(N+1,) offsets of the clients' test examples; None where these have no owners."""
    if len(owners) == 0 or int(owners.min()) < 0:
        return None
    counts = np.bincount(owners, minlength=count)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _index(part: Part) -> IntArray:
    return np.full(len(part), -1, dtype=np.int64) if part.index is None else part.index


def _write_array(archive: zipfile.ZipFile, name: str, pieces: list[AnyArray]) -> None:
    """The pieces one after the other as one array, without a copy that holds them all."""
    shape = (sum(len(piece) for piece in pieces), *pieces[0].shape[1:]) if pieces[0].ndim else ()
    with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
        header = {
            "descr": np.lib.format.dtype_to_descr(pieces[0].dtype),
            "fortran_order": False,
            "shape": shape,
        }
        np.lib.format.write_array_header_2_0(file, header)
        for piece in pieces:
            if piece.size:
                file.write(np.ascontiguousarray(piece).reshape(-1).view(np.uint8).data)
