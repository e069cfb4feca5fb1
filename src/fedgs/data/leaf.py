"""LEAF-style JSON (users, num_samples, user_data with x and y), read and written user by user.

A data set is a folder with `train/*.json`, `test/*.json` and optionally `validation/*.json`. Files
may be too large to be held in memory as text. Files that fedgs wrote have a further key `fedgs`
(types, labels, names, normalization), so that they load back identically; other readers ignore it.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, NotRequired, TypedDict, cast

import numpy as np
import numpy.typing as npt
from pydantic import Field

from fedgs.arrays import AnyArray, FloatMatrix, IntArray, frozen
from fedgs.clients import Clients
from fedgs.data.assemble import nonempty_clients, server_part
from fedgs.data.base import SYNTHETIC_TRAINING, Data, Defaults
from fedgs.data.checks import check_held
from fedgs.data.classes import given_classes
from fedgs.data.federation import Federation, Part
from fedgs.data.groups import GroupsSetting, Quantiles, as_groups
from fedgs.data.json_stream import JsonStream
from fedgs.data.labels import named_labels, numbered
from fedgs.data.normalization import NormalizationSetting, chosen_normalization, warn_of_pixels
from fedgs.data.numeric import as_features, as_numbers
from fedgs.data.part import counted_labels
from fedgs.data.targets import Task, as_targets, checked_task, output_count
from fedgs.data.text import check_texts, encoded
from fedgs.errors import DataError, OutputError
from fedgs.registry import register

__all__ = ["Leaf", "read_users", "write_leaf"]

_Users = dict[str, tuple[AnyArray, AnyArray]]  # user -> x and y
_PARTS = ("train", "validation", "test")
_SERVER = "server"


class _Meta(TypedDict):
    """What files that fedgs wrote say about the federation, under the key `fedgs`."""

    dtype: str
    name: NotRequired[str]
    names: NotRequired[list[str | int]]
    num_labels: NotRequired[int]
    normalization: NotRequired[object]
    client_features: NotRequired[object]
    classes_given: NotRequired[bool]
    task: NotRequired[Task]
    groups: NotRequired[list[int]]
    client_test: NotRequired[bool]


@register("data", "leaf")
class Leaf(Data):
    """A federation from LEAF-style JSON files.

    The server's test set is the union of the users' test examples. Clients are in the order of
    `users`, and files in the order of their names. Users that have only validation examples follow
    those of `train/`.

    Attributes:
        path: the folder with `train/` and `test/`; a relative path is looked up in --data-dir
            first.
        normalization: how stored examples become inputs, a table with `scale`, `mean` and `sd`;
            None: as they are.
        classes: C, above the largest label; None: the largest label + 1.
        drop_empty: leave users without a training example out instead of refusing them.
        task: what is predicted. "classes": y has integers or texts; "regression": numbers or lists
            of numbers; "multilabel": lists of 0 and 1; "sequence": x has texts and y the next
            character of each, as LEAF's Shakespeare, or x has lists of tokens and y a label for
            each. None: that of files that `fedgs data export` wrote, else "classes".
        predict: for texts. "last": only the character after a text counts, as in LEAF; "every":
            each character's successor counts. None: "last".
        groups: {quantiles = k} for k bins of a regression's targets, which stand for labels; None:
            those of the files, else none.
        client_test: whether users keep their test examples as their own test parts, see
            `Federation.client_test`. None: that of the files, else no.

    >>> import tempfile
    >>> data = '{"ann": {"x": [[0.5], [1]], "y": [0, 1]}}'
    >>> text = '{"users": ["ann"], "num_samples": [2], "user_data": ' + data + "}"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part in ("train", "test"):
    ...         (Path(folder) / part).mkdir()
    ...         _ = (Path(folder) / part / "all.json").write_text(text)
    ...     federation = Leaf(path=folder).load()
    >>> federation.clients.names, federation.train.x.tolist()
    (('ann',), [[0.5], [1.0]])
    """

    path: str
    normalization: NormalizationSetting = None
    classes: int | None = Field(default=None, ge=1)
    drop_empty: bool = False
    task: Task | None = None
    predict: Literal["last", "every"] | None = None
    groups: GroupsSetting = None
    client_test: bool | None = None

    @property
    def title(self) -> str:
        """The folder's name."""
        # the path "." has no name
        return Path(self.path).name or Path(self.path).resolve().name or "leaf"

    def defaults_for(self, federation: Federation) -> Defaults:
        """Logistic regression where examples are vectors; for images the model must be named."""
        return Defaults(
            "logistic" if len(federation.example_shape) == 1 else None, SYNTHETIC_TRAINING
        )

    def load(self, data_dir: Path | None = None) -> Federation:
        """The federation.

        Raises:
            DataError: no such folder, truncated or malformed JSON, counts that do not fit, examples
                that are not numbers.
        """
        folder = Path(self.path).expanduser()
        if data_dir is not None and (data_dir / folder).is_dir():
            folder = data_dir / folder
        meta: _Meta = {"dtype": "<f4"}
        parts = {name: _users_of(folder / name, meta, self.task) for name in _PARTS}
        for name in ("train", "test"):
            if not parts[name]:
                raise DataError(
                    f"data.path: {folder} must have {name}/*.json with at least one user"
                )
        return self._federation(parts, meta, str(folder))

    def _federation(self, parts: dict[str, _Users], meta: _Meta, where: str) -> Federation:
        task = checked_task(self.task or meta.get("task", "classes"))
        facts = _number_texts(parts, task, every=self.predict == "every")
        users = list(dict.fromkeys([*parts["train"], *parts["validation"]]))
        sizes = _sizes(parts["train"], users)
        rows = nonempty_clients(sizes, tuple(users), drop_empty=self.drop_empty)
        nonempty = [users[k] for k in rows.tolist()]
        train, validation = _part(parts["train"], nonempty), _part(parts["validation"], nonempty)
        testers = list(parts["test"])
        test_offsets = None
        if meta.get("client_test") if self.client_test is None else self.client_test:
            _refuse_strangers(testers, users, where)
            testers = nonempty
            test_offsets = np.concatenate([[0], np.cumsum(_sizes(parts["test"], nonempty))])
        test = _part(parts["test"], testers)
        assert train is not None
        if test is None:
            raise DataError(
                f"data.path: {where} must have at least one test example, got none in test/*.json"
            )
        given = [part for part in (train, validation, test) if part is not None]
        labels = [part.y for part in given]
        classes = self.classes
        if classes is None and task in ("classes", "sequence"):
            classes = meta.get("num_labels")
        num_labels = output_count(
            task,
            labels,
            [part.x for part in given],
            classes,
            clients=len(nonempty),
            setting="data.classes",
        )
        groups = self._groups(train, task, meta)
        classes_given = self.classes is not None or meta.get("classes_given")
        scaling = chosen_normalization(self.normalization, meta.get("normalization"), where)
        if scaling is None and task != "sequence":
            warn_of_pixels(train.x, self.title)
        names = {str(name): name for name in meta.get("names", [])}
        clients = Clients(
            names=tuple(names.get(user, user) for user in nonempty),
            data_sizes=np.diff(train.offsets),
            label_counts=counted_labels(train, task, num_labels, groups),
            features=_features_of(nonempty, meta, where),
            classes=given_classes(labels, classes if classes_given else None)
            if task == "classes"
            else None,
        )
        left_out = [user for user, size in zip(users, sizes, strict=True) if size == 0]
        return Federation(
            name=meta.get("name", self.title),
            clients=clients,
            num_labels=num_labels,
            train=train,
            validation=validation,
            test=server_part(test.x, test.y),
            normalization=scaling,
            facts={**facts, "left_out": left_out} if left_out else facts,
            task=task,
            groups=groups,
            test_offsets=test_offsets,
        )

    def _groups(self, train: Part, task: Task, meta: _Meta) -> IntArray | None:
        if isinstance(self.groups, str):
            raise DataError(
                "data.groups must be {quantiles = k} for data 'leaf', whose files have no columns, "
                f"got {self.groups!r}"
            )
        stored = meta.get("groups")
        chosen: Quantiles | list[int] | None = self.groups if stored is None else stored
        return as_groups(chosen if self.groups is None else self.groups, train.y, task)


def read_users(
    path: Path,
    header: dict[str, object] | None = None,
    *,
    dtype: str | None = None,
    task: Task | None = None,
) -> Iterator[tuple[str, AnyArray, AnyArray]]:
    """(name, x, y) of every user of one file, in the order of `user_data`, read as a stream.

    Args:
        path: the file.
        header: is filled with the file's keys and their values, but for that of `user_data`.
        dtype: type of the examples; None: the one that `fedgs` has if it is before `user_data`,
            else float32.
        task: None: the one that `fedgs` has if it is before `user_data`, else "classes".

    Raises:
        DataError: truncated or malformed JSON; `users` or `num_samples` that do not fit
            `user_data`; x or y that cannot be used.
    """
    header = {} if header is None else header
    header.clear()
    sizes: dict[str, int] = {}
    with path.open(encoding="utf-8-sig") as file:
        stream = JsonStream(file, str(path))
        for key in stream.members():
            if key in header:
                raise DataError(f"{path} must have the key {key!r} once, got it twice")
            if key != "user_data":
                header[key] = stream.value()
                continue
            header[key] = None
            meta = _meta_in(header, str(path))
            type_ = np.dtype(dtype or meta["dtype"])
            known = checked_task(task or meta.get("task", "classes"))
            for user in stream.members():
                if user in sizes:
                    raise DataError(
                        f"{path} must have each user once, got {user!r} twice in user_data"
                    )
                x, y = _examples(stream.value(), user, str(path), type_, known)
                sizes[user] = len(y)
                yield user, x, y
    _check_counts(header, sizes, str(path))


def write_leaf(federation: Federation, folder: str | Path) -> Path:
    """Write a federation as LEAF-style JSON, user by user; returns the folder.

    It has `train/`, `test/` and, if there is a validation part, `validation/`. The server's test
    set is the test part of one user, "server".

    Raises:
        DataError: the federation makes its examples on demand.
        OutputError: a folder that cannot be written to.
    """
    check_held(federation)
    folder = Path(folder)
    names = [str(name) for name in federation.clients.names]
    for label in _PARTS:
        part: Part | None = getattr(federation, label)
        if part is None:
            continue
        try:
            (folder / label).mkdir(parents=True, exist_ok=True)
            users = [_SERVER] if label == "test" else names
            if label == "test" and federation.client_test is not None:
                part, users = federation.client_test, names
            _write_part(federation, part, users, folder / label / "data.json")
        except OSError as error:
            raise OutputError(f"{folder / label} cannot be written: {error}") from None
    return folder


def _write_part(federation: Federation, part: Part, users: list[str], path: Path) -> None:
    partial = path.with_name(path.name + ".partial")
    sizes = np.diff(part.offsets).tolist()
    with partial.open("w", encoding="utf-8") as file:
        file.write(f'{{"fedgs": {json.dumps(_meta(federation))},\n"users": {json.dumps(users)},\n')
        file.write(f'"num_samples": {json.dumps(sizes)},\n"user_data": {{')
        for position, user in enumerate(users):
            rows = part.rows(position)
            data = {"x": part.x[rows].tolist(), "y": part.y[rows].tolist()}
            file.write(f"{',' if position else ''}\n{json.dumps(user)}: {json.dumps(data)}")
        file.write("}}\n")
    partial.replace(path)


def _meta(federation: Federation) -> _Meta:
    scaling, features = federation.normalization, federation.clients.features
    meta: _Meta = {
        "name": federation.name,
        "names": list(federation.clients.names),
        "dtype": federation.train.x.dtype.str,
        "num_labels": federation.num_labels,
        "normalization": scaling
        and {"scale": scaling.scale, "mean": list(scaling.mean), "sd": list(scaling.sd)},
        "client_features": None if features is None else features.tolist(),
    }
    if federation.clients.classes is not None:
        meta["classes_given"] = True
    if federation.task != "classes":
        meta["task"] = federation.task
    if federation.groups is not None:
        meta["groups"] = federation.groups.tolist()
    if federation.test_offsets is not None:
        meta["client_test"] = True
    return meta


def _users_of(folder: Path, meta: _Meta, task: Task | None) -> _Users:
    """The users of all files of a folder in the order of `users`; the files update `meta`."""
    all_users: _Users = {}
    for path in sorted(folder.glob("*.json")):
        header: dict[str, object] = {}
        users = {user: (x, y) for user, x, y in read_users(path, header, task=task)}
        file_meta = _meta_in(header, str(path))
        dtype = file_meta["dtype"]
        if any(x.dtype.kind != "O" and x.dtype != dtype for x, _ in users.values()):
            # `fedgs` comes after `user_data`, so the type was not known when examples were read
            read = read_users(path, header, dtype=dtype, task=task)
            users = {user: (x, y) for user, x, y in read}
        for user in _names_in(header, str(path)):
            if user in all_users:
                raise DataError(f"{path}: user {user!r} is in {folder.name}/ twice")
            all_users[user] = users[user]
        meta.update(file_meta)
    return all_users


def _meta_in(header: Mapping[str, object], where: str) -> _Meta:
    """What a file says about the federation; other programs' files have float32 examples."""
    table = header.get("fedgs", {})
    dtype = table.get("dtype", "<f4") if isinstance(table, dict) else None
    names = table.get("names", []) if isinstance(table, dict) else None
    if (
        not isinstance(table, dict)
        or not isinstance(dtype, str)
        or dtype[1:2] not in tuple("biuf")
        or not isinstance(names, list)
    ):
        raise DataError(
            f"{where}: fedgs must be a table that `fedgs data export` wrote, got {str(table)[:60]}"
        )
    # the other entries are checked where they are used
    return cast(_Meta, {**table, "dtype": dtype})


def _names_in(header: Mapping[str, object], where: str) -> list[str]:
    """The users' names in the order of the file."""
    users = header.get("users")
    if not isinstance(users, list) or not all(
        isinstance(user, str | int) and not isinstance(user, bool) for user in users
    ):
        got = "none" if "users" not in header else str(users)[:60]
        raise DataError(
            f"{where} must have `users`, the list of the users' names in order, got {got}"
        )
    names = [str(user) for user in users]
    if len(set(names)) != len(names):
        doubled = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{where} must have each user once, got {doubled!r} twice in users")
    return names


def _examples(
    data: object, user: str, where: str, dtype: npt.DTypeLike, task: Task
) -> tuple[AnyArray, AnyArray]:
    if not isinstance(data, dict) or "x" not in data or "y" not in data:
        raise DataError(f"{where}: user {user!r} must have x and y")
    y = data["y"] if isinstance(data["y"], list) else [data["y"]]
    if not isinstance(data["x"], list) or len(data["x"]) != len(y):
        is_list = isinstance(data["x"], list)
        got = f"{len(data['x'])} examples" if is_list else type(data["x"]).__name__
        raise DataError(
            f"{where}: x of user {user!r} must be a list of {len(y)} examples, one for each label, "
            f"got {got}"
        )
    if task == "sequence" and y and isinstance(data["x"][0], str):
        return check_texts(data["x"], y, f"{where}, user {user!r}")
    targets = _targets(data["y"], f"{where}: y of user {user!r}", task)
    if len(targets) == 0:
        return np.zeros(0, dtype=dtype), targets
    x = as_numbers(data["x"], f"{where}: x of user {user!r}")
    converted = x.astype(dtype)
    if converted.dtype.kind != "f" and not np.array_equal(converted, x):
        raise DataError(
            f"{where}: x of user {user!r} must hold {dtype} as `fedgs` says, "
            f"got {x.dtype} that does not fit"
        )
    return converted, targets


def _targets(y: object, where: str, task: Task) -> AnyArray:
    """The targets of one user; texts stay texts until all users are read."""
    if task == "classes" and isinstance(y, list) and any(isinstance(label, str) for label in y):
        for row, label in enumerate(y):
            if not isinstance(label, str) or not label:
                raise DataError(
                    f"{where}: labels must be either numbers or texts that are not empty, "
                    f"got {label!r} in row {row}"
                )
        return np.array(y, dtype=object)
    if task != "classes" and y == []:
        return np.zeros(0, dtype=np.int64 if task == "sequence" else np.float32)
    return as_targets(y, where, task)


def _number_texts(parts: dict[str, _Users], task: Task, *, every: bool) -> dict[str, object]:
    """Replace texts by numbers in all parts; returns the facts about them."""
    users = [pair for part in parts.values() for pair in part.values() if len(pair[1])]
    if task == "sequence" and any(x.dtype.kind == "O" for x, _ in users):
        texts = {
            name: {user: pair for user, pair in part.items() if len(pair[1])}
            for name, part in parts.items()
        }
        tokens, vocabulary = encoded(texts, every=every)
        for name, part in tokens.items():
            parts[name] = {**parts[name], **part}
        return {"vocabulary": vocabulary}
    if not any(y.dtype.kind == "O" for _, y in users):
        if task == "sequence":
            _as_integers(parts)
        return {}
    given = {
        f"y of user {user!r} in {name}": y
        for name, part in parts.items()
        for user, (_, y) in part.items()
        if len(y)
    }
    numbers, names = numbered(given)
    for name, part in parts.items():
        for user, (x, y) in part.items():
            if len(y):
                labels = as_targets(numbers[f"y of user {user!r} in {name}"], user, task)
                part[user] = (x, labels)
    return named_labels(names)


def _as_integers(parts: dict[str, _Users]) -> None:
    """The tokens of all users as int64, where they are whole numbers."""
    for part in parts.values():
        for user, (x, y) in part.items():
            whole = x.astype(np.int64)
            part[user] = (whole if np.array_equal(whole, x) else x, y)


def _refuse_strangers(testers: list[str], users: list[str], where: str) -> None:
    strangers = [user for user in testers if user not in set(users)]
    if strangers:
        raise DataError(
            f"{where}: with data.client_test each user of test/ must be one of train/, "
            f"got {strangers[0]!r}"
        )


def _check_counts(header: Mapping[str, object], sizes: Mapping[str, int], where: str) -> None:
    """Refuse `users` and `num_samples` that do not fit the `sizes` in `user_data`."""
    users = _names_in(header, where)
    if set(users) != set(sizes):
        odd = sorted(set(users) ^ set(sizes))[0]
        raise DataError(
            f"{where}: `users` and `user_data` differ; "
            f"{odd!r} is only in {'users' if odd in users else 'user_data'}"
        )
    counts = header.get("num_samples", [sizes[user] for user in users])
    if not isinstance(counts, list) or len(counts) != len(users):
        got = f"{len(counts)} entries" if isinstance(counts, list) else type(counts).__name__
        raise DataError(
            f"{where}: num_samples must have a number for each of the {len(users)} users, got {got}"
        )
    for user, count in zip(users, counts, strict=True):
        if sizes[user] != count:
            raise DataError(
                f"{where}: user {user!r} has {sizes[user]} examples, but num_samples says {count!r}"
            )


def _features_of(users: list[str], meta: _Meta, where: str) -> FloatMatrix | None:
    """(N, d) vectors of the users; the file has them in the order of its names."""
    if meta.get("client_features") is None:
        return None
    features = as_features(meta["client_features"], f"{where}: client_features")
    row = {str(name): k for k, name in enumerate(meta.get("names", []))}
    if len(row) != len(features) or not set(users) <= set(row):
        raise DataError(
            f"{where}: client_features must have a row for each of the names, "
            f"got {len(features)} for {len(row)} names"
        )
    return features[[row[user] for user in users]]


def _part(data: _Users, users: list[str]) -> Part | None:
    """The examples of `users` in their order; None where there is no example."""
    sizes = _sizes(data, users)
    pieces = {user: data[user] for user, size in zip(users, sizes, strict=True) if size}
    if not pieces:
        return None
    first, *_ = (x.shape[1:] for x, _ in pieces.values())
    for user, (x, _) in pieces.items():
        if x.shape[1:] != first:
            raise DataError(
                f"examples must have one shape, got {first} and, from user {user!r}, {x.shape[1:]}"
            )
    return Part(
        frozen(np.concatenate([x for x, _ in pieces.values()])),
        np.concatenate([y for _, y in pieces.values()]),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
    )


def _sizes(data: _Users, users: list[str]) -> IntArray:
    """(users,) numbers of examples; 0 for a user that is not in `data`."""
    return np.array([len(data[user][1]) if user in data else 0 for user in users], dtype=np.int64)
