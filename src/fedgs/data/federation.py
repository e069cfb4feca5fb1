"""A federation: the clients' examples in one contiguous array, with an index range per client."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedgs.arrays import IntArray, frozen, private
from fedgs.client_names import warn_of_text_order
from fedgs.clients import Clients
from fedgs.data.checks import check_groups, check_part, check_test_offsets
from fedgs.data.classes import given_classes
from fedgs.data.given import Channels, Layout, Rows, client_features_of, read_parts
from fedgs.data.groups import as_groups
from fedgs.data.labels import named_labels
from fedgs.data.normalization import Normalization, as_normalization, check_bytes, warn_of_pixels
from fedgs.data.numeric import as_features
from fedgs.data.part import Part, counted_labels, grouped
from fedgs.data.targets import Task, checked_task, output_count
from fedgs.errors import DataError

if TYPE_CHECKING:
    from fedgs.data.map_style import MapStyle

__all__ = ["WAYS", "Federation", "Normalization", "Part"]

# Functions behind the static methods of `Federation` whose modules are above this one: they share
# examples out or read tables. The modules enter them when `fedgs.data` is imported.
WAYS: dict[str, Callable[..., "Federation"]] = {}


@dataclass(frozen=True, eq=False)
class Federation:
    """Clients with their training and validation parts, and the server's test set.

    Attributes:
        name: for headings and tables, such as "Synthetic(0.5, 0.5)"; not empty.
        clients: names, training sizes, label counts and features.
        num_labels: C, the number of classes or tokens, or q, the targets of an example: as many as
            the model has outputs.
        train: the clients' training parts.
        validation: the clients' validation parts; None where there are none, also where a part
            without examples was given.
        test: the server's test set.
        normalization: how stored examples become inputs; None: as they are.
        facts: how the federation was made (partition, clients left out, ...), JSON-like; not in the
            fingerprint.
        task: what is predicted. "classes": labels (n,); "regression": float32 targets (n,) or
            (n, q); "multilabel": targets (n, q), each 0 or 1, as float32 or booleans; "sequence":
            tokens (n, L) as examples and labels (n, L), -1 where a position does not count.
        groups: (n,) int64 groups 0..G-1 of the training examples, which stand for labels where
            targets are not classes; `clients.label_counts` is then (N, G). None: there are none.
        test_offsets: (N+1,) ascending; client k owns the rows test_offsets[k]:test_offsets[k+1] of
            the server's test set, see `client_test`. None: test examples have no owners.

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
    task: Task = "classes"
    groups: IntArray | None = None
    test_offsets: IntArray | None = None

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
        checked_task(self.task)
        for label, part in self._parts():
            check_part(self, label, part)
        for name in ("groups", "test_offsets"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, private(np.asarray(getattr(self, name))))
        check_groups(self)
        if self.test_offsets is not None:
            check_test_offsets(self.test_offsets, clients=count, examples=len(self.test))
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

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore a deep copy or a pickle, whose groups and offsets could be written to."""
        for name, value in state.items():
            self.__dict__[name] = frozen(value) if isinstance(value, np.ndarray) else value

    def __len__(self) -> int:
        """N, the number of clients."""
        return len(self.clients)

    @property
    def example_shape(self) -> tuple[int, ...]:
        """Shape of one example: (d,) or (channels, height, width)."""
        return self.train.x.shape[1:]

    @property
    def label_counts(self) -> IntArray | None:
        """(N, C) training examples by client and label, or by group; None without both."""
        if self.task == "classes":
            return self.train.label_counts(self.num_labels)
        return self.clients.label_counts

    @cached_property
    def client_test(self) -> Part | None:
        """The server's test set as the clients' own test parts; None where it has no owners.

        A client may have no test example.
        """
        if self.test_offsets is None:
            return None
        return Part(self.test.x, self.test.y, self.test_offsets)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the content, equal for equal federations on every machine.

        The name and the facts are not in it.
        """
        digest = hashlib.sha256(
            repr((self.num_labels, self.normalization, tuple(self.clients.names))).encode()
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
        if self.task != "classes":
            digest.update(f"task {self.task}".encode())
        if self.groups is not None:
            digest.update(np.ascontiguousarray(self.groups).data)
        if self.test_offsets is not None:
            digest.update(b"test offsets" + np.ascontiguousarray(self.test_offsets).tobytes())
        return digest.hexdigest()

    def _parts(self) -> list[tuple[str, Part]]:
        parts = [("training", self.train), ("validation", self.validation), ("test", self.test)]
        return [(label, part) for label, part in parts if part is not None]

    @staticmethod
    def from_dataframe(
        frame: object, label: str | Sequence[str], *, name: str = "frame", **options: object
    ) -> "Federation":
        """A federation from a data frame of pandas or polars, or a table of pyarrow.

        Args:
            frame: rows are examples. Anything with `columns` or `column_names` whose `frame[name]`
                is an array.
            label: the column of labels or targets; several columns for a vector of targets.
            name: for tables; not empty.
            options: settings of the data set `table` (`fedgs.data.TableFile`), such as `client` or
                `partition`, `split`, `features`, `one_hot`, `task`, `groups`, `standardize`,
                `test_fraction` and `seed`.

        Raises:
            DataError: not a data frame, unknown columns, missing cells, texts without `one_hot`,
                numbers that are not finite; the message has column and row.
            ConfigError: a setting that `table` does not have, or that only files have (`path`,
                `delimiter`).

        >>> class Frame(dict):
        ...     columns = ("age", "ward", "outcome")
        >>> frame = Frame(age=[20, 30] * 9, ward=["a", "b"] * 9, outcome=["ill", "well"] * 9)
        >>> federation = Federation.from_dataframe(frame, "outcome", client="ward")
        >>> federation.clients.names, federation.facts["label_names"]
        (('a', 'b'), ['ill', 'well'])
        """
        return WAYS["from_dataframe"](frame, label, name=name, **options)

    @staticmethod
    def from_dataset(
        dataset: "MapStyle",
        *,
        x: str | int = 0,
        y: str | int = 1,
        client: object = None,
        partition: object = None,
        clients: int = 30,
        test: "MapStyle | float" = 0.2,
        validation_fraction: float = 0.2,
        client_test: bool = False,
        groups: object = None,
        seed: int = 0,
        **options: Any,
    ) -> "Federation":
        """A federation from a map-style dataset of torch, or one of Hugging Face `datasets`.

        All items are read once, after the dataset's own transforms, and held in memory.

        Args:
            dataset: has `len(dataset)` and `dataset[i]`, a tuple or a mapping. Images of PIL get
                their channels first.
            x: place or name of the examples in an item: arrays, tensors, images or numbers.
            y: place or name of the labels or targets.
            client: place or name of the owners in an item, or (n,) owners.
            partition: by name, as a table or as an object, instead of `client`.
            clients: N >= 1, for `partition`.
            test: a dataset, or the share of the examples that becomes the test set: of each client,
                or of all examples where `partition` is given.
            validation_fraction: share of each client's other examples for validation, in [0, 1).
            client_test: whether test examples are their clients' own test parts, see `client_test`.
            groups: see `from_arrays`; a column has an entry for each example of the dataset.
            seed: of the partition and of the splits.
            options: `name`, `task`, `classes`, `normalization`, `channels`, `mask` and
                `client_order` of `from_arrays`.

        Raises:
            DataError: not a map-style dataset, items without the named entries, and all that
                `from_arrays` refuses.

        >>> items = [{"x": [k / 9, 0.5], "digit": k % 3, "writer": "ab"[k % 2]} for k in range(20)]
        >>> federation = Federation.from_dataset(items, x="x", y="digit", client="writer")
        >>> federation.clients.names, federation.clients.data_sizes.tolist(), len(federation.test)
        (('a', 'b'), [7, 7], 4)
        """
        return WAYS["from_dataset"](
            dataset,
            x=x,
            y=y,
            client=client,
            partition=partition,
            clients=clients,
            test=test,
            validation_fraction=validation_fraction,
            seed=seed,
            groups=groups,
            client_test=client_test,
            **{"name": "dataset", **options},
        )

    @staticmethod
    def from_arrays(
        x: npt.ArrayLike,
        y: npt.ArrayLike,
        *,
        client: npt.ArrayLike,
        test: tuple[npt.ArrayLike, npt.ArrayLike]
        | tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike],
        validation: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike] | None = None,
        client_features: npt.ArrayLike | None = None,
        normalization: Normalization | None = None,
        classes: int | None = None,
        client_order: str | Sequence[str | int] = "sorted",
        name: str = "arrays",
        task: Task = "classes",
        groups: npt.ArrayLike | Mapping[str, int] | None = None,
        channels: Channels = "first",
        mask: bool = False,
    ) -> "Federation":
        """A federation from your own arrays, which are copied.

        Anything that `np.asarray` reads is an array here: lists, tensors, data frames.

        Args:
            x: (n, ...) training examples, numbers or booleans. Models receive them as float32.
                Floats are held as float32, other types as they are, and tables of objects are
                converted to float32. Where the parts have different types of integers or booleans,
                all are held in the one that has room for them.
            y: (n,) labels 0..C-1: integers, booleans or floats that are whole numbers; or texts and
                other hashable labels, whose sorted values become the classes 0..C-1 with their
                names in `facts["label_names"]`. For other tasks see `task`.
            client: (n,) the owner of each example, integers or texts; owners become the clients'
                names. Floats that are whole numbers become integers.
            test: (x, y) of the server's test set; (x, y, client) gives each client its own test
                part, see `client_test`, and the server's test set is all of them.
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
            task: "classes"; "regression": y is (n,) or (n, q) finite numbers; "multilabel": y is
                (n, q) with entries 0 or 1; "sequence": x is (n, L) tokens 0..C-1 and y (n, L)
                labels, -1 where a position does not count.
            groups: (n,) integers or texts that stand for labels where targets are not classes, in
                `YMF`, `YC` and the oracle graph, or {"quantiles": k} for k bins of the targets.
            channels: "last": images are (n, height, width, channels) and become (n, channels,
                height, width).
            mask: examples (L, d) or (L,) of unequal lengths L are padded with zeros to the longest,
                and a last feature is 1 where an example has an entry and 0 where it is padded; x is
                then (n, L, d + 1). Sequences are padded without it, with labels -1.

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
        layout = Layout(task, channels, mask)
        given = read_parts(
            (x, y, client), test, validation, client_order=client_order, layout=layout
        )
        scaling = as_normalization(normalization)
        if scaling is None:
            check_bytes(given.train.x, "x")
            warn_of_pixels(given.train.x, name)
        given = given.of_one_type()
        names, targets = given.names, [part.y for part in given.parts]
        num_labels = output_count(
            task, targets, [part.x for part in given.parts], classes, clients=len(names)
        )
        train = _by_client(given.train, len(names))
        train_groups = as_groups(groups, given.train.y, task)
        if train_groups is not None and given.train.owner is not None:
            train_groups = train_groups[np.argsort(given.train.owner, kind="stable")]
        own_test = None if given.test.owner is None else _by_client(given.test, len(names))
        rows = given.test if own_test is None else own_test
        features = client_features_of(client_features, len(names))
        if features is not None and isinstance(client_order, str) and client_order == "sorted":
            warn_of_text_order(names, "client_features")
        return Federation(
            name,
            Clients(
                names=names,
                data_sizes=np.diff(train.offsets),
                label_counts=counted_labels(train, task, num_labels, train_groups),
                features=features,
                classes=given_classes(targets, classes) if task == "classes" else None,
            ),
            num_labels,
            train,
            None if given.validation is None else _by_client(given.validation, len(names)),
            Part(frozen(rows.x), rows.y, np.array([0, len(rows.y)])),
            scaling,
            named_labels(given.label_names),
            task=task,
            groups=train_groups,
            test_offsets=None if own_test is None else own_test.offsets,
        )


def _by_client(rows: Rows, count: int) -> Part:
    assert rows.owner is not None
    return grouped(rows.x, rows.y, rows.owner, count)
