"""Long-lived actors on the nodes of a cluster, of which each has one call at a time.

Ray repeats nothing by itself: a call whose actor is lost is reported, and another actor takes the
place of the lost one.
"""

import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fedgs.cluster.joining import Cluster
from fedgs.cluster.nodes import Node
from fedgs.errors import ConfigError, WorkerError

__all__ = ["Actor", "Actors"]

ALONE_SECONDS = 120.0  # without any actor before the study ends
LOOK_SECONDS = 5.0  # between two looks at the nodes
PING_SECONDS = 60.0  # without an answer before an actor is asked whether it is there
SILENT_SECONDS = 300.0  # without a reply to that before it counts as lost
STARTS = 3  # how often actors of a node are lost before they are ready until it is left out
BEGIN_SECONDS = 30.0  # for the first actors to be ready together
END_SECONDS = 2.0  # for actors to remove their temporary files


@dataclass(eq=False)
class Actor:
    """A process on a node.

    Attributes:
        handle: of Ray; it has the methods `process` and `clean`.
        node: where it is.
        call: the reference of the answer that it owes; None: it has nothing to do.
        is_ready: whether it has answered its first call, which prepares it.
        heard: when it was last heard of; None: it has not begun.
        ping: a question that it has not answered; None: there is none.
    """

    handle: Any
    node: Node
    call: Any
    is_ready: bool = False
    heard: float | None = None
    ping: Any = None


@dataclass
class Actors:
    """The actors of a study; those of nodes that join later come to them.

    Attributes:
        cluster: that this process has joined.
        places: how many actors a node has.
        make: starts an actor on a node; returns its handle and the reference of its first answer,
            "" or the reason why it cannot work.
        limit: of actors; 0: none.
    """

    cluster: Cluster
    places: Callable[[Node], int]
    make: Callable[[Node], tuple[Any, Any]]
    limit: int = 0
    _all: list[Actor] = field(default_factory=list)
    _looked: float = -LOOK_SECONDS
    _begun: float | None = None  # when the first actor was started; -inf: work has begun
    _seen: float = field(default_factory=time.monotonic)
    _lost: Counter[str] = field(default_factory=Counter)  # before they were ready, by node

    @property
    def nodes(self) -> int:
        """How many nodes have an actor that is ready."""
        return len({actor.node.key for actor in self._all if actor.is_ready})

    def free(self) -> list[Actor]:
        """The actors that have nothing to do.

        At the beginning there is none until all are ready, or for half a minute.

        Raises:
            WorkerError: there has been no actor for two minutes.
        """
        now = time.monotonic()
        if now - self._looked > LOOK_SECONDS:
            self._looked = now
            self._start()
        if self._all:
            self._seen = now
        elif now - self._seen > ALONE_SECONDS:
            raise WorkerError(
                f"the cluster has had no node for {ALONE_SECONDS:g} s; the same command resumes "
                "the runs from their checkpoints"
            )
        return [] if self._is_beginning(now) else [a for a in self._all if a.call is None]

    def received(self) -> Iterator[tuple[Actor, Any]]:
        """The answers that have come; waits at most a second.

        Yields:
            An actor and its answer; None: the actor is lost.

        Raises:
            ConfigError: an actor cannot be prepared.
        """
        ray = self.cluster.ray
        owed = {actor.call: actor for actor in self._all if actor.call is not None}
        if not owed:
            time.sleep(0.0 if self._all else 0.2)
            return
        ray.wait(list(owed), num_returns=1, timeout=1.0)
        done, waiting = ray.wait(list(owed), num_returns=len(owed), timeout=0)
        for reference in done:
            actor = owed[reference]
            try:
                answer = ray.get(reference)
            except ray.exceptions.RayTaskError as error:
                self._refuse(actor, error.cause)
            except ray.exceptions.RayError:
                # An actor that died, that cannot be reached, or was ended for want of memory.
                if self._lose(actor):
                    yield actor, None
                continue
            actor.call, actor.ping, actor.heard = None, None, time.monotonic()
            if actor.is_ready:
                yield actor, answer
            elif answer:
                self._refuse(actor, answer)
            actor.is_ready = True
        for reference in waiting:
            if self._is_gone(owed[reference]) and self._lose(owed[reference]):
                yield owed[reference], None

    def end(self) -> None:
        """Leave no actor behind."""
        ray = self.cluster.ray
        cleaned = [actor.handle.clean.remote() for actor in self._all if actor.is_ready]
        if cleaned:
            ray.wait(cleaned, num_returns=len(cleaned), timeout=END_SECONDS)
        for actor in self._all:
            ray.kill(actor.handle)
        self._all.clear()

    def _is_beginning(self, now: float) -> bool:
        """Whether the first actors are still waited for, so that they share the first work."""
        if self._begun is None:
            self._begun = now if self._all else None
        if self._begun is None or now - self._begun > BEGIN_SECONDS:
            return False
        if all(actor.is_ready for actor in self._all):
            self._begun = -math.inf
            return False
        return True

    def _start(self) -> None:
        """Start the actors that nodes have room for."""
        there = Counter(actor.node.key for actor in self._all)
        for node in self.cluster.nodes():
            if self._lost[node.key] >= STARTS:
                continue
            for _ in range(self.places(node) - there[node.key]):
                if not self.limit or len(self._all) < self.limit:
                    handle, prepared = self.make(node)
                    self._all.append(Actor(handle, node, prepared))

    def _lose(self, actor: Actor) -> bool:
        """Give up an actor; returns whether it was ready."""
        if not actor.is_ready:
            self._lost[actor.node.key] += 1
        with contextlib.suppress(Exception):
            self.cluster.ray.kill(actor.handle)  # one that is out of reach must not work on
        self._all.remove(actor)
        self.cluster.doubt(actor.node)
        self._looked = -LOOK_SECONDS
        return actor.is_ready

    def _refuse(self, actor: Actor, reason: object) -> None:
        raise ConfigError(f"node {actor.node.name!r} cannot carry out the runs: {reason}") from None

    def _is_gone(self, actor: Actor) -> bool:
        """Whether a silent actor, whose work may be long, does not answer from a second thread."""
        ray, now = self.cluster.ray, time.monotonic()
        if actor.heard is None:  # it waits for processors, or is being prepared
            return False
        try:
            if actor.ping is not None and ray.wait([actor.ping], timeout=0)[0]:
                ray.get(actor.ping)
                actor.heard, actor.ping = now, None
            elif actor.ping is None and now - actor.heard > PING_SECONDS:
                actor.ping = actor.handle.process.remote()
        except ray.exceptions.RayError:
            return True
        return actor.ping is not None and now - actor.heard > PING_SECONDS + SILENT_SECONDS
