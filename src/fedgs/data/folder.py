"""A federation in a folder of memory-mapped arrays, which can be larger than the memory.

Each array is an `.npy` file: `train-x`, `train-y`, `train-offsets`, the same for `validation` and
`test`, and where there are any `features`, `label_counts`, `groups`, `test_offsets` and indices.
`meta.json` is written last. It holds the fingerprint, and a digest for each 16 MB of each file, so
that opening reads neither examples nor labels. What is written has passed all checks.
"""

import json
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, cast

import numpy as np

from fedgs.arrays import AnyArray
from fedgs.clients import Clients
from fedgs.data.archive import PARTS, Meta, meta_of, parts_of
from fedgs.data.base import Data
from fedgs.data.federation import Federation, Part
from fedgs.data.normalization import as_normalization
from fedgs.data.on_demand import FederationOnDemand
from fedgs.data.targets import checked_task
from fedgs.errors import ConfigError, DataError
from fedgs.file_writing import errors_named, write_atomically
from fedgs.registry import build, table

__all__ = ["FORMAT", "check_folder", "complete_folder", "open_folder", "to_folder"]

FORMAT = 2
BLOCK = 1 << 24  # bytes that a digest covers
_ARRAYS = ("features", "label_counts", "groups", "test_offsets")


def to_folder(federation: Federation, folder: Path) -> Path:
    """Write every array to its own `.npy` in `folder`, and return the folder.

    Processes that open the folder share the memory of the examples. Of a federation that makes its
    examples on demand, only the settings are written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "meta.json").unlink(missing_ok=True)
    if isinstance(federation, FederationOnDemand):
        settings = {"format": FORMAT, "on_demand": table(federation.data)}
        write_atomically(folder / "meta.json", json.dumps(settings).encode())
        return folder
    for name, part in parts_of(federation).items():
        for key in ("x", "y", "offsets", "index"):
            _save(folder / f"{name}-{key}.npy", None if part is None else getattr(part, key))
    clients = federation.clients
    counts = clients.label_counts
    if counts is not None and counts.dtype == np.int64 and counts.max(initial=0) < 2**31:
        counts = counts.astype(np.int32)
    _save(folder / "features.npy", clients.features)
    _save(folder / "label_counts.npy", counts)
    _save(folder / "groups.npy", federation.groups)
    _save(folder / "test_offsets.npy", federation.test_offsets)
    complete_folder(folder, meta_of(federation), federation.fingerprint)
    return folder


def complete_folder(folder: Path, meta: Meta, fingerprint: str | None = None) -> None:
    """Write `meta.json`, with the fingerprint and the digests of the arrays in the folder.

    Args:
        folder: holds the arrays, which have been checked.
        meta: names, number of labels and the like.
        fingerprint: of the federation; None: it is computed in a pass over the arrays.
    """
    names = list(meta["names"])
    stored: dict[str, Any] = {
        **meta,
        "format": FORMAT,
        "names": len(names) if names == list(range(len(names))) else names,
    }
    stored["fingerprint"] = fingerprint or _opened(folder, stored).fingerprint
    stored["digests"] = {path.name: list(_digests(path)) for path in sorted(folder.glob("*.npy"))}
    write_atomically(folder / "meta.json", json.dumps(stored).encode())


def open_folder(folder: Path) -> Federation:
    """The federation in a folder that `to_folder` or `FolderWriter` wrote.

    All arrays are memory-mapped: a page of a file is read when its numbers are used. Sizes are
    compared with what was written; `check_folder` compares the content.

    Raises:
        DataError: no such folder, or a file that is missing, cut off or of another format.
    """
    meta = _read_meta(folder)
    if "on_demand" in meta:
        return _made_again(folder, meta["on_demand"])
    return _opened(folder, meta)


def check_folder(folder: Path) -> str | None:
    """The first difference between the arrays of a folder and their digests, or None.

    All files are read once.

    Raises:
        DataError: the folder cannot be opened.
    """
    meta = _read_meta(folder)
    if "on_demand" in meta:
        _made_again(folder, meta["on_demand"])
        return None
    federation = _opened(folder, meta)
    for name, digests in meta["digests"].items():
        for block, digest in enumerate(_digests(folder / name)):
            if digest != digests[block]:
                return f"{name}: {_place(federation, folder / name, block)} were changed"
    return None


def _read_meta(folder: Path) -> dict[str, Any]:
    path = folder / "meta.json"
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
        if meta["format"] != FORMAT:
            raise DataError(
                f"{path} has format {meta['format']}; this version of fedgs reads format {FORMAT}"
            )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder} is not a complete folder of a federation: {error}") from None
    return cast(dict[str, Any], meta)


def _made_again(folder: Path, settings: Mapping[str, object]) -> Federation:
    """The federation that makes its examples on demand, from the settings of its data set."""
    try:
        data = build("data", settings)
    except ConfigError as error:
        raise DataError(f"{folder} is not a complete folder of a federation: {error}") from None
    assert isinstance(data, Data)
    return data.load()


def _opened(folder: Path, meta: dict[str, Any]) -> Federation:
    """The federation without any check that reads examples or labels."""
    try:
        arrays = {name: _mapped(folder / f"{name}.npy") for name in _ARRAYS}
        parts = {name: _stored_part(folder, name) for name in PARTS}
        train, test = parts["train"], parts["test"]
        names = meta["names"]
        if train is None or test is None:
            raise DataError("the training or the test part is missing")
        for name, part in parts.items():
            if part is not None and not len(part.x) == len(part.y) == int(part.offsets[-1]):
                raise DataError(f"the arrays of {name} differ in length")
        clients = Clients(
            names=range(names) if type(names) is int else tuple(names),
            data_sizes=np.diff(train.offsets),
            label_counts=arrays["label_counts"],
            features=arrays["features"],
            classes=meta["num_labels"] if meta.get("classes_given") else None,
        )
        federation = object.__new__(Federation)
        fields = {
            "name": meta["name"],
            "clients": clients,
            "num_labels": meta["num_labels"],
            "train": train,
            "validation": parts["validation"] if meta["has_validation"] else None,
            "test": test,
            "normalization": as_normalization(meta["normalization"]),
            "facts": meta["facts"],
            "task": checked_task(meta.get("task", "classes")),
            "groups": arrays["groups"],
            "test_offsets": arrays["test_offsets"],
        }
        if "fingerprint" in meta:  # a cached property, which would read all data
            fields["fingerprint"] = meta["fingerprint"]
        federation.__setstate__(fields)
        return federation
    except (OSError, ValueError, KeyError, TypeError, DataError) as error:
        raise DataError(f"{folder} is not a complete folder of a federation: {error}") from None


def _stored_part(folder: Path, name: str) -> Part | None:
    arrays = {key: _mapped(folder / f"{name}-{key}.npy") for key in ("x", "y", "offsets", "index")}
    x, y, offsets = arrays["x"], arrays["y"], arrays["offsets"]
    if x is None:
        return None
    if y is None or offsets is None:
        raise DataError(f"the labels or offsets of {name} are missing")
    return Part(x, y, offsets, arrays["index"])


def _mapped(path: Path) -> AnyArray | None:
    if not path.is_file():
        return None
    array = np.load(path, mmap_mode=None if _is_empty(path) else "r")
    return cast(AnyArray, array)


def _is_empty(path: Path) -> bool:
    """Whether the array has no numbers, which cannot be mapped."""
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0
        shape, _, _ = (read if version == (1, 0) else np.lib.format.read_array_header_2_0)(file)
    return 0 in shape


def _save(path: Path, array: AnyArray | None) -> None:
    """Write an array, or remove the file of an earlier one."""
    if array is None:
        path.unlink(missing_ok=True)
        return
    with errors_named(path):
        np.save(path, array)


def _digests(path: Path) -> Iterator[str]:
    """A digest of 16 bytes for each 16 MB of the file."""
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            yield blake2b(block, digest_size=16).hexdigest()


def _place(federation: Federation, path: Path, block: int) -> str:
    """What a block of a file holds, in words."""
    array = _mapped(path)
    rows = 1 if array is None or array.ndim == 0 else len(array)
    header = 0 if array is None else path.stat().st_size - array.nbytes
    width = 1 if array is None else max(1, array.nbytes // max(1, rows))
    first = min(max(0, block * BLOCK - header) // width, rows - 1)
    last = min(max(0, (block + 1) * BLOCK - header - 1) // width, rows - 1)
    part_name, _, key = path.stem.partition("-")
    part = parts_of(federation).get(part_name)
    if part is None or key not in ("x", "y", "index") or part_name == "test":
        return f"some of the rows {first} to {last}"
    owners = np.searchsorted(part.offsets, [first, last], side="right") - 1
    names = [federation.clients.names[int(owner)] for owner in owners]
    return f"some examples of the clients {names[0]!r} to {names[1]!r}"
