"""The data set `table`: a federation from a CSV or Parquet file, or from a data frame."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from fedgs.arrays import AnyArray, IntArray
from fedgs.data.assemble import Labelled, hold_out, share_out, split_of_clients
from fedgs.data.base import Data
from fedgs.data.cells import PARQUET, Table, read_table
from fedgs.data.federation import WAYS, Federation
from fedgs.data.frames import columns_of
from fedgs.data.groups import GroupsSetting, Quantiles
from fedgs.data.labels import named_labels, numbered
from fedgs.data.normalization import Normalization, NormalizationSetting
from fedgs.data.owners import as_owners
from fedgs.data.partition import Partition, PartitionSetting, clients_for
from fedgs.data.targets import as_targets, output_count
from fedgs.errors import ConfigError, DataError
from fedgs.registry import register
from fedgs.rng import stream
from fedgs.suggestions import nearest

__all__ = ["TableFile", "from_dataframe"]

_SPLITS = {
    **dict.fromkeys(("0", "train", "training"), 0),
    **dict.fromkeys(("1", "val", "valid", "validation"), 1),
    **dict.fromkeys(("2", "test"), 2),
}
_OF_FILES = ("path", "delimiter")  # settings that a data frame has no use for
_CODES = {0: "training", 1: "validation", 2: "test"}


def _as_names(value: object) -> object:
    """One name or a list of names as a tuple."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_as_names)]


@register("data", "table")
class TableFile(Data):
    """A federation from a table: a CSV file with a line of names, or a Parquet file.

    Rows are examples. Columns of numbers are features, and texts can be encoded by `one_hot`. The
    client of each row is named by a column, or rows are shared out by a partition.

    Attributes:
        path: the file (.csv, .tsv, .csv.gz, .parquet); a relative path is looked up in --data-dir
            first.
        label: the column of labels or targets; several columns for a vector of targets.
        client: the column of the rows' owners; None: `partition` gives them.
        split: the column that says "train", "validation" or "test" (or 0, 1, 2); None: rows are
            drawn by `test_fraction` and `validation_fraction`.
        features: columns of features; None: all that have no other use.
        one_hot: columns, among them of texts, that become a feature for each of their values, in
            sorted order; not those of `label`, `client`, `split` and `groups`.
        task: "classes" (integers or texts), "regression" (numbers) or "multilabel" (columns of 0
            and 1).
        groups: a column, or {quantiles = k} of the target, that stands for labels where targets are
            not classes.
        classes: C, above the largest label; None: the largest label + 1.
        normalization: how features become inputs, a table with `scale`, `mean` and `sd`.
        standardize: subtract each feature's mean over all training rows and divide by its standard
            deviation; indicators of `one_hot` stay 0 and 1.
        partition: by name, as a table or as an object; its columns are those of the file.
        clients: N >= 1, for `partition`.
        test_fraction: share of the rows that becomes the test set, in (0, 1): of each client, or of
            all rows where `partition` is given.
        validation_fraction: share of each client's other rows that is its validation part, in [0,
            1).
        client_test: whether each client keeps its test rows as its own test part, see
            `Federation.client_test`.
        client_order: "sorted" or "natural", see `Federation.from_arrays`.
        drop_empty: leave clients without a training example out, for `partition`.
        delimiter: between the cells of CSV; None: a tab for .tsv, else a comma.

    >>> import tempfile
    >>> lines = ["age,ward,outcome", *(f"{20 + k},{'ab'[k % 2]},{k % 3}" for k in range(30))]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "patients.csv").write_text(chr(10).join(lines))
    ...     table = TableFile(path="patients.csv", label="outcome", client="ward")
    ...     federation = table.load(Path(folder))
    >>> federation.clients.names, federation.facts["features"], len(federation.test)
    (('a', 'b'), ['age'], 6)
    """

    path: str
    label: Names
    client: str | None = None
    split: str | None = None
    features: Annotated[tuple[str, ...] | None, BeforeValidator(_as_names)] = None
    one_hot: Names = ()
    task: Literal["classes", "regression", "multilabel"] = "classes"
    groups: GroupsSetting = None
    classes: int | None = Field(default=None, ge=1)
    normalization: NormalizationSetting = None
    standardize: bool = False
    partition: PartitionSetting | None = None
    clients: int = Field(default=30, ge=1)
    test_fraction: float = Field(default=0.2, gt=0, lt=1)
    validation_fraction: float = Field(default=0.2, ge=0, lt=1)
    client_test: bool = False
    client_order: Literal["sorted", "natural"] = "sorted"
    drop_empty: bool = False
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)

    @classmethod
    def without_effect(cls, settings: Mapping[str, object]) -> dict[str, str]:
        """Settings of partitions without one, `test_fraction` beside `split`, `delimiter`."""
        refused: dict[str, str] = {}
        if settings.get("partition") is None:
            refused |= {
                key: f"data.{key} has no effect without data.partition"
                for key in ("clients", "drop_empty")
            }
        if settings.get("split") is not None:
            refused["test_fraction"] = "data.test_fraction has no effect beside data.split"
        path = settings.get("path")
        if isinstance(path, str) and Path(path).suffix in PARQUET:
            refused["delimiter"] = f"data.delimiter has no effect on Parquet, got {path!r}"
        return {
            key: sentence
            for key, sentence in refused.items()
            if settings.get(key) not in (None, cls.model_fields[key].default)
        }

    @property
    def title(self) -> str:
        """The file's name without its ending."""
        return Path(self.path).name.split(".")[0] or self.path

    def load(self, data_dir: Path | None = None) -> Federation:
        """The federation.

        Raises:
            DataError: no such file, a broken one, unknown columns, a column that is named twice or
                is both label and feature, missing cells, texts without `one_hot`, numbers that are
                not finite; the message has column and line.
            MissingExtraError: Parquet without pyarrow.
        """
        path = Path(self.path).expanduser()
        if data_dir is not None and (data_dir / path).is_file():
            path = data_dir / path
        return self.federation(read_table(path, delimiter=self.delimiter), self.title)

    def federation(self, table: Table, name: str) -> Federation:
        """The federation of a table that is in memory; see `load`."""
        if (self.client is None) == (self.partition is None):
            got = "none" if self.client is None else "both"
            raise DataError(
                f"either {table.prefix}client or {table.prefix}partition must be given, got {got}"
            )
        self._check_columns(table)
        features, x = self._features(table)
        y, label_names = self._targets(table)
        owner = None if self.client is None else table.labels(self.client, "client")
        split = self._split(table, owner)
        scaling = self._scaling(features, x[split == 0])
        facts = {**named_labels(label_names), "features": features}
        if self.partition is not None:
            federation = self._shared_out(table, x, y, split, scaling, self.partition, name)
        else:
            federation = self._owned(table, x, y, split, scaling, owner, name)
        return replace(federation, facts={**federation.facts, **facts})

    def _check_columns(self, table: Table) -> None:
        """Refuse columns that the table does not have, or that have two uses."""
        for setting in ("label", "client", "split", "groups", "one_hot", "features"):
            columns = self._named(setting)
            for column in columns:
                table.column(column, setting)
                if columns.count(column) > 1:
                    raise DataError(
                        f"{table.prefix}{setting} must name each column once, got {column!r} twice"
                    )
        refused = {
            "client": ("label",),
            "split": ("label",),
            "features": ("label", "client", "split"),
            "one_hot": ("label", "client", "split", "groups"),
        }
        for setting, others in refused.items():
            for other in others:
                for column in self._named(setting):
                    if column in self._named(other):
                        use = "group" if other == "groups" else other
                        raise DataError(
                            f"{table.prefix}{setting} must not hold the {use} {column!r}"
                        )

    def _named(self, setting: str) -> tuple[str, ...]:
        """The columns that a setting names."""
        named = getattr(self, setting)
        if isinstance(named, str):
            return (named,)
        return named if isinstance(named, tuple) else ()

    def _owned(
        self,
        table: Table,
        x: AnyArray,
        y: AnyArray,
        split: IntArray,
        scaling: Normalization | None,
        owner: AnyArray | None,
        name: str,
    ) -> Federation:
        assert owner is not None
        train, validation, test = (np.flatnonzero(split == code) for code in _CODES)
        return Federation.from_arrays(
            x[train],
            y[train],
            client=owner[train],
            test=(x[test], y[test], owner[test]) if self.client_test else (x[test], y[test]),
            validation=(x[validation], y[validation], owner[validation]),
            normalization=scaling,
            classes=self.classes,
            client_order=self.client_order,
            name=name,
            task=self.task,
            groups=self._groups(table, train),  # type: ignore[arg-type]
        )

    def _shared_out(
        self,
        table: Table,
        x: AnyArray,
        y: AnyArray,
        split: IntArray,
        scaling: Normalization | None,
        partition: Partition,
        name: str,
    ) -> Federation:
        if self.client_test:
            raise DataError(f"{table.prefix}client_test must be left out beside a partition")
        pool, test = np.flatnonzero(split == 0), np.flatnonzero(split == 2)
        count = output_count(
            self.task,
            [y],
            [x],
            self.classes,
            clients=self.clients,
            setting=f"{table.prefix}classes",
        )
        return share_out(
            Labelled(
                name,
                x[pool],
                y[pool],
                (x[test], y[test]),
                count,
                scaling,
                self.task,
                self._groups(table, pool),  # type: ignore[arg-type]
            ),
            partition,
            clients_for(partition, self.clients, type(self).model_fields["clients"].default),
            seed=self.seed,
            validation_fraction=self.validation_fraction,
            drop_empty=self.drop_empty,
            columns=self._columns(table, partition, pool),
        )

    def _columns(self, table: Table, partition: Partition, rows: IntArray) -> dict[str, AnyArray]:
        """Columns for the partition; that which it names has integers instead of their texts."""
        columns = {key: column[rows] for key, column in table.columns.items()}
        named = getattr(partition, "column", None)
        if isinstance(named, str) and named in columns:
            columns[named] = table.labels(named, "partition.column")[rows]
        return columns

    def _features(self, table: Table) -> tuple[list[str], AnyArray]:
        """Names of the features and (n, d) float32 values."""
        used = {*self.label, self.client, self.split, *self.one_hot}
        if isinstance(self.groups, str):
            used.add(self.groups)
        chosen = self.features
        if chosen is None:
            used |= {getattr(self.partition, "column", None)}
            chosen = tuple(name for name in table.columns if name not in used)
        names: list[str] = []
        columns: list[AnyArray] = []
        for name in (*chosen, *(name for name in self.one_hot if name not in chosen)):
            if name in self.one_hot:
                values, indicators = table.indicators(name, "one_hot")
                names += values
                columns.append(indicators.astype(np.float32))
            else:
                names.append(name)
                columns.append(table.numbers(name, "features")[:, None].astype(np.float32))
        if not columns:
            raise DataError(f"{table.where} must have at least one column of features, got none")
        return names, np.hstack(columns)

    def _targets(self, table: Table) -> tuple[AnyArray, tuple[str, ...] | None]:
        """The targets of all rows, and the names of classes that were texts."""
        if self.task == "classes":
            if len(self.label) != 1:
                raise DataError(
                    f"{table.prefix}label must be one column where task is 'classes', "
                    f"got {len(self.label)}"
                )
            labels = table.labels(self.label[0], "label")
            numbers, names = numbered({f"{table.where}: {self.label[0]}": labels})
            ((where, values),) = numbers.items()
            return as_targets(values, where, self.task), names
        columns = [table.numbers(name, "label") for name in self.label]
        single = len(columns) == 1 and self.task == "regression"
        targets = columns[0] if single else np.stack(columns, axis=1)
        return as_targets(targets, f"{table.where}: {', '.join(self.label)}", self.task), None

    def _split(self, table: Table, owner: AnyArray | None) -> IntArray:
        """(n,) 0 train, 1 validation, 2 test."""
        if self.split is not None:
            split = self._named_split(table)
        elif owner is not None:
            place = as_owners(owner, f"client = {self.client!r}")[1]
            split = split_of_clients(
                place, self.test_fraction, self.validation_fraction, seed=self.seed
            )
        else:
            split = np.zeros(len(table), dtype=np.int64)
            test = hold_out(np.arange(len(table)), self.test_fraction, stream(self.seed, "test"))[1]
            split[test] = 2
        if owner is None and np.any(split == 1):
            raise DataError(
                f"{table.where}: rows of {table.prefix}partition must be for training or test, "
                f"got {int((split == 1).sum())} for validation"
            )
        for code in (0, 2):
            if not np.any(split == code):
                raise DataError(
                    f"{table.where} must have at least one {_CODES[code]} row, got none; "
                    f"{table.prefix}split or {table.prefix}test_fraction gives them"
                )
        return split

    def _named_split(self, table: Table) -> IntArray:
        assert self.split is not None
        words = [str(cell).strip().lower() for cell in table.labels(self.split, "split").tolist()]
        for row, word in enumerate(words):
            if word not in _SPLITS:
                raise DataError(
                    f"{table.where}: column {self.split!r} must hold train, validation or test "
                    f"(or 0, 1, 2), got {word!r} in {table.place(row)}"
                )
        return np.array([_SPLITS[word] for word in words], dtype=np.int64)

    def _groups(self, table: Table, rows: IntArray) -> AnyArray | Quantiles | None:
        if not isinstance(self.groups, str):
            return self.groups
        return table.labels(self.groups, "groups")[rows]

    def _scaling(self, features: list[str], x: AnyArray) -> Normalization | None:
        """The normalization, from the (n, d) features of the training rows if asked for."""
        if not self.standardize:
            return self.normalization
        if self.normalization is not None:
            raise DataError("normalization must be left out beside standardize")
        mean, sd = x.mean(axis=0, dtype=np.float64), x.std(axis=0, dtype=np.float64)
        plain = np.array([name.split("=")[0] in self.one_hot for name in features])
        mean, sd = np.where(plain, 0.0, mean), np.where(plain | (sd == 0), 1.0, sd)
        return Normalization(1.0, tuple(mean.tolist()), tuple(sd.tolist()))


def from_dataframe(
    frame: object, label: str | Sequence[str], *, name: str, **settings: object
) -> Federation:
    """See `Federation.from_dataframe`."""
    known = [key for key in TableFile.model_fields if key not in _OF_FILES]
    for key in settings:
        if key not in known:
            raise ConfigError(
                f"data.{key} is not a setting of a data frame; known are {', '.join(known)}"
                f"{nearest(key, known)}"
            )
    columns = columns_of(frame, "frame")
    given: dict[str, Any] = {"path": name, "label": label, **settings}
    chosen = TableFile(**given)
    return chosen.federation(Table(columns, "the data frame"), name)


WAYS["from_dataframe"] = from_dataframe
