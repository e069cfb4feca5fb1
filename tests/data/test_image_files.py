"""Broken image files are reported in one sentence."""

import gzip
from pathlib import Path

import pytest

from fedgs.data import CIFAR10, FashionMNIST
from fedgs.errors import DataError


def test_a_truncated_gzip_file_is_named(fashion_folder: Path) -> None:
    path = fashion_folder / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(
        DataError, match=r"train-images-idx3-ubyte.gz is truncated or is not a gzip file"
    ):
        FashionMNIST().load(fashion_folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"\0\0\x08\x01" + (9).to_bytes(4, "big") + bytes(8),
            r"must unpack to 17 bytes for its shape \(9,\), got 16",
        ),
        (
            b"\0\0\x0d\x01" + (1).to_bytes(4, "big") + bytes(4),
            "is not an IDX file of bytes with 1 dimensions",
        ),
        (b"\0\0", "is not an IDX file of bytes with 1 dimensions"),
        (b"\0\0\x08\x01" + (3).to_bytes(4, "big") + bytes(3), "has 400 train images and 3 labels"),
        (
            b"\0\0\x08\x01" + (400).to_bytes(4, "big") + bytes([11]) * 400,
            r"labels must be in 0..9, got 11",
        ),
    ],
)
def test_labels_that_are_not_what_they_should_be(
    fashion_folder: Path, content: bytes, message: str
) -> None:
    (fashion_folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(content))
    with pytest.raises(DataError, match=message):
        FashionMNIST().load(fashion_folder)


@pytest.mark.parametrize("kept", [3073 * 79, 3073 * 80 - 1, 0])
def test_a_truncated_cifar_batch_is_named_even_at_a_whole_record(
    cifar_folder: Path, kept: int
) -> None:
    path = cifar_folder / "cifar-10-batches-bin" / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(
        DataError,
        match=rf"_3.bin must hold whole records of 3073 bytes.*\(80\); it has {kept} bytes",
    ):
        CIFAR10().load(cifar_folder)


def test_cifar_labels_out_of_range(cifar_folder: Path) -> None:
    path = cifar_folder / "cifar-10-batches-bin" / "test_batch.bin"
    path.write_bytes(bytes([10]) + path.read_bytes()[1:])
    with pytest.raises(DataError, match=r"test_batch.bin: labels must be in 0..9, got 10"):
        CIFAR10().load(cifar_folder)
