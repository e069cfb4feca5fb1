"""Exact resume: a run is its state, so saving a run is saving the state.

A checkpoint is written after the records up to its round and remembers how long their files were.
Resuming cuts the files to that length and repeats the rounds since then, which gives the same
lines, since every draw is keyed by seed and round.

A large table of clients' vectors has a file of its own beside the checkpoint, memory-mapped, and
the checkpoint holds the places of its rows. Rows of the last checkpoint are never overwritten, so
only the rows that changed are written, and a process that is killed at any point leaves a
checkpoint whose rows are intact (`fedgs.aggregation.row_file`).
"""

import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote

import numpy.typing as npt
import torch

from fedgs.aggregation import ClientTable, Vectors
from fedgs.arrays import AnyArray, IntArray, frozen, open_npz
from fedgs.clients import Memory
from fedgs.errors import OutputError
from fedgs.records import RunFolder, save_arrays
from fedgs.sampler_answers import kept_memory
from fedgs.system import TimeState

__all__ = [
    "Checkpoint",
    "State",
    "load_checkpoint",
    "save_checkpoint",
    "stored_round",
    "with_table_files",
]

FORMAT = 1
MAPPED_NUMBERS = 1 << 24  # N·P from which a table is in a file: 64 MiB of float32


@dataclass(frozen=True, eq=False)
class State:
    """Everything that a run carries from round to round.

    Counts and memory are read-only, see `fedgs.sampler_answers.kept_memory`.

    Attributes:
        round: t, the round to come.
        parameters: (P,) float32, theta^t.
        counts: (N,) sampling counts v_k.
        memory: the sampler's arrays.
        weighting: the weighting's arrays.
        vectors: the aggregation's tensors and tables.
        watched: the figures of the evaluations so far that decide when the run stops, see
            `fedgs.stopping`; empty where it does not stop early.
        time: the clock and what belongs to it; None: the run has no clock.
        optimizer: the states of the clients' optimisers, see `fedgs.optimizer_states`; empty where
            they do not outlive a round.
    """

    round: int
    parameters: torch.Tensor
    counts: IntArray
    memory: Memory
    weighting: Memory = field(default_factory=dict)
    vectors: Vectors = field(default_factory=dict)
    watched: Memory = field(default_factory=dict)
    time: TimeState | None = None
    optimizer: Vectors = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", frozen(self.counts))
        object.__setattr__(self, "memory", kept_memory(self.memory))
        object.__setattr__(self, "weighting", kept_memory(self.weighting))
        object.__setattr__(self, "watched", kept_memory(self.watched))


@dataclass(frozen=True)
class Checkpoint:
    """A stored state, and how many bytes of records belong to the rounds before it."""

    state: State
    engine: str
    records_bytes: int
    timings_bytes: int


def save_checkpoint(
    folder: RunFolder,
    state: State,
    *,
    engine: str,
    start_memory: Memory,
    tensors: Sequence[tuple[str, tuple[int, ...]]] = (),
) -> None:
    """Write the state atomically.

    Arrays of the memory that are still those of the start are not written again, nor are rows of
    tables in files.

    Args:
        folder: of the run.
        state: what is stored.
        engine: by which the run is carried out.
        start_memory: the sampler's memory before round 0.
        tensors: names and shapes of the tensors in the parameters, in their order, for readers that
            do not build the model.
    """
    unchanged = [key for key, value in state.memory.items() if value is start_memory.get(key)]
    header = {
        "format": FORMAT,
        "round": state.round,
        "engine": engine,
        "records_bytes": folder.size("rounds.jsonl"),
        "timings_bytes": folder.size("timings.jsonl"),
        "unchanged_memory": unchanged,
        "tensors": tensors,
    }
    arrays: dict[str, npt.ArrayLike] = {"header": json.dumps(header), "counts": state.counts}
    arrays["parameters"] = state.parameters.detach().cpu().numpy()
    for key, value in state.memory.items():
        if key not in unchanged:
            arrays[f"memory.{key}"] = value
    arrays |= {f"weighting.{key}": value for key, value in state.weighting.items()}
    arrays |= {f"watched.{key}": value for key, value in state.watched.items()}
    if state.time is not None:
        arrays |= {f"time.{key}": value for key, value in vars(state.time).items()}
    arrays |= _arrays_of(state.vectors)
    arrays |= {f"optimizer.{key}": value for key, value in _arrays_of(state.optimizer).items()}
    vectors = (*state.vectors.values(), *state.optimizer.values())
    tables = [vector for vector in vectors if isinstance(vector, ClientTable)]
    for table in tables:  # the rows are on the disk before the checkpoint that refers to them
        table.sync()
    save_arrays(folder.path / "checkpoint.npz", arrays)
    for table in tables:
        table.keep()


def with_table_files(folder: RunFolder, state: State) -> State:
    """The state before round 0, with large tables in memory-mapped files of the folder.

    A table is large from N·P = 2^24 numbers on. An earlier checkpoint is removed, since it may
    refer to the files.
    """
    (folder.path / "checkpoint.npz").unlink(missing_ok=True)
    least = MAPPED_NUMBERS / len(state.parameters)

    def in_files(vectors: Vectors, prefix: str) -> Vectors:
        return {
            key: vector.kept_in(folder.path / f"{prefix}-{quote(key, safe='')}.bin")
            if isinstance(vector, ClientTable) and len(vector) >= least
            else vector
            for key, vector in vectors.items()
        }

    return replace(
        state,
        vectors=in_files(state.vectors, "table"),
        optimizer=in_files(state.optimizer, "optimizer"),
    )


def load_checkpoint(folder: RunFolder, start_memory: Memory) -> Checkpoint | None:
    """The stored state, or None where none was written yet.

    Raises:
        OutputError: the file is damaged or of another format.
    """
    path = folder.path / "checkpoint.npz"
    arrays = folder.arrays("checkpoint")
    if not arrays:
        return None
    try:
        header = json.loads(str(arrays["header"]))
        if header["format"] != FORMAT:
            raise OutputError(f"{path} has format {header['format']}, this version reads {FORMAT}")
        memory = {key: start_memory[key] for key in header["unchanged_memory"]}
        memory |= _named(arrays, "memory.")
        state = State(
            header["round"],
            torch.from_numpy(arrays["parameters"].copy()),
            arrays["counts"],
            memory,
            _named(arrays, "weighting."),
            _vectors(arrays, folder.path),
            _named(arrays, "watched."),
            _time(_named(arrays, "time.")),
            _vectors(_named(arrays, "optimizer."), folder.path),
        )
        return Checkpoint(state, header["engine"], header["records_bytes"], header["timings_bytes"])
    except KeyError as error:
        raise OutputError(f"{path} lacks {error}; remove the run's folder to restart it") from None


def _named(arrays: Memory, prefix: str) -> dict[str, AnyArray]:
    """The arrays whose names begin with `prefix`, without it."""
    return {
        key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)
    }


def _time(arrays: Memory) -> TimeState | None:
    """The clock and what belongs to it, or None where the run has none."""
    if not arrays:
        return None
    parts = {key: arrays[key] for key in ("answers", "failures", "seconds")}
    return TimeState(float(arrays["clock"]), **parts)


def _arrays_of(vectors: Vectors) -> dict[str, AnyArray]:
    """Tensors and tables as arrays; rows of tables in files stay there."""
    arrays: dict[str, AnyArray] = {}
    for key, vector in vectors.items():
        if isinstance(vector, ClientTable):
            arrays |= {f"table.{key}.{part}": array for part, array in vector.arrays().items()}
        else:
            arrays[f"vector.{key}"] = vector.detach().cpu().numpy()
    return arrays


def _vectors(arrays: Memory, folder: Path) -> Vectors:
    """The tensors and tables that `_arrays_of` stored, whose files are in the folder."""
    vectors: dict[str, torch.Tensor | ClientTable] = {
        key: torch.from_numpy(array.copy()) for key, array in _named(arrays, "vector.").items()
    }
    parts = _named(arrays, "table.")
    for key in {name.rpartition(".")[0] for name in parts}:
        vectors[key] = ClientTable.from_arrays(_named(parts, f"{key}."), folder)
    return vectors


def stored_round(folder: RunFolder) -> int:
    """The round that a start would resume at.

    It is 0 without a checkpoint, and where records that belong to the checkpoint were lost. Only
    the checkpoint's header is read. A damaged checkpoint counts as none here, and loading it raises
    the error that says why.
    """
    try:
        with open_npz(folder.path / "checkpoint.npz") as stored:
            header = json.loads(str(stored["header"]))
        return int(header["round"]) if header["records_bytes"] <= folder.size("rounds.jsonl") else 0
    except (OSError, ValueError, EOFError, KeyError, TypeError, zipfile.BadZipFile):
        return 0
