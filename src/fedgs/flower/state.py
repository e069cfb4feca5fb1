"""The state that a restarted ServerApp continues from, in one .npz that is written atomically."""

import io
import json
import secrets
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedgs.arrays import AnyArray, open_npz
from fedgs.errors import OutputError
from fedgs.flower.roster import Roster
from fedgs.records import write_atomically

__all__ = ["Clock", "DeploymentState", "read_state", "refuse_foreign_state", "write_state"]

_FORMAT, _WITH_WEIGHTING, _WITH_SERVER, _WITH_ANSWERS, _OF_REPLIES = 2, 3, 4, 5, 6
# 1: without a run id; 3: with the memory of a weighting; 4: with a server step and its moments;
# 5: with arrays of the roster that differ from their start; 6: with features of replies
_READABLE = (1, 2, 3, 4, 5, 6)
_OF_CLIENTS = {
    "answer_starts": 0,
    "failures": 0,
    "entered": -1,
    "seconds": np.nan,
}  # the start of each array
_PLAIN = {"name": "sgd", "rate": 1.0}  # the server step that is not named
# The errors of reading a file that is no state.
_NOT_A_STATE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    zipfile.BadZipFile,
    AttributeError,
)


@dataclass(eq=False)
class Clock:
    """Seconds that a deployment ran for, over restarts.

    Attributes:
        before: seconds of earlier starts.

    >>> Clock(5.0).read()
    5.0
    """

    before: float = 0.0
    _begun: float | None = None

    def start(self) -> None:
        """It runs from now on."""
        if self._begun is None:
            self._begun = time.monotonic()

    def read(self) -> float:
        """Seconds until now."""
        return self.before + (0.0 if self._begun is None else time.monotonic() - self._begun)


@dataclass(eq=False)
class DeploymentState:
    """The state of a deployment between two rounds.

    Attributes:
        seed: of the sampler. A round's generator is named by seed and round, so no other state of
            generators is saved.
        round: rounds done, the index t of the next one.
        roster: keys, counts, answers, sizes and features.
        memory: the sampler's memory, such as the distances H.
        weighting: the weighting's memory.
        model: the global model by name; empty before round 0.
        optimizer: the arrays that a server optimiser of the inner strategy carries.
        moments: those of the server step.
        feature_length: of the features that the sampler has seen; 0: it has seen none.
        remembered: N that `memory` was made for; it grows when a cohort is selected, so clients
            may have been met since. None: there is none.
        weighted: N that `weighting` was made for, likewise.
        clock: of the deployment.
        run_id: distinguishes the records of this deployment from those of others; made at the
            first start.
    """

    seed: int
    round: int = 0
    roster: Roster = field(default_factory=Roster)
    memory: Mapping[str, AnyArray] = field(default_factory=dict)
    weighting: Mapping[str, AnyArray] = field(default_factory=dict)
    model: Mapping[str, AnyArray] = field(default_factory=dict)
    optimizer: Mapping[str, AnyArray] = field(default_factory=dict)
    moments: Mapping[str, AnyArray] = field(default_factory=dict)
    feature_length: int = 0
    remembered: int | None = None
    weighted: int | None = None
    clock: Clock = field(default_factory=Clock)
    run_id: str = field(default_factory=lambda: secrets.token_hex(8))


def write_state(
    path: Path,
    state: DeploymentState,
    *,
    sampler: Mapping[str, object],
    server: Mapping[str, object] | None = None,
) -> None:
    """Save a state.

    Args:
        path: the file.
        state: what is saved.
        sampler: the sampler's table, which must be the same when the state is read.
        server: the table of the server step or the aggregation, likewise; None: the average is the
            next model.
    """
    roster = state.roster
    rows = sorted(roster.features)
    arrays: dict[str, Any] = {  # Any: numpy.savez has other keyword arguments than arrays too
        "counts": roster.counts,
        "answers": roster.answers,
        "sizes": roster.sizes,
    }
    moved = {
        name: getattr(roster, name)
        for name, start in _OF_CLIENTS.items()
        if not np.array_equal(
            array := getattr(roster, name), np.full_like(array, start), equal_nan=start != start
        )
    }
    arrays |= moved
    if rows:
        arrays["feature_rows"] = np.array(rows)
        arrays["features"] = np.stack([roster.features[row] for row in rows])
    groups = {"memory": state.memory, "model": state.model, "optimizer": state.optimizer}
    if state.weighting:
        groups["weighting"] = state.weighting
    if server is not None:
        groups["moments"] = state.moments
    names = {group: list(entries) for group, entries in groups.items()}
    for group, entries in groups.items():
        arrays |= {f"{group}.{position}": array for position, array in enumerate(entries.values())}
    format = _WITH_WEIGHTING if state.weighting else _FORMAT
    if moved:
        format = _WITH_ANSWERS
    elif server is not None:
        format = _WITH_SERVER
    if rows and _is_of_replies(sampler):
        format = _OF_REPLIES
    meta: dict[str, object] = {
        "format": format,
        "seed": state.seed,
        "round": state.round,
        "keys": roster.keys,
        "names": names,
        "sampler": sampler,
        "run_id": state.run_id,
        "clock": state.clock.read(),
    }
    if server is not None:
        meta["server"] = server
    if state.feature_length:
        meta["feature_length"] = state.feature_length
    made_for = {"remembered": state.remembered, "weighted": state.weighted}
    meta |= {name: count for name, count in made_for.items() if count not in (None, len(roster))}
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
        with open_npz(path) as stored:
            meta = json.loads(str(stored["meta"]))
        owner, round = meta.get("run_id", ""), meta["round"]
    except _NOT_A_STATE:
        raise OutputError(
            f"state must be a new file or a deployment's state, got {path}, which is neither; "
            f"{advice}"
        ) from None
    if owner != run_id:
        raise OutputError(
            f"state must be a new file or the state of this deployment, got {path}, which holds "
            f"another one's state after round {round}; {advice}, or continue it with "
            f"load_state({str(path)!r})"
        )


def read_state(
    path: Path,
    *,
    sampler: Mapping[str, object],
    server: Mapping[str, object] | None = None,
    seed: int,
) -> DeploymentState:
    """A saved state.

    Args:
        path: the file.
        sampler: the sampler's table.
        server: the table of the server step or the aggregation; None: the average is the next
            model.
        seed: of the selection.

    Raises:
        OutputError: no such file, not a state, or one of another sampler, server step or seed.
    """
    try:
        with open_npz(path) as stored:
            arrays = {name: stored[name] for name in stored.files}
        meta = json.loads(str(arrays["meta"]))
        if meta["format"] not in _READABLE:
            readable = f"{_READABLE[0]} to {_READABLE[-1]}"
            raise OutputError(f"{path} has format {meta['format']}; this version reads {readable}")
        groups: dict[str, Any] = {
            group: {name: arrays[f"{group}.{position}"] for position, name in enumerate(names)}
            for group, names in meta["names"].items()
        }
        roster = Roster(meta["keys"], arrays["counts"], arrays["answers"], arrays["sizes"])
        for name in _OF_CLIENTS:
            if name in arrays:
                setattr(roster, name, arrays[name])
        # Updates of earlier formats had other sketches, and those of format 1 running statistics;
        # with clients that are known in advance, features were their label proportions.
        is_earlier = meta["format"] < _OF_REPLIES and _is_of_replies(meta["sampler"])
        if "features" in arrays and not is_earlier:
            rows = arrays["feature_rows"].tolist()
            roster.features = dict(zip(rows, arrays["features"], strict=True))
        run_id = meta.get("run_id", "")
        state = DeploymentState(meta["seed"], meta["round"], roster, run_id=run_id, **groups)
        state.clock = Clock(float(meta.get("clock", 0.0)))
        state.feature_length = int(meta.get("feature_length", 0))
        state.remembered, state.weighted = (
            int(meta.get(name, len(roster))) if memory else None
            for name, memory in (("remembered", state.memory), ("weighted", state.weighting))
        )
    except OutputError:
        raise
    except _NOT_A_STATE as error:
        raise OutputError(f"{path} is not a saved state of a deployment: {error}") from None
    if meta["sampler"] != json.loads(json.dumps(dict(sampler))):
        raise OutputError(
            f"{path} was saved with the sampler {meta['sampler']}, not {dict(sampler)}"
        )
    before, now = (_PLAIN if step is None else step for step in (meta.get("server"), server))
    if before != json.loads(json.dumps(dict(now))):
        raise OutputError(
            f"{path} was saved with the server step or aggregation {before}, not {dict(now)}"
        )
    if state.seed != seed:
        raise OutputError(f"{path} was saved with seed {state.seed}, not {seed}")
    return state


def _is_of_replies(sampler: Mapping[str, object]) -> bool:
    """Whether the features of a sampler's clients are read off their replies."""
    graph = sampler.get("graph")
    return isinstance(graph, Mapping) and graph.get("similarity") in ("update", "functional")
