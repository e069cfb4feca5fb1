"""Who carries out a study's runs: shares of them, and the messages that come back.

`Executor` supervises a `Crew` without knowing where its members work: in this process, in worker
processes, or elsewhere.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fedgs.experiments.snapshots import Snapshot
from fedgs.records import Record

__all__ = ["Crew", "Message", "Progress", "RunEnded", "Share", "ShareEnded", "ShareRaised"]


@dataclass(frozen=True)
class Progress:
    """How far all runs together are: given to `on_progress` after every round of every run.

    Attributes:
        rounds: rounds done in this start.
        total: rounds to do in this start.
        failed: runs that ended early.
        earlier: rounds of the resumed runs that earlier starts did.
        nodes: of a cluster that carry out runs now; 0 without a cluster.
    """

    rounds: int
    total: int
    failed: int
    earlier: int = 0
    nodes: int = 0

    def __add__(self, other: "Progress") -> "Progress":
        return Progress(
            self.rounds + other.rounds,
            self.total + other.total,
            self.failed + other.failed,
            self.earlier + other.earlier,
        )


@dataclass(frozen=True)
class RunEnded:
    """A run has passed its last round, or has failed.

    Attributes:
        position: of the run in its share.
        tables: the resolved configuration and how the run was carried out, as in `config.toml`.
        failure: why it ended early, or None.
        records: its records; None: they are in the run's folder.
        snapshots: its best and its last model, "best" and "last"; None: they are in the folder.
    """

    position: int
    tables: Mapping[str, Any]
    failure: Mapping[str, object] | None
    records: list[Record] | None
    snapshots: Mapping[str, Snapshot] | None = None


@dataclass(frozen=True)
class ShareEnded:
    """All runs of the share have ended."""


@dataclass(frozen=True)
class ShareRaised:
    """An error that belongs to no single run ended the share, such as a damaged checkpoint."""

    error: Exception


Message = Progress | RunEnded | ShareEnded | ShareRaised


@dataclass(eq=False)
class Share:
    """Runs that one member of a crew drives together.

    Attributes:
        runs: numbers of the runs that have not ended.
        progress: what the member has reported in this start.
        starts: how often the share was started.
        error: what ended it, other than a crash.
    """

    runs: list[int]
    progress: Progress
    starts: int = 0
    error: Exception | None = field(default=None)


class Crew(Protocol):
    """Where shares are carried out: what the supervision needs to know about it."""

    @property
    def size(self) -> int:
        """Shares that are carried out at the same time."""

    def start(self, share: Share) -> None:
        """Begin the runs of the share, each where its folder says that it stopped."""

    def messages(self) -> Iterable[tuple[Share, Message]]:
        """The messages since the last call, in the order of each share; waits at most a second."""

    def how_it_ended(self, share: Share) -> str | None:
        """How the share's member ended, such as "ended with exit code 3"; None while it works."""

    def end(self) -> None:
        """End all members; those that work save the last whole round of their runs first."""
