"""What a private graph costs: in memory, or between real Flower processes on 127.0.0.1.

    python benchmarks/private_graph.py memory --clients 1000
    python benchmarks/private_graph.py nodes --clients 10

`memory` answers with ClientApps in this process and prints the processor time of all parties and
the bytes per client. `nodes` starts a SuperLink and SuperNodes. Before each phase it sends every
node a query without content, so that the phase's own time is what it takes longer than that.
Flower starts a process for each message. `--together` limits how many nodes start, and how many
answer, at the same time, since all of them share this machine.
"""

import argparse
import itertools
import json
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

LABELS = 10
START_SECONDS = 5.0  # a SuperNode's start, and its answer to who it is, on one of two cores

SERVER_APP = """
import json, time
from dataclasses import replace
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp
from fedgs.flower.exchange import exchange, resend
from fedgs.flower.journal import Journal
from fedgs.flower.private.graph import PrivateGraph
from fedgs.flower.private.products import Products
from fedgs.flower.roster import Roster
from fedgs.flower.directory import Directory

app = ServerApp()


class Timed(PrivateGraph):
    def _ask(self, grid, phase, node_of):
        rows, replies = list(phase.requests), {}
        time_of = {"phase": phase.name, "empty": 0.0, "phase_s": 0.0, "bytes": 0}
        for first in range(0, len(rows), TOGETHER):
            few = rows[first : first + TOGETHER]
            began = time.monotonic()
            empty = [resend(Message(RecordDict({"fedgs": ConfigRecord()}), node_of[row],
                                    "query.nothing"), timeout=900, group="empty") for row in few]
            exchange(grid, empty, timeout=900)
            between = time.monotonic()
            part = replace(phase, requests={row: phase.requests[row] for row in few})
            replies |= super()._ask(grid, part, node_of)
            time_of["phase_s"] += time.monotonic() - between
            time_of["empty"] += between - began
        size = lambda entries: sum(len(v) if isinstance(v, bytes) else 8 for v in entries.values())
        sent = {row: size(entries) for row, entries in phase.requests.items()}
        time_of["bytes"] = max(sent[row] + size(replies.get(row, {})) for row in sent)
        TIMES.append({**time_of, "replies": len(replies)})
        return replies


TIMES = []


@app.main()
def main(grid, context):
    clients = int(context.run_config["num-clients"])
    directory = Directory(timeout=900.0)
    while True:
        found = directory.resolve(grid, list(grid.get_node_ids()), round=0,
                                  deadline=time.monotonic() + 600)
        if len(found.node_of) >= clients:
            break
        time.sleep(1)
    roster, products = Roster(), Products()
    node_of = {roster.admit(key): node for key, node in sorted(found.node_of.items())}
    journal = Journal()
    Timed(journal, 900.0).complete(grid, node_of, products=products, roster=roster, round=0)
    missing = len(products.missing(list(node_of)))
    done = {"times": TIMES, "events": journal.taken(), "missing": missing}
    with open(context.run_config["records"], "w") as file:
        json.dump(done, file, default=str)
"""

CLIENT_APP = """
import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from fedgs.flower import describe_privately

app = ClientApp()


def counts(context):
    number = int(str(context.node_config["client-id"]).split("-")[-1])
    return np.random.default_rng(number).integers(1, 50, LABELS)


describe_privately(app, label_counts=counts)


@app.query("nothing")
def nothing(message, context):
    return Message(RecordDict({"fedgs": ConfigRecord()}), reply_to=message)
""".replace("LABELS", str(LABELS))


def in_memory(clients: int) -> None:
    """All parties in this process."""
    from flwr.app import Context, Message, RecordDict
    from flwr.clientapp import ClientApp

    from fedgs.flower import describe_privately
    from fedgs.flower.journal import Journal
    from fedgs.flower.private.graph import PrivateGraph
    from fedgs.flower.private.products import Products
    from fedgs.flower.roster import Roster

    with suppress(ImportError):  # newer Flower: a process that makes messages has an identity
        from flwr.supercore.task_identity import TaskIdentity

        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1

    counts = np.random.default_rng(0).integers(1, 50, (clients, LABELS))
    app = ClientApp()
    describe_privately(app, label_counts=lambda context: counts[context.node_id])

    class Memory:
        """A Grid whose nodes answer when a message is pushed."""

        def __init__(self) -> None:
            self.states = {node: RecordDict() for node in range(clients)}
            self.replies: dict[str, Any] = {}
            self.numbers = itertools.count()
            self.bytes = np.zeros(clients)

        def push_messages(self, messages: Any) -> list[str]:
            identifiers = []
            for message in messages:
                identifier = f"m{next(self.numbers)}"
                message.metadata.__dict__["_message_id"] = identifier
                node = message.metadata.dst_node_id
                config = {"client-id": f"site-{node}"}
                reply = app(message, Context(1, node, config, self.states[node], {}))
                self.bytes[node] += _size(message) + _size(reply)
                self.replies[identifier] = reply
                identifiers.append(identifier)
            return identifiers

        def pull_messages(self, identifiers: Any) -> list[Any]:
            return [self.replies.pop(one) for one in list(identifiers) if one in self.replies]

    def _size(message: Message) -> int:
        return sum(
            sum(map(len, value))
            if isinstance(value, list)
            else len(str(value))
            if not isinstance(value, bytes)
            else len(value)
            for value in message.content["fedgs"].values()
        )

    roster, products, grid = Roster(), Products(), Memory()
    rows = {roster.admit(f"site-{k}"): k for k in range(clients)}
    began, wall = time.process_time(), time.monotonic()
    PrivateGraph(Journal(), 3600.0).complete(grid, rows, products=products, roster=roster, round=0)
    spent = time.process_time() - began
    vectors = counts / counts.sum(axis=1, keepdims=True)
    error = np.nanmax(np.abs(products.matrix(clients) - vectors @ vectors.T))
    print(
        f"{clients} clients, d = {LABELS}: {spent:.1f} s processor time "
        f"({time.monotonic() - wall:.1f} s), {grid.bytes.max() / 1e6:.3f} MB at most per client, "
        f"{len(products.missing(list(rows)))} products missing, largest error {error:.1e}"
    )


def between_nodes(clients: int, together: int) -> None:
    """A SuperLink and SuperNodes on 127.0.0.1."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))
    from flower_deployment import deployed

    with tempfile.TemporaryDirectory(prefix="fedgs-private-") as folder:
        out = Path(folder) / "times.json"
        with deployed(Path(folder) / "deployment") as deployment:
            app = deployment.app / "fedgs_flower"
            (app / "server_app.py").write_text(SERVER_APP.replace("TOGETHER", str(together)))
            (app / "client_app.py").write_text(CLIENT_APP)
            deployment.submit(records=str(out), num_clients=clients)
            for index in range(clients):
                if index and index % together == 0:
                    time.sleep(START_SECONDS * together)
                deployment.start_node(index)
            end = time.monotonic() + 3600
            while not out.exists() or not out.read_text():
                if time.monotonic() > end:
                    raise TimeoutError("the private graph has not ended within an hour")
                time.sleep(1)
            time.sleep(1)
            done = json.loads(out.read_text())
    own = 0.0
    for phase in done["times"]:
        own += phase["phase_s"] - phase["empty"]
        print(
            f"{phase['phase']:8} {phase['phase_s']:6.1f} s, an empty query "
            f"{phase['empty']:6.1f} s, {phase['replies']} replies, "
            f"{phase['bytes'] / 1e3:.1f} kB at most per client"
        )
    total = sum(phase["bytes"] for phase in done["times"]) / 1e6
    print(
        f"{clients} nodes: own time {own:.1f} s beside Flower's, {total:.4f} MB per client, "
        f"{done['missing']} products missing, events {done['events']}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=["memory", "nodes"])
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--together", type=int, default=10, help="nodes at the same time")
    options = parser.parse_args()
    if options.kind == "memory":
        in_memory(options.clients)
    else:
        between_nodes(options.clients, options.together)


if __name__ == "__main__":
    main()
