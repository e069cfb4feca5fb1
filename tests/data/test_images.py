"""Image data sets from files in the real layouts."""

from pathlib import Path

import numpy as np
import pytest

from fedgs.data import CIFAR10, FashionMNIST, Iid, LabelsPerClient
from fedgs.data.images import ImageData
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
    # 3,072 pixels reach the minimum
    assert np.array_equal(federation.train.x.min(axis=(1, 2, 3)) // 16, federation.train.y)
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


def test_the_pickled_layout_is_met_with_a_way_to_the_binary_one(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    (folder / "data_batch_1").write_bytes(b"\x80\x04")
    with pytest.raises(
        DataError,
        match=r"pickled layout, but the binary one is read: download .*cifar-10-binary.tar.gz",
    ):
        CIFAR10().load(tmp_path)


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


DEBIAN = Path("/usr/share/datasets/fashion-mnist")


@pytest.mark.skipif(
    not (DEBIAN / "train-images-idx3-ubyte.gz").is_file(),
    reason="the FashionMNIST files are not there",
)
def test_the_documented_fashion_mnist_federation_is_made_from_the_real_files() -> None:
    federation = FashionMNIST().load(DEBIAN)
    documented = (Path(__file__).parents[2] / "docs" / "federations.md").read_text(encoding="utf-8")
    assert federation.fingerprint in documented
    assert federation.clients.data_sizes.tolist() == [480] * 100  # 60,000 / 100, a fifth held out
    assert federation.clients.label_counts is not None
    assert ((federation.clients.label_counts > 0).sum(axis=0) == 20).all()
    assert len(federation.test) == 10_000


def test_an_image_data_set_must_define_read() -> None:
    class Drawings(ImageData):
        pass

    with pytest.raises(TypeError, match=r"Drawings must define read\(data_dir\)"):
        Drawings(partition=Iid()).load()
