"""A Grid in memory: real ClientApps answer at once; availability is scripted, and so are faults."""

import contextlib
import itertools
import json
from collections import defaultdict
from typing import Any

import numpy as np
import pytest


def _make_world() -> Any:
    from flwr.app import (
        Array,
        ArrayRecord,
        ConfigRecord,
        Context,
        Error,
        Message,
        MetricRecord,
        RecordDict,
    )
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid

    from fedgs.flower import describe

    # Newer Flower: a process that makes messages has an identity.
    with contextlib.suppress(ImportError):
        from flwr.supercore.task_identity import TaskIdentity

        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1

    class World(Grid):  # type: ignore[misc, unused-ignore]
        """Nodes with node ids 100, 101, ... and keys of their own.

        Attributes:
            online: ids of the nodes that are listed now; None: all.
            faults: node id -> "silent", "error" (from the SuperLink), "raise", or a function reply
                -> reply, for replies to training requests.
            lies: node id -> a function reply -> reply, for replies to evaluation requests.
            asked: (message type, node id) in the order of sending.
            refused: the id in place of that of a message to a node which is not registered: that
                of Flower's SuperLink, or None: there is no id, as in Flower's simulations.
        """

        def __init__(self, keys: Any, app: Any = None, node_config: Any = None) -> None:
            self.app = app if app is not None else default_app()
            self.keys = dict(zip(range(100, 100 + len(keys)), keys, strict=True))
            self.node_config = node_config or (lambda key: {"client-id": key})
            self.online: list[int] | None = None
            self.script: Any = None
            self.round = -1
            self.faults: dict[int, Any] = {}
            self.lies: dict[int, Any] = {}
            self.asked: list[tuple[str, int]] = []
            self.refused: str | None = ""
            self.answers: dict[str, Any] = {}
            self.kept: dict[int, Any] = defaultdict(RecordDict)  # of the contexts, by node
            self.identifiers = itertools.count(1)

        run = property(lambda self: None)

        def set_run(self, run: Any) -> None: ...

        def create_message(self, *arguments: Any, **named: Any) -> Any:
            raise NotImplementedError

        def get_node_ids(self) -> list[int]:
            if self.script is not None:
                return self.script()
            return list(self.keys) if self.online is None else list(self.online)

        def get_nodes(self) -> list[Any]:
            return []

        def push_messages(self, messages: Any) -> list[str]:
            identifiers = []
            for message in messages:
                message.metadata.__dict__["_message_id"] = f"m{next(self.identifiers)}"
                if message.metadata.dst_node_id not in self.keys:
                    identifiers += [] if self.refused is None else [self.refused]
                    continue
                identifiers.append(message.metadata.message_id)
                self.asked.append((message.metadata.message_type, message.metadata.dst_node_id))
                reply = self._reply(message)
                if reply is not None:
                    self.answers[message.metadata.message_id] = reply
            return identifiers

        def _reply(self, message: Any) -> Any:
            node = message.metadata.dst_node_id
            fault = self.faults.get(node)
            if fault == "silent":
                return None
            if fault == "error":
                reply = Message(Error(code=5, reason="Node Unavailable"), reply_to=message)
                reply.metadata.__dict__["_src_node_id"] = 1
                return reply
            context = Context(1, node, self.node_config(self.keys[node]), self.kept[node], {})
            try:
                if fault == "raise":
                    raise RuntimeError("the client's own error")
                # A copy, as the wire would make: handlers must not change what the server holds.
                reply = self.app(copied(message), context)
            except Exception as error:
                return Message(
                    Error(code=2, reason=f"Traceback ...\n{type(error).__name__}: {error}"),
                    reply_to=message,
                )
            if message.metadata.message_type == "evaluate":
                fault = self.lies.get(node)
            elif message.metadata.message_type != "train":
                fault = None
            return fault(reply) if callable(fault) else reply

        def pull_messages(self, message_ids: Any) -> list[Any]:
            return [
                self.answers.pop(identifier)
                for identifier in list(message_ids)
                if identifier in self.answers
            ]

        def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> list[Any]:
            return self.pull_messages(self.push_messages(list(messages)))

    def copied(message: Any) -> Any:
        copy = Message(
            message.content.copy(), message.metadata.dst_node_id, message.metadata.message_type
        )
        copy.metadata.__dict__["_message_id"] = message.metadata.message_id
        return copy

    def number_of(context: Any) -> int:
        config = context.node_config
        key = config.get("client-id", config.get("partition-id", context.node_id))
        return int(str(key).split("-")[-1])

    def default_app(sizes: Any = None, labels: Any = None) -> Any:
        """An app whose client k adds k + 1 to the first entry of the weight "w" (2,).

        Client k has 10 (k + 1) examples and loss k.
        """
        app = ClientApp()

        @app.train()
        def train(message: Any, context: Any) -> Any:
            k = number_of(context)
            arrays = {
                name: array.numpy().copy() for name, array in message.content["arrays"].items()
            }
            arrays["w"][0] += k + 1
            examples = 10 * (k + 1) if sizes is None else sizes[k]
            metrics = MetricRecord({"num-examples": examples, "train_loss": float(k)})
            record = ArrayRecord({name: Array(array) for name, array in arrays.items()})
            return Message(RecordDict({"arrays": record, "metrics": metrics}), reply_to=message)

        @app.evaluate()
        def evaluate(message: Any, context: Any) -> Any:
            k = number_of(context)
            metrics = MetricRecord({"num-examples": 10 * (k + 1), "eval_loss": float(k)})
            return Message(RecordDict({"metrics": metrics}), reply_to=message)

        if labels is None:
            describe(app)
        else:
            describe(app, label_counts=lambda context: labels[number_of(context)])
        return app

    World.default_app = staticmethod(default_app)
    World.model = staticmethod(
        lambda *values: ArrayRecord({"w": Array(np.array(values or (0.0, 1.0), dtype=np.float32))})
    )
    World.config = staticmethod(lambda **values: ConfigRecord(values))
    return World


def without_times(text: str) -> list[dict[str, Any]]:
    """Lines of a file of records, without what a real clock measured."""
    entries = [json.loads(line) for line in text.splitlines()]
    measured = ("clock", "seconds", "worked")
    return [{k: v for k, v in entry.items() if k not in measured} for entry in entries]


@pytest.fixture(scope="session")
def world() -> Any:
    """The class of Grids in memory: `world(keys)`; `world.default_app(...)`, `world.model(...)`."""
    return _make_world()
