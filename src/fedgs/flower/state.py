"""What a restarted ServerApp needs to continue, in one .npz written atomically."""

import io
import json
import secrets
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedgs.arrays import AnyArray
from fedgs.errors import OutputError
from fedgs.flower.roster import Roster
from fedgs.records import write_atomically

__all__ = ["DeploymentState", "read_state", "refuse_foreign_state", "write_state"]

_FORMAT = 2
_READABLE = (1, 2)  # 1: without a run id


@dataclass(eq=False)
class DeploymentState:
    """Where a deployment stands between two rounds.

    Attributes:
        seed: of the sampler; the generator of a round is named by seed and round, so these two are
            all there is to save.
        round: rounds done, the index t of the next one.
        roster: keys, counts, answers, sizes and features.
        memory: the sampler's memory, such as the distances H.
        model: the global model by name; empty before round 0.
        optimizer: what a server optimiser carries.
        run_id: tells the records of this deployment from those of another; made at the first start.
    """

    seed: int
    round: int = 0
    roster: Roster = field(default_factory=Roster)
    memory: Mapping[str, AnyArray] = field(default_factory=dict)
    model: Mapping[str, AnyArray] = field(default_factory=dict)
    optimizer: Mapping[str, AnyArray] = field(default_factory=dict)
    run_id: str = field(default_factory=lambda: secrets.token_hex(8))


def write_state(path: Path, state: DeploymentState, *, sampler: Mapping[str, Any]) -> None:
    """Save a state; `sampler` is the sampler's table, which must be the same when it is read."""
    roster = state.roster
    rows = sorted(roster.features)
    arrays: dict[str, Any] = {
        "counts": roster.counts,
        "answers": roster.answers,
        "sizes": roster.sizes,
    }
    if rows:
        arrays |= {
            "feature_rows": np.array(rows),
            "features": np.stack([roster.features[row] for row in rows]),
        }
    groups = {"memory": state.memory, "model": state.model, "optimizer": state.optimizer}
    names = {group: list(entries) for group, entries in groups.items()}
    for group, entries in groups.items():
        arrays |= {f"{group}.{position}": array for position, array in enumerate(entries.values())}
    meta = {
        "format": _FORMAT,
        "seed": state.seed,
        "round": state.round,
        "keys": roster.keys,
        "names": names,
        "sampler": sampler,
    }
    meta["run_id"] = state.run_id
    buffer = io.BytesIO()
    np.savez(buffer, meta=np.array(json.dumps(meta)), **arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue())


def refuse_foreign_state(path: Path, run_id: str) -> None:
    """Refuse to replace a file that is not an earlier state of the same deployment.

    Raises:
        OutputError: a state of another deployment, or another file.
    """
    if not path.exists():
        return
    advice = "choose another file"
    try:
        with np.load(path, allow_pickle=False) as stored:
            meta = json.loads(str(stored["meta"]))
        own, round = meta.get("run_id", ""), meta["round"]
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, AttributeError):
        raise OutputError(
            f"state must be a new file or a deployment's state, got {path}, which is neither; {advice}"
        ) from None
    if own != run_id:
        raise OutputError(
            f"state must be a new file or the state of this deployment, got {path}, which holds another one's state after round "
            f"{round}; {advice}, or continue it with load_state({str(path)!r})"
        )


def read_state(path: Path, *, sampler: Mapping[str, Any], seed: int) -> DeploymentState:
    """A saved state.

    Raises:
        OutputError: no such file, not a state, or one of another sampler or seed.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        meta = json.loads(str(arrays["meta"]))
        if meta["format"] not in _READABLE:
            raise OutputError(
                f"{path} has format {meta['format']}; this version reads {' and '.join(map(str, _READABLE))}"
            )
        groups = {
            group: {name: arrays[f"{group}.{position}"] for position, name in enumerate(names)}
            for group, names in meta["names"].items()
        }
        roster = Roster(meta["keys"], arrays["counts"], arrays["answers"], arrays["sizes"])
        graph = meta["sampler"].get("graph")
        outdated = (
            meta["format"] == 1 and isinstance(graph, dict) and graph.get("similarity") == "update"
        )
        if "features" in arrays and not outdated:  # updates of format 1 held running statistics too
            roster.features = dict(
                zip(arrays["feature_rows"].tolist(), arrays["features"], strict=True)
            )
        state = DeploymentState(
            meta["seed"], meta["round"], roster, **groups, run_id=meta.get("run_id", "")
        )
    except OutputError:
        raise
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        EOFError,
        zipfile.BadZipFile,
        AttributeError,
    ) as error:
        raise OutputError(f"{path} is not a saved state of a deployment: {error}") from None
    if meta["sampler"] != json.loads(json.dumps(dict(sampler))):
        raise OutputError(
            f"{path} was saved with the sampler {meta['sampler']}, not {dict(sampler)}"
        )
    if state.seed != seed:
        raise OutputError(f"{path} was saved with seed {state.seed}, not {seed}")
    return state
