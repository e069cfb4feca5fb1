"""The state of an aggregation on the clients: restarts, lost states, replies that do not count."""

import json
import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from fedgs.clients import Clients
from fedgs.errors import ConfigError, OutputError
from fedgs.flower import SampledStrategy, client_state, describe, offsets
from fedgs.flower.client_mod import STORED
from fedgs.flower.kept import Kept

KEYS = ("site-0", "site-1", "site-2")
FEDERATION = Clients(KEYS, np.array([10, 20, 30]))


def app_of(*, mods: Any = (client_state,), reads: bool = True, **metrics: float) -> ClientApp:
    """Client k moves "w" by k + 1 + the sum of its offsets."""
    app = ClientApp(mods=list(mods))

    @app.train()
    def train(message: Message, context: Context) -> Message:
        k = int(str(context.node_config["client-id"])[-1])
        w = message.content["arrays"]["w"].numpy().copy()
        w += k + 1 - (sum(map(np.sum, offsets(message).values())) if reads else 0)
        told = {"num-examples": 10 * (k + 1), "learning-rate": 1.0, "local-steps": 1, **metrics}
        content = {"arrays": ArrayRecord({"w": Array(w)}), "metrics": MetricRecord(told)}
        return Message(RecordDict(content), reply_to=message)

    describe(app)
    return app


def strategy(aggregation: Any = "scaffold", **settings: Any) -> SampledStrategy:
    defaults: dict[str, Any] = {
        "clients": FEDERATION,
        "cohort_limit": 3,
        "min_connected": 0,
        "reply_timeout": 0.3,
        "evaluate_timeout": 0.3,
        "max_idle_rounds": None,
    }
    inner = FedAvg(fraction_evaluate=0.0)
    chosen = {**defaults, "sampler": {"name": "uniform", "weighting": "equal"}, **settings}
    return SampledStrategy(inner, aggregation=aggregation, **chosen)


def gossip(**settings: Any) -> SampledStrategy:
    return strategy("gossip", objective="equal", **settings)


def stale(**settings: Any) -> SampledStrategy:
    return strategy("stale", **settings)


def feddyn(**settings: Any) -> SampledStrategy:
    return strategy("feddyn", **settings)


def postponed(**settings: Any) -> SampledStrategy:
    return strategy("postponed", objective="equal", **settings)


def vector(result: Any) -> list[float]:
    return [round(float(value), 5) for value in result.arrays["w"].numpy()]


def lines(folder: Path) -> list[dict[str, Any]]:
    path = folder / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def events(folder: Path) -> list[tuple[int, Any, str]]:
    return [(line["round"], line["client"], line["event"]) for line in lines(folder)]


def test_a_reply_that_does_not_count_leaves_no_trace(world: Any, tmp_path: Path) -> None:
    """A client whose reply was refused in round 0 trains in round 1 as if round 0 had not been."""
    chosen = strategy(records=tmp_path, clients=Clients(KEYS[:1], np.array([10])))
    grid = world(KEYS[:1], app=app_of())

    def spoilt(reply: Any) -> Any:
        if chosen.round == 0:
            reply.content["metrics"]["num-examples"] = 0
        return reply

    grid.faults[100] = spoilt
    # Round 1: theta = 0, no offsets, so theta = 1. c = c_1 = -1 then, so that the offsets stay 0.
    result = chosen.start(grid, world.model(0.0), num_rounds=2)
    assert vector(result) == [1.0]
    assert events(tmp_path) == [(0, "site-0", "refused"), (0, None, "gave_up")]


@pytest.mark.parametrize("make", [strategy, gossip, stale, feddyn, postponed])
@pytest.mark.parametrize("has_file", [False, True])
def test_a_file_alone_survives_a_restart_of_the_node(
    world: Any, tmp_path: Path, make: Any, has_file: bool
) -> None:
    config = {"state-dir": str(tmp_path / "node")} if has_file else {}

    def run(restart: bool, folder: Path) -> Any:
        grid = world(KEYS, app=app_of(), node_config=lambda key: {"client-id": key, **config})
        chosen = make(records=folder)

        def online() -> list[int]:
            if restart and chosen.round == 2:
                grid.kept.clear()
            return [100, 101, 102]

        grid.script = online
        return vector(chosen.start(grid, world.model(0.0), num_rounds=4))

    whole, broken = run(False, tmp_path / "whole"), run(True, tmp_path / "broken")
    assert events(tmp_path / "whole") == []
    lost = [] if has_file else [(2, key, "state_lost") for key in KEYS]
    assert events(tmp_path / "broken") == lost
    # Steps of FedAWE and FedPBC are the same from everywhere here, which makes up for their start.
    assert (whole == broken) == (has_file or make in (gossip, postponed))


@pytest.mark.parametrize("make", [strategy, gossip, stale, feddyn, postponed])
def test_a_restarted_server_continues_exactly(world: Any, tmp_path: Path, make: Any) -> None:
    config = {"state-dir": str(tmp_path / "node")}

    def grid_of() -> Any:  # Flower gives every run of a ServerApp states of its own
        return world(KEYS, app=app_of(), node_config=lambda key: {"client-id": key, **config})

    whole = vector(make().start(grid_of(), world.model(0.0), num_rounds=5))
    path, model = tmp_path / "state.npz", world.model(0.0)
    for rounds in (2, 1, 2):
        part = make(state=path)
        model = part.load_state(path) if path.exists() else model
        result = part.start(grid_of(), model, num_rounds=rounds)
    assert vector(result) == whole
    with pytest.raises(OutputError, match="was saved with the server step or aggregation"):
        strategy(None).load_state(path)


def test_a_damaged_file_is_a_lost_state(
    world: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"state-dir": str(tmp_path / "node")}
    grid = world(KEYS, app=app_of(), node_config=lambda key: {"client-id": key, **config})
    chosen = strategy(records=tmp_path / "records")

    def online() -> list[int]:
        for path in (tmp_path / "node").glob("*.npz") if chosen.round == 1 else ():
            path.write_bytes(path.read_bytes()[:50])
        return [100, 101, 102]

    grid.script = online
    with caplog.at_level(logging.WARNING):
        chosen.start(grid, world.model(0.0), num_rounds=2)
    assert events(tmp_path / "records") == [(1, key, "state_lost") for key in KEYS]
    assert "cannot be read" in caplog.text
    assert len(list((tmp_path / "node").iterdir())) == 3


def test_a_model_that_was_not_confirmed_leaves_the_earlier_one(world: Any, tmp_path: Path) -> None:
    chosen = gossip(records=tmp_path, clients=Clients(KEYS[:1], np.array([10])))
    grid = world(KEYS[:1], app=app_of())
    push = grid.push_messages

    def losing(messages: Any) -> Any:
        messages = list(messages)
        if messages[0].metadata.message_type != "train" and chosen.round == 1:
            grid.faults[100] = "silent"
        identifiers = push(messages)
        grid.faults.clear()
        return identifiers

    grid.push_messages = losing
    result = chosen.start(grid, world.model(0.0), num_rounds=3)
    # Rounds 0 and 1: x = 1, then 2 (each echoed once); the 2 gets lost. Round 2 starts at 1 again,
    # with an echo of 2: 1 + 2 * 1.
    assert vector(result) == [3.0]
    assert events(tmp_path) == [(1, "site-0", "silent")]


@pytest.mark.parametrize(
    ("app", "aggregation", "why"),
    [
        (app_of(mods=()), "scaffold", r"ClientApp\(mods=\[fedgs.flower.client_state\]\) is needed"),
        (app_of(reads=False), "scaffold", r"must add fedgs.flower.offsets\(message\)"),
        (app_of(**{"local-steps": 0}), "scaffold", "no number 'local-steps' > 0"),
        (app_of(**{"learning-rate": float("nan")}), "scaffold", "no number 'learning-rate' > 0"),
        (
            app_of(**{"learning-rate": -1.0}),
            {"name": "stale", "unit": "gradient"},
            "no number 'learning-rate' > 0",
        ),
    ],
)
def test_a_client_app_without_its_half_is_named(
    world: Any, tmp_path: Path, app: Any, aggregation: Any, why: str
) -> None:
    chosen = strategy(aggregation, records=tmp_path)
    result = chosen.start(world(KEYS, app=app), world.model(0.0), num_rounds=1)
    assert vector(result) == [0.0]
    details = [line["detail"] for line in lines(tmp_path) if line["client"]]
    assert len(details) == 3
    for detail in details:
        assert re.search(why, detail)


@pytest.mark.parametrize(
    ("names", "data"),
    [
        (["w"], b"PK\x03\x04"),
        (["w"], b"\x93NUMPY\x01\x00\x06\x00{(((\n\n"),
        (["v"], None),
        (["w", "v"], None),
        ([], None),
    ],
)
def test_a_stored_update_that_cannot_be_read_is_refused(
    world: Any, tmp_path: Path, names: list[str], data: bytes | None
) -> None:
    def spoilt(reply: Any) -> Any:
        sent = reply.content[STORED]["w"].data
        array = Array(dtype="float64", shape=(1,), stype="numpy.ndarray", data=data or sent)
        reply.content[STORED] = ArrayRecord(dict.fromkeys(names, array))
        return reply

    grid = world(KEYS, app=app_of())
    grid.faults[102] = spoilt
    chosen = strategy("stale", records=tmp_path)
    chosen.start(grid, world.model(0.0), num_rounds=1)
    (event,) = lines(tmp_path)
    assert (event["client"], event["event"]) == ("site-2", "refused")
    assert "stored update" in event["detail"]
    # The same of the model that a client started from, which samplers of updates need.
    grid, folder = world(KEYS, app=app_of()), tmp_path / "gossip"
    grid.faults[102] = spoilt
    reading = gossip(records=folder, sampler={"name": "clustered", "weighting": "equal"})
    reading.start(grid, world.model(0.0), num_rounds=1)
    (event,) = lines(folder)
    assert (event["client"], event["event"]) == ("site-2", "refused")
    assert "the start of its training that it sent is not finite" in event["detail"]


def test_a_start_that_was_not_told_is_an_event_and_the_model_counts(
    world: Any, tmp_path: Path
) -> None:
    def silent(reply: Any) -> Any:
        del reply.content[STORED]
        return reply

    grid = world(KEYS, app=app_of())
    grid.faults[102] = silent
    chosen = gossip(records=tmp_path, sampler={"name": "divfl", "weighting": "equal"})
    chosen.start(grid, world.model(0.0), num_rounds=1)
    (event,) = lines(tmp_path)
    assert (event["client"], event["event"]) == ("site-2", "feature")
    assert event["detail"] == "its reply does not hold the model that it started from"
    assert chosen.answers["site-2"] == 1
    # The updates of the others are 1 and 2 and no zeros.
    assert chosen._selector.state.memory["features"].any(axis=1).tolist() == [True, True, False]


@pytest.mark.parametrize("make", [gossip, postponed])
def test_a_start_is_told_only_where_it_is_needed(world: Any, make: Any) -> None:
    """A graph of first updates asks each client once, other samplers nobody."""
    for graph, wanted in ((None, 0), ({"similarity": "update"}, 1)):
        told: list[int] = []

        def heard(reply: Any, told: list[int] = told) -> Any:
            told.append(STORED in reply.content)
            return reply

        grid = world(KEYS, app=app_of())
        grid.faults[101] = heard
        method: dict[str, Any] = {"name": "fedgs", "weighting": "equal"}
        if graph is not None:
            method["graph"] = graph
        make(sampler=method).start(grid, world.model(0.0), num_rounds=3)
        assert len(told) == 3 and sum(told) == wanted


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"aggregation": "gossip", "objective": "data_size"}, "needs objective = 'equal'"),
        ({"aggregation": "scaffold", "server": "adam"}, "server must be left out beside"),
        ({"aggregation": "half"}, "aggregation.name must be one of"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        strategy(**settings)


def test_a_state_dir_must_be_a_folders_name() -> None:
    for value in ("", 3):
        context = Context(1, 1, {"state-dir": value}, RecordDict(), {})
        with pytest.raises(ConfigError, match="state-dir of a node must name a folder"):
            Kept(context, "run")


def test_other_messages_pass_the_mod() -> None:
    def next_(message: Message, context: Context) -> Message:
        return message

    context = Context(1, 1, {}, RecordDict(), {})
    for content in (RecordDict(), RecordDict({"fedgs": ConfigRecord({"other": 1})})):
        message = Message(content, 1, "train")
        assert client_state(message, context, next_) is message
