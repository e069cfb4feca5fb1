"""The data set `file`: a federation from one .npz file."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import Field

from fedgs.arrays import AnyArray, IntArray, frozen
from fedgs.clients import Clients
from fedgs.data.archive import META, from_archive
from fedgs.data.assemble import Labelled, nonempty_clients, server_part, share_out
from fedgs.data.base import SYNTHETIC_TRAINING, Data, Defaults
from fedgs.data.classes import given_classes
from fedgs.data.federation import Federation, Part
from fedgs.data.given import Channels, Layout, examples_of
from fedgs.data.groups import GroupsSetting, Quantiles, as_groups
from fedgs.data.labels import named_labels, numbered
from fedgs.data.normalization import NormalizationSetting, check_bytes, warn_of_pixels
from fedgs.data.npz import integers, read_npz
from fedgs.data.numeric import as_features
from fedgs.data.part import counted_labels
from fedgs.data.partition import Partition, PartitionSetting, clients_for
from fedgs.data.targets import Task, as_targets, output_count
from fedgs.errors import DataError
from fedgs.registry import register

__all__ = ["File", "read_npz"]


class _Columns(NamedTuple):
    """The columns that every file has, in its order of rows."""

    x: AnyArray  # (n, ...) examples
    y: AnyArray  # (n,) labels, or the targets of another task
    client: IntArray  # (n,) ids, -1 for the server's test set
    split: IntArray  # (n,) 0 train, 1 validation, 2 test


@register("data", "file")
class File(Data):
    """A federation from one `.npz` file.

    Its arrays: `x` (n, ...) examples; `y` (n,) labels 0..C-1; `client` (n,) the owner of each, -1
    for the server's test set; optionally `split` (n,) with 0 train, 1 validation, 2 test (all test
    rows together are the server's test set; without `split`, rows of clients are for training);
    optionally `client_features` (N, d), the vectors u_k, one row per client in ascending order. A
    file that `fedgs data export` wrote loads as the same federation.

    With `partition`, the file's training rows (split 0, or all rows that are not the test set's)
    are shared out over new clients; `client` may be left out then, and further arrays of length n
    are columns for the partition `by_column`.

    Attributes:
        path: the file; a relative path is looked up in --data-dir first, then in the current
            folder.
        normalization: how stored examples become inputs, a table with `scale`, `mean` and `sd`;
            None: as they are, which is refused for images of type uint8.
        classes: C, above the largest label; None: the largest label + 1.
        drop_empty: leave clients without a training example out instead of refusing them.
        partition: by name, as a table or as an object; None: the file assigns examples to clients.
        clients: N >= 1, for `partition`.
        validation_fraction: share of each client's examples that is its validation part, in [0, 1),
            for `partition`.
        task: what is predicted. "classes": `y` has labels; "regression": (n,) or (n, q) numbers;
            "multilabel": (n, q) entries 0 or 1; "sequence": `x` has (n, L) tokens and `y` (n, L)
            labels, -1 where a position does not count. None: that of a file that `fedgs data
            export` wrote, else "classes".
        groups: what stands for labels where targets are not classes, in partitions, `YMF`, `YC` and
            the oracle graph: the name of an array of length n, or {quantiles = k} for k bins of the
            targets; None: there are no groups.
        channels: "last": images are (n, height, width, channels) and become (n, channels, height,
            width); None: channels are first.
        client_test: whether test rows (split 2) belong to the clients that `client` names, as their
            own test parts; the server's test set is all of them. None: no.

    >>> import tempfile
    >>> x, y = np.eye(4, dtype=np.float32), np.arange(4) % 2
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder) / "mine.npz", x=x, y=y, client=np.array([0, 0, 1, -1]))
    ...     federation = File(path="mine.npz").load(Path(folder))
    >>> federation.clients.data_sizes.tolist(), len(federation.test)
    ([2, 1], 1)
    """

    path: str
    normalization: NormalizationSetting = None
    classes: int | None = Field(default=None, ge=1)
    drop_empty: bool = False
    partition: PartitionSetting | None = None
    clients: int = Field(default=30, ge=1)
    validation_fraction: float = Field(default=0.2, ge=0, lt=1)
    task: Task | None = None
    groups: GroupsSetting = None
    channels: Channels | None = None
    client_test: bool | None = None

    @classmethod
    def without_effect(cls, settings: Mapping[str, object]) -> dict[str, str]:
        """`clients` and `validation_fraction`, where there is no partition."""
        if settings.get("partition") is not None:
            return {}
        useless = [
            key
            for key in ("clients", "validation_fraction")
            if settings.get(key) not in (None, cls.model_fields[key].default)
        ]
        return {
            key: f"data.{key} has no effect without data.partition: the file says who owns what"
            for key in useless
        }

    @property
    def title(self) -> str:
        """The file's name without its ending."""
        return Path(self.path).stem

    def defaults_for(self, federation: Federation) -> Defaults:
        """Logistic regression where examples are vectors; for images the model must be named."""
        return Defaults(
            "logistic" if len(federation.example_shape) == 1 else None, SYNTHETIC_TRAINING
        )

    def load(self, data_dir: Path | None = None) -> Federation:
        """The federation.

        Raises:
            DataError: no such file, a truncated one, missing arrays, lengths that differ, NaN, a
                client without examples.
        """
        path = Path(self.path).expanduser()
        if data_dir is not None and (data_dir / path).is_file():
            path = data_dir / path
        arrays, where = read_npz(path), str(path)
        if META in arrays:
            if self.partition is not None:
                raise DataError(
                    f"{where} holds a federation already: leave data.partition out, "
                    "or partition the data it is from"
                )
            for key in ("groups", "channels", "client_test"):
                if getattr(self, key) is not None:
                    raise DataError(f"{where} holds a federation already: leave data.{key} out")
            return from_archive(
                arrays,
                where,
                normalization=self.normalization,
                classes=self.classes,
                task=self.task,
            )
        if self.partition is not None:
            return self._shared_out(arrays, where, self.partition)
        return self._owned(arrays, where)

    def _owned(self, arrays: Mapping[str, AnyArray], where: str) -> Federation:
        columns = self._columns(arrays, where)
        x, y, client, split = columns
        features = None
        if "client_features" in arrays:
            features = as_features(arrays["client_features"], f"{where}: client_features")
        ids = _client_ids(client, None if features is None else len(features), where)
        if not np.any(split == 2):
            raise DataError(f"{where} has no test example: mark them with split 2 or client -1")
        sizes = np.bincount(np.searchsorted(ids, client[split == 0]), minlength=len(ids))
        nonempty = nonempty_clients(sizes, tuple(ids.tolist()), drop_empty=self.drop_empty)
        names = ids[nonempty]
        train, validation = (_grouped(columns, code, names) for code in (0, 1))
        test_rows, test_offsets = np.flatnonzero(split == 2), None
        if self.client_test:
            test_rows, test_offsets = _owned_tests(columns, names, where)
        num_labels = self._outputs(x, y, len(names))
        facts: dict[str, object] = named_labels(self._labels_of(arrays, where)[1])
        if len(names) < len(ids):
            facts["left_out"] = np.setdiff1d(ids, names).tolist()
        groups = None
        if self.groups is not None:
            rows = _rows_of(columns, 0, names)
            groups = as_groups(self._column_of_groups(arrays, rows, where), train.y, self._task)
        clients = Clients(
            names=tuple(names.tolist()),
            data_sizes=np.diff(train.offsets),
            label_counts=counted_labels(train, self._task, num_labels, groups),
            features=None if features is None else features[nonempty],
            classes=self._given_classes(y),
        )
        return Federation(
            name=self.title,
            clients=clients,
            num_labels=num_labels,
            train=train,
            validation=validation if len(validation) else None,
            test=server_part(x[test_rows], y[test_rows]),
            normalization=self.normalization,
            facts=facts,
            task=self._task,
            groups=groups,
            test_offsets=test_offsets,
        )

    def _shared_out(
        self, arrays: Mapping[str, AnyArray], where: str, partition: Partition
    ) -> Federation:
        x, y, _, split = self._columns(
            {"client": np.zeros(len(np.atleast_1d(arrays.get("y", ()))), dtype=np.int64), **arrays},
            where,
        )
        if self.client_test:
            raise DataError("data.client_test must be left out where data.partition is given")
        if np.any(split == 1):
            raise DataError(
                f"{where}: rows with split 1 belong to clients already; with data.partition, "
                "split is 0 or 2"
            )
        pool, test = np.flatnonzero(split == 0), np.flatnonzero(split == 2)
        if len(pool) == 0 or len(test) == 0:
            raise DataError(
                f"{where} needs training and test examples (split 0 and 2), "
                f"got {len(pool)} and {len(test)}"
            )
        columns = {
            key: column[pool]
            for key, column in arrays.items()
            if column.ndim == 1 and len(column) == len(y)
        }
        federation = share_out(
            Labelled(
                self.title,
                x[pool],
                y[pool],
                (x[test], y[test]),
                self._outputs(x, y, self.clients),
                self.normalization,
                self._task,
                self._column_of_groups(arrays, pool, where),  # type: ignore[arg-type]
            ),
            partition,
            clients_for(partition, self.clients, type(self).model_fields["clients"].default),
            seed=self.seed,
            validation_fraction=self.validation_fraction,
            drop_empty=self.drop_empty,
            columns={key: column for key, column in columns.items() if key not in ("y", "split")},
        )
        facts = {**federation.facts, **named_labels(self._labels_of(arrays, where)[1])}
        federation = replace(federation, facts=facts)
        classes = self._given_classes(y)
        if classes is None:
            return federation
        return replace(federation, clients=replace(federation.clients, classes=classes))

    @property
    def _task(self) -> Task:
        return "classes" if self.task is None else self.task

    def _labels_of(
        self, arrays: Mapping[str, AnyArray], where: str
    ) -> tuple[object, tuple[str, ...] | None]:
        """The targets, texts as numbers of classes, and the names of these classes."""
        if self._task != "classes":
            return arrays["y"], None
        numbers, names = numbered({f"{where}: y": arrays["y"]})
        return numbers[f"{where}: y"], names

    def _outputs(self, x: AnyArray, y: AnyArray, clients: int) -> int:
        """C or q, see `output_count`."""
        return output_count(
            self._task, [y], [x], self.classes, clients=clients, setting="data.classes"
        )

    def _given_classes(self, y: AnyArray) -> int | None:
        return given_classes([y], self.classes) if self._task == "classes" else None

    def _column_of_groups(
        self, arrays: Mapping[str, AnyArray], rows: IntArray, where: str
    ) -> AnyArray | Quantiles | None:
        """The groups of some rows, or how to make them from the targets."""
        if not isinstance(self.groups, str):
            return self.groups
        known = [key for key, column in arrays.items() if column.ndim == 1]
        if self.groups not in known:
            raise DataError(
                f"data.groups = {self.groups!r} is not among the one-dimensional arrays of {where} "
                f"({', '.join(known) or 'none'})"
            )
        column = arrays[self.groups]
        if len(column) != len(arrays["x"]):
            raise DataError(
                f"{where}: {self.groups} must have an entry for each of the {len(arrays['x'])} "
                f"examples of x, got {len(column)}"
            )
        return column[rows]

    def _columns(self, arrays: Mapping[str, AnyArray], where: str) -> _Columns:
        """The columns of the file, checked: one length, numbers in range."""
        missing = [key for key in ("x", "y", "client") if key not in arrays]
        if missing:
            raise DataError(
                f"{where} needs the arrays x, y and client; {missing[0]} is missing (it has "
                f"{', '.join(arrays) or 'none'})"
            )
        layout = Layout(self._task, self.channels or "first")
        x = examples_of(arrays["x"], f"{where}: x", layout)
        if self.normalization is None:
            check_bytes(x, f"{where}: x")
            warn_of_pixels(x, self.title)
        y = as_targets(self._labels_of(arrays, where)[0], f"{where}: y", self._task)
        client = integers(arrays["client"], f"{where}: client", low=-1, high=None)
        split = np.where(client == -1, 2, 0)
        if "split" in arrays:
            split = integers(arrays["split"], f"{where}: split", low=0, high=2)
        for key, column in (("y", y), ("client", client), ("split", split)):
            if len(column) != len(x):
                raise DataError(
                    f"{where}: {key} must have shape ({len(x)},), one for each example of x, "
                    f"got {column.shape}"
                )
        if np.any((client == -1) & (split != 2)):
            raise DataError(
                f"{where}: client -1 marks the server's test set, so its rows must have split 2"
            )
        return _Columns(x, y, client, split)


def _client_ids(client: IntArray, num_features: int | None, where: str) -> IntArray:
    """Ascending client ids.

    With client features, whose row k belongs to id k, ids without any example are included.
    """
    ids = np.unique(client[client >= 0])
    if num_features is None or num_features == len(ids):
        return ids
    if len(ids) and num_features > int(ids[-1]):
        return np.arange(num_features, dtype=np.int64)
    raise DataError(
        f"{where}: client_features must have {len(ids)} rows, one a client, got {num_features}"
    )


def _grouped(columns: _Columns, code: int, names: IntArray) -> Part:
    """The examples of one split of the clients in `names`, grouped by client in their order."""
    x, y, client, _ = columns
    rows = _rows_of(columns, code, names)
    counts = np.bincount(np.searchsorted(names, client[rows]), minlength=len(names))
    return Part(
        frozen(x[rows]), frozen(y[rows]), np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    )


def _rows_of(columns: _Columns, code: int, names: IntArray) -> IntArray:
    """The rows of one split of the clients in `names`, grouped by client in their order."""
    rows = np.flatnonzero((columns.split == code) & np.isin(columns.client, names))
    return rows[np.argsort(columns.client[rows], kind="stable")]


def _owned_tests(columns: _Columns, names: IntArray, where: str) -> tuple[IntArray, IntArray]:
    """The test rows of the clients in `names`, grouped by client, and their offsets."""
    strangers = np.flatnonzero(columns.client < 0)
    if len(strangers):
        raise DataError(
            f"{where}: with data.client_test each test example must belong to a client, "
            f"got client -1 in row {int(strangers[0])}"
        )
    rows = _rows_of(columns, 2, names)
    counts = np.bincount(np.searchsorted(names, columns.client[rows]), minlength=len(names))
    return rows, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
