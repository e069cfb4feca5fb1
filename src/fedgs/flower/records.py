"""A deployment's records, in the form of a simulated run's: tables, figures and pages read both.

Beside `rounds.jsonl` and `timings.jsonl` the folder holds `events.jsonl`: what went wrong, one JSON object a line with `round`,
`client` (its key or null), `event` ("failed", "refused", "silent", "gave_up", "feature") and `detail`.
"""

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fedgs.arrays import AnyArray
from fedgs.clients import Clients
from fedgs.records import Record, RunFolder
from fedgs.registry import table
from fedgs.sampling.base import Sampler

__all__ = ["DeploymentRecords", "Event"]

Event = Mapping[str, Any]


class DeploymentRecords:
    """Writes one deployment's folder; without a path it does nothing.

    Args:
        path: the folder, or None.
        sampler: what selects.
        training: how many are selected: `cohort_limit` or `proportion`.
        seed: of the selection.
    """

    def __init__(self, path: str | Path | None, sampler: Sampler, *, training: Mapping[str, Any], seed: int) -> None:
        self._folder = None if path is None else RunFolder(Path(path))
        self._config = {
            "data": {"name": "deployment"},
            "availability": {"name": "deployment"},
            "method": table(sampler),
            "training": dict(training),
            "seed": seed,
            "run": {"engine": "flower", "versions": {name: version(name) for name in ("fedgs", "flwr", "numpy")}},
        }
        self._written: tuple[object, ...] = ()

    def begin(self, round: int) -> None:
        """Start a folder (round 0), or go on in it: lines of rounds from `round` on are cut off, since they are redone."""
        if self._folder is None:
            return
        self._folder.path.mkdir(parents=True, exist_ok=True)
        for name in ("rounds.jsonl", "timings.jsonl", "events.jsonl"):
            self._folder.truncate(name, self._size_before(name, round))

    def add(self, record: Record, seconds: Mapping[str, float] | None, events: Sequence[Event]) -> None:
        """Append one round."""
        if self._folder is None:
            return
        self._folder.append("events.jsonl", [json.dumps(event) for event in events])
        self._folder.append("rounds.jsonl", [record.to_json()])
        if seconds is not None:
            line = {"round": record.round, **{phase: round(value, 6) for phase, value in seconds.items()}}
            self._folder.append("timings.jsonl", [json.dumps(line)])

    def describe(self, clients: Clients, memory: Mapping[str, AnyArray], *, last: bool = False) -> None:
        """Write the clients and the memory where somebody or the memory is new, and at the end, when sizes may have changed."""
        kept = (clients.names, *memory.values())
        same = len(kept) == len(self._written) and kept[0] == self._written[0]
        same = same and all(new is old for new, old in zip(kept[1:], self._written[1:], strict=True))
        if self._folder is not None and (last or not same):
            self._folder.create(self._config, clients, memory)
            self._written = kept

    def _size_before(self, name: str, round: int) -> int:
        assert self._folder is not None
        path = self._folder.path / name
        size = 0
        if path.is_file():
            for line in path.read_bytes().splitlines(keepends=True):
                if not line.endswith(b"\n") or json.loads(line)["round"] >= round:
                    break
                size += len(line)
        return size
