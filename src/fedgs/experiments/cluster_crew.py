"""A crew on the nodes of a Ray cluster: each member is an actor with its share of a node's cores.

The supervision is that of worker processes. Ray repeats nothing by itself: the runs of a member
that is lost go back to the queue and resume elsewhere from their last checkpoint, so records cannot
change.
"""

import contextlib
import logging
import pickle
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedgs.cluster import Cluster, Node
from fedgs.errors import ConfigError, WorkerError
from fedgs.experiments.arrivals import give_record, taken
from fedgs.experiments.cluster_worker import ClusterWorker, FilesChanged
from fedgs.experiments.crew import Message, Share
from fedgs.experiments.executor import shares_of
from fedgs.experiments.listening import Listener
from fedgs.experiments.mirror import apply_changes, content_of
from fedgs.experiments.payload import Places, RunPayload
from fedgs.experiments.prepared import PreparedRun
from fedgs.experiments.transfer import TransferError
from fedgs.experiments.worker import NewRecord

__all__ = ["ClusterCrew", "cluster_shares"]

_log = logging.getLogger("fedgs")
SAVE_SECONDS = 30.0  # for members to save their runs when the study ends early
ALONE_SECONDS = 120.0  # without any node before the study ends
LOOK_SECONDS = 5.0  # between two looks at the nodes
PING_SECONDS = 60.0  # without a message before a member is asked whether it is there
SILENT_SECONDS = 300.0  # without an answer before it counts as lost


def cluster_shares(
    runs: Sequence[PreparedRun], numbers: Sequence[int], members: int
) -> list[Share]:
    """The runs with these numbers as shares for so many members.

    Seven eighths of the runs are dealt evenly, and the rest follows as further shares, so that
    slower members and those that come late end together with the others. More and smaller shares
    would cost more than they save, since the runs of a share train in stacks.
    """
    members = max(1, min(members, len(numbers)))
    first = len(numbers) - (-(-len(numbers) // 8) if len(numbers) > members else 0)
    shares = shares_of(runs, numbers[:first], min(members, first))
    return shares + shares_of(runs, numbers[first:], min(members, len(numbers) - first))


@dataclass(eq=False)
class _Member:
    """An actor on a node.

    Attributes:
        actor: handle of Ray.
        node: where it is.
        stream: of the messages of its share; None: it has none.
        how: how its share ended; None: it is being carried out.
        heard: when it sent something, or answered; None: it has not begun.
        ping: a question that it has not answered; None: there is none.
        inbox: pickled messages that came and have not been taken.
        applied: changes of files that were applied, by the position of their run in the share.
    """

    actor: Any
    node: Node
    stream: Any = None
    how: str | None = None
    heard: float | None = None
    ping: Any = None
    inbox: deque[bytes] = field(default_factory=deque)
    applied: Counter[int] = field(default_factory=Counter)


class ClusterCrew:
    """A crew with one member for each `threads` processors, or for each GPU, of the nodes.

    Nodes that join later are used, too.

    Args:
        cluster: that this process has joined.
        runs: the runs that shares name by their numbers.
        listener: takes the new records in this process, or None.

    Raises:
        ConfigError: a run cannot be sent to another computer; nothing was done.
    """

    def __init__(
        self, cluster: Cluster, runs: Sequence[PreparedRun], listener: Listener | None = None
    ) -> None:
        self._cluster, self._ray = cluster, cluster.ray
        self._runs, self._listener = runs, listener
        self._places = Places.of(runs)
        self._payload = RunPayload(
            cluster, runs, threads=self._places.threads, tells_records=listener is not None
        )
        self._members: dict[Share, _Member] = {}
        self._idle: list[_Member] = []
        self._nodes = cluster.nodes()
        self._looked = self._seen = time.monotonic()
        self._places.check(self._nodes)

    @property
    def size(self) -> int:
        """Shares that the nodes carry out at the same time now."""
        if time.monotonic() - self._looked > (LOOK_SECONDS if self._nodes else 0.5):
            self._look()
        return self._places.total(self._nodes)

    @property
    def nodes(self) -> int:
        """How many nodes carry out runs now."""
        return len({member.node.key for member in self._members.values() if member.how is None})

    def start(self, share: Share) -> None:
        """Begin the runs of the share on an idle member, or on a new one."""
        member = self._idle.pop() if self._idle else self._new_member()
        folders, shared = [self._runs[number].folder for number in share.runs], set[str]()
        contents = [content_of(folder, shared) for folder in folders if folder is not None] or None
        stream = member.actor.work.options(num_returns="streaming")
        member.stream = stream.remote(self._payload.pack(share.runs), contents, *self._payload.data)
        member.how = None
        member.applied.clear()
        self._members[share] = member

    def messages(self) -> Iterable[tuple[Share, Message]]:
        """What the members have sent; waits at most a second.

        Raises:
            ConfigError: a member cannot load its runs.
            WorkerError: there has been no node for two minutes.
        """
        working = {share: m for share, m in self._members.items() if m.how is None}
        if not working:
            self._wait_for_nodes()
            return
        streams = [member.stream for member in working.values()]
        self._ray.wait(streams, num_returns=1, timeout=1.0)
        ready, _ = self._ray.wait(streams, num_returns=len(streams), timeout=0)
        for share, member in working.items():
            if member.stream in ready:
                yield from self._received(share, member)
            else:
                self._check_is_there(member)

    def how_it_ended(self, share: Share) -> str | None:
        """How the share ended: on a member that is idle now, or one that was lost."""
        member = self._members[share]
        if member.how is not None:
            del self._members[share]
        return member.how

    def end(self) -> None:
        """Leave no member behind: those that still work save their last whole rounds first."""
        working = {share: m for share, m in self._members.items() if m.how is None}
        try:
            for member in working.values():
                member.actor.stop.remote()
            deadline = time.monotonic() + SAVE_SECONDS
            while working and time.monotonic() < deadline:
                for _ in self.messages():
                    pass
                working = {share: m for share, m in working.items() if m.how is None}
        finally:
            members = [*self._idle, *self._members.values()]
            cleaned = [member.actor.clean.remote() for member in members]
            if cleaned:
                self._ray.wait(cleaned, num_returns=len(cleaned), timeout=2.0)
            for member in members:
                self._ray.kill(member.actor)
            self._members.clear()
            self._idle.clear()
            self._payload.data.clear()

    def _received(self, share: Share, member: _Member) -> Iterable[tuple[Share, Message]]:
        """What a member has sent, as far as it is here.

        An interrupt may end this anywhere. Messages that were not taken are taken later.
        """
        if not member.inbox and not self._fetch(member):
            return
        while member.inbox:
            message = self._taken(pickle.loads(member.inbox.popleft()), member)
            if isinstance(message, FilesChanged):
                self._apply(share, member, message)
            elif isinstance(message, NewRecord):
                if self._listener is not None:
                    give_record(self._listener, share, message, member.actor.reply.remote)
            elif message is not None:
                yield share, message

    def _fetch(self, member: _Member) -> bool:
        """Take what has come from a member into its inbox; False: its share has ended."""
        try:
            content = self._ray.get(next(member.stream))
        except StopIteration:
            self._set_idle(member)
            return False
        except self._ray.exceptions.RayTaskError as error:
            raise ConfigError(
                f"node {member.node.name!r} cannot carry out the runs: {error.cause}"
            ) from None
        except self._ray.exceptions.RayError as error:
            # An actor that died, that cannot be reached, or that was ended for want of memory.
            self._lose(member, error)
            return False
        member.inbox.extend(content)
        member.heard, member.ping = time.monotonic(), None
        return True

    def _apply(self, share: Share, member: _Member, message: FilesChanged) -> None:
        """Write changes of files, unless an interrupt has lost earlier ones of the same run.

        Later ones would leave gaps. Without them the run resumes as after a crash.
        """
        folder = self._runs[share.runs[message.position]].folder
        if folder is not None and message.number == member.applied[message.position]:
            apply_changes(folder.path, message.changes)
            member.applied[message.position] += 1

    def _taken(self, message: Any, member: _Member) -> Any:
        try:
            return taken(message, f"a process on node {member.node.name!r}")
        except TransferError as error:
            raise ConfigError(f"execution.cluster cannot carry out the runs: {error}") from None

    def _set_idle(self, member: _Member) -> None:
        member.how, member.stream = "ended", None
        self._idle.append(member)

    def _lose(self, member: _Member, error: Exception) -> None:
        member.how = f"was lost on node {member.node.name!r} ({type(error).__name__})"
        member.stream = None
        with contextlib.suppress(Exception):
            self._ray.kill(member.actor)  # one that is out of reach must not work on
        self._cluster.doubt(member.node)
        self._look()

    def _check_is_there(self, member: _Member) -> None:
        """Ask a silent member, whose rounds may be long, and give up one that does not answer.

        A second thread of the member answers. A member that has not begun waits for processors.
        """
        silent = 0.0 if member.heard is None else time.monotonic() - member.heard
        try:
            if member.ping is not None and self._ray.wait([member.ping], timeout=0)[0]:
                self._ray.get(member.ping)
                member.heard, member.ping = time.monotonic(), None
            elif member.ping is not None and silent > PING_SECONDS + SILENT_SECONDS:
                self._lose(member, TimeoutError())
            elif member.ping is None and silent > PING_SECONDS:
                member.ping = member.actor.process.remote()
        except self._ray.exceptions.RayError as error:
            self._lose(member, error)

    def _new_member(self) -> _Member:
        places = self._places.on
        taken_places = Counter(m.node.key for m in self._members.values() if m.how is None)
        free = [n for n in self._nodes if taken_places[n.key] < places(n)] or self._nodes
        node = min(free, key=lambda node: taken_places[node.key] / places(node))
        actor = self._places.actor(self._cluster, ClusterWorker, node)
        return _Member(actor.remote(self._payload.setup), node)

    def _look(self) -> None:
        """Find the nodes that are connected now."""
        self._nodes = [node for node in self._cluster.nodes() if self._places.on(node) >= 1]
        alive = {node.key for node in self._nodes}
        self._idle = [member for member in self._idle if member.node.key in alive]
        self._looked = time.monotonic()

    def _wait_for_nodes(self) -> None:
        if self.size > 0:
            self._seen = time.monotonic()
            return
        if time.monotonic() - self._seen > ALONE_SECONDS:
            raise WorkerError(
                f"the cluster has had no node for {ALONE_SECONDS:g} s; the same command resumes "
                "the runs from their checkpoints"
            )
        time.sleep(1.0)
        self._look()
