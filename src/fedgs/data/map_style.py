"""Federations from map-style datasets, as torch and Hugging Face `datasets` have them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from fedgs.arrays import AnyArray, IntArray
from fedgs.data.assemble import Labelled, hold_out, share_out, split_of_clients
from fedgs.data.federation import WAYS, Federation
from fedgs.data.given import Layout, read_parts
from fedgs.data.groups import Quantiles
from fedgs.data.normalization import as_normalization
from fedgs.data.owners import as_owners
from fedgs.data.partition import Partition, clients_for
from fedgs.data.targets import output_count
from fedgs.errors import DataError
from fedgs.registry import build
from fedgs.rng import stream

__all__ = ["MapStyle", "from_dataset"]

Key = str | int


class MapStyle(Protocol):
    """A dataset whose examples are found by their number."""

    def __len__(self) -> int:
        """The number of examples."""

    def __getitem__(self, index: int, /) -> Any:
        """One example: a tuple, or a mapping of names to values."""


@dataclass(frozen=True)
class Places:
    """Where an item of a dataset has its entries: places in a tuple, or names in a mapping.

    Attributes:
        x: of the example.
        y: of the label or target.
        client: of the owner; None: it is not read.
    """

    x: Key
    y: Key
    client: Key | None = None


@dataclass(frozen=True)
class Items:
    """All examples of a dataset, in its order: examples, labels or targets, and owners."""

    x: list[object]
    y: list[object]
    client: list[object]

    def rows(self, rows: Iterable[int]) -> tuple[object, list[object], list[object]]:
        """Some rows as x, y and client; x is an array where the examples have one shape."""
        picked = [self.x[row] for row in rows]
        client = [self.client[row] for row in rows] if self.client else []
        return _stacked(picked), [self.y[row] for row in rows], client


def from_dataset(
    dataset: MapStyle,
    *,
    x: Key,
    y: Key,
    client: object,
    partition: object,
    clients: int,
    test: MapStyle | float,
    validation_fraction: float,
    seed: int,
    groups: object,
    client_test: bool,
    **settings: Any,
) -> Federation:
    """See `Federation.from_dataset`."""
    named = isinstance(client, Key) and not isinstance(client, bool)
    places = Places(x, y, client if named else None)  # type: ignore[arg-type]
    if (client is None) == (partition is None):
        got = "none" if partition is None else "both"
        raise DataError(f"either client or partition must be given, got {got}")
    fraction = _fraction("test", test) if isinstance(test, int | float) else 0.0
    held_out = _fraction("validation_fraction", validation_fraction)
    items = _read(dataset, places, "dataset")
    split = np.zeros(len(items.y), dtype=np.int64)
    if partition is None:
        items = replace(items, client=_owners(client, items))
        owner = as_owners(items.client, "client")[1]
        split = split_of_clients(owner, fraction, held_out, seed=seed)
    elif fraction:
        split[hold_out(np.arange(len(split)), fraction, stream(seed, "test"))[1]] = 2
    train, validation, tests = (np.flatnonzero(split == code) for code in range(3))
    tested = items.rows(tests)
    if not isinstance(test, int | float):
        tested = _read(test, places if client_test else replace(places, client=None), "test").rows(
            range(len(test))
        )
    chosen = _groups(groups, train, len(split))
    names = _label_names(dataset, places.y)
    if partition is None:
        federation = _owned(
            items, train, validation, tested, groups=chosen, client_test=client_test, **settings
        )
    else:
        if client_test:
            raise DataError("client_test must be left out beside a partition")
        shared_by = build("partition", partition)
        assert isinstance(shared_by, Partition)
        federation = share_out(
            _labelled(items, train, tested, groups=chosen, **settings),
            shared_by,
            clients_for(shared_by, clients, 30),
            seed=seed,
            validation_fraction=held_out,
        )
    facts = {**federation.facts}
    if names and len(names) >= federation.num_labels and federation.task == "classes":
        facts.setdefault("label_names", names[: federation.num_labels])
    return replace(federation, facts=facts)


WAYS["from_dataset"] = from_dataset


def _owned(
    items: Items,
    train: IntArray,
    validation: IntArray,
    tested: tuple[object, list[object], list[object]],
    *,
    client_test: bool,
    **settings: Any,
) -> Federation:
    x, y, client = items.rows(train)
    if client_test and not tested[2]:
        raise DataError("client_test needs the owner of each test example, got a test set without")
    return Federation.from_arrays(
        x,  # type: ignore[arg-type]
        y,  # type: ignore[arg-type]
        client=client,  # type: ignore[arg-type]
        test=tested if client_test else tested[:2],  # type: ignore[arg-type]
        validation=items.rows(validation) if len(validation) else None,  # type: ignore[arg-type]
        **settings,
    )


def _labelled(
    items: Items,
    train: IntArray,
    tested: tuple[object, list[object], list[object]],
    *,
    name: str,
    groups: object,
    classes: int | None = None,
    normalization: object = None,
    **layout: Any,
) -> Labelled:
    x, y, _ = items.rows(train)
    shape = Layout(**layout)
    given = read_parts(
        (x, y, [0] * len(y)), tested[:2], None, client_order="sorted", layout=shape
    ).of_one_type()
    parts = given.parts
    return Labelled(
        name,
        given.train.x,
        given.train.y,
        (given.test.x, given.test.y),
        output_count(
            shape.task, [part.y for part in parts], [part.x for part in parts], classes, clients=1
        ),
        as_normalization(normalization),
        shape.task,
        groups,  # type: ignore[arg-type]
        given.label_names,
    )


def _read(dataset: MapStyle, places: Places, where: str) -> Items:
    """All items, one by one.

    Raises:
        DataError: no length, several splits, or an item without an entry.
    """
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise DataError(
            f"{where} must be a map-style dataset, which has len({where}) and {where}[i], "
            f"got {type(dataset).__name__}"
        )
    if isinstance(dataset, Mapping):
        raise DataError(
            f"{where} must be one of its splits ({', '.join(map(str, dataset))}), "
            f"got {type(dataset).__name__}"
        )
    x: list[object] = []
    y: list[object] = []
    client: list[object] = []
    for index in range(len(dataset)):
        item = dataset[index]
        x.append(_as_array(_entry(item, places.x, "x", where, index)))
        y.append(_plain(_entry(item, places.y, "y", where, index)))
        if places.client is not None:
            client.append(_plain(_entry(item, places.client, "client", where, index)))
    return Items(x, y, client)


def _entry(item: Any, key: Key, setting: str, where: str, index: int) -> object:
    if isinstance(item, Mapping):
        if key in item:
            return item[key]
        raise DataError(
            f"{setting} must be one of the names {', '.join(map(str, item))} of {where}[{index}], "
            f"got {key!r}"
        )
    if isinstance(item, tuple | list) and isinstance(key, int) and -len(item) <= key < len(item):
        return item[key]
    what = f"{len(item)} entries" if isinstance(item, tuple | list) else type(item).__name__
    raise DataError(
        f"{setting} = {key!r} must be a place in the items of {where}, got {what} in "
        f"{where}[{index}]"
    )


def _as_array(value: Any) -> object:
    """An example as an array where it is one; an image of PIL with its channels first."""
    if hasattr(value, "getbands"):
        image = np.asarray(value)
        return image[None] if image.ndim == 2 else np.moveaxis(image, -1, 0)
    return np.asarray(value) if hasattr(value, "__array__") else value


def _plain(value: Any) -> object:
    """A label or owner; a number of NumPy or torch as Python's own."""
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return value.item()
    return np.asarray(value) if hasattr(value, "__array__") else value


def _stacked(examples: list[object]) -> object:
    """One array where all examples are arrays of one shape, else the list."""
    shapes = {example.shape if isinstance(example, np.ndarray) else None for example in examples}
    if len(shapes) != 1 or None in shapes:
        return examples
    array: AnyArray = np.stack(examples)  # type: ignore[arg-type]
    return array[:, None] if array.ndim == 1 else array


def _owners(client: object, items: Items) -> list[object]:
    if items.client:
        return items.client
    owners = list(client) if isinstance(client, Iterable) else []
    if len(owners) != len(items.y):
        raise DataError(
            f"client must be the name or place of the owners, or hold one for each of the "
            f"{len(items.y)} examples, got {len(owners)}"
        )
    return owners


def _groups(groups: object, rows: IntArray, count: int) -> object:
    if groups is None or isinstance(groups, Mapping | Quantiles):
        return groups
    listed = list(groups) if isinstance(groups, Iterable) else []
    if len(listed) != count:
        raise DataError(
            f"groups must have one entry for each of the {count} examples, got {len(listed)}"
        )
    return [listed[row] for row in rows]


def _fraction(setting: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise DataError(f"{setting} must be a share in [0, 1), got {value!r}")
    return float(value)


def _label_names(dataset: object, y: Key) -> list[str] | None:
    """Names of the classes, which Hugging Face has in `features`, torchvision in `classes`."""
    features = getattr(dataset, "features", None)
    if isinstance(features, Mapping) and y in features:
        names = getattr(features[y], "names", None)
    else:
        names = getattr(dataset, "classes", None)
    return [str(name) for name in names] if isinstance(names, list | tuple) else None
