"""Federations from datasets with items: tuples as torch has them, mappings as Hugging Face has."""

from typing import Any

import numpy as np
import pytest

from fedgs.data import Federation, Normalization
from fedgs.errors import DataError

COUNT = 40


def pairs(count: int = COUNT) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(0)
    return [(rng.normal(size=3).astype(np.float32), k % 4) for k in range(count)]


class Mapped:
    """Items as those of `datasets.Dataset`, with the names of its classes."""

    class Label:
        names = ("cat", "dog", "eel", "fox")

    def __init__(self, count: int = COUNT) -> None:
        self.items = [
            {"image": x, "label": y, "writer": f"w{k % 5}", "stay": k / 8}
            for k, (x, y) in enumerate(pairs(count))
        ]
        self.features = {"label": self.Label(), "image": object()}

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.items[index]


class Image:
    """The part of an image of PIL that is read."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def getbands(self) -> tuple[str, ...]:
        return ("L",)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.array


def test_each_example_of_the_dataset_is_in_one_part_of_its_owner() -> None:
    federation = Federation.from_dataset(Mapped(), x="image", y="label", client="writer")
    assert federation.name == "dataset"
    assert federation.clients.names == ("w0", "w1", "w2", "w3", "w4")
    # of 8 examples, floor(0.2 * 8) are for test and floor(0.2 * 7) for validation
    assert federation.clients.data_sizes.tolist() == [6] * 5
    assert federation.facts["label_names"] == ["cat", "dog", "eel", "fox"]
    assert federation.validation is not None
    parts = (federation.train, federation.validation, federation.test)
    rows = sorted(
        (tuple(x), int(y)) for part in parts for x, y in zip(part.x.tolist(), part.y, strict=True)
    )
    assert rows == sorted((tuple(x.tolist()), y) for x, y in pairs())
    for position, name in enumerate(federation.clients.names):
        mine = {tuple(item["image"].tolist()) for item in Mapped().items if item["writer"] == name}
        assert {
            tuple(x) for x in federation.train.x[federation.train.rows(position)].tolist()
        } < mine


def test_owners_may_be_given_beside_the_dataset() -> None:
    owner = [f"w{k % 5}" for k in range(COUNT)]
    beside = Federation.from_dataset(pairs(), client=owner, name="mine")  # type: ignore[arg-type]
    named = Federation.from_dataset(Mapped(), x="image", y="label", client="writer")
    assert beside.fingerprint == named.fingerprint
    assert beside.name == "mine"
    assert "label_names" not in beside.facts


def test_owners_are_named_by_their_place_in_a_tuple() -> None:
    triples = [(x, y, f"w{k % 5}") for k, (x, y) in enumerate(pairs())]
    named = Federation.from_dataset(Mapped(), x="image", y="label", client="writer")
    for place in (2, -1):
        by_place = Federation.from_dataset(triples, client=place)  # type: ignore[arg-type]
        assert by_place.fingerprint == named.fingerprint
    own = Federation.from_dataset(triples, client=2, client_test=True)  # type: ignore[arg-type]
    assert own.client_test is not None


def test_a_test_dataset_is_the_servers_or_the_clients() -> None:
    given: dict[str, Any] = {"x": "image", "y": "label", "client": "writer", "test": Mapped(10)}
    federation = Federation.from_dataset(Mapped(), validation_fraction=0.0, **given)
    assert federation.clients.data_sizes.tolist() == [8] * 5
    assert federation.test.x.tolist() == [item["image"].tolist() for item in Mapped(10).items]
    own = Federation.from_dataset(Mapped(), client_test=True, **given)
    assert own.client_test is not None
    assert np.diff(own.client_test.offsets).tolist() == [2] * 5
    with pytest.raises(DataError, match="client_test needs the owner of each test example"):
        Federation.from_dataset(
            pairs(),  # type: ignore[arg-type]
            client=["a"] * COUNT,
            test=pairs(5),  # type: ignore[arg-type]
            client_test=True,
        )


def test_the_share_of_each_client_for_test_may_be_its_own() -> None:
    federation = Federation.from_dataset(
        Mapped(), x="image", y="label", client="writer", test=0.5, client_test=True
    )
    assert federation.client_test is not None
    assert np.diff(federation.client_test.offsets).tolist() == [4] * 5


def test_a_dataset_is_shared_out_by_a_partition() -> None:
    federation = Federation.from_dataset(
        pairs(),  # type: ignore[arg-type]
        partition={"name": "labels_per_client", "labels": 2},
        clients=4,
        test=pairs(8),  # type: ignore[arg-type]
        validation_fraction=0.0,
        seed=2,
    )
    assert federation.clients.data_sizes.tolist() == [10] * 4
    assert len(federation.test) == 8
    held = federation.label_counts
    assert held is not None and ((held > 0).sum(axis=1) == 2).all()
    drawn = Federation.from_dataset(pairs(), partition="iid", clients=4)  # type: ignore[arg-type]
    assert len(drawn.test) == 8  # floor(0.2 * 40)
    stays = Federation.from_dataset(
        Mapped(),
        x="image",
        y="stay",
        partition="shards",
        clients=4,
        task="regression",
        groups={"quantiles": 2},
    )
    assert stays.label_counts is not None and stays.label_counts.shape == (4, 2)


def test_images_of_pil_get_their_channels_first() -> None:
    rng = np.random.default_rng(0)
    grey = [(Image(rng.integers(0, 255, (5, 6), dtype=np.uint8)), k % 2) for k in range(10)]
    colour = [(Image(rng.integers(0, 255, (5, 6, 3), dtype=np.uint8)), k % 2) for k in range(10)]
    for items, channels in ((grey, 1), (colour, 3)):
        federation = Federation.from_dataset(
            items,  # type: ignore[arg-type]
            client=[0, 1] * 5,
            normalization=Normalization(255.0),
        )
        assert federation.example_shape == (channels, 5, 6)
        assert federation.train.x.dtype == np.uint8
    last = [(np.asarray(image), y) for image, y in colour]
    federation = Federation.from_dataset(
        last,  # type: ignore[arg-type]
        client=[0, 1] * 5,
        channels="last",
        normalization=Normalization(255.0),
    )
    assert federation.example_shape == (3, 5, 6)


def test_tensors_and_examples_of_unequal_length_are_read() -> None:
    torch = pytest.importorskip("torch")
    items = [(torch.ones(1 + k % 3, 2), torch.tensor(k % 2)) for k in range(12)]
    federation = Federation.from_dataset(items, client=[0, 1] * 6, mask=True)
    assert federation.example_shape == (3, 3)
    assert federation.num_labels == 2
    with pytest.raises(DataError, match="x must have rows of one shape"):
        Federation.from_dataset(items, client=[0, 1] * 6)
    stacked = torch.utils.data.TensorDataset(torch.arange(12.0), torch.arange(12) % 3)
    assert Federation.from_dataset(stacked, client=[0, 1] * 6).example_shape == (1,)


@pytest.mark.parametrize(
    ("dataset", "settings", "message"),
    [
        (iter(pairs()), {}, "dataset must be a map-style dataset, which has len"),
        ({"train": pairs(), "test": pairs()}, {}, r"one of its splits \(train, test\), got dict"),
        (pairs(), {"test": iter(pairs())}, "test must be a map-style dataset"),
        (pairs(), {"test": 1.5}, r"test must be a share in \[0, 1\), got 1.5"),
        (pairs(), {"validation_fraction": -1}, "validation_fraction must be a share"),
        (pairs(), {"client": None}, "either client or partition must be given, got none"),
        (pairs(), {"partition": "iid"}, "either client or partition must be given, got both"),
        (pairs(), {"client": [1, 2]}, "one for each of the 40 examples, got 2"),
        (pairs(), {"y": 2}, r"y = 2 must be a place in .*, got 2 entries in dataset\[0\]"),
        (pairs(), {"client": 2}, r"client = 2 must be a place in .*, got 2 entries in dataset"),
        (pairs(), {"client": True}, "one for each of the 40 examples, got 0"),
        (pairs(), {"client": "writer"}, "client = 'writer' must be a place in the items"),
        (Mapped(), {}, r"x must be one of the names image, label, .* of dataset\[0\], got 0"),
        ([1.0] * 5, {"client": [0] * 5}, "got float in dataset"),
        ([("cat", 0)] * 9, {"client": [0] * 9}, "x must hold numbers or booleans, got texts"),
        (pairs(), {"groups": [0], "task": "regression"}, "groups must have one entry for each"),
        (
            pairs(),
            {"client": None, "partition": "iid", "client_test": True},
            "client_test must be left out beside a partition",
        ),
    ],
)
def test_other_datasets_are_refused(dataset: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Federation.from_dataset(dataset, **{"client": [0, 1] * 20, **settings})
