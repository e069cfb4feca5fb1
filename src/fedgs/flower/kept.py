"""Where a client keeps its vectors between rounds: in Flower's client state, or in a file.

Flower keeps the state of a context as long as the node and the run live. A file, in the folder that
`state-dir` of the node's configuration names, also survives restarts of the node and of the server.
"""

import hashlib
import io
import logging
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict

from fedgs.arrays import AnyArray, open_npz
from fedgs.errors import ConfigError
from fedgs.flower.names import RECORD, client_key
from fedgs.flower.task import Task
from fedgs.records import write_atomically

__all__ = ["Kept", "Versions", "fits", "keep"]

_logger = logging.getLogger(__name__)

Versions = Mapping[int, Mapping[str, AnyArray]]  # round -> arrays by name


class Kept:
    """The arrays that one client keeps for one deployment, by the round they were made in.

    Args:
        context: of the client; `state-dir` of its node configuration names a folder.
        run: id of the deployment.

    Raises:
        ConfigError: `state-dir` is no text, or empty.
    """

    def __init__(self, context: Context, run: str) -> None:
        self._context, self._prefix = context, f"{RECORD}.{run}."
        self._path: Path | None = None
        if "state-dir" in context.node_config:
            folder = context.node_config["state-dir"]
            if not isinstance(folder, str) or not folder.strip():
                raise ConfigError(f"state-dir of a node must name a folder, got {folder!r}")
            # Nodes may share the folder. A digest, since both names come from elsewhere.
            names = f"{run}/{client_key(context.node_config)}"
            self._path = Path(folder) / f"{hashlib.sha256(names.encode()).hexdigest()[:32]}.npz"

    def load(self) -> dict[int, dict[str, AnyArray]]:
        """Round -> arrays by name; empty if nothing is kept or the file cannot be read."""
        if self._path is not None:
            return _read(self._path)
        return {
            int(name.removeprefix(self._prefix)): {
                entry: array.numpy() for entry, array in record.items()
            }
            for name, record in self._context.state.array_records.items()
            if name.startswith(self._prefix)
        }

    def replace(self, versions: Versions) -> None:
        """Keep these arrays alone.

        Raises:
            OSError: the file cannot be written.
        """
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._path, _packed(versions))
            return
        state = self._context.state
        for name in [name for name in state.array_records if name.startswith(self._prefix)]:
            del state[name]
        for round, arrays in versions.items():
            record = ArrayRecord({name: Array(np.asarray(array)) for name, array in arrays.items()})
            state[f"{self._prefix}{round}"] = record


def keep(message: Message, context: Context) -> Message:
    """Keep the model that follows a round, and confirm it; for FedAWE and FedPBC."""
    task = Task.read(message.content.config_records[RECORD])
    kept = Kept(context, task.run)
    (record,) = message.content.array_records.values()
    versions: dict[int, Mapping[str, AnyArray]] = {
        task.round: {name: array.numpy() for name, array in record.items()}
    }
    before = kept.load().get(task.version)
    if before is not None:
        versions[task.version] = before
    kept.replace(versions)
    return Message(RecordDict({RECORD: ConfigRecord({"round": task.round})}), reply_to=message)


def _packed(versions: Versions) -> bytes:
    """An .npz; members are numbered, since names of arrays may be any text."""
    entries = [(round, name) for round, arrays in versions.items() for name in arrays]
    members: dict[str, Any] = {  # Any: numpy.savez has other keyword arguments than arrays too
        str(place): versions[round][name] for place, (round, name) in enumerate(entries)
    }
    members["rounds"] = np.array([round for round, _ in entries], dtype=np.int64)
    members["names"] = np.array([name for _, name in entries], dtype=np.str_)
    buffer = io.BytesIO()
    np.savez(buffer, **members)
    return buffer.getvalue()


def _read(path: Path) -> dict[int, dict[str, AnyArray]]:
    versions: dict[int, dict[str, AnyArray]] = {}
    if not path.exists():
        return versions
    try:
        with open_npz(path) as stored:
            labels = zip(stored["rounds"].tolist(), stored["names"].tolist(), strict=True)
            for place, (round, name) in enumerate(labels):
                versions.setdefault(round, {})[name] = stored[str(place)]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        _logger.warning("the state of this client in %s cannot be read: %s", path, error)
        return {}
    return versions


def fits(
    arrays: Mapping[str, AnyArray], like: Mapping[str, AnyArray], names: Collection[str]
) -> bool:
    """Whether arrays have these names and the shapes of others.

    >>> fits({"w": np.zeros(2)}, {"w": np.ones(2), "n": np.ones(1)}, ["w"])
    True
    """
    return set(arrays) == set(names) and all(
        arrays[name].shape == like[name].shape for name in names
    )
