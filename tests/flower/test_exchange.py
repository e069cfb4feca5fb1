"""Waits, deadlines and the proxies of the Grid."""

import time
from typing import Any, ClassVar

import pytest

pytest.importorskip("flwr")

from flwr.app import Message, RecordDict

from fedgs.flower.exchange import CohortGrid, DeadlineGrid, Patience, exchange, resend


def train(world: Any, *nodes: int) -> list[Message]:
    return [
        Message(RecordDict({"arrays": world.model(), "config": world.config()}), node, "train")
        for node in nodes
    ]


def evaluation(world: Any, node: int) -> Message:
    content = RecordDict({"arrays": world.model(), "config": world.config()})
    return Message(content, node, "evaluate")


def test_a_silent_node_costs_the_deadline_and_no_more(world: Any) -> None:
    grid = world(["site-0", "site-1"])
    grid.faults[101] = "silent"
    begun = time.monotonic()
    replies = exchange(grid, train(world, 100, 101), timeout=0.15)
    assert [reply.metadata.src_node_id for reply in replies] == [100]
    assert time.monotonic() - begun >= 0.15


def test_nothing_to_send_is_no_wait(world: Any) -> None:
    assert exchange(world([]), [], timeout=60.0) == []


def test_a_message_that_could_not_be_sent_is_not_waited_for(world: Any) -> None:
    grid = world(["site-0", "site-1"])
    push = grid.push_messages
    grid.push_messages = lambda messages: [push(messages)[0], None]
    assert len(exchange(grid, train(world, 100, 101), timeout=60.0)) == 1
    grid.push_messages = lambda messages: [None for _ in messages]
    assert exchange(grid, train(world, 100, 101), timeout=60.0) == []


def test_enough_counts_acceptable_replies_only(world: Any) -> None:
    grid = world(["site-0", "site-1", "site-2"])
    grid.faults = {100: "error", 102: "silent"}
    assert len(exchange(grid, train(world, 100, 101, 102), timeout=60.0, enough=1)) == 2
    begun = time.monotonic()
    exchange(grid, train(world, 100, 101, 102), timeout=0.1, enough=2)
    assert time.monotonic() - begun >= 0.1


def test_a_message_lives_little_longer_than_its_deadline(world: Any) -> None:
    (message,) = train(world, 100)
    sent = resend(message, timeout=10.0, group="3")
    assert (sent.metadata.ttl, sent.metadata.group_id, sent.metadata.dst_node_id) == (
        40.0,
        "3",
        100,
    )
    assert sent.content is message.content


def test_the_cohort_grid_lists_the_cohort_and_forwards_the_rest(world: Any) -> None:
    grid = world(["site-0", "site-1", "site-2"])
    cohort = CohortGrid(grid, [101])
    assert list(cohort.get_node_ids()) == [101]
    assert list(cohort.get_nodes()) == []
    cohort.set_run(None)  # type: ignore[arg-type]
    assert cohort.run is None
    with pytest.raises(NotImplementedError):
        cohort.create_message(RecordDict(), "train", 101, "")
    assert cohort.keys == grid.keys
    assert len(list(cohort.pull_messages(cohort.push_messages(train(world, 101))))) == 1
    assert len(list(cohort.send_and_receive(train(world, 101), timeout=1.0))) == 1


def test_the_deadline_grid_asks_its_own_rule(world: Any) -> None:
    grid = world(["site-0"])
    asked: list[Any] = []
    watched = DeadlineGrid(grid, lambda *arguments: asked.append(arguments) or [])
    assert watched.send_and_receive(["message"], timeout=5.0) == []
    assert asked == [(grid, ["message"], 5.0)]
    assert list(watched.get_node_ids()) == [100]


def test_a_restarted_client_is_waited_for_again(world: Any) -> None:
    patience, grid = Patience(), world(["site-0", "site-1", "site-2"])
    grid.faults[102] = "silent"

    def ask(node: int) -> list[Message]:
        return [evaluation(world, node)]

    patience.exchange(grid, ask(102), timeout=0.1)
    assert patience.silent == {102}
    patience.exchange(grid, ask(100), timeout=0.1)
    assert patience.silent == {102}
    grid.faults.clear()
    patience.exchange(grid, ask(102), timeout=0.1)
    assert patience.silent == set()


def test_doubtful_nodes_are_waited_for_as_long_again_as_the_others_needed(world: Any) -> None:
    class Slow(world):  # type: ignore[misc]
        """Node 100 answers after 0.2 s, node 101 after 0.3 s, node 102 never."""

        after: ClassVar = {100: 0.2, 101: 0.3}

        def _reply(self, message: Any) -> Any:
            self.begun = time.monotonic()
            return None if message.metadata.dst_node_id == 102 else super()._reply(message)

        def pull_messages(self, identifiers: Any) -> Any:
            passed = time.monotonic() - self.begun
            node_of = {
                self.answers[key].metadata.src_node_id: key
                for key in identifiers
                if key in self.answers
            }
            return [
                self.answers.pop(key) for node, key in node_of.items() if passed >= self.after[node]
            ]

    grid = Slow(["site-0", "site-1", "site-2"])
    messages = [evaluation(world, node) for node in (100, 101, 102)]
    begun = time.monotonic()
    replies = exchange(grid, messages, timeout=30.0, doubtful=(101, 102))
    assert [reply.metadata.src_node_id for reply in replies] == [100, 101]
    assert 0.4 <= time.monotonic() - begun < 5.0


def test_replies_are_received_in_parts_in_the_order_of_the_messages(world: Any) -> None:
    grid = world([f"site-{k}" for k in range(5)])
    grid.faults[103] = "silent"
    parts: list[int] = []
    pull = grid.pull_messages
    grid.pull_messages = lambda identifiers: (parts.append(len(identifiers)), pull(identifiers))[1]
    messages = train(world, 104, 103, 102, 101, 100)
    replies = exchange(grid, messages, timeout=0.02, at_once=2)
    assert [reply.metadata.src_node_id for reply in replies] == [104, 102, 101, 100]
    assert parts[:3] == [2, 2, 1] and max(parts) == 2


def test_enough_ends_the_parts_early(world: Any) -> None:
    grid = world([f"site-{k}" for k in range(5)])
    messages = train(world, 100, 101, 102, 103, 104)
    assert len(exchange(grid, messages, timeout=60.0, at_once=2, enough=3)) == 4
