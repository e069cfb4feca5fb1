"""A federation written to a folder by ranges of clients, one of which is in memory at a time."""

import os
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from fedgs.arrays import AnyArray, IntArray
from fedgs.clients import Clients
from fedgs.data.archive import meta_of
from fedgs.data.federation import Federation, Part
from fedgs.data.folder import complete_folder
from fedgs.data.numeric import as_examples
from fedgs.errors import DataError
from fedgs.file_writing import errors_named

__all__ = ["FolderWriter", "Rows"]

Rows = tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike]
"""(x, y, sizes) of a range of clients: examples, labels, and (k,) examples of each client."""


class FolderWriter:
    """Writes a federation of labelled examples to a folder, range by range of its clients.

    The clients are named 0, 1, ... in the order of the ranges. Each range is checked like a
    federation: labels in range, finite numbers, at least one training example a client. The folder
    is complete after `close`; without it, `open_folder` refuses it.

    Args:
        folder: made where it does not exist; a federation in it is replaced.
        name: for headings and tables, not empty.
        num_labels: C.
        test: (x, y) of the server's test set.

    Raises:
        DataError: a range that cannot be trained on, or that has another form than the ranges
            before. The folder stays incomplete.

    >>> import tempfile
    >>> from fedgs.data import open_folder
    >>> rng, folder = np.random.default_rng(0), Path(tempfile.mkdtemp())
    >>> test = rng.normal(size=(5, 2)), rng.integers(0, 3, 5)
    >>> with FolderWriter(folder, name="two", num_labels=3, test=test) as writer:
    ...     for _ in range(2):  # ranges of 100 clients, with 4 examples each
    ...         x, y = rng.normal(size=(400, 2)), rng.integers(0, 3, 400)
    ...         writer.add(train=(x, y, np.full(100, 4)))
    >>> federation = open_folder(folder)
    >>> len(federation), federation.train.x.dtype.name, len(federation.train)
    (200, 'float32', 800)
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        name: str,
        num_labels: int,
        test: tuple[npt.ArrayLike, npt.ArrayLike],
    ) -> None:
        self._folder = Path(folder)
        self._name, self._num_labels = name, num_labels
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "meta.json").unlink(missing_ok=True)
        for path in self._folder.glob("*.npy"):
            path.unlink()
        x, y = as_examples(test[0], "test", copy=True), np.asarray(test[1])
        self._test = Part(x, _labels(y), np.array([0, len(y)]))
        self._files: dict[str, _Growing] = {}
        self._offsets: dict[str, list[IntArray]] = {"train": [], "validation": []}
        self._clients = 0

    def add(
        self,
        *,
        train: Rows,
        validation: Rows | None = None,
        features: npt.ArrayLike | None = None,
    ) -> None:
        """Append a range of clients.

        Args:
            train: examples, labels, and the number of examples of each client.
            validation: the same for the validation parts, whose sizes may be 0; in all ranges or
                in none.
            features: (k, d) client features, in all ranges or in none.
        """
        part = _part(train)
        counts = part.label_counts(self._num_labels)
        vectors = None if features is None else np.asarray(features)
        clients = Clients(range(len(counts)), np.diff(part.offsets), counts, vectors)
        federation = Federation(
            self._name,
            clients,
            self._num_labels,
            part,
            None if validation is None else _part(validation),
            self._test,
        )
        columns = {"train-x": part.x, "train-y": part.y, "label_counts": counts.astype(np.int32)}
        sizes = {"train": np.diff(part.offsets)}
        if validation is not None:
            own = _part(validation)
            columns |= {"validation-x": own.x, "validation-y": own.y}
            sizes["validation"] = np.diff(own.offsets)
        if federation.clients.features is not None:
            columns["features"] = federation.clients.features
        if self._files and columns.keys() != self._files.keys():
            raise DataError(
                f"all ranges must have the same arrays, {', '.join(self._files)}; "
                f"got {', '.join(columns)}"
            )
        for key, array in columns.items():  # all are checked before one is written
            self._file(key, array).check(array)
        for key, array in columns.items():
            self._files[key].append(array)
        for key, of_clients in sizes.items():
            self._offsets[key].append(of_clients)
        self._clients += len(counts)

    def close(self) -> None:
        """Complete the folder: offsets, test set, fingerprint and digests, in a pass over it.

        Raises:
            DataError: no client was added.
        """
        if not self._clients:
            raise DataError("a federation needs at least one client, got none")
        for file in self._files.values():
            file.close()
        for key, sizes in self._offsets.items():
            if sizes:
                ends = np.cumsum(np.concatenate(sizes))
                np.save(self._folder / f"{key}-offsets.npy", np.concatenate([[0], ends]))
        for key in ("x", "y", "offsets"):
            np.save(self._folder / f"test-{key}.npy", getattr(self._test, key))
        few = Federation(
            self._name,
            Clients((0,), np.array([len(self._test)])),
            self._num_labels,
            self._test,
            None,
            self._test,
        )
        meta = meta_of(few)
        meta["names"] = list(range(self._clients))
        meta["has_validation"] = bool(self._offsets["validation"])
        complete_folder(self._folder, meta)

    def __enter__(self) -> "FolderWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            for file in self._files.values():
                file.close()

    def _file(self, key: str, array: AnyArray) -> "_Growing":
        if key not in self._files:
            self._files[key] = _Growing(self._folder / f"{key}.npy", array)
        return self._files[key]


class _Growing:
    """An `.npy` file that rows are appended to; its header is written again at the end."""

    def __init__(self, path: Path, like: AnyArray) -> None:
        self._path, self._dtype, self._shape = path, like.dtype, like.shape[1:]
        self._rows = 0
        self._file: BinaryIO = path.open("w+b")
        self._header()

    def check(self, array: AnyArray) -> None:
        if (array.dtype, array.shape[1:]) != (self._dtype, self._shape):
            raise DataError(
                f"all ranges must have arrays of one type and shape, {self._dtype} "
                f"{self._shape} for {self._path.stem}; got {array.dtype} {array.shape[1:]}"
            )

    def append(self, array: AnyArray) -> None:
        with errors_named(self._path):
            self._file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        self._rows += len(array)

    def close(self) -> None:
        if self._file.closed:
            return
        self._file.seek(0)
        self._header()
        self._file.close()

    def _header(self) -> None:
        # NumPy leaves room in the header for the first axis to grow.
        np.lib.format.write_array_header_1_0(
            self._file,
            {
                "descr": np.lib.format.dtype_to_descr(self._dtype),
                "fortran_order": False,
                "shape": (self._rows, *self._shape),
            },
        )


def _part(rows: Rows) -> Part:
    x, y, sizes = rows
    offsets = np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.int64))])
    return Part(as_examples(x, "x", copy=False), _labels(np.asarray(y)), offsets)


def _labels(y: AnyArray) -> AnyArray:
    if y.ndim != 1 or y.dtype.kind not in "iu":
        raise DataError(f"y must be (n,) integer labels, got {y.dtype} of shape {y.shape}")
    return y.astype(np.int64, copy=False)
