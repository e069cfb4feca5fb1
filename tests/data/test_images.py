"""Image data sets from files in the real layouts; broken files in one sentence."""

import functools
import gzip
import hashlib
import http.server
import io
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from fedgs.data import CIFAR10, FashionMNIST, Iid, LabelsPerClient
from fedgs.data.locate import fetch
from fedgs.errors import ConfigError, DataError
from fedgs.registry import build, table

TINY_CIFAR = CIFAR10(clients=10, partition={"name": "lognormal_dirichlet", "tolerance": 0.5})


def test_fashion_mnist_is_read_and_shared_out(fashion_folder: Path) -> None:
    federation = FashionMNIST(clients=20).load(fashion_folder)
    assert (federation.name, len(federation), federation.example_shape) == (
        "FashionMNIST",
        20,
        (1, 8, 8),
    )
    assert federation.train.x.dtype == np.uint8
    assert federation.clients.data_sizes.tolist() == [16] * 20  # 400 / 20, a fifth of it held out
    assert federation.validation is not None
    together = federation.train.label_counts(10) + federation.validation.label_counts(10)
    assert ((together > 0).sum(axis=1) == 2).all()
    assert ((together > 0).sum(axis=0) == 4).all()  # 20 clients x 2 labels / 10 labels
    assert len(federation.test) == 60


def test_pixels_follow_their_labels_and_are_normalised_channel_by_channel(
    fashion_folder: Path,
) -> None:
    federation = FashionMNIST(clients=20).load(fashion_folder)
    x, y = federation.train.x, federation.train.y
    assert (
        (x >= 16 * y[:, None, None, None]) & (x < 16 * y[:, None, None, None] + 80)
    ).all()  # how the fixture makes them
    assert federation.normalization is not None
    expected = (x[0, 0, 3, 4] / 255 - 0.1307) / 0.3081
    assert federation.normalization.apply(x[:1])[0, 0, 3, 4] == pytest.approx(expected, rel=1e-5)


def test_cifar10_is_read_from_the_binary_layout(cifar_folder: Path) -> None:
    federation = TINY_CIFAR.load(cifar_folder)
    assert (federation.name, len(federation), federation.example_shape) == (
        "CIFAR10",
        10,
        (3, 32, 32),
    )
    assert federation.validation is not None
    assert len(federation.train) + len(federation.validation) == 400
    assert (
        federation.train.x.reshape(len(federation.train), -1).min(axis=1) // 16
        <= federation.train.y
    ).all()
    assert np.array_equal(
        federation.train.x.min(axis=(1, 2, 3)) // 16, federation.train.y
    )  # 3,072 pixels reach the minimum
    assert federation.normalization is not None
    assert len(federation.normalization.mean) == 3
    assert set(federation.facts) == {"partition", "concentration", "draws", "mismatch", "shift"}


def test_the_folder_of_the_batches_itself_will_do(cifar_folder: Path) -> None:
    direct = TINY_CIFAR.load(cifar_folder / "cifar-10-batches-bin")
    assert direct.fingerprint == TINY_CIFAR.load(cifar_folder).fingerprint


@pytest.mark.parametrize("variant", [FashionMNIST(clients=10), TINY_CIFAR])
def test_two_calls_give_the_same_federation_and_another_seed_another(
    variant: FashionMNIST | CIFAR10, fashion_folder: Path, cifar_folder: Path
) -> None:
    folder = fashion_folder if variant.name == "fashion_mnist" else cifar_folder
    first, again = variant.load(folder), variant.load(folder)
    other = variant.model_copy(update={"seed": 1}).load(folder)
    assert first.fingerprint == again.fingerprint
    assert first.fingerprint != other.fingerprint


@pytest.mark.parametrize(
    "partition",
    ["iid", "shards", "dirichlet_over_classes", {"name": "dirichlet_over_clients", "minimum": 3}],
)
def test_any_partition_goes_with_any_images(partition: object, fashion_folder: Path) -> None:
    data = build("data", {"name": "fashion_mnist", "clients": 8, "partition": partition})
    federation = data.load(fashion_folder)  # type: ignore[attr-defined]
    assert federation.facts["partition"] == table(build("partition", partition))
    assert build("data", table(data)) == data


def test_more_clients_than_images_are_refused_or_left_out(fashion_folder: Path) -> None:
    with pytest.raises(DataError, match=r"client 400 has no training example \(and 4 more\)"):
        FashionMNIST(clients=405, partition=Iid()).load(fashion_folder)
    federation = FashionMNIST(clients=405, partition=Iid(), drop_empty=True).load(fashion_folder)
    assert len(federation) == 400
    assert federation.facts["left_out"] == [400, 401, 402, 403, 404]


def test_files_are_searched_in_data_dir_then_environment_then_cache(
    fashion_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = FashionMNIST(clients=10)
    expected = data.load(fashion_folder).fingerprint
    monkeypatch.setenv("FEDGS_DATA", str(fashion_folder))
    assert data.load(tmp_path / "nothing here").fingerprint == expected
    monkeypatch.setenv("FEDGS_DATA", "")
    (tmp_path / "cache" / "fedgs").mkdir(parents=True)
    fashion_folder.rename(tmp_path / "cache" / "fedgs" / "fashion-mnist")
    assert data.load().fingerprint == expected


def test_missing_files_name_the_places_and_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match=r"train-images-idx3-ubyte.gz is not in .*nowhere.*put the files into a folder and name it",
    ):
        FashionMNIST().load(tmp_path / "nowhere")


def test_the_pickled_layout_is_met_with_a_way_to_the_binary_one(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    (folder / "data_batch_1").write_bytes(b"\x80\x04")
    with pytest.raises(
        DataError,
        match=r"pickled layout, but the binary one is read: download .*cifar-10-binary.tar.gz",
    ):
        CIFAR10().load(tmp_path)


# --- broken files
# -----------------------------------------------------------------------------------------------------------


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
        match=rf"data_batch_3.bin must hold whole records of 3073 bytes.*\(80\); it has {kept} bytes",
    ):
        CIFAR10().load(cifar_folder)


def test_cifar_labels_out_of_range(cifar_folder: Path) -> None:
    path = cifar_folder / "cifar-10-batches-bin" / "test_batch.bin"
    path.write_bytes(bytes([10]) + path.read_bytes()[1:])
    with pytest.raises(DataError, match=r"test_batch.bin: labels must be in 0..9, got 10"):
        CIFAR10().load(cifar_folder)


# --- settings
# ---------------------------------------------------------------------------------------------------------------


def test_labels_per_client_is_short_for_the_partition() -> None:
    short = FashionMNIST(labels_per_client=3)
    assert short == FashionMNIST(partition=LabelsPerClient(labels=3))
    assert table(short)["partition"] == {"name": "labels_per_client", "labels": 3}
    assert FashionMNIST(labels_per_client=3, partition=LabelsPerClient(labels=3)) == short


def test_labels_per_client_beside_another_partition_is_refused() -> None:
    with pytest.raises(
        ConfigError,
        match=r"data.labels_per_client = 3 and data.partition = .*iid.* contradict each other",
    ):
        FashionMNIST(labels_per_client=3, partition=Iid())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"partition": "dirichlet"}, "partition.name must be one of iid, shards.*got 'dirichlet'"),
        (
            {"partition": {"name": "shards", "per_clinet": 2}},
            "partition.per_clinet is not a setting; known are per_client; did you",
        ),
        (
            {"validation_fraction": 1.0},
            r"data.validation_fraction:? should be less than 1, got 1.0",
        ),
        ({"clients": 0}, r"data.clients:? should be greater than or equal to 1, got 0"),
    ],
)
def test_wrong_settings_are_one_sentence(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build("data", {"name": "cifar10", **settings})


# --- downloads
# --------------------------------------------------------------------------------------------------------------


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


def md5(path: Path) -> str:
    return "md5:" + hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def test_fashion_mnist_is_downloaded_into_the_cache_with_a_hash_check(
    served: tuple[Path, str], fashion_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pooch")
    folder, url = served
    expected = FashionMNIST(clients=10).load(fashion_folder).fingerprint
    hashes = {path.name: md5(path) for path in fashion_folder.iterdir()}
    for path in list(fashion_folder.iterdir()):
        path.rename(folder / path.name)
    monkeypatch.setattr("fedgs.data.images._FASHION_URL", url)
    monkeypatch.setattr("fedgs.data.images._FASHION_FILES", hashes)
    assert FashionMNIST(clients=10).load().fingerprint == expected
    assert sorted(
        path.name for path in (tmp_path / "cache" / "fedgs" / "fashion-mnist").iterdir()
    ) == sorted(hashes)


def test_cifar10_is_downloaded_and_unpacked(
    served: tuple[Path, str], cifar_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("pooch")
    folder, url = served
    expected = TINY_CIFAR.load(cifar_folder).fingerprint
    archive = folder / "cifar-10-binary.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(cifar_folder / "cifar-10-batches-bin", arcname="cifar-10-batches-bin")
        info = tarfile.TarInfo("../outside.bin")  # members that nobody asked for are left alone
        info.size = 3
        tar.addfile(info, io.BytesIO(b"bad"))
    monkeypatch.setattr("fedgs.data.images._CIFAR_URL", url)
    monkeypatch.setattr("fedgs.data.images._CIFAR_HASH", md5(archive))
    assert TINY_CIFAR.load(tmp_path / "nowhere").fingerprint == expected
    assert TINY_CIFAR.load().fingerprint == expected  # from the cache now
    assert not list(tmp_path.rglob("outside.bin"))


def test_a_download_with_the_wrong_hash_is_refused_and_not_kept(
    served: tuple[Path, str], tmp_path: Path
) -> None:
    pytest.importorskip("pooch")
    folder, url = served
    (folder / "a.bin").write_bytes(b"something else")
    with pytest.raises(DataError, match=r"a.bin has the wrong hash, so it was not kept"):
        fetch(url, {"a.bin": "md5:" + "0" * 32}, tmp_path / "kept", searched=[])
    assert not (tmp_path / "kept" / "a.bin").exists()


def test_a_truncated_archive_is_named(
    served: tuple[Path, str], cifar_writer: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pooch")
    folder, url = served
    archive = folder / "cifar-10-binary.tar.gz"
    archive.write_bytes(gzip.compress(bytes(2000))[:-9])
    monkeypatch.setattr("fedgs.data.images._CIFAR_URL", url)
    monkeypatch.setattr("fedgs.data.images._CIFAR_HASH", md5(archive))
    with pytest.raises(
        DataError, match=r"cifar-10-binary.tar.gz is truncated or not what it should be"
    ):
        TINY_CIFAR.load()


# --- the real files, where they are
# -----------------------------------------------------------------------------------------

DEBIAN = Path("/usr/share/datasets/fashion-mnist")


@pytest.mark.skipif(
    not (DEBIAN / "train-images-idx3-ubyte.gz").is_file(),
    reason="the FashionMNIST files are not there",
)
def test_the_documented_fashion_mnist_federation_is_made_from_the_real_files() -> None:
    federation = FashionMNIST().load(DEBIAN)
    documented = (Path(__file__).parents[2] / "docs" / "reference" / "data.md").read_text(
        encoding="utf-8"
    )
    assert federation.fingerprint in documented
    assert federation.clients.data_sizes.tolist() == [480] * 100  # 60,000 / 100, a fifth held out
    assert federation.clients.label_counts is not None
    assert ((federation.clients.label_counts > 0).sum(axis=0) == 20).all()
    assert len(federation.test) == 10_000
