"""The byte layouts of the image data sets: gzipped IDX and CIFAR's binary records."""

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedgs.arrays import AnyArray, IntArray
from fedgs.errors import DataError

__all__ = ["read_cifar", "read_fashion_mnist", "read_idx"]

_LABELS = 10
_SIDE = 32
_RECORD = 1 + 3 * _SIDE * _SIDE  # CIFAR10: one label byte, then red, green and blue planes


def read_idx(path: Path, dimensions: int) -> AnyArray:
    """The array of bytes in a gzipped IDX file with the given number of dimensions.

    Raises:
        DataError: not gzip, not IDX of bytes, or more or fewer bytes than its header says.
    """
    try:
        with gzip.open(path, "rb") as file:
            content = file.read()
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(f"{path} is truncated or is not a gzip file: {error}") from None
    start = 4 + 4 * dimensions
    if len(content) < start or content[:4] != bytes((0, 0, 8, dimensions)):
        raise DataError(f"{path} is not an IDX file of bytes with {dimensions} dimensions")
    shape = tuple(
        int(size) for size in np.frombuffer(content, dtype=">u4", count=dimensions, offset=4)
    )
    expected = start + int(np.prod(shape, dtype=np.int64))
    if len(content) != expected:
        raise DataError(
            f"{path} must unpack to {expected} bytes for its shape {shape}, got {len(content)}"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def read_fashion_mnist(folder: Path, part: str) -> tuple[AnyArray, IntArray]:
    """(n, 1, height, width) uint8 images and (n,) labels of one part."""
    images = read_idx(folder / f"{part}-images-idx3-ubyte.gz", 3)
    labels = read_idx(folder / f"{part}-labels-idx1-ubyte.gz", 1)
    if len(images) != len(labels) or len(images) == 0:
        raise DataError(f"{folder} has {len(images)} {part} images and {len(labels)} labels")
    _check_labels(labels, f"{folder / part}-labels")
    return images[:, None], labels.astype(np.int64)


def _check_labels(labels: AnyArray, where: str) -> None:
    """Refuse labels beyond 0..9."""
    if labels.max() >= _LABELS:
        raise DataError(f"{where}: labels must be in 0..{_LABELS - 1}, got {labels.max()}")


def read_cifar(files: Sequence[Path]) -> tuple[AnyArray, IntArray, tuple[AnyArray, IntArray]]:
    """Images (n, 3, 32, 32) uint8 and labels (n,) of the training batches, and the test set.

    The last file holds the test set, which is returned as a pair (images, labels).

    Raises:
        DataError: files that do not hold whole records of 3,073 bytes, the same number each, or
            labels beyond 0..9.
    """
    sizes = [file.stat().st_size for file in files]
    for file, size in zip(files, sizes, strict=True):
        if size == 0 or size % _RECORD or size != max(sizes):
            raise DataError(
                f"{file} must hold whole records of {_RECORD} bytes, as many as the other batches "
                f"({max(sizes) // _RECORD}); it has {size} bytes, so it is truncated or not "
                "CIFAR10's binary layout"
            )
    count = sizes[0] // _RECORD
    x = np.empty(((len(files) - 1) * count, 3, _SIDE, _SIDE), dtype=np.uint8)
    y = np.empty(len(x), dtype=np.int64)
    for position, file in enumerate(files[:-1]):
        rows = slice(position * count, (position + 1) * count)
        x[rows], y[rows] = _read_batch(file)
    return x, y, _read_batch(files[-1])


def _read_batch(file: Path) -> tuple[AnyArray, IntArray]:
    records = np.fromfile(file, dtype=np.uint8).reshape(-1, _RECORD)
    _check_labels(records[:, 0], str(file))
    return records[:, 1:].reshape(-1, 3, _SIDE, _SIDE), records[:, 0].astype(np.int64)
