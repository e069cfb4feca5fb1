"""One run as tables, figures and the page see it; needs no torch and no data."""

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fedgs.arrays import AnyArray
from fedgs.clients import Clients
from fedgs.errors import FedgsError
from fedgs.records import Record, RunFolder

if TYPE_CHECKING:
    from torch import nn

__all__ = ["UNREADABLE", "Models", "Run", "without_none"]

# What reading a damaged file of a run can raise.
UNREADABLE = (
    FedgsError,
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    EOFError,
    zipfile.BadZipFile,
)


class Models(Protocol):
    """The models of a run that were kept."""

    def module(self, which: str) -> "nn.Module":
        """The "best" or the "last" model."""

    def save(self, which: str, path: Path) -> None:
        """Write the "best" or the "last" model as a safetensors file."""


@dataclass(frozen=True, eq=False)
class Run:
    """One run in its current state: finished, running, killed or failed.

    Attributes:
        config: resolved tables, with `run` (what was stored about the run itself).
        records: records 0, 1, ... as far as they were written.
        clients: the federation's clients, or None if `clients.npz` could not be read.
        failure: why the run ended early (`round`, `client`, `error`), or None.
        path: the run's folder, or None for a run that was not written.
        label: what tables and figures call the method; `report.labels.labelled` derives it over a
            set of runs.
        group: (data title, availability title): runs of one group are comparable.
        timings: seconds by phase, one entry a round; may be shorter than the records.
        events: what went wrong in a deployment, as `events.jsonl` has it.
        reused: an earlier start had finished the run, and nothing was done for it.
        models: the best and the last model; None for runs that were read from a folder.

    >>> Run({"method": {"name": "md"}}, (Record(0, cohort=[1]), Record(1))).rounds_done
    1
    """

    config: Mapping[str, Any]
    records: Sequence[Record]
    clients: Clients | None = None
    failure: Mapping[str, object] | None = None
    path: Path | None = None
    label: str = ""
    group: tuple[str, str] = ("", "")
    timings: Sequence[Mapping[str, float]] = field(default=(), repr=False)
    events: Sequence[Mapping[str, object]] = field(default=(), repr=False)
    reused: bool = False
    models: Models | None = field(default=None, repr=False)

    def table(self, name: str) -> Mapping[str, Any]:
        """One table of the configuration; empty if there is none.

        A variant that is given by its bare name is the table {"name": that name}.
        """
        value = self.config.get(name)
        if isinstance(value, Mapping):
            return value
        return {} if value is None else {"name": value}

    @property
    def about(self) -> Mapping[str, Any]:
        """What was stored about the run itself.

        Among others `fingerprint`, `cohort_limit`, `num_clients`, `engine`, `versions`, `started`.
        """
        return self.table("run")

    @property
    def name(self) -> str:
        """The run's folder name, or its fingerprint."""
        return (
            self.path.name if self.path is not None else str(self.about.get("fingerprint", "run"))
        )

    @property
    def is_deployment(self) -> bool:
        """Whether real clients trained, through Flower."""
        return bool(self.about.get("engine") == "flower")

    @property
    def seed(self) -> int:
        """The run's seed."""
        return int(self.config.get("seed", 0))

    @property
    def replicate(self) -> tuple[object, ...]:
        """All seeds and the federation: runs of two methods that share them are a pair."""
        seed = self.seed
        return (
            seed,
            self.table("availability").get("seed", seed),
            self.about.get("data_fingerprint"),
        )

    @property
    def rounds(self) -> int:
        """T, the rounds requested."""
        rounds = self.table("training").get("rounds")
        return self._cohorts if rounds is None else int(rounds)

    @property
    def rounds_done(self) -> int:
        """The number of completed rounds.

        That of a finished run is known without the cohorts, which records may leave out.
        """
        if self.finished:
            return self.records[-1].round
        return self._cohorts

    @property
    def _cohorts(self) -> int:
        return sum(record.cohort is not None for record in self.records)

    @property
    def finished(self) -> bool:
        """Whether the last record, that of the final model, was written."""
        if self.failure is not None or not self.records:
            return False
        return self.records[-1].round == self.rounds or self.stopped is not None

    @property
    def stopped(self) -> str | None:
        """Why the run ended before its last round, see `fedgs.stopping`; None: it did not."""
        return self.records[-1].stopped if self.records else None

    @property
    def num_clients(self) -> int | None:
        """N, or None if neither the clients nor the configuration state it."""
        if self.clients is not None:
            return len(self.clients)
        stored = self.about.get("num_clients")
        return None if stored is None else int(stored)

    def memory(self) -> dict[str, AnyArray]:
        """The sampler's arrays at the start (`distance`, ...); empty if none can be read."""
        try:
            return {} if self.path is None else RunFolder(self.path).arrays("memory")
        except UNREADABLE:
            return {}


def without_none(table: Mapping[str, object]) -> dict[str, object]:
    """The nested tables without values that are None, which TOML cannot write.

    >>> without_none({"a": None, "b": {"c": None, "d": (1, 2)}})
    {'b': {'d': [1, 2]}}
    """
    return {str(key): _plain(value) for key, value in table.items() if value is not None}


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return without_none(value)
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value
