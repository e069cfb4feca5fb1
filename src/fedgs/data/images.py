"""The paper's image data sets, partitioned over clients."""

import gzip
import zlib
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, model_validator

from fedgs.arrays import AnyArray, IntArray
from fedgs.data.assemble import Labelled, federate
from fedgs.data.base import Data, Defaults
from fedgs.data.federation import Federation, Normalization
from fedgs.data.locate import cache_folder, fetch, find_folder, search_folders
from fedgs.data.partition import LabelsPerClient, PartitionSetting, as_partition
from fedgs.errors import ConfigError, DataError
from fedgs.registry import register, table
from fedgs.rng import stream

__all__ = ["FashionMNIST", "ImageData", "read_idx"]

_LABELS = 10


class ImageData(Data):
    """Base of the image data sets: a training set that a partition shares out, and the official test set at the server.

    Attributes:
        clients: N >= 1.
        validation_fraction: share of each client's examples that is its validation part, in [0, 1); drawn plainly at random.
        drop_empty: leave clients without examples out instead of refusing them.
        partition: who gets what, by name, as a table or as an object.
    """

    clients: int = Field(default=100, ge=1)
    validation_fraction: float = Field(default=0.2, ge=0, lt=1)
    drop_empty: bool = False
    partition: PartitionSetting

    def load(self, data_dir: Path | None = None) -> Federation:
        """The federation, from files in `data_dir`, `$FEDGS_DATA`, the cache, the system's folder, or else downloaded.

        Raises:
            DataError: files that cannot be found, are truncated or are not what they should be; an impossible partition.
        """
        source = self.read(data_dir)
        assignment = self.partition.assign(source.y, self.clients, stream(self.seed, "partition"))
        return federate(
            source,
            assignment,
            validation_fraction=self.validation_fraction,
            seed=self.seed,
            drop_empty=self.drop_empty,
        )

    def read(self, data_dir: Path | None = None) -> Labelled:
        """The data set as one labelled set, before it is shared out."""
        raise TypeError(f"{type(self).__name__} must define read(data_dir)")


@register("data", "fashion_mnist")
class FashionMNIST(ImageData):
    """FashionMNIST; by default 100 clients of equal size with two different labels each, as in the paper.

    Attributes:
        labels_per_client: short for `partition = {name = "labels_per_client", labels = ...}`; turned into it.

    >>> FashionMNIST(labels_per_client=3).partition
    LabelsPerClient(labels=3)
    """

    defaults: ClassVar[Defaults] = Defaults(
        model="fashion_cnn",
        training={"rounds": 500, "proportion": 0.1, "batch_size": 32, "local_steps": 10, "learning_rate": 0.1},
    )
    partition: PartitionSetting = LabelsPerClient(labels=2)
    labels_per_client: int | None = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, values: dict[str, Any]) -> dict[str, Any]:
        labels = values.get("labels_per_client")
        if labels is None:
            return values
        wanted = LabelsPerClient(labels=labels)
        given = as_partition(values.get("partition"))
        if given not in (None, wanted):
            raise ConfigError(
                f"data.labels_per_client = {labels} and data.partition = {table(given)} contradict each other; give one of them"
            )
        return {**values, "partition": wanted, "labels_per_client": None}

    @property
    def title(self) -> str:
        """FashionMNIST."""
        return "FashionMNIST"

    def read(self, data_dir: Path | None = None) -> Labelled:
        """FashionMNIST from its four IDX files: (n, 1, 28, 28) uint8."""
        folders = search_folders(data_dir, ("fashion-mnist", "FashionMNIST/raw"), ("/usr/share/datasets/fashion-mnist",))
        folder = find_folder(list(_FASHION_FILES), folders)
        if folder is None:
            folder = fetch(_FASHION_URL, _FASHION_FILES, cache_folder() / "fashion-mnist", searched=folders)
        x, y = _read_pair(folder, "train")
        test_x, test_y = _read_pair(folder, "t10k")
        return Labelled(self.title, x, y, test_x, test_y, _LABELS, Normalization(255.0, (0.1307,), (0.3081,)))


_FASHION_URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
_FASHION_FILES = {
    "train-images-idx3-ubyte.gz": "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "md5:25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "md5:bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "md5:bb300cfdad3c16e7a12a480ee83cd310",
}


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
    shape = tuple(int(size) for size in np.frombuffer(content, dtype=">u4", count=dimensions, offset=4))
    expected = start + int(np.prod(shape, dtype=np.int64))
    if len(content) != expected:
        raise DataError(f"{path} must unpack to {expected} bytes for its shape {shape}, got {len(content)}")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def _read_pair(folder: Path, part: str) -> tuple[AnyArray, IntArray]:
    """(n, 1, height, width) uint8 images and (n,) labels of one part."""
    images = read_idx(folder / f"{part}-images-idx3-ubyte.gz", 3)
    labels = read_idx(folder / f"{part}-labels-idx1-ubyte.gz", 1)
    if len(images) != len(labels) or len(images) == 0:
        raise DataError(f"{folder} has {len(images)} {part} images and {len(labels)} labels")
    check_labels(labels, f"{folder / part}-labels")
    return images[:, None], labels.astype(np.int64)


def check_labels(labels: AnyArray, where: str) -> None:
    """Refuse labels beyond 0..9."""
    if labels.max() >= _LABELS:
        raise DataError(f"{where}: labels must be in 0..{_LABELS - 1}, got {labels.max()}")
