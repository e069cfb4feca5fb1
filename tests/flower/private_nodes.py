"""Nodes in memory that keep their client state, and every byte that the server relays."""

from functools import cache
from typing import Any

import numpy as np

from fedgs.sampling import FedGS

PRIVATE = FedGS(graph={"similarity": "private"})


def shares(clients: int, labels: int = 4, seed: int = 0) -> np.ndarray:
    """(N, C) label counts."""
    return np.random.default_rng(seed).integers(1, 30, size=(clients, labels))


@cache
def _make(world: Any) -> Any:
    from flwr.app import ConfigRecord, Context, Error, Message, RecordDict

    class Nodes(world):  # type: ignore[misc, unused-ignore]
        """A `world` whose nodes keep their state, as a SuperNode does.

        Attributes:
            states: node id -> its client state.
            relayed: (phase, node id, "request" or "reply", entries) of the private graph.
            described: replies to the other queries.
            bend: (phase, node id, entries of the reply) -> entries, or None for no reply.
            before: (phase, node id, entries of the request) -> entries, or None: it never arrives.
        """

        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self.states: dict[int, Any] = {}
            self.relayed: list[tuple[str, int, str, dict[str, Any]]] = []
            self.described: list[Any] = []
            self.bend: Any = lambda phase, node, entries: entries
            self.before: Any = lambda phase, node, entries: entries

        def restart(self, node: int) -> None:
            """The node's process restarts: its client state is lost."""
            self.states.pop(node, None)

        def phases(self, kind: str = "request") -> list[str]:
            """The phases in order, one for all nodes."""
            named = [phase for phase, _, way, _ in self.relayed if way == kind]
            return [name for n, name in enumerate(named) if n == 0 or named[n - 1] != name]

        def _reply(self, message: Any) -> Any:
            node = message.metadata.dst_node_id
            kind = message.metadata.message_type
            if kind != "query.fedgs_private":
                reply = super()._reply(message)
                self.described += [reply] if kind.startswith("query") and reply is not None else []
                return reply
            if node not in self.keys or self.faults.get(node) in ("silent", "error"):
                return super()._reply(message)
            entries = dict(message.content["fedgs"])
            phase = entries["phase"]
            given = self.before(phase, node, entries)
            if given is None:
                return None
            self.relayed.append((phase, node, "request", given))
            state = self.states.setdefault(node, RecordDict())
            context = Context(1, node, self.node_config(self.keys[node]), state, {})
            request = Message(
                RecordDict({"fedgs": ConfigRecord(given)}), node, message.metadata.message_type
            )
            try:
                answered = dict(self.app(request, context).content["fedgs"])
            except ValueError as error:  # what Flower raises without a handler
                return Message(Error(code=2, reason=str(error)), reply_to=message)
            self.relayed.append((phase, node, "reply", answered))
            answered = self.bend(phase, node, answered)
            if answered is None:
                return None
            content = RecordDict({"fedgs": ConfigRecord(answered)})
            return Message(content, reply_to=message)

    return Nodes


def nodes(world: Any, counts: np.ndarray, **named: Any) -> Any:
    """A Grid in memory of N nodes `site-0`, ..., whose label counts take part privately."""
    from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp

    from fedgs.flower import describe_privately

    app = ClientApp()

    @app.train()
    def train(message: Any, context: Any) -> Any:
        arrays = {name: array.numpy().copy() for name, array in message.content["arrays"].items()}
        record = ArrayRecord({name: Array(array) for name, array in arrays.items()})
        metrics = MetricRecord({"num-examples": 10})
        return Message(RecordDict({"arrays": record, "metrics": metrics}), reply_to=message)

    def own(context: Any) -> Any:
        return counts[int(str(context.node_config["client-id"]).split("-")[-1])]

    describe_privately(app, label_counts=own)
    return _make(world)([f"site-{k}" for k in range(len(counts))], app=app, **named)


def session(grid: Any, clients: int, timeout: float = 0.02) -> tuple[Any, list[dict[str, Any]]]:
    """The sessions of one round with the grid's first nodes: the products and the events."""
    from fedgs.flower.journal import Journal
    from fedgs.flower.private.graph import PrivateGraph
    from fedgs.flower.private.products import Products
    from fedgs.flower.roster import Roster

    roster, products, journal = Roster(), Products(), Journal()
    for key in list(grid.keys.values())[:clients]:
        roster.admit(key)
    node_of = {row: 100 + row for row in range(clients)}
    graph = PrivateGraph(journal, timeout)
    graph.complete(grid, node_of, products=products, roster=roster, round=0)
    return products.matrix(clients), journal.taken()
