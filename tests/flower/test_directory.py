"""Keys of nodes: lost answers, functions that fail, ClientApps that do not answer at all."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Error, Message
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from fedgs.clients import Clients
from fedgs.errors import RunError
from fedgs.flower import SampledStrategy, describe
from fedgs.sampling import FedGS

SITES = ["a-0", "b-1", "c-2"]


def strategy(sampler: Any = "uniform", **settings: Any) -> SampledStrategy:
    defaults = {
        "cohort_limit": 3,
        "connect_timeout": 5.0,
        "describe_timeout": 0.3,
        "reply_timeout": 0.2,
    }
    return SampledStrategy(FedAvg(fraction_evaluate=0.0), sampler, **{**defaults, **settings})


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def queries(grid: Any, node: int | None = None) -> int:
    return sum(kind == "query.fedgs" and node in (None, to) for kind, to in grid.asked)


# Answers that get lost.


@pytest.mark.parametrize("node", [100, 102], ids=["the first node", "the last node"])
@pytest.mark.parametrize("fault", ["silent", "error"])
def test_a_node_whose_answer_is_lost_is_asked_again(
    world: Any, tmp_path: Path, caplog: Any, fault: str, node: int
) -> None:
    grid, chosen = world(SITES), strategy(records=tmp_path, describe_timeout=0.1)

    def script() -> list[int]:
        grid.faults = {} if chosen.round >= 1 else {node: fault}
        time.sleep(0.02)  # a round takes some time, so that intervals pass
        return list(grid.keys)

    grid.script = script
    begun = time.monotonic()
    chosen.start(grid, world.model(), num_rounds=20)
    assert time.monotonic() - begun < 10.0
    key = grid.keys[node]
    assert chosen.answers[key] >= 10
    assert 2 <= queries(grid, node) <= 4
    first = events(tmp_path)[0]
    expected = {"event": "silent", "client": None, "request": "describe", "node": node}
    assert expected.items() <= first.items()
    assert f"node {node} has not said which client it is within" in first["detail"]
    assert first["detail"] in caplog.text


def test_a_lost_answer_costs_the_round_it_was_lost_in_and_no_more(world: Any) -> None:
    grid, chosen = world(SITES), strategy(describe_timeout=0.2)

    def script() -> list[int]:
        # It loses one message, then works.
        grid.faults = {} if chosen.round >= 1 else {102: "silent"}
        return list(grid.keys)

    grid.script = script
    chosen.start(grid, world.model(), num_rounds=10)
    assert chosen.answers == {"a-0": 10, "b-1": 10, "c-2": 9}
    assert queries(grid, 102) == 2


@pytest.mark.long
def test_a_node_that_never_says_who_it_is_costs_one_wait_and_few_requests(
    world: Any, tmp_path: Path
) -> None:
    grid, chosen = world(SITES), strategy(records=tmp_path, describe_timeout=0.2)
    grid.faults[102] = "silent"
    grid.script = lambda: time.sleep(0.02) or list(grid.keys)  # listed twice in a round
    begun = time.monotonic()
    chosen.start(grid, world.model(), num_rounds=40)
    passed = time.monotonic() - begun
    assert chosen.counts == {"a-0": 40, "b-1": 40}
    assert passed < 7.0  # waiting for it in each round takes 9.6 seconds
    # Intervals of .2, .4, .8, 1.6, 3.2, 3.2, ...: requests at 0, .2, .6, 1.4, 3.0, 6.2.
    assert 4 <= queries(grid, 102) <= 4 + passed / 1.6
    silent = [event for event in events(tmp_path) if event["event"] == "silent"]
    assert len(silent) in (queries(grid, 102) - 1, queries(grid, 102))


def test_the_wait_for_unknown_nodes_is_a_setting(world: Any) -> None:
    grid = world(SITES)
    grid.faults[102] = "silent"
    begun = time.monotonic()
    strategy(describe_timeout=0.5).start(grid, world.model(), num_rounds=3)
    assert 0.5 <= time.monotonic() - begun < 10.0
    begun = time.monotonic()
    strategy(describe_timeout=60.0, connect_timeout=0.4).start(grid, world.model(), num_rounds=3)
    assert time.monotonic() - begun < 10.0


def test_a_lost_answer_is_asked_for_within_a_round_that_waits_for_clients(world: Any) -> None:
    grid = world(SITES[:1])
    asked: list[float] = []
    reply = grid._reply

    def forgetful(message: Any) -> Any:
        if message.metadata.message_type == "query.fedgs":
            asked.append(time.monotonic())
            if len(asked) < 3:
                return None
        return reply(message)

    grid._reply = forgetful
    chosen = strategy(min_connected=1, connect_timeout=30.0, describe_timeout=0.1)
    chosen.start(grid, world.model(), num_rounds=1)
    assert chosen.answers == {"a-0": 1}
    assert len(asked) == 3
    assert asked[-1] - asked[0] < 5.0


# Functions that fail.


def app_that_tells(world: Any, **functions: Any) -> Any:
    """The default ClientApp with another `describe`."""
    plain, app = world.default_app(), ClientApp()
    app.train()(lambda message, context: plain(message, context))
    describe(app, **functions)
    return app


def test_a_failing_function_keeps_the_key_and_the_rest(
    world: Any, tmp_path: Path, caplog: Any
) -> None:
    def sizes(context: Any) -> int:
        return {"a-0": 7, "b-1": 9, "c-2": 11}[context.node_config["client-id"]]

    def counts(context: Any) -> list[int]:
        return [1, 1] if context.node_config["client-id"] != "b-1" else [0, 0]

    grid = world(SITES, app=app_that_tells(world, label_counts=counts, data_size=sizes))
    chosen = strategy(FedGS(), records=tmp_path)
    chosen.configure_train(1, world.model(), world.config(), grid)
    assert chosen.counts == {"a-0": 1, "b-1": 1, "c-2": 1}
    assert chosen._selector.clients().data_sizes.tolist() == [7, 9, 11]
    assert set(chosen._selector.roster.features) == {0, 2}
    failure = "label_counts failed: ConfigError: label_counts must be counts >= 0"
    assert f"client 'b-1' describe (describe): {failure}" in caplog.text
    assert "node-101" not in caplog.text


def test_a_feature_that_does_not_fit_the_others_is_an_event(world: Any, tmp_path: Path) -> None:
    grid = world(SITES, app=world.default_app(labels=[[1, 1], [1, 1, 1], [2, 1]]))
    strategy(FedGS(), records=tmp_path).start(grid, world.model(), num_rounds=1)
    (event,) = events(tmp_path)
    assert (event["event"], event["client"]) == ("feature", "b-1")
    assert event["detail"] == "its feature has 3 entries, the others' 2"


def test_what_failed_is_asked_for_again_when_it_works(world: Any, tmp_path: Path) -> None:
    holds = {"a-0": [3, 1], "b-1": [0, 0], "c-2": [0, 4]}
    app = app_that_tells(
        world, label_counts=lambda context: holds[context.node_config["client-id"]]
    )
    grid = world(SITES, app=app)
    chosen = strategy(FedGS(), records=tmp_path)

    def script() -> list[int]:
        if chosen.round == 6:
            holds["b-1"] = [1, 1]  # the client has examples now
        return list(grid.keys)

    grid.script = script
    chosen.start(grid, world.model(), num_rounds=40)
    assert chosen._selector.roster.features[1].tolist() == [0.5, 0.5]
    assert chosen.counts == dict.fromkeys(SITES, 40)
    assert (queries(grid, 100), queries(grid, 102)) == (1, 1)
    # Asked in rounds 0, 1, 3, 7, which is the first one with examples.
    assert queries(grid, 101) == 4
    assert [(event["round"], event["client"], event["event"]) for event in events(tmp_path)] == [
        (round, "b-1", "describe") for round in (0, 1, 3)
    ]


def test_what_always_fails_is_asked_for_at_growing_distances(world: Any) -> None:
    grid = world(SITES, app=world.default_app(labels=[[0, 0], [3, 4], [1, 1]]))
    chosen = strategy()
    chosen.start(grid, world.model(), num_rounds=100)
    assert chosen.counts == dict.fromkeys(SITES, 100)
    assert queries(grid, 100) == 7  # rounds 0, 1, 3, 7, 15, 31, 63


def test_a_client_whose_app_failed_once_gets_its_key_later(world: Any) -> None:
    grid, chosen = world(SITES), strategy()

    def script() -> list[int]:
        grid.faults = {101: "raise"} if chosen.round < 1 else {}
        return list(grid.keys)

    grid.script = script
    chosen.start(grid, world.model(), num_rounds=6)
    assert chosen.counts["b-1"] >= 5


def test_a_lost_answer_about_what_failed_is_asked_for_in_a_later_round(world: Any) -> None:
    grid = world(SITES, app=world.default_app(labels=[[0, 0], [3, 4], [1, 1]]))
    reply = grid._reply

    def forgetful(message: Any) -> Any:
        to_first = message.metadata.dst_node_id == 100
        query = message.metadata.message_type == "query.fedgs"
        return None if query and to_first and queries(grid, 100) > 1 else reply(message)

    def script() -> list[int]:
        time.sleep(0.01)  # longer than a request is waited for
        return list(grid.keys)

    grid._reply, grid.script = forgetful, script
    chosen = strategy(describe_timeout=0.005)
    chosen.start(grid, world.model(), num_rounds=20)
    assert chosen.counts == dict.fromkeys(SITES, 20)
    assert 3 <= queries(grid, 100) <= 6  # intervals in rounds double


def test_an_answer_that_arrives_twice_counts_once(world: Any) -> None:
    grid, chosen = world(SITES), strategy()
    pull = grid.pull_messages
    grid.pull_messages = lambda identifiers: 2 * pull(identifiers)
    assert sorted(chosen._training.connected(grid).values()) == [100, 101, 102]


# Apps without an answer.


def app_without_describe(world: Any) -> Any:
    plain, app = world.default_app(), ClientApp()
    app.train()(lambda message, context: plain(message, context))
    return app


@pytest.mark.parametrize("sampler", ["uniform", "md", "fedgs"])
def test_a_client_app_without_describe_fails_on_one_node_only(
    world: Any, caplog: Any, sampler: str
) -> None:
    sites = [f"s-{k}" for k in range(10)]
    grid = world(sites, app=app_without_describe(world))
    grid.online = [100 + k for k in range(8)]
    chosen = strategy(sampler)
    chosen.start(grid, world.model(), num_rounds=3)
    grid.online = None  # two more
    chosen.start(grid, world.model(), num_rounds=3)
    assert queries(grid) == 1
    assert set(chosen.counts) == {f"node-{100 + k}" for k in range(10)}
    advice = "set client-id in its node configuration and add fedgs.flower.describe(app)"
    assert caplog.text.count(advice) <= 3


def test_an_app_that_fails_once_and_has_no_answer_is_not_asked_a_third_time(world: Any) -> None:
    grid, chosen = world(SITES, app=app_without_describe(world)), strategy()

    def script() -> list[int]:
        grid.faults = dict.fromkeys(grid.keys, "raise") if chosen.round < 1 else {}
        return list(grid.keys)

    grid.script = script
    chosen.start(grid, world.model(), num_rounds=8)
    assert [queries(grid, node) for node in grid.keys] == [2, 2, 2]
    assert chosen.answers == dict.fromkeys(("node-100", "node-101", "node-102"), 7)


def test_no_node_is_asked_where_that_is_switched_off(world: Any, caplog: Any) -> None:
    grid = world(SITES)
    chosen = strategy(describe=False)
    chosen.start(grid, world.model(), num_rounds=3)
    assert queries(grid) == 0
    assert chosen.answers == {"node-100": 3, "node-101": 3, "node-102": 3}
    assert "set client-id" not in caplog.text


def test_a_first_node_that_is_silent_does_not_hide_the_others(world: Any) -> None:
    grid = world(SITES)
    grid.faults[100] = "silent"
    chosen = strategy(min_connected=2)
    chosen.start(grid, world.model(), num_rounds=1)
    assert chosen.answers == {"b-1": 1, "c-2": 1}


def test_an_error_of_the_superlink_is_no_answer_of_the_app(world: Any) -> None:
    grid = world(SITES)
    grid._reply = lambda message: Message(
        Error(code=5, reason="Node Unavailable"), reply_to=message
    )
    chosen = strategy(connect_timeout=0.5, max_idle_rounds=1)
    with pytest.raises(RunError, match="2 clients must be connected, 0 are"):
        chosen.start(grid, world.model(), num_rounds=1)
    assert chosen.counts == {}


# Keys.


def test_a_number_and_its_text_are_one_client(world: Any) -> None:
    grid, chosen = world([3, 1]), strategy()
    chosen.start(grid, world.model(), num_rounds=1)
    grid.keys = {200: "3", 201: 1}  # client 3 comes back with client-id="3"
    chosen.start(grid, world.model(), num_rounds=1)
    assert chosen.counts == {1: 2, 3: 2}
    again = strategy(clients=Clients((1, "3"), np.array([5, 5])))
    again.start(world([3, 1]), world.model(), num_rounds=1)
    assert again.counts == {1: 1, "3": 1}


def test_a_number_and_its_text_at_once_are_two_nodes_with_one_key(world: Any) -> None:
    with pytest.raises(RunError, match=r"client key (3|'3') is held by two live nodes"):
        strategy().start(world([3, "3"]), world.model(), num_rounds=1)


def test_a_key_that_is_too_long_names_nobody(world: Any, caplog: pytest.LogCaptureFixture) -> None:
    grid, chosen = world(["a", "b" * 1000, "c" * 1001]), strategy()
    chosen.start(grid, world.model(), num_rounds=1)
    assert list(chosen.counts) == ["a", "b" * 1000, "node-102"]
    assert "its key has over 1000 characters" in caplog.text


def test_an_empty_client_id_names_nobody(world: Any) -> None:
    grid = world([0, 1], node_config=lambda key: {"client-id": "", "partition-id": key})
    chosen = strategy()
    chosen._training.connected(grid)
    assert chosen.counts == {0: 0, 1: 0}
