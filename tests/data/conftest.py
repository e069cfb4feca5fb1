"""Tiny image files in the real layouts, read by the same code as the real ones."""

import functools
import gzip
import http.server
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

TRAIN_IMAGES, TEST_IMAGES = 400, 60


@pytest.fixture(autouse=True)
def nothing_is_found_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No file of this machine is found by accident, and nothing is downloaded."""
    monkeypatch.setenv("FEDGS_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("fedgs.data.images._FASHION_SYSTEM", ())
    monkeypatch.setattr("fedgs.data.images._FASHION_URL", "http://127.0.0.1:9/")
    monkeypatch.setattr("fedgs.data.images._CIFAR_URL", "http://127.0.0.1:9/")


def write_idx(path: Path, array: np.ndarray) -> None:
    header = bytes((0, 0, 8, array.ndim)) + np.array(array.shape, dtype=">u4").tobytes()
    path.write_bytes(gzip.compress(header + array.astype(np.uint8).tobytes(), mtime=0))


def labelled_images(count: int, shape: tuple[int, ...], seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(count) % 10)
    x = rng.integers(0, 80, (count, *shape)) + 16 * y.reshape(-1, *(1,) * len(shape))
    return x.astype(np.uint8), y


@pytest.fixture
def fashion_folder(tmp_path: Path) -> Path:
    """FashionMNIST's four files with 400 and 60 images of 8x8."""
    folder = tmp_path / "fashion"
    folder.mkdir()
    for part, count, seed in (("train", TRAIN_IMAGES, 0), ("t10k", TEST_IMAGES, 1)):
        x, y = labelled_images(count, (8, 8), seed)
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", x)
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", y)
    return folder


@pytest.fixture
def cifar_writer(tmp_path: Path) -> Callable[[Path], Path]:
    """Writes CIFAR10's six binary files with 80 images each (400 for training) into a folder."""

    def write(folder: Path) -> Path:
        folder.mkdir(parents=True)
        for number in range(6):
            x, y = labelled_images(TRAIN_IMAGES // 5, (3, 32, 32), number)
            name = f"data_batch_{number + 1}.bin" if number < 5 else "test_batch.bin"
            np.hstack([y.astype(np.uint8)[:, None], x.reshape(len(x), -1)]).tofile(folder / name)
        return folder

    return write


@pytest.fixture
def cifar_folder(tmp_path: Path, cifar_writer: Callable[[Path], Path]) -> Path:
    """A folder that holds `cifar-10-batches-bin`."""
    cifar_writer(tmp_path / "cifar" / "cifar-10-batches-bin")
    return tmp_path / "cifar"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder and the address at which this machine serves it."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    folder = tmp_path / "served"
    folder.mkdir()
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()
