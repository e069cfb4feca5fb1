"""LEAF-style JSON (users, num_samples, user_data with x and y), in and out, one user in memory at a time.

A data set is a folder with `train/*.json`, `test/*.json` and optionally `validation/*.json`. Files
may be larger than memory allows as text: they are parsed and written user by user. Our own files
carry a further key `fedgs` (types, labels, names, normalization), so that they load back
identically; other readers pass over it.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from fedgs.arrays import AnyArray, FloatMatrix, IntArray, frozen
from fedgs.clients import Clients
from fedgs.data.assemble import kept_clients, server_part
from fedgs.data.base import SYNTHETIC_TRAINING, Data, Defaults
from fedgs.data.classes import class_count, given_classes
from fedgs.data.federation import Federation, Part
from fedgs.data.json_stream import JsonStream
from fedgs.data.normalization import NormalizationSetting, chosen_normalization, warn_of_pixels
from fedgs.data.numeric import as_features, as_labels, as_numbers
from fedgs.errors import DataError, OutputError
from fedgs.registry import register

__all__ = ["Leaf", "read_users", "write_leaf"]

_Users = dict[str, tuple[AnyArray, IntArray]]  # user -> x and y
_PARTS = ("train", "validation", "test")
_SERVER = "server"


@register("data", "leaf")
class Leaf(Data):
    """A federation from LEAF-style JSON files; the server's test set is the union of the users' test examples.

    Clients come in the order of `users`, and files in the order of their names. A user with
    validation examples alone follows those of `train/`.

    Attributes:
        path: the folder with `train/` and `test/`; a relative path is looked up in --data-dir
            first.
        normalization: how stored examples become inputs, a table with `scale`, `mean` and `sd`;
            None: as they are.
        classes: C, above the largest label; None: the largest label + 1.
        drop_empty: leave users without a training example out instead of refusing them.

    >>> import tempfile
    >>> text = '{"users": ["ann"], "num_samples": [2], "user_data": {"ann": {"x": [[0.5], [1]], "y": [0, 1]}}}'
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

    @property
    def title(self) -> str:
        """The folder's name."""
        return (
            Path(self.path).name or Path(self.path).resolve().name or "leaf"
        )  # "." has no name of its own

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
        meta: dict[str, Any] = {}
        parts = {name: _users_of(folder / name, meta) for name in _PARTS}
        for name in ("train", "test"):
            if not parts[name]:
                raise DataError(
                    f"data.path: {folder} must have {name}/*.json with at least one user"
                )
        return self._federation(parts, meta, str(folder))

    def _federation(
        self, parts: Mapping[str, _Users], meta: Mapping[str, Any], where: str
    ) -> Federation:
        users = list(dict.fromkeys([*parts["train"], *parts["validation"]]))
        sizes = np.array(
            [len(parts["train"][user][1]) if user in parts["train"] else 0 for user in users]
        )
        kept = [
            users[k] for k in kept_clients(sizes, tuple(users), drop_empty=self.drop_empty).tolist()
        ]
        train, validation = _part(parts["train"], kept), _part(parts["validation"], kept)
        test = _part(parts["test"], list(parts["test"]))
        assert train is not None
        if test is None:
            raise DataError(
                f"data.path: {where} must have at least one test example, got none in test/*.json"
            )
        labels = [part.y for part in (train, validation, test) if part is not None]
        given = self.classes if self.classes is not None else meta.get("num_labels")
        num_labels = class_count(labels, given, clients=len(kept), setting="data.classes")
        scaling = chosen_normalization(self.normalization, meta.get("normalization"), where)
        if scaling is None:
            warn_of_pixels(train.x, self.title)
        own_names = {str(own): own for own in meta.get("names", [])}
        clients = Clients(
            names=tuple(own_names.get(user, user) for user in kept),
            data_sizes=np.diff(train.offsets),
            label_counts=train.label_counts(num_labels),
            features=_features_of(kept, meta, where),
            classes=given_classes(
                labels, given if self.classes is not None or meta.get("classes_given") else None
            ),
        )
        return Federation(
            name=meta.get("name", self.title),
            clients=clients,
            num_labels=num_labels,
            train=train,
            validation=validation,
            test=server_part(test.x, test.y),
            normalization=scaling,
            facts={"left_out": [user for user in users if user not in set(kept)]}
            if len(kept) < len(users)
            else {},
        )


def read_users(
    path: Path, meta: dict[str, Any] | None = None, *, dtype: str | None = None
) -> Iterator[tuple[str, AnyArray, IntArray]]:
    """(name, x, y) of every user of one file, in the order of `user_data`, read as a stream.

    Args:
        path: the file.
        meta: gets the file's other keys: `users`, and what our own files say about themselves under
            `fedgs`.
        dtype: type of the examples; None: what `fedgs` says before `user_data`, else float32.

    Raises:
        DataError: truncated or malformed JSON; `users` or `num_samples` that do not fit
            `user_data`; x or y that cannot be used.
    """
    told: dict[str, Any] = {} if meta is None else meta
    told.clear()
    seen: dict[str, int] = {}
    with path.open(encoding="utf-8-sig") as file:
        stream = JsonStream(file, str(path))
        for key in stream.members():
            if key in told:
                raise DataError(f"{path} must have the key {key!r} once, got it twice")
            if key != "user_data":
                told[key] = stream.value()
                continue
            told[key] = None
            held = np.dtype(dtype or _own(told, str(path))["dtype"])
            for user in stream.members():
                if user in seen:
                    raise DataError(
                        f"{path} must have each user once, got {user!r} twice in user_data"
                    )
                x, y = _examples(stream.value(), user, str(path), held)
                seen[user] = len(y)
                yield user, x, y
    _check_counts(told, seen, str(path))


def write_leaf(federation: Federation, folder: Path) -> Path:
    """Write `train/`, `test/` and, where there is one, `validation/` as LEAF-style JSON, user by user; returns the folder.

    The server's test set is the test part of one user, "server".

    Raises:
        OutputError: a folder that cannot be written to.
    """
    names = [str(name) for name in federation.clients.names]
    for label in _PARTS:
        part: Part | None = getattr(federation, label)
        if part is None:
            continue
        try:
            (folder / label).mkdir(parents=True, exist_ok=True)
            _write_part(
                federation,
                part,
                [_SERVER] if label == "test" else names,
                folder / label / "data.json",
            )
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


def _meta(federation: Federation) -> dict[str, Any]:
    scaling, features = federation.normalization, federation.clients.features
    return {
        "name": federation.name,
        "names": list(federation.clients.names),
        "dtype": federation.train.x.dtype.str,
        "num_labels": federation.num_labels,
        "normalization": scaling
        and {"scale": scaling.scale, "mean": list(scaling.mean), "sd": list(scaling.sd)},
        "client_features": None if features is None else features.tolist(),
        **({} if federation.clients.classes is None else {"classes_given": True}),
    }


def _users_of(folder: Path, meta: dict[str, Any]) -> _Users:
    """The users of all files of a folder in the order of `users`."""
    found: _Users = {}
    for path in sorted(folder.glob("*.json")):
        told: dict[str, Any] = {}
        users = {user: (x, y) for user, x, y in read_users(path, told)}
        own = _own(told, str(path))
        if any(
            x.dtype != own["dtype"] for x, _ in users.values()
        ):  # the file says so behind its examples
            users = {user: (x, y) for user, x, y in read_users(path, told, dtype=own["dtype"])}
        for user in map(str, told["users"]):
            if user in found:
                raise DataError(f"{path}: user {user!r} is in {folder.name}/ twice")
            found[user] = users[user]
        meta.update(told.get("fedgs", {}))
    return found


def _own(told: Mapping[str, Any], where: str) -> dict[str, Any]:
    """What a file of our own says about itself, the type of the examples at least."""
    own = told.get("fedgs", {})
    dtype = own.get("dtype", "<f4") if isinstance(own, dict) else None
    names = own.get("names", []) if isinstance(own, dict) else None
    if not isinstance(dtype, str) or dtype[1:2] not in tuple("biuf") or not isinstance(names, list):
        raise DataError(
            f"{where}: fedgs must be a table that `fedgs data export` wrote, got {str(own)[:60]}"
        )
    return {**own, "dtype": dtype}


def _examples(data: Any, user: str, where: str, dtype: np.dtype[Any]) -> tuple[AnyArray, IntArray]:
    if not isinstance(data, dict) or "x" not in data or "y" not in data:
        raise DataError(f"{where}: user {user!r} must have x and y")
    y = as_labels(data["y"], f"{where}: y of user {user!r}")
    if not isinstance(data["x"], list) or len(data["x"]) != len(y):
        got = (
            f"{len(data['x'])} examples"
            if isinstance(data["x"], list)
            else type(data["x"]).__name__
        )
        raise DataError(
            f"{where}: x of user {user!r} must be a list of {len(y)} examples, one for each label, "
            f"got {got}"
        )
    if len(y) == 0:
        return np.zeros(0, dtype=dtype), y
    x = as_numbers(data["x"], f"{where}: x of user {user!r}")
    held = x.astype(dtype)
    if dtype.kind != "f" and not np.array_equal(held, x):
        raise DataError(
            f"{where}: x of user {user!r} must hold {dtype} as `fedgs` says, "
            f"got {x.dtype} that does not fit"
        )
    return held, y


def _check_counts(told: Mapping[str, Any], seen: Mapping[str, int], where: str) -> None:
    if not isinstance(told.get("users"), list) or not all(
        isinstance(user, str | int) and not isinstance(user, bool) for user in told["users"]
    ):
        got = "none" if "users" not in told else str(told["users"])[:60]
        raise DataError(
            f"{where} must have `users`, the list of the users' names in order, got {got}"
        )
    users = [str(user) for user in told["users"]]
    if len(set(users)) != len(users):
        doubled = next(user for user in users if users.count(user) > 1)
        raise DataError(f"{where} must have each user once, got {doubled!r} twice in users")
    if set(users) != set(seen):
        odd = sorted(set(users) ^ set(seen))[0]
        raise DataError(
            f"{where}: `users` and `user_data` differ; {odd!r} is only in "
            f"{'users' if odd in users else 'user_data'}"
        )
    counts = told.get("num_samples", [seen[user] for user in users])
    if not isinstance(counts, list) or len(counts) != len(users):
        got = f"{len(counts)} entries" if isinstance(counts, list) else type(counts).__name__
        raise DataError(
            f"{where}: num_samples must have a number for each of the {len(users)} users, got {got}"
        )
    for user, count in zip(users, counts, strict=True):
        if seen[user] != count:
            raise DataError(
                f"{where}: user {user!r} has {seen[user]} examples, but num_samples says {count!r}"
            )


def _features_of(users: list[str], meta: Mapping[str, Any], where: str) -> FloatMatrix | None:
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
    """The examples of `users` one after the other; None where the part has no user at all."""
    if not data:
        return None
    counts = [len(data[user][1]) if user in data else 0 for user in users]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    pieces = [data[user] for user in users if user in data and len(data[user][1])]
    if not pieces:
        return None
    first = pieces[0][0].shape[1:]
    for user in users:
        if user in data and len(data[user][1]) and data[user][0].shape[1:] != first:
            raise DataError(
                f"examples must have one shape, got {first} and, from user {user!r}, "
                f"{data[user][0].shape[1:]}"
            )
    return Part(
        frozen(np.concatenate([x for x, _ in pieces])),
        np.concatenate([y for _, y in pieces]),
        offsets,
    )
