"""Writing LEAF-style JSON, user by user."""

import json
from pathlib import Path

import numpy as np

from fedgs.data.checks import check_held
from fedgs.data.federation import Federation, Part
from fedgs.data.leaf_reading import LeafMeta
from fedgs.errors import OutputError

__all__ = ["write_leaf"]

_PARTS = ("train", "validation", "test")
_SERVER = "server"


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


def _meta(federation: Federation) -> LeafMeta:
    scaling, features = federation.normalization, federation.clients.features
    meta: LeafMeta = {
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
