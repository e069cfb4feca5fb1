"""FedScale's `client_device_capacity`: how fast devices compute and communicate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedgs.arrays import FloatArray, open_npz
from fedgs.errors import DataError, shown
from fedgs.traces.collected import checked_name
from fedgs.traces.fedscale import plain_dict

__all__ = [
    "CAPACITIES",
    "Capacities",
    "capacity_file",
    "read_capacities",
    "stored_capacities",
    "write_capacities",
]

CAPACITIES = "FedScale's capacities"
_MOST_BYTES = 64 << 20
_LEAST, _MOST = 1e-9, 1e12  # of milliseconds and of kbit/s


@dataclass(frozen=True, eq=False)
class Capacities:
    """The speeds of D devices.

    Attributes:
        names: D distinct texts of 1 to 200 characters, without spaces around them.
        milliseconds: (D,) of inference on one example, from 1e-9 to 1e12.
        kilobits: (D,) kbit/s in both directions, from 1e-9 to 1e12.

    >>> len(Capacities(("a",), np.array([162.0]), np.array([5648.0])).names)
    1
    """

    names: Sequence[str]
    milliseconds: FloatArray
    kilobits: FloatArray


def capacity_file(path: Path) -> bytes:
    """The bytes of a file, which must not be too many.

    Raises:
        DataError: more than 64 MB.
    """
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise DataError(f"it must have at most {_MOST_BYTES >> 20} MB")
    return content


def read_capacities(content: bytes) -> Capacities:
    """The devices of a pickled dict, id -> {computation, communication}.

    Raises:
        DataError: no pickle, one that could execute code, or a record that does not fit; the
            sentence names the device.

    >>> import pickle
    >>> content = pickle.dumps({7: {"computation": 153.0, "communication": 2209.6}})
    >>> read_capacities(content).kilobits.tolist()
    [2209.6]
    """
    names: dict[str, None] = {}
    rows = []
    for identity, record in plain_dict(content).items():
        name = checked_name(str(identity).strip())
        device = f"device {shown(name)}"
        if name in names:
            raise DataError(f"devices must be distinct, got {device} twice")
        names[name] = None
        if not isinstance(record, Mapping):
            raise DataError(f"{device} must have a dict, got {type(record).__name__}")
        row = [record.get(key) for key in ("computation", "communication")]
        for key, value in zip(("computation", "communication"), row, strict=True):
            if type(value) not in (int, float) or not _LEAST <= value <= _MOST:  # type: ignore[operator]
                raise DataError(
                    f"{device} must have a number from {_LEAST:g} to {_MOST:g} as {key!r}, got "
                    f"{shown(value)}"
                )
        rows.append(row)
    if not rows:
        raise DataError("it must have at least one device, got none")
    milliseconds, kilobits = np.array(rows, dtype=np.float64).T
    return Capacities(tuple(names), milliseconds, kilobits)


def write_capacities(capacities: Capacities, path: Path) -> None:
    """Write capacities as an .npz, for a process that reads it at once."""
    with path.open("wb") as file:
        np.savez(
            file,
            names=np.array(capacities.names, dtype=np.str_),
            milliseconds=capacities.milliseconds,
            kilobits=capacities.kilobits,
        )


def stored_capacities(path: Path) -> Capacities:
    """What `write_capacities` has written."""
    with open_npz(path) as stored:
        names = tuple(stored["names"].tolist())
        return Capacities(names, stored["milliseconds"], stored["kilobits"])
