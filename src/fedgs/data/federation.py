"""A federation: the clients' examples in one contiguous array, with an index range per client."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fedgs.arrays import IntArray, frozen, private
from fedgs.client_names import warn_of_text_order
from fedgs.clients import Clients
from fedgs.data.classes import given_classes
from fedgs.data.given import client_features_of, examples_of, held_out, refuse_lengths, test_set
from fedgs.data.groups import as_groups, check_groups
from fedgs.data.normalization import Normalization, as_normalization, check_bytes, warn_of_pixels
from fedgs.data.numeric import as_features, check_examples, of_one_type
from fedgs.data.owners import as_owners, in_order
from fedgs.data.part import Part, counted_labels, counts_by_client, grouped
from fedgs.data.targets import Task, as_targets, check_targets, checked_task, output_count
from fedgs.errors import DataError

__all__ = ["Federation", "Normalization", "Part"]


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
            self._check_part(label, part)
        self._check_groups()
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
        check_targets(part.y, part.x, label, task=self.task, num_labels=int(self.num_labels))
        check_examples(part.x, f"{label} examples", lambda row: self._owner_of(label, part, row))

    def _check_groups(self) -> None:
        if self.groups is None:
            if self.task != "classes" and self.clients.label_counts is not None:
                raise DataError(
                    f"clients must not have label_counts without groups where task is {self.task!r}"
                )
            return
        if self.task == "classes":
            raise DataError("groups must be None where task is 'classes', whose labels are groups")
        object.__setattr__(self, "groups", private(np.asarray(self.groups)))
        check_groups(self.groups, len(self.train))
        counts = self.clients.label_counts
        if counts is None or not np.array_equal(
            counts, counts_by_client(self.groups, self.train.offsets, counts.shape[1])
        ):
            raise DataError("clients.label_counts must count the groups of each client")

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

    @property
    def label_counts(self) -> IntArray | None:
        """(N, C) training examples by client and label, or by group; None without both."""
        if self.task == "classes":
            return self.train.label_counts(self.num_labels)
        return self.clients.label_counts

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
        if self.task != "classes":
            digest.update(f"task {self.task}".encode())
        if self.groups is not None:
            digest.update(np.ascontiguousarray(self.groups).data)
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
        task: Task = "classes",
        groups: npt.ArrayLike | Mapping[str, int] | None = None,
    ) -> "Federation":
        """A federation from your own arrays, which are copied.

        Anything that `np.asarray` reads is an array here: lists, tensors, data frames.

        Args:
            x: (n, ...) training examples, numbers or booleans. Models receive them as float32.
                Floats are held as float32, other types as they are, and tables of objects are
                converted to float32. Where the parts have different types of integers or booleans,
                all are held in the one that has room for them.
            y: (n,) labels 0..C-1: integers, booleans or floats that are whole numbers; for other
                tasks see `task`.
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
            task: "classes"; "regression": y is (n,) or (n, q) finite numbers; "multilabel": y is
                (n, q) with entries 0 or 1; "sequence": x is (n, L) tokens 0..C-1 and y (n, L)
                labels, -1 where a position does not count.
            groups: (n,) integers or texts that stand for labels where targets are not classes, in
                `YMF`, `YC` and the oracle graph, or {"quantiles": k} for k bins of the targets.

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
        checked_task(task)
        train_x, train_y = examples_of(x, "x", task), as_targets(y, "y", task)
        names, owner = in_order(as_owners(client, "client"), client_order)
        refuse_lengths("", x=train_x, y=train_y, client=owner)
        if len(train_y) == 0:
            raise DataError("a federation needs at least one training example, got none")
        test_x, test_y = test_set(test, task)
        validated = None if validation is None else held_out(validation, names, task)
        held = [] if validated is None else [validated]
        labels = [train_y, test_y, *(part.y for part in held)]
        examples = of_one_type([train_x, test_x, *(part.x for part in held)])
        num_labels = output_count(task, labels, examples, classes, clients=len(names))
        train = grouped(examples[0], train_y, owner, len(names))
        train_groups = as_groups(groups, train_y, task)
        if train_groups is not None:
            train_groups = train_groups[np.argsort(owner, kind="stable")]
        features = client_features_of(client_features, len(names))
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
                label_counts=counted_labels(train, task, num_labels, train_groups),
                features=features,
                classes=given_classes(labels, classes) if task == "classes" else None,
            ),
            num_labels,
            train,
            None
            if validated is None
            else grouped(examples[2], validated.y, validated.owner, len(names)),
            Part(frozen(examples[1]), test_y, np.array([0, len(test_y)], dtype=np.int64)),
            scaling,
            task=task,
            groups=train_groups,
        )
