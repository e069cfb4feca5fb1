"""Federations from datasets of the library `datasets`, which is no dependency of the tests."""

import numpy as np
import pytest

from fedgs.data import Federation, Normalization
from fedgs.errors import DataError

datasets = pytest.importorskip("datasets")

COUNT = 40
VECTORS = np.random.default_rng(0).normal(size=(COUNT, 3)).astype(np.float32)
PIXELS = np.random.default_rng(1).integers(0, 256, (COUNT, 8, 6, 3), dtype=np.uint8)
LABELS = np.arange(COUNT) % 3
BYTES = Normalization(255.0, (0.5,) * 3, (0.5,) * 3)


def dataset(name: str = "x", values: object = None, feature: object = None):  # type: ignore[no-untyped-def]
    kinds = {
        name: feature or datasets.Sequence(datasets.Value("float32")),
        "y": datasets.ClassLabel(names=["cat", "dog", "eel"]),
        "who": datasets.Value("string"),
    }
    columns = {name: VECTORS.tolist() if values is None else values, "y": LABELS.tolist()}
    columns["who"] = [f"w{k % 4}" for k in range(COUNT)]
    return datasets.Dataset.from_dict(columns, features=datasets.Features(kinds))


@pytest.mark.parametrize("kind", [None, "numpy", "torch"])
def test_vectors_are_read_in_every_format(kind: str | None) -> None:
    federation = Federation.from_dataset(
        dataset().with_format(kind), x="x", y="y", client="who", test=0.2
    )
    assert federation.clients.names == ("w0", "w1", "w2", "w3")
    assert federation.facts["label_names"] == ["cat", "dog", "eel"]
    parts = (federation.train, federation.validation, federation.test)
    rows = sorted(
        (*x, y)
        for part in parts
        if part is not None
        for x, y in zip(part.x.tolist(), part.y.tolist(), strict=True)
    )
    assert rows == sorted((*x, y) for x, y in zip(VECTORS.tolist(), LABELS.tolist(), strict=True))


def test_images_keep_their_pixels_whether_they_are_files_or_arrays() -> None:
    images = pytest.importorskip("PIL.Image")
    files = dataset("image", [images.fromarray(one) for one in PIXELS], datasets.Image())
    arrays = dataset("image", PIXELS.tolist(), datasets.Array3D((8, 6, 3), "uint8"))
    read = [
        Federation.from_dataset(
            one, x="image", y="y", client="who", test=0.2, normalization=BYTES, **settings
        )
        for one, settings in ((files, {}), (arrays, {"channels": "last"}))
    ]
    assert [one.example_shape for one in read] == [(3, 8, 6)] * 2
    np.testing.assert_array_equal(read[0].train.x, read[1].train.x)
    assert read[0].train.x.dtype == np.uint8  # of files; arrays are int64 in lists


def test_splits_give_the_test_set_and_all_of_them_at_once_are_refused() -> None:
    splits = dataset().train_test_split(0.25, seed=0)
    federation = Federation.from_dataset(
        splits["train"], x="x", y="y", client="who", test=splits["test"]
    )
    assert len(federation.test) == 10
    with pytest.raises(DataError, match="must be one of its splits .*train.*, got DatasetDict"):
        Federation.from_dataset(splits, x="x", y="y", client="who")
    with pytest.raises(DataError, match="map-style dataset, .* got IterableDataset"):
        Federation.from_dataset(dataset().to_iterable_dataset(), x="x", y="y", client="who")
