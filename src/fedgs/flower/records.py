"""A deployment's records, in the form of a simulated run's: tables, figures and pages read both.

In addition to `rounds.jsonl` and `timings.jsonl` the folder holds `events.jsonl` with the failures.
Each line is a JSON object with `round`, `client` (its key or null), `event` and `detail`, and with
`request` ("evaluate", "losses", "describe", "graph", "deliver") where it is not about training.
Events are "failed" (the client raised), "refused" (its answer is not valid, or it refused a message
of the private graph), "silent" (no answer in time), "feature" (its feature is not valid), "report"
(its metrics lack a number that the sampler needs), "describe" (a function given to `describe`
failed), "state_lost" (a client had lost its state of an aggregation), "incomplete" (a validation
loss of fewer clients than were asked), "waiting" (clients are missing for a round to begin),
"filtered" (the client breaks the `rule` of the filters and is not available), "empty" (the sampler
selected none) and "gave_up" (the round was aborted).
"""

import json
import logging
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from fedgs.arrays import AnyArray
from fedgs.clients import Clients
from fedgs.errors import OutputError, own_traceback
from fedgs.flower.journal import Event
from fedgs.plurals import counted
from fedgs.records import Record, RunFolder
from fedgs.registry import table
from fedgs.sampling.base import Sampler

__all__ = ["DeploymentRecords"]

_logger = logging.getLogger(__name__)
_LINES = ("rounds.jsonl", "timings.jsonl", "events.jsonl")


class DeploymentRecords:
    """Writes the folder of one deployment; without a path it does nothing.

    Args:
        path: the folder, or None.
        sampler: selects the cohorts.
        training: the cohort size (`cohort_limit` or `proportion`) and other settings of the
            deployment.
        seed: of the selection.
        aggregation: its table; None: the average is the next model.
    """

    def __init__(
        self,
        path: str | Path | None,
        sampler: Sampler,
        *,
        training: Mapping[str, object],
        seed: int,
        aggregation: Mapping[str, object] | None = None,
    ) -> None:
        self._folder = None if path is None else RunFolder(Path(path))
        self._method, self._seed = table(sampler), seed
        self._training = dict(training)
        # As in the configuration of a simulation, where it is left out by default.
        self._aggregation = {} if aggregation is None else dict(aggregation)
        self._run: dict[str, object] = {
            "engine": "flower",
            "data_title": "Flower clients",
            "versions": {name: version(name) for name in ("fedgs", "flwr", "numpy")},
        }
        self._written: tuple[object, ...] = ()

    def _config(self) -> dict[str, object]:
        aggregation = {"aggregation": self._aggregation} if self._aggregation else {}
        return {
            "data": {"name": "deployment"},
            "availability": {"name": "deployment"},
            "method": self._method,
            **aggregation,
            "training": self._training,
            "seed": self._seed,
            "run": self._run,
        }

    def check(self, round: int, run_id: str, *, beside: Path | None = None) -> None:
        """Refuse a folder with content of something else, before anything is written.

        Args:
            round: t, the round that the deployment continues with.
            run_id: of the deployment's state.
            beside: the deployment's state file, which may be in the folder.

        Raises:
            OutputError: a folder with other content, or without the records before round t.
        """
        if self._folder is None:
            return
        path = self._folder.path
        if path.exists() and not path.is_dir():
            raise OutputError(f"records must be a folder, got the file {path}")
        entries = sorted(path.iterdir()) if path.is_dir() else []
        state = None if beside is None else beside.resolve()
        names = [
            entry.name
            for entry in entries
            if not entry.name.startswith(".") and entry.resolve() != state
        ]
        if self._folder.exists():
            self._check_owner(run_id)
        elif names:
            raise OutputError(
                f"records must be a new or empty folder, got {path}, which holds {names[0]!r} and "
                "no deployment's records; choose another folder"
            )
        for name in _LINES:
            self._size_before(name, round)  # raises for a damaged line
        written = self._rounds_written()
        if written < round:
            raise OutputError(
                f"records must be the folder with the records of the {round} rounds before the "
                f"state that was loaded; {path} holds {written} of them"
            )

    def _check_owner(self, run_id: str) -> None:
        assert self._folder is not None
        path = self._folder.path
        try:
            about = self._folder.config().get("run", {})
            engine, owner = about.get("engine"), about.get("fingerprint", "")
        except (OutputError, AttributeError):
            raise OutputError(
                f"records must be a new or empty folder, got {path}, whose config.toml cannot be "
                "read; choose another folder"
            ) from None
        if engine != "flower":
            raise OutputError(
                f"records must be a new or empty folder, got {path}, which holds a simulated run; "
                "choose another folder"
            )
        if owner != run_id:
            written = counted(self._rounds_written(), "round")
            raise OutputError(
                f"records must be a new or empty folder, got {path}, which holds {written} of "
                "another deployment; choose another folder, or continue that deployment with "
                "load_state(...)"
            )

    def _rounds_written(self) -> int:
        """How many rounds have a complete record of a cohort, from round 0 on."""
        assert self._folder is not None
        if not self._folder.size("rounds.jsonl"):
            return 0
        return sum(record.cohort is not None for record in self._folder.records())

    def begin(self, round: int, run_id: str, *, rounds: int) -> float | None:
        """Start a folder or continue in it.

        Lines of rounds from `round` on are removed, since these rounds are repeated.

        Args:
            round: t, see `check`, which is called first.
            run_id: of the deployment's state.
            rounds: T, the number of rounds at the end of this start.

        Returns:
            The validation loss of theta^t, if the clients have evaluated it before; it is not
            evaluated again.
        """
        self._training["rounds"] = rounds
        if run_id:
            self._run["fingerprint"] = run_id
        if self._folder is None:
            return None
        losses = [record.valid_loss for record in self._folder.records() if record.round == round]
        valid_loss = losses[0] if losses else None
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
        self._folder.write_config(self._config())
        self._folder.write_failure(None)
        for name, size in sizes.items():
            self._folder.truncate(name, size)
        return valid_loss

    def add(
        self, record: Record, seconds: Mapping[str, float] | None, events: Sequence[Event]
    ) -> None:
        """Append the record, the timings (seconds by phase) and the events of a round."""
        if self._folder is None:
            return
        self.add_events(events)
        self._folder.append("rounds.jsonl", [record.to_json()])
        if seconds is not None:
            rounded = {phase: round(value, 6) for phase, value in seconds.items()}
            self._folder.append("timings.jsonl", [json.dumps({"round": record.round, **rounded})])

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

    def write_clients(
        self,
        clients: Clients,
        memory: Mapping[str, AnyArray],
        *,
        cohort_limit: int | None = None,
        last: bool = False,
    ) -> None:
        """Write the clients and the memory, if a client or the memory is new or at the end.

        At the end they are always written, since sizes may have changed.

        Args:
            clients: all clients met so far.
            memory: the sampler's.
            cohort_limit: M of the round, or None where no cohort was selected.
            last: whether this is the end.
        """
        if cohort_limit is not None:
            self._run["cohort_limit"] = cohort_limit
        content = (clients.names, self._run.get("cohort_limit"), *memory.values())
        same = len(content) == len(self._written) and content[:2] == self._written[:2]
        same = same and all(
            new is old for new, old in zip(content[2:], self._written[2:], strict=True)
        )
        if self._folder is not None and (last or not same):
            self._run["num_clients"] = len(clients)
            self._folder.create(self._config(), clients, memory)
            self._written = content

    def _size_before(self, name: str, round: int, *, evaluated: bool = False) -> int:
        """Bytes of the lines before a round.

        They include the events of the evaluation of the round's model if it is `evaluated`.
        """
        assert self._folder is not None
        path = self._folder.path / name
        size = 0
        if path.is_file():
            for line in path.read_bytes().splitlines(keepends=True):
                if not line.endswith(b"\n"):
                    break
                try:
                    entry = json.loads(line)
                    of_evaluation = entry["round"] == round and entry.get("request") == "evaluate"
                    if entry["round"] >= round and not (of_evaluation and evaluated):
                        break
                except (ValueError, KeyError, TypeError, AttributeError):
                    raise OutputError(
                        f"{path} holds a line that is no {name} of a deployment: {line[:60]!r}"
                    ) from None
                size += len(line)
        return size
