"""The paper's image data sets, partitioned over clients."""

from pathlib import Path
from typing import ClassVar

from pydantic import Field, model_validator

from fedgs.data.assemble import Labelled, share_out
from fedgs.data.base import Data, Defaults
from fedgs.data.dirichlet import LogNormalDirichlet
from fedgs.data.federation import Federation, Normalization
from fedgs.data.image_files import read_cifar, read_fashion_mnist
from fedgs.data.locate import cache_folder, fetch, find_folder, search_folders, unpack
from fedgs.data.partition import LabelsPerClient, PartitionSetting, as_partition, clients_for
from fedgs.errors import ConfigError, DataError
from fedgs.registry import register, table

__all__ = ["CIFAR10", "FashionMNIST", "ImageData"]


class ImageData(Data):
    """Base of the image data sets.

    A partition shares the training set out over clients, and the server has the official test set.

    Attributes:
        clients: N >= 1.
        validation_fraction: share of each client's examples that is its validation part, in [0, 1);
            drawn uniformly at random.
        drop_empty: leave clients without examples out instead of refusing them.
        partition: which client gets which example, by name, as a table or as an object.
    """

    clients: int = Field(default=100, ge=1)
    validation_fraction: float = Field(default=0.2, ge=0, lt=1)
    drop_empty: bool = False
    partition: PartitionSetting

    def load(self, data_dir: Path | None = None) -> Federation:
        """The federation, from local files or a download.

        Files are searched in `data_dir`, `$FEDGS_DATA`, the cache and the system's folder, in this
        order.

        Raises:
            DataError: files that cannot be found, are truncated or are not what they should be; an
                impossible partition.
        """
        return share_out(
            self.read(data_dir),
            self.partition,
            clients_for(self.partition, self.clients, type(self).model_fields["clients"].default),
            seed=self.seed,
            validation_fraction=self.validation_fraction,
            drop_empty=self.drop_empty,
        )

    def read(self, data_dir: Path | None = None) -> Labelled:
        """The data set as one labelled set, before it is shared out."""
        raise TypeError(f"{type(self).__name__} must define read(data_dir)")


@register("data", "fashion_mnist")
class FashionMNIST(ImageData):
    """FashionMNIST; by default 100 clients of equal size with two labels each, as in the paper.

    Attributes:
        labels_per_client: short for `partition = {name = "labels_per_client", labels = ...}`, which
            replaces it.

    >>> FashionMNIST(labels_per_client=3).partition
    LabelsPerClient(labels=3)
    """

    defaults: ClassVar[Defaults] = Defaults(
        model="fashion_cnn",
        training={
            "rounds": 500,
            "proportion": 0.1,
            "batch_size": 32,
            "local_steps": 10,
            "learning_rate": 0.1,
        },
    )
    partition: PartitionSetting = LabelsPerClient(labels=2)
    labels_per_client: int | None = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, values: dict[str, object]) -> dict[str, object]:
        labels = values.get("labels_per_client")
        if labels is None:
            return values
        wanted = LabelsPerClient.model_validate({"labels": labels})
        given = as_partition(values.get("partition"))
        if given is not None and given != wanted:
            raise ConfigError(
                f"data.labels_per_client = {labels} and data.partition = {table(given)} contradict "
                "each other; give one of them"
            )
        return {**values, "partition": wanted, "labels_per_client": None}

    @property
    def title(self) -> str:
        """FashionMNIST."""
        return "FashionMNIST"

    def read(self, data_dir: Path | None = None) -> Labelled:
        """FashionMNIST from its four IDX files: (n, 1, 28, 28) uint8."""
        folders = search_folders(data_dir, ("fashion-mnist", "FashionMNIST/raw"), _FASHION_SYSTEM)
        folder = find_folder(list(_FASHION_FILES), folders)
        if folder is None:
            folder = fetch(
                _FASHION_URL, _FASHION_FILES, cache_folder() / "fashion-mnist", searched=folders
            )
        (x, y), test = read_fashion_mnist(folder, "train"), read_fashion_mnist(folder, "t10k")
        return Labelled(self.title, x, y, test, 10, Normalization(255.0, (0.1307,), (0.3081,)))


_FASHION_SYSTEM = ("/usr/share/datasets/fashion-mnist",)  # where Debian's package puts them
_FASHION_URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
_FASHION_FILES = {
    "train-images-idx3-ubyte.gz": "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "md5:25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "md5:bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "md5:bb300cfdad3c16e7a12a480ee83cd310",
}


@register("data", "cifar10")
class CIFAR10(ImageData):
    """CIFAR10; by default the paper's 100 clients of log-normal sizes with Dirichlet labels.

    >>> CIFAR10().partition.concentration
    1.75
    """

    defaults: ClassVar[Defaults] = Defaults(
        model="cifar_cnn",
        training={
            "rounds": 1000,
            "proportion": 0.1,
            "batch_size": 32,
            "local_steps": 10,
            "learning_rate": 0.03,
        },
    )
    partition: PartitionSetting = LogNormalDirichlet()

    @property
    def title(self) -> str:
        """CIFAR10."""
        return "CIFAR10"

    def read(self, data_dir: Path | None = None) -> Labelled:
        """CIFAR10 from the six files of its binary layout: (n, 3, 32, 32) uint8."""
        folders = search_folders(data_dir, (_CIFAR_FOLDER,))
        folder = find_folder(_CIFAR_FILES, folders) or self._other_folder(folders)
        x, y, test = read_cifar([folder / name for name in _CIFAR_FILES])
        scaling = Normalization(255.0, (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
        return Labelled(self.title, x, y, test, 10, scaling)

    @staticmethod
    def _other_folder(folders: list[Path]) -> Path:
        """The folder of the downloaded files.

        Raises:
            DataError: the searched folders hold the pickled layout instead of the binary one.
        """
        for folder in folders:
            for place in (folder, folder / "cifar-10-batches-py"):
                if (place / "data_batch_1").is_file():
                    raise DataError(
                        f"{place} holds CIFAR10's pickled layout, but the binary one is read: "
                        f"download {_CIFAR_URL}{_CIFAR_ARCHIVE}, unpack it and name the folder "
                        f"that holds {_CIFAR_FOLDER} with --data-dir or FEDGS_DATA"
                    )
        cache = cache_folder()
        fetch(_CIFAR_URL, {_CIFAR_ARCHIVE: _CIFAR_HASH}, cache, searched=folders)
        members = [f"{_CIFAR_FOLDER}/{name}" for name in _CIFAR_FILES]
        return unpack(cache / _CIFAR_ARCHIVE, members, cache) / _CIFAR_FOLDER


_CIFAR_URL = "https://www.cs.toronto.edu/~kriz/"
_CIFAR_ARCHIVE = "cifar-10-binary.tar.gz"
_CIFAR_HASH = "md5:c32a1d4ab5d03f1284b67883e8d87530"
_CIFAR_FOLDER = "cifar-10-batches-bin"
_CIFAR_FILES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
