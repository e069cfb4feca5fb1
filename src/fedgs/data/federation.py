"""A federation: the clients' examples in one contiguous array, with an index range per client."""

import hashlib
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedgs.arrays import AnyArray, FloatMatrix, IntArray, frozen, private
from fedgs.client_names import warn_of_text_order
from fedgs.clients import Clients
from fedgs.data.classes import check_counts, class_count, given_classes
from fedgs.data.normalization import Normalization, as_normalization, check_bytes, warn_of_pixels
from fedgs.data.numeric import as_examples, as_features, as_labels, check_examples, of_one_type
from fedgs.data.owners import as_owners, in_order
from fedgs.errors import DataError

__all__ = ["Federation", "Normalization", "Part"]


@dataclass(frozen=True, eq=False)
class Part:
    """Examples of one split, grouped by client.

    The arrays are read-only, since all runs of a federation share them. Arrays that can be written
    to are copied.

    Attributes:
        x: (n, ...) examples in the type in which they were given (float32 vectors, uint8 images);
            may be memory-mapped.
        y: (n,) int64 labels 0..C-1.
        offsets: (N+1,) ascending; client k holds rows offsets[k]:offsets[k+1]. The server's test
            set has offsets (0, n).
        index: (n,) row of each example in the set that was partitioned, or None where there was no
            such set.
    """

    x: AnyArray
    y: IntArray
    offsets: IntArray
    index: IntArray | None = None

    def __post_init__(self) -> None:
        for name in ("x", "y", "offsets", "index"):
            array = getattr(self, name)
            if array is not None:
                plain = array if isinstance(array, np.ndarray) else np.asarray(array)
                object.__setattr__(self, name, private(plain))

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore a deep copy or a pickle, whose arrays could be written to."""
        for name, value in state.items():
            self.__dict__[name] = frozen(value) if isinstance(value, np.ndarray) else value

    def __len__(self) -> int:
        return len(self.y)

    def rows(self, client: int) -> slice:
        """The rows of one client."""
        return slice(int(self.offsets[client]), int(self.offsets[client + 1]))

    def label_counts(self, num_labels: int) -> IntArray:
        """(N, C) examples by client and label.

        Raises:
            DataError: N · C counts would not fit into memory.
        """
        count = len(self.offsets) - 1
        check_counts(count, num_labels, "num_labels")
        owner = np.repeat(np.arange(count), np.diff(self.offsets))
        flat = np.bincount(owner * num_labels + self.y, minlength=count * num_labels)
        return flat.reshape(count, num_labels).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Federation:
    """Clients with their training and validation parts, and the server's test set.

    Attributes:
        name: for headings and tables, such as "Synthetic(0.5, 0.5)"; not empty.
        clients: names, training sizes, label counts and features.
        num_labels: C, the number of classes.
        train: the clients' training parts.
        validation: the clients' validation parts; None where there are none, also where a part
            without examples was given.
        test: the server's test set.
        normalization: how stored examples become inputs; None: as they are.
        facts: how the federation was made (partition, clients left out, ...), JSON-like; not in the
            fingerprint.

    Raises:
        DataError: an empty name, parts that do not fit the clients, labels out of range, examples
            with NaN or inf.

    >>> x, y = np.eye(4, dtype=np.float32), np.arange(4) % 2
    >>> federation = Federation.from_arrays(x, y, client=np.array([7, 7, 7, 9]), test=(x, y))
    >>> federation.clients.names, federation.clients.data_sizes.tolist(), federation.num_labels
    ((7, 9), [3, 1], 2)
    """

    name: str
    clients: Clients
    num_labels: int
    train: Part
    validation: Part | None
    test: Part
    normalization: Normalization | None = None
    facts: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise DataError(f"name must be a text that is not empty, got {self.name!r}")
        count = len(self.clients)
        if len(self.train.offsets) != count + 1 or np.any(
            np.diff(self.train.offsets) != self.clients.data_sizes
        ):
            raise DataError("the training part's offsets do not fit the clients' data sizes")
        if self.validation is not None and len(self.validation.offsets) != count + 1:
            raise DataError(
                f"the validation part must have {count + 1} offsets, "
                f"got {len(self.validation.offsets)}"
            )
        if (
            isinstance(self.num_labels, bool)
            or not isinstance(self.num_labels, int | np.integer)
            or self.num_labels < 1
        ):
            raise DataError(f"num_labels must be an integer >= 1, got {self.num_labels!r}")
        if not isinstance(self.normalization, Normalization | None):
            raise DataError(
                f"normalization must be a Normalization or None, got {self.normalization!r}"
            )
        for label, part in self._parts():
            self._check_part(label, part)
        if self.validation is not None and len(self.validation) == 0:
            object.__setattr__(self, "validation", None)
        if self.clients.features is not None:
            as_features(self.clients.features, "client features")
        if self.normalization is None:
            check_bytes(self.train.x, "training examples")
        else:
            self.normalization.check(self.example_shape)
            for label, part in self._parts():
                self.normalization.check_range(part.x, f"{label} examples")

    def _check_part(self, label: str, part: Part) -> None:
        if part.offsets.ndim != 1 or part.offsets.dtype.kind not in "iu" or len(part.offsets) < 2:
            given = f"{part.offsets.dtype} of shape {part.offsets.shape}"
            raise DataError(
                f"the {label} part's offsets must be a 1-d array of at least two integers, "
                f"got {given}"
            )
        if int(part.offsets[0]) != 0 or not (part.offsets[1:] >= part.offsets[:-1]).all():
            raise DataError(
                f"the {label} part's offsets must begin with 0 and never fall, "
                f"got {part.offsets.tolist()[:8]}"
            )
        if len(part.x) != len(part.y) or int(part.offsets[-1]) != len(part.y):
            raise DataError(
                f"the {label} part has {len(part.x)} examples, {len(part.y)} labels, "
                f"{part.offsets[-1]} rows"
            )
        if part.x.shape[1:] != self.example_shape:
            raise DataError(
                f"{label} examples have shape {part.x.shape[1:]}, training examples "
                f"{self.example_shape}"
            )
        if part.x.dtype != self.train.x.dtype:
            raise DataError(
                f"{label} examples are {part.x.dtype}, training examples {self.train.x.dtype}; "
                "convert both to one type"
            )
        if part.y.ndim != 1 or part.y.dtype.kind not in "iu":
            raise DataError(
                f"{label} labels must be a 1-d array of integers, got {part.y.dtype} of shape "
                f"{part.y.shape}"
            )
        if len(part.y) and not (int(part.y.min()) >= 0 and int(part.y.max()) < self.num_labels):
            raise DataError(
                f"{label} labels must be in 0..{self.num_labels - 1}, "
                f"got {int(part.y.min())}..{int(part.y.max())}"
            )
        check_examples(part.x, f"{label} examples", lambda row: self._owner_of(label, part, row))

    def _owner_of(self, label: str, part: Part, row: int) -> str:
        """One row of a part in words."""
        if label == "test":
            return f"example {row} of the test set"
        owner = int(np.searchsorted(part.offsets, row, side="right")) - 1
        return f"example {row - int(part.offsets[owner])} of client {self.clients.names[owner]!r}"

    def __len__(self) -> int:
        """N, the number of clients."""
        return len(self.clients)

    @property
    def example_shape(self) -> tuple[int, ...]:
        """Shape of one example: (d,) or (channels, height, width)."""
        return self.train.x.shape[1:]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the content, equal for equal federations on every machine.

        The name and the facts are not in it.
        """
        digest = hashlib.sha256(
            repr((self.num_labels, self.normalization, self.clients.names)).encode()
        )
        for label, part in self._parts():
            for array in (part.x, part.y, part.offsets):
                contiguous = np.ascontiguousarray(array)
                digest.update(f"{label} {contiguous.dtype.str} {contiguous.shape}".encode())
                digest.update(contiguous.data if contiguous.size else b"")
        if self.clients.features is not None:
            digest.update(np.ascontiguousarray(self.clients.features).data)
        if self.clients.classes is not None:
            digest.update(b"classes given")
        return digest.hexdigest()

    def _parts(self) -> list[tuple[str, Part]]:
        parts = [("training", self.train), ("validation", self.validation), ("test", self.test)]
        return [(label, part) for label, part in parts if part is not None]

    @staticmethod
    def from_arrays(
        x: npt.ArrayLike,
        y: npt.ArrayLike,
        *,
        client: npt.ArrayLike,
        test: tuple[npt.ArrayLike, npt.ArrayLike],
        validation: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike] | None = None,
        client_features: npt.ArrayLike | None = None,
        normalization: Normalization | None = None,
        classes: int | None = None,
        client_order: str | Sequence[str | int] = "sorted",
        name: str = "arrays",
    ) -> "Federation":
        """A federation from your own arrays, which are copied.

        Anything that `np.asarray` reads is an array here: lists, tensors, data frames.

        Args:
            x: (n, ...) training examples, numbers or booleans. Models receive them as float32.
                Floats are held as float32, other types as they are, and tables of objects are
                converted to float32. Where the parts have different types of integers or booleans,
                all are held in the one that has room for them.
            y: (n,) labels 0..C-1: integers, booleans or floats that are whole numbers.
            client: (n,) the owner of each example, integers or texts; owners become the clients'
                names. Floats that are whole numbers become integers.
            test: (x, y) of the server's test set.
            validation: (x, y, client) of the clients' validation parts; None or empty arrays: there
                are none.
            client_features: (N, d) finite vectors u_k for the graph, in the order of the clients.
            normalization: how stored examples become inputs; None: as they are, which is refused
                for images of type uint8.
            classes: C, above the largest label; None: the largest label + 1.
            client_order: "sorted" (integers by value, texts character by character, so "c10" comes
                before "c2"), "natural" (digits in texts compared as numbers, so "c2" comes before
                "c10"), or all names in order. It is the order of every matrix with a row for each
                client.
            name: for tables; not empty.

        Raises:
            DataError: what cannot be trained on: lengths that differ, labels that are no classes,
                unknown or missing owners, examples that are not finite float32 numbers, a
                normalization that does not fit. The page "Limits" of the reference lists all
                messages.

        >>> x, y = np.eye(4, dtype=np.float32), np.array([0, 1, 0, 1])
        >>> client = np.array(["a", "b", "a", "b"])
        >>> federation = Federation.from_arrays(x, y, client=client, test=(x, y))
        >>> federation.clients.names, federation.clients.data_sizes.tolist()
        (('a', 'b'), [2, 2])
        """
        train_x, train_y = as_examples(x, "x"), as_labels(y, "y")
        names, owner = in_order(as_owners(client, "client"), client_order)
        _refuse_lengths("", x=train_x, y=train_y, client=owner)
        if len(train_y) == 0:
            raise DataError("a federation needs at least one training example, got none")
        test_x, test_y = _test_set(test)
        held_out = None if validation is None else _held_out(validation, names)
        labels = [train_y, test_y] if held_out is None else [train_y, test_y, held_out.y]
        num_labels = class_count(labels, classes, clients=len(names))
        examples = of_one_type(
            [train_x, test_x] if held_out is None else [train_x, test_x, held_out.x]
        )
        train = _grouped(examples[0], train_y, owner, len(names))
        features = _features(client_features, len(names))
        if features is not None and isinstance(client_order, str) and client_order == "sorted":
            warn_of_text_order(names, "client_features")
        scaling = as_normalization(normalization)
        if scaling is None:
            check_bytes(train_x, "x")
            warn_of_pixels(train_x, name)
        return Federation(
            name,
            Clients(
                names=names,
                data_sizes=np.diff(train.offsets),
                label_counts=train.label_counts(num_labels),
                features=features,
                classes=given_classes(labels, classes),
            ),
            num_labels,
            train,
            None
            if held_out is None
            else _grouped(examples[2], held_out.y, held_out.owner, len(names)),
            Part(frozen(examples[1]), test_y, np.array([0, len(test_y)], dtype=np.int64)),
            scaling,
        )


def _entries(setting: str, value: object, *names: str) -> tuple[object, ...]:
    if not isinstance(value, tuple | list) or len(value) != len(names):
        count = f" with {len(value)} entries" if hasattr(value, "__len__") else ""
        raise DataError(
            f"{setting} must be a tuple ({', '.join(names)}), got {type(value).__name__}{count}"
        )
    return tuple(value)


def _test_set(test: object) -> tuple[AnyArray, IntArray]:
    """Examples, as an array of their own, and labels of the test set."""
    given_x, given_y = _entries("test", test, "x", "y")
    x, y = as_examples(given_x, "test x", copy=True), as_labels(given_y, "test y")
    _refuse_lengths("test: ", x=x, y=y)
    return x, y


class _HeldOut(NamedTuple):
    """The validation parts of all clients."""

    x: AnyArray
    y: IntArray
    owner: IntArray  # indices into the clients' names


def _held_out(validation: object, names: tuple[str | int, ...]) -> _HeldOut | None:
    """The validation parts; None where they are empty."""
    given_x, given_y, given_client = _entries("validation", validation, "x", "y", "client")
    if all(map(_is_empty, (given_x, given_y, given_client))):
        return None
    x, y = as_examples(given_x, "validation x"), as_labels(given_y, "validation y")
    owner_names, owner = as_owners(given_client, "validation client")
    _refuse_lengths("validation: ", x=x, y=y, client=owner)
    place = {name: k for k, name in enumerate(names)}
    strangers = [name for name in owner_names if name not in place]
    if strangers:
        raise DataError(f"client {strangers[0]!r} has validation examples but no training example")
    return _HeldOut(x, y, np.array([place[name] for name in owner_names], dtype=np.int64)[owner])


def _is_empty(value: object) -> bool:
    try:
        return isinstance(value, Sized) and len(value) == 0
    except TypeError:  # such as an array without dimensions: the checks of the entries report it
        return False


def _features(client_features: object, count: int) -> FloatMatrix | None:
    """The clients' features, one row for each of `count` clients."""
    if client_features is None:
        return None
    features = as_features(client_features, "client_features")
    if len(features) != count:
        raise DataError(
            f"client_features must have {count} rows, one for each client, got {len(features)}"
        )
    return features


def _refuse_lengths(where: str, **columns: AnyArray) -> None:
    names, lengths = list(columns), [str(len(column)) for column in columns.values()]
    if len(set(lengths)) > 1:
        listed, got = (f"{', '.join(words[:-1])} and {words[-1]}" for words in (names, lengths))
        raise DataError(f"{where}{listed} must have one length, got {got}")


def _grouped(x: AnyArray, y: IntArray, owner: IntArray, count: int) -> Part:
    """The examples sorted by owner, the order within an owner kept."""
    order = np.argsort(owner, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=count))]).astype(np.int64)
    return Part(frozen(x[order]), y[order], offsets)
