"""A deployment's records, in the form of a simulated run's: tables, figures and pages read both.

Beside `rounds.jsonl` and `timings.jsonl` the folder holds `events.jsonl`: what went wrong, one JSON
object a line with `round`, `client` (its key or null), `event` and `detail`; and `request`
("evaluate", "losses", "describe") where it is not about training. Events are "failed" (the client
raised), "refused" (its answer does not fit), "silent" (no answer in time), "feature" (its feature
does not fit), "describe" (a function given to `describe` failed), "incomplete" (a validation loss
of fewer clients than were asked), "empty" (the sampler selected none) and "gave_up".
"""

import json
import logging
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fedgs.arrays import AnyArray
from fedgs.clients import Clients
from fedgs.errors import OutputError, own_traceback
from fedgs.plurals import counted
from fedgs.records import Record, RunFolder
from fedgs.registry import table
from fedgs.sampling.base import Sampler

__all__ = ["DeploymentRecords", "Event"]

_logger = logging.getLogger(__name__)
_LINES = ("rounds.jsonl", "timings.jsonl", "events.jsonl")

Event = Mapping[str, Any]


class DeploymentRecords:
    """Writes one deployment's folder; without a path it does nothing.

    Args:
        path: the folder, or None.
        sampler: what selects.
        training: how many are selected (`cohort_limit` or `proportion`), and other settings of the
            deployment.
        seed: of the selection.
    """

    def __init__(
        self, path: str | Path | None, sampler: Sampler, *, training: Mapping[str, Any], seed: int
    ) -> None:
        self._folder = None if path is None else RunFolder(Path(path))
        self._config: dict[str, Any] = {
            "data": {"name": "deployment"},
            "availability": {"name": "deployment"},
            "method": table(sampler),
            "training": dict(training),
            "seed": seed,
            "run": {
                "engine": "flower",
                "data_title": "Flower clients",
                "versions": {name: version(name) for name in ("fedgs", "flwr", "numpy")},
            },
        }
        self._written: tuple[object, ...] = ()

    def check(self, round: int, run_id: str, *, beside: Path | None = None) -> None:
        """Refuse a folder whose content is not this deployment's, before anything is written.

        Args:
            round: t, the round that the deployment continues with.
            run_id: of the deployment's state.
            beside: a file of the deployment's own that may be in the folder.

        Raises:
            OutputError: a folder with other content, or without the records before round t.
        """
        if self._folder is None:
            return
        path = self._folder.path
        if path.exists() and not path.is_dir():
            raise OutputError(f"records must be a folder, got the file {path}")
        entries = sorted(path.iterdir()) if path.is_dir() else []
        own = None if beside is None else beside.resolve()
        names = [
            entry.name
            for entry in entries
            if not entry.name.startswith(".") and entry.resolve() != own
        ]
        if self._folder.exists():
            self._check_owner(run_id)
        elif names:
            raise OutputError(
                f"records must be a new or empty folder, got {path}, which holds {names[0]!r} and no deployment's records; "
                "choose another folder"
            )
        for name in _LINES:
            self._size_before(name, round)  # raises for a damaged line
        written = self._rounds_written()
        if written < round:
            raise OutputError(
                f"records must be the folder with the records of the {round} rounds before the state that was loaded; {path} "
                f"holds {written} of them"
            )

    def _check_owner(self, run_id: str) -> None:
        assert self._folder is not None
        path = self._folder.path
        try:
            about = self._folder.config().get("run", {})
            engine, owner = about.get("engine"), about.get("fingerprint", "")
        except (OutputError, AttributeError):
            raise OutputError(
                f"records must be a new or empty folder, got {path}, whose config.toml cannot be read; choose another folder"
            ) from None
        if engine != "flower":
            raise OutputError(
                f"records must be a new or empty folder, got {path}, which holds a simulated run; choose another folder"
            )
        if owner != run_id:
            written = counted(self._rounds_written(), "round")
            raise OutputError(
                f"records must be a new or empty folder, got {path}, which holds {written} of another deployment; choose "
                "another folder, or continue that deployment with load_state(...)"
            )

    def _rounds_written(self) -> int:
        """How many rounds have a whole record of a cohort, from round 0 on."""
        assert self._folder is not None
        if not self._folder.size("rounds.jsonl"):
            return 0
        return sum(record.cohort is not None for record in self._folder.records())

    def begin(self, round: int, run_id: str, *, rounds: int) -> float | None:
        """Start a folder, or continue in it: lines of rounds from `round` on are cut off, since they are redone.

        Args:
            round: t, see `check`, which is called first.
            run_id: of the deployment's state.
            rounds: T, the number of rounds when this start is over.

        Returns:
            The validation loss of theta^t, if the clients had evaluated it before; it is not
            evaluated again.
        """
        self._config["training"] = {**self._config["training"], "rounds": rounds}
        if run_id:
            self._config["run"]["fingerprint"] = run_id
        if self._folder is None:
            return None
        found = [record.valid_loss for record in self._folder.records() if record.round == round]
        valid_loss = found[0] if found else None
        sizes = {
            name: self._size_before(name, round, evaluated=valid_loss is not None)
            for name in _LINES
        }
        self._folder.path.mkdir(parents=True, exist_ok=True)
        again = self._rounds_written() - round
        if again > 0:
            _logger.warning(
                "rounds from %d on are repeated: %s replaced in %s",
                round,
                counted(again, "record"),
                self._folder.path,
            )
        self._folder.write_config(self._config)
        self._folder.write_failure(None)
        for name, size in sizes.items():
            self._folder.truncate(name, size)
        return valid_loss

    def add(
        self, record: Record, seconds: Mapping[str, float] | None, events: Sequence[Event]
    ) -> None:
        """Append one round."""
        if self._folder is None:
            return
        self.add_events(events)
        self._folder.append("rounds.jsonl", [record.to_json()])
        if seconds is not None:
            line = {
                "round": record.round,
                **{phase: round(value, 6) for phase, value in seconds.items()},
            }
            self._folder.append("timings.jsonl", [json.dumps(line)])

    def add_events(self, events: Sequence[Event]) -> None:
        """Append events."""
        if self._folder is not None:
            self._folder.append("events.jsonl", [json.dumps(event) for event in events])

    def fail(self, round: int, error: Exception) -> None:
        """Write why the deployment ended early; a later start removes it."""
        if self._folder is not None and self._folder.exists():
            why = f"{type(error).__name__}: {error}"
            self._folder.write_failure(
                {"round": round, "client": None, "error": why, "traceback": own_traceback(error)}
            )

    def describe(
        self,
        clients: Clients,
        memory: Mapping[str, AnyArray],
        *,
        cohort_limit: int | None = None,
        last: bool = False,
    ) -> None:
        """Write the clients and the memory where somebody or the memory is new, and at the end, when sizes may have changed.

        Args:
            clients: everybody met so far.
            memory: the sampler's.
            cohort_limit: M of the round, or None where none was selected.
            last: whether it is written in any case.
        """
        if cohort_limit is not None:
            self._config["run"]["cohort_limit"] = cohort_limit
        kept = (clients.names, self._config["run"].get("cohort_limit"), *memory.values())
        same = len(kept) == len(self._written) and kept[:2] == self._written[:2]
        same = same and all(
            new is old for new, old in zip(kept[2:], self._written[2:], strict=True)
        )
        if self._folder is not None and (last or not same):
            self._config["run"]["num_clients"] = len(clients)
            self._folder.create(self._config, clients, memory)
            self._written = kept

    def _size_before(self, name: str, round: int, *, evaluated: bool = False) -> int:
        """Bytes of the lines before a round, with the events of the evaluation of its model where that is kept."""
        assert self._folder is not None
        path = self._folder.path / name
        size = 0
        if path.is_file():
            for line in path.read_bytes().splitlines(keepends=True):
                if not line.endswith(b"\n"):
                    break
                try:
                    entry = json.loads(line)
                    kept = (
                        entry["round"] == round and entry.get("request") == "evaluate" and evaluated
                    )
                    if entry["round"] >= round and not kept:
                        break
                except (ValueError, KeyError, TypeError, AttributeError):
                    raise OutputError(
                        f"{path} holds a line that is no {name} of a deployment: {line[:60]!r}"
                    ) from None
                size += len(line)
        return size
