"""LEAF-style JSON (users, num_samples, user_data with x and y), in and out, one user in memory at a time.

A data set is a folder with `train/*.json`, `test/*.json` and optionally `validation/*.json`. Files may be larger than memory
allows as text: they are parsed and written user by user. Our own files carry a further key `fedgs` (types, labels, names,
normalization), so that they load back identically; other readers pass over it.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedgs.arrays import AnyArray, IntArray, frozen
from fedgs.clients import Clients
from fedgs.data.assemble import kept_clients, server_part
from fedgs.data.base import SYNTHETIC_TRAINING, Data, Defaults
from fedgs.data.federation import Federation, Normalization, Part
from fedgs.data.json_stream import JsonStream
from fedgs.errors import DataError, OutputError
from fedgs.registry import register

__all__ = ["Leaf", "read_users", "write_leaf"]

_PARTS = ("train", "validation", "test")
_SERVER = "server"


@register("data", "leaf")
class Leaf(Data):
    """A federation from LEAF-style JSON files; the server's test set is the union of the users' test examples.

    Attributes:
        path: the folder with `train/` and `test/`; a relative path is looked up in --data-dir first.
        drop_empty: leave users without a training example out instead of refusing them.
    """

    path: str
    drop_empty: bool = False

    @property
    def title(self) -> str:
        """The folder's name."""
        return Path(self.path).name

    def defaults_for(self, federation: Federation) -> Defaults:
        """Logistic regression where examples are vectors; for images the model must be named."""
        return Defaults("logistic" if len(federation.example_shape) == 1 else None, SYNTHETIC_TRAINING)

    def load(self, data_dir: Path | None = None) -> Federation:
        """The federation.

        Raises:
            DataError: no such folder, truncated or malformed JSON, counts that do not fit, examples that are not numbers.
        """
        folder = Path(self.path).expanduser()
        if data_dir is not None and (data_dir / folder).is_dir():
            folder = data_dir / folder
        meta: dict[str, Any] = {}
        parts = {name: dict(_users_of(folder / name, meta)) for name in _PARTS}
        for name in ("train", "test"):
            if not parts[name]:
                raise DataError(f"data.path: {folder} must have {name}/*.json with at least one user")
        return _federation(parts, meta, self.title, drop_empty=self.drop_empty)


def read_users(path: Path, meta: dict[str, Any] | None = None) -> Iterator[tuple[str, AnyArray, IntArray]]:
    """(name, x, y) of every user of one file, in the file's order, read as a stream.

    Args:
        path: the file.
        meta: gets what our own files say about themselves under `fedgs`.

    Raises:
        DataError: truncated or malformed JSON; `users` or `num_samples` that do not fit `user_data`; x that is no number.
    """
    told: dict[str, Any] = {}
    seen: dict[str, int] = {}
    with path.open(encoding="utf-8") as file:
        stream = JsonStream(file, str(path))
        for key in stream.members():
            if key != "user_data":
                told[key] = stream.value()
                if key == "fedgs" and meta is not None:
                    meta.update(told[key])
                continue
            for user in stream.members():
                x, y = _examples(stream.value(), user, str(path), told.get("fedgs", {}).get("dtype"))
                seen[user] = len(y)
                yield user, x, y
    _check_counts(told, seen, str(path))


def write_leaf(federation: Federation, folder: Path) -> Path:
    """Write `train/`, `test/` and, where there is one, `validation/` as LEAF-style JSON, user by user; returns the folder.

    The server's test set is the test part of one user, "server".

    Raises:
        OutputError: names that are the same as text, or a folder that cannot be written to.
    """
    names = [str(name) for name in federation.clients.names]
    if len(set(names)) != len(names):
        raise OutputError("LEAF's user names are texts, and two clients have the same name as text")
    for label in _PARTS:
        part: Part | None = getattr(federation, label)
        if part is None:
            continue
        try:
            (folder / label).mkdir(parents=True, exist_ok=True)
            _write_part(federation, part, [_SERVER] if label == "test" else names, folder / label / "data.json")
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
        "normalization": scaling and {"scale": scaling.scale, "mean": list(scaling.mean), "sd": list(scaling.sd)},
        "client_features": None if features is None else features.tolist(),
    }


def _users_of(folder: Path, meta: dict[str, Any]) -> Iterator[tuple[str, tuple[AnyArray, IntArray]]]:
    seen: set[str] = set()
    for path in sorted(folder.glob("*.json")):
        for user, x, y in read_users(path, meta):
            if user in seen:
                raise DataError(f"{path}: user {user!r} is in {folder.name}/ twice")
            seen.add(user)
            yield user, (x, y)


def _examples(data: Any, user: str, where: str, dtype: str | None) -> tuple[AnyArray, IntArray]:
    if not isinstance(data, dict) or "x" not in data or "y" not in data:
        raise DataError(f"{where}: user {user!r} must have x and y")
    try:
        x, y = np.array(data["x"], dtype=np.dtype(dtype or np.float32)), np.array(data["y"])
    except (ValueError, TypeError, OverflowError):
        raise DataError(f"{where}: x of user {user!r} must be numbers, one shape for all examples; encode texts first") from None
    if len(y) == 0:
        return x, y.astype(np.int64)
    if y.ndim != 1 or len(x) != len(y) or y.dtype.kind not in "iuf" or np.any(y != np.floor(y)) or y.min() < 0:
        raise DataError(f"{where}: y of user {user!r} must be {len(x)} integers >= 0, one for each example of x")
    return x, y.astype(np.int64)


def _check_counts(told: Mapping[str, Any], seen: Mapping[str, int], where: str) -> None:
    users = told.get("users", list(seen))
    if set(users) != set(seen):
        odd = sorted(set(users) ^ set(seen))[0]
        raise DataError(f"{where}: `users` and `user_data` differ; {odd!r} is only in {'users' if odd in users else 'user_data'}")
    counts = told.get("num_samples", [seen[user] for user in users])
    if len(counts) != len(users):
        raise DataError(f"{where}: {len(users)} users, but num_samples has {len(counts)} entries")
    for user, count in zip(users, counts, strict=True):
        if seen[user] != count:
            raise DataError(f"{where}: user {user!r} has {seen[user]} examples, but num_samples says {count}")


def _federation(
    parts: Mapping[str, Mapping[str, tuple[AnyArray, IntArray]]], meta: Mapping[str, Any], name: str, *, drop_empty: bool
) -> Federation:
    own_names = {str(own): own for own in meta.get("names", [])}
    users = list(dict.fromkeys([*parts["train"], *parts["validation"]]))
    sizes = np.array([len(parts["train"][user][1]) if user in parts["train"] else 0 for user in users])
    kept = [users[k] for k in kept_clients(sizes, tuple(users), drop_empty=drop_empty).tolist()]
    train, validation = _part(parts["train"], kept), _part(parts["validation"], kept)
    test = _part(parts["test"], list(parts["test"]))
    labels = [part.y for part in (train, validation, test) if part is not None and len(part)]
    num_labels = meta.get("num_labels", max(int(y.max()) for y in labels) + 1)
    assert train is not None
    assert test is not None
    scaling, features = meta.get("normalization"), meta.get("client_features")
    clients = Clients(
        names=tuple(own_names.get(user, user) for user in kept),
        data_sizes=np.diff(train.offsets),
        label_counts=train.label_counts(num_labels),
        features=None if features is None else np.array(features),
    )
    return Federation(
        name=meta.get("name", name),
        clients=clients,
        num_labels=num_labels,
        train=train,
        validation=validation,
        test=server_part(test.x, test.y),
        normalization=scaling and Normalization(scaling["scale"], tuple(scaling["mean"]), tuple(scaling["sd"])),
        facts={"left_out": [user for user in users if user not in set(kept)]} if len(kept) < len(users) else {},
    )


def _part(data: Mapping[str, tuple[AnyArray, IntArray]], users: list[str]) -> Part | None:
    """The examples of `users` one after the other; None where the part has no user at all."""
    if not data:
        return None
    counts = [len(data[user][1]) if user in data else 0 for user in users]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    pieces = [data[user] for user in users if user in data and len(data[user][1])]
    if not pieces:
        return None
    shapes = {x.shape[1:] for x, _ in pieces}
    if len(shapes) > 1:
        raise DataError(f"examples must have one shape, got {' and '.join(str(shape) for shape in sorted(shapes)[:2])}")
    return Part(frozen(np.concatenate([x for x, _ in pieces])), np.concatenate([y for _, y in pieces]), offsets)
