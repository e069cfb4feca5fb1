"""Federations from LEAF-style JSON (users, num_samples, user_data with x and y).

A data set is a folder with `train/*.json`, `test/*.json` and optionally `validation/*.json`. Files
may be too large to be held in memory as text. Files that fedgs wrote have a further key `fedgs`
(types, labels, names, normalization), so that they load back identically; other readers ignore it.
"""

from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from fedgs.arrays import FloatMatrix, IntArray, frozen
from fedgs.clients import Clients
from fedgs.data.assemble import nonempty_clients, server_part
from fedgs.data.base import SYNTHETIC_TRAINING, Data, Defaults
from fedgs.data.classes import given_classes
from fedgs.data.federation import Federation, Part
from fedgs.data.groups import GroupsSetting, Quantiles, as_groups
from fedgs.data.labels import named_labels, numbered
from fedgs.data.leaf_reading import LeafMeta, Users, users_of
from fedgs.data.normalization import NormalizationSetting, chosen_normalization, warn_of_pixels
from fedgs.data.numeric import as_features
from fedgs.data.part import counted_labels
from fedgs.data.targets import Task, as_targets, checked_task, output_count
from fedgs.data.text import encoded
from fedgs.errors import DataError
from fedgs.registry import register

__all__ = ["Leaf"]

_PARTS = ("train", "validation", "test")


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
        meta: LeafMeta = {"dtype": "<f4"}
        parts = {name: users_of(folder / name, meta, self.task) for name in _PARTS}
        for name in ("train", "test"):
            if not parts[name]:
                raise DataError(
                    f"data.path: {folder} must have {name}/*.json with at least one user"
                )
        return self._federation(parts, meta, str(folder))

    def _federation(self, parts: dict[str, Users], meta: LeafMeta, where: str) -> Federation:
        task = checked_task(self.task or meta.get("task", "classes"))
        facts = _number_texts(parts, task, every=self.predict == "every")
        users = list(dict.fromkeys([*parts["train"], *parts["validation"]]))
        sizes = _sizes(parts["train"], users)
        rows = nonempty_clients(sizes, tuple(users), drop_empty=self.drop_empty)
        nonempty = [users[k] for k in rows.tolist()]
        train, validation = (
            _part(parts[name], nonempty, f"{where}/{name}") for name in ("train", "validation")
        )
        testers = list(parts["test"])
        test_offsets = None
        if meta.get("client_test") if self.client_test is None else self.client_test:
            _refuse_strangers(testers, users, where)
            testers = nonempty
            test_offsets = np.concatenate([[0], np.cumsum(_sizes(parts["test"], nonempty))])
        test = _part(parts["test"], testers, f"{where}/test")
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

    def _groups(self, train: Part, task: Task, meta: LeafMeta) -> IntArray | None:
        if isinstance(self.groups, str):
            raise DataError(
                "data.groups must be {quantiles = k} for data 'leaf', whose files have no columns, "
                f"got {self.groups!r}"
            )
        stored = meta.get("groups")
        chosen: Quantiles | list[int] | None = self.groups if stored is None else stored
        return as_groups(chosen if self.groups is None else self.groups, train.y, task)


def _number_texts(parts: dict[str, Users], task: Task, *, every: bool) -> dict[str, object]:
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


def _as_integers(parts: dict[str, Users]) -> None:
    """The tokens of all users as int64, where they are whole numbers, and of one length.

    Shorter sequences get token 0 at their end, with label -1.
    """
    pairs = [pair for part in parts.values() for pair in part.values()]
    longest = max((y.shape[1] for x, y in pairs if x.shape == y.shape and y.ndim == 2), default=0)
    for part in parts.values():
        for user, (x, y) in part.items():
            whole = x.astype(np.int64)
            tokens = whole if np.array_equal(whole, x) else x
            if x.shape == y.shape and y.ndim == 2 and y.shape[1] < longest:
                ends = ((0, 0), (0, longest - y.shape[1]))
                tokens, y = np.pad(tokens, ends), np.pad(y, ends, constant_values=-1)
            part[user] = (tokens, y)


def _refuse_strangers(testers: list[str], users: list[str], where: str) -> None:
    strangers = [user for user in testers if user not in set(users)]
    if strangers:
        raise DataError(
            f"{where}: with data.client_test each user of test/ must be one of train/, "
            f"got {strangers[0]!r}"
        )


def _features_of(users: list[str], meta: LeafMeta, where: str) -> FloatMatrix | None:
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


def _part(data: Users, users: list[str], where: str) -> Part | None:
    """The examples of `users` in their order; None where there is no example.

    Args:
        data: of one folder of files.
        users: whose examples.
        where: the folder.
    """
    sizes = _sizes(data, users)
    pieces = {user: data[user] for user, size in zip(users, sizes, strict=True) if size}
    if not pieces:
        return None
    first_user, first = next((user, x.shape[1:]) for user, (x, _) in pieces.items())
    for user, (x, _) in pieces.items():
        if x.shape[1:] != first:
            raise DataError(
                f"{where}: examples must have one shape, got {first} from user {first_user!r} and "
                f"{x.shape[1:]} from user {user!r}; only sequences of tokens are padded"
            )
    return Part(
        frozen(np.concatenate([x for x, _ in pieces.values()])),
        np.concatenate([y for _, y in pieces.values()]),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
    )


def _sizes(data: Users, users: list[str]) -> IntArray:
    """(users,) numbers of examples; 0 for a user that is not in `data`."""
    return np.array([len(data[user][1]) if user in data else 0 for user in users], dtype=np.int64)
