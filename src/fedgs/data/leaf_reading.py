"""Reading LEAF-style JSON: the users of a file, or of all files of a folder."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NotRequired, TypedDict, cast

import numpy as np
import numpy.typing as npt

from fedgs.arrays import AnyArray
from fedgs.data.json_stream import JsonStream
from fedgs.data.numeric import as_numbers
from fedgs.data.padding import padded
from fedgs.data.targets import Task, as_targets, checked_task
from fedgs.data.text import check_texts
from fedgs.errors import DataError

__all__ = ["LeafMeta", "Users", "read_users", "users_of"]

Users = dict[str, tuple[AnyArray, AnyArray]]  # user -> x and y


class LeafMeta(TypedDict):
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


def users_of(folder: Path, meta: LeafMeta, task: Task | None) -> Users:
    """The users of all files of a folder in the order of `users`; the files update `meta`."""
    all_users: Users = {}
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


def _meta_in(header: Mapping[str, object], where: str) -> LeafMeta:
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
    return cast(LeafMeta, {**table, "dtype": dtype})


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
    x_title, y_title = (f"{where}: {key} of user {user!r}" for key in "xy")
    given: object = data["x"]
    labels: object = data["y"]
    if task == "sequence" and y:
        xs, ys = padded({x_title: given}, {y_title: labels}, task=task, mask=False)
        given, labels = xs[x_title], ys[y_title]
    targets = _targets(labels, y_title, task)
    if len(targets) == 0:
        return np.zeros(0, dtype=dtype), targets
    x = as_numbers(given, x_title)
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
    if task != "classes" and isinstance(y, list) and not y:
        return np.zeros(0, dtype=np.int64 if task == "sequence" else np.float32)
    return as_targets(y, where, task)


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
