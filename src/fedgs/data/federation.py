"""A federation: the clients' examples in one contiguous array, with an index range per client."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgs.arrays import AnyArray, FloatArray, IntArray, frozen, private
from fedgs.clients import Clients
from fedgs.errors import DataError

__all__ = ["Federation", "Normalization", "Part"]


@dataclass(frozen=True, eq=False)
class Part:
    """Examples of one split, those of a client next to each other.

    The arrays are read-only: all runs of a federation share them. Arrays that can be written to are copied.

    Attributes:
        x: (n, ...) examples, held as they came (float32 vectors, uint8 images); may be memory-mapped.
        y: (n,) int64 labels 0..C-1.
        offsets: (N+1,) ascending; client k holds rows offsets[k]:offsets[k+1]. The server's test set has offsets (0, n).
        index: (n,) row of each example in the set that was partitioned, or None where there was no such set.
    """

    x: AnyArray
    y: IntArray
    offsets: IntArray
    index: IntArray | None = None

    def __post_init__(self) -> None:
        for name in ("x", "y", "offsets", "index"):
            array = getattr(self, name)
            if array is not None:
                object.__setattr__(self, name, private(array if isinstance(array, np.ndarray) else np.asarray(array)))

    def __len__(self) -> int:
        return len(self.y)

    def rows(self, client: int) -> slice:
        """The rows of one client."""
        return slice(int(self.offsets[client]), int(self.offsets[client + 1]))

    def label_counts(self, num_labels: int) -> IntArray:
        """(N, C) examples by client and label."""
        count = len(self.offsets) - 1
        owner = np.repeat(np.arange(count), np.diff(self.offsets))
        flat = np.bincount(owner * num_labels + self.y, minlength=count * num_labels)
        return flat.reshape(count, num_labels).astype(np.int64)


@dataclass(frozen=True)
class Normalization:
    """How stored examples become model inputs: (x / scale - mean) / sd, channel by channel (axis 1 of x).

    >>> Normalization(scale=255.0, mean=(0.5,), sd=(0.5,)).apply(np.full((1, 1, 2, 2), 255, dtype=np.uint8))[0, 0, 0]
    array([1., 1.], dtype=float32)
    """

    scale: float
    mean: tuple[float, ...]
    sd: tuple[float, ...]

    def apply(self, x: AnyArray) -> npt.NDArray[np.float32]:
        """(b, channels, ...) stored examples -> (b, channels, ...) float32."""
        shape = (1, len(self.mean)) + (1,) * (x.ndim - 2)
        mean = np.asarray(self.mean, dtype=np.float32).reshape(shape)
        sd = np.asarray(self.sd, dtype=np.float32).reshape(shape)
        return (x.astype(np.float32) / np.float32(self.scale) - mean) / sd


@dataclass(frozen=True, eq=False)
class Federation:
    """Clients with their training and validation parts, and the server's test set.

    Attributes:
        name: what the user calls it, such as "Synthetic(0.5, 0.5)".
        clients: names, training sizes, label counts and features.
        num_labels: C, the number of classes.
        train, test: see `Part`.
        validation: the clients' validation parts, or None where there are none.
        normalization: None where x is fed to the model as it is.
        facts: how the federation came about (partition, clients left out, ...), JSON-like; no part of the fingerprint.

    Raises:
        DataError: parts that do not fit the clients, labels out of range, examples with NaN or inf.
    """

    name: str
    clients: Clients
    num_labels: int
    train: Part
    validation: Part | None
    test: Part
    normalization: Normalization | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = len(self.clients)
        if len(self.train.offsets) != count + 1 or np.any(np.diff(self.train.offsets) != self.clients.data_sizes):
            raise DataError("the training part's offsets do not fit the clients' data sizes")
        if self.validation is not None and len(self.validation.offsets) != count + 1:
            raise DataError(f"the validation part must have {count + 1} offsets, got {len(self.validation.offsets)}")
        for label, part in self._parts():
            if len(part.x) != len(part.y) or int(part.offsets[-1]) != len(part.y):
                raise DataError(f"the {label} part has {len(part.x)} examples, {len(part.y)} labels, {part.offsets[-1]} rows")
            if part.x.shape[1:] != self.example_shape:
                raise DataError(f"{label} examples have shape {part.x.shape[1:]}, training examples {self.example_shape}")
            if part.x.dtype != self.train.x.dtype:
                raise DataError(f"{label} examples are {part.x.dtype}, training examples {self.train.x.dtype}")
            if len(part.y) and not (int(part.y.min()) >= 0 and int(part.y.max()) < self.num_labels):
                raise DataError(
                    f"{label} labels must be in 0..{self.num_labels - 1}, got {int(part.y.min())}..{int(part.y.max())}"
                )
            if np.issubdtype(part.x.dtype, np.floating) and not np.isfinite(part.x).all():
                row = int(np.flatnonzero(~np.isfinite(part.x.reshape(len(part.x), -1)).all(axis=1))[0])
                owner = int(np.searchsorted(part.offsets, row, side="right")) - 1
                who = "the test set" if label == "test" else f"client {self.clients.names[owner]!r}"
                raise DataError(f"examples must be finite; {who} has NaN or inf in its {label} part")

    def __len__(self) -> int:
        """N, the number of clients."""
        return len(self.clients)

    @property
    def example_shape(self) -> tuple[int, ...]:
        """Shape of one example: (d,) or (channels, height, width)."""
        return self.train.x.shape[1:]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that the federation holds: equal for equal federations on every machine."""
        digest = hashlib.sha256(repr((self.num_labels, self.normalization, self.clients.names)).encode())
        for label, part in self._parts():
            for array in (part.x, part.y, part.offsets):
                contiguous = np.ascontiguousarray(array)
                digest.update(f"{label} {contiguous.dtype.str} {contiguous.shape}".encode())
                digest.update(contiguous.data if contiguous.size else b"")
        if self.clients.features is not None:
            digest.update(np.ascontiguousarray(self.clients.features).data)
        return digest.hexdigest()

    def _parts(self) -> list[tuple[str, Part]]:
        parts = [("training", self.train), ("validation", self.validation), ("test", self.test)]
        return [(label, part) for label, part in parts if part is not None]

    @staticmethod
    def from_arrays(
        x: AnyArray,
        y: AnyArray,
        *,
        client: AnyArray,
        test: tuple[AnyArray, AnyArray],
        validation: tuple[AnyArray, AnyArray, AnyArray] | None = None,
        client_features: FloatArray | None = None,
        normalization: Normalization | None = None,
        name: str = "arrays",
    ) -> "Federation":
        """A federation from arrays of your own, which are copied.

        Args:
            x: (n, ...) training examples.
            y: (n,) integer labels >= 0.
            client: (n,) the owner of each example (int or str); owners become the clients' names, in sorted order.
            test: (x, y) of the server's test set.
            validation: (x, y, client) of the clients' validation parts, or None.
            client_features: (N, d) vectors u_k for the graph, in the order of the sorted owners.
            normalization: how stored examples become inputs; None: as they are.
            name: for tables.

        Raises:
            DataError: lengths that differ, labels that are not integers, unknown owners, NaN.

        >>> x, y = np.eye(4, dtype=np.float32), np.array([0, 1, 0, 1])
        >>> federation = Federation.from_arrays(x, y, client=np.array(["a", "b", "a", "b"]), test=(x, y))
        >>> federation.clients.names, federation.clients.data_sizes.tolist()
        (('a', 'b'), [2, 2])
        """
        labels, test_labels = _labels(y, "y"), _labels(test[1], "test")
        owners = np.asarray(client)
        if len(owners) != len(labels) or len(x) != len(labels):
            raise DataError(f"x, y and client must have one length, got {len(x)}, {len(labels)} and {len(owners)}")
        if len(labels) == 0:
            raise DataError("a federation needs at least one training example, got none")
        if len(test[0]) != len(test_labels):
            raise DataError(f"test: x and y must have one length, got {len(test[0])} and {len(test_labels)}")
        unique, owner_index = np.unique(owners, return_inverse=True)
        num_labels = int(max(labels.max(), test_labels.max(initial=0))) + 1
        train = _grouped(x, labels, owner_index, len(unique))
        validation_part = None
        if validation is not None:
            validation_labels = _labels(validation[1], "validation")
            lengths = (len(validation[0]), len(validation_labels), len(validation[2]))
            if len(set(lengths)) != 1:
                raise DataError(
                    f"validation: x, y and client must have one length, got {lengths[0]}, {lengths[1]} and {lengths[2]}"
                )
            strangers = np.setdiff1d(validation[2], unique)
            if len(strangers):
                raise DataError(f"client {strangers[0].item()!r} has validation examples but no training example")
            num_labels = max(num_labels, int(validation_labels.max(initial=-1)) + 1)
            index = np.searchsorted(unique, validation[2])
            validation_part = _grouped(validation[0], validation_labels, index, len(unique))
        clients = Clients(
            names=tuple(unique.tolist()),
            data_sizes=np.diff(train.offsets),
            label_counts=train.label_counts(num_labels),
            features=None if client_features is None else np.asarray(client_features, dtype=np.float64),
        )
        test_part = Part(_examples(test[0]), test_labels, np.array([0, len(test_labels)], dtype=np.int64))
        return Federation(name, clients, num_labels, train, validation_part, test_part, normalization)


def _labels(y: AnyArray, where: str) -> IntArray:
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise DataError(f"{where}: labels must be a 1-d array, got shape {labels.shape}")
    whole = np.issubdtype(labels.dtype, np.floating) and bool(np.all(labels == np.floor(labels)))
    if not np.issubdtype(labels.dtype, np.integer) and not whole:
        raise DataError(f"{where}: labels must be integers >= 0, got {labels.dtype}")
    if len(labels) and labels.min() < 0:
        raise DataError(f"{where}: labels must be integers >= 0, got {labels.min()}")
    return labels.astype(np.int64)


def _examples(x: AnyArray) -> AnyArray:
    """Examples as they are held: floats as float32, integers untouched."""
    examples = np.asarray(x)
    return examples.astype(np.float32) if np.issubdtype(examples.dtype, np.floating) else examples


def _grouped(x: AnyArray, y: IntArray, owner: IntArray, count: int) -> Part:
    """The examples sorted by owner, the order within an owner kept."""
    order = np.argsort(owner, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=count))]).astype(np.int64)
    return Part(frozen(_examples(np.asarray(x)[order])), y[order], offsets)
