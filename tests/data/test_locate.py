"""Where files are searched, and downloads into the cache."""

import gzip
import hashlib
import io
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from fedgs.data import CIFAR10, FashionMNIST
from fedgs.data.locate import fetch, unpack
from fedgs.errors import DataError

TINY_CIFAR = CIFAR10(clients=10, partition={"name": "lognormal_dirichlet", "tolerance": 0.5})


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
        match=r"train-images-idx3-ubyte.gz is not in .*nowhere.*put the files into a folder",
    ):
        FashionMNIST().load(tmp_path / "nowhere")


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


def test_without_pooch_the_extra_and_the_searched_folders_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DataError, match=r"a.bin is not in .*here; .*pip install 'fedgs\[sim\]'"):
        fetch("http://127.0.0.1:9/", {"a.bin": "md5:0"}, tmp_path, searched=[tmp_path / "here"])


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo("data/a.bin")
        member.type = tarfile.DIRTYPE
        tar.addfile(member)
    with pytest.raises(DataError, match="a.tar.gz holds no file data/a.bin"):
        unpack(tmp_path / "a.tar.gz", ["data/a.bin"], tmp_path / "out")
