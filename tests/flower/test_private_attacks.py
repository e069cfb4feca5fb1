"""Messages of the private graph that are altered on their way, in every phase and both directions.

Whatever arrives, no exception escapes, no product is wrong, and the sender is named.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("cryptography")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.flower.private_nodes import nodes, session, shares

from fedgs.errors import ProtocolError
from fedgs.flower.private.node import describe_privately
from fedgs.flower.private.protocol import PrivateSession
from fedgs.secure.wire import Kind, each

CLIENTS = 4
COUNTS = shares(CLIENTS)
VECTORS = COUNTS / COUNTS.sum(axis=1, keepdims=True)
TRUE = VECTORS @ VECTORS.T
VICTIM, OTHER = 102, 101  # node ids
Entries = dict[str, Any]


@pytest.fixture
def grid(world: Any) -> Any:
    return nodes(world, COUNTS)


def check_products(found: np.ndarray, without: int | None = None) -> None:
    """Known products are true, and those of all clients but one are known."""
    kept = [row for row in range(CLIENTS) if row != without]
    block = found[np.ix_(kept, kept)]
    assert not np.isnan(block[~np.eye(len(kept), dtype=bool)]).any()
    known = ~np.isnan(found)
    np.testing.assert_allclose(found[known], TRUE[known], atol=1e-7)


def flipped(data: bytes, place: int = -1) -> bytes:
    changed = bytearray(data)
    changed[place] ^= 1
    return bytes(changed)


# Alterations of an entry, given the same entry of another node.
ALTERED: dict[str, Callable[[bytes, bytes], Any]] = {
    "tampered": lambda data, other: flipped(data),
    "tampered head": lambda data, other: flipped(data, 6),
    "truncated": lambda data, other: data[:-1],
    "cut to nothing": lambda data, other: b"",
    "oversized": lambda data, other: data + bytes(10_000),
    "doubled": lambda data, other: data + data,
    "foreign": lambda data, other: other,
    "random": lambda data, other: bytes(range(256)),
    "of another type": lambda data, other: "text",
}


@pytest.mark.parametrize("phase", ["keys", "masked", "blinded", "shares"])
@pytest.mark.parametrize("how", list(ALTERED))
def test_an_altered_reply_costs_the_pairs_of_its_sender(grid: Any, phase: str, how: str) -> None:
    last: dict[str, Any] = {}

    def bend(name: str, node: int, entries: Entries) -> Entries:
        entry = "public" if name == "keys" else "message"
        if name == phase and node == OTHER:
            last.setdefault("other", entries.get(entry))
        if name == phase and node == VICTIM:
            return {**entries, entry: ALTERED[how](entries[entry], last["other"])}
        return entries

    grid.bend = bend
    found, events = session(grid, CLIENTS)
    # A key that another party has, or that nobody has, is only noticed by what it seals.
    check_products(found, without=2)
    assert {event["event"] for event in events} == {"refused"}
    named = {event["client"] for event in events}
    accused = {key for event in events for key in event.get("accused", ())}
    assert "site-2" in named | accused


@pytest.mark.parametrize(
    ("phase", "entry"),
    [
        ("masked", "message"),
        ("masked", "corrections"),
        ("blinded", "message"),
        ("shares", "message"),
    ],
)
def test_an_oversized_reply_is_not_parsed(
    grid: Any, monkeypatch: pytest.MonkeyPatch, phase: str, entry: str
) -> None:
    from fedgs.secure import server

    read: list[int] = []
    honest = server.single

    def single(data: bytes, *, where: str) -> Any:
        read.append(len(data))
        return honest(data, where=where)

    monkeypatch.setattr(server, "single", single)
    victims: set[int] = set()

    def bend(at: str, node: int, entries: Entries) -> Entries:
        # Not all clients have corrections: which ones deal is drawn anew for each session.
        if at != phase or not entries.get(entry) or victims - {node}:
            return entries
        victims.add(node)
        return {**entries, entry: bytes(3_000_000)}

    grid.bend = bend
    found, events = session(grid, CLIENTS)
    (victim,) = victims
    check_products(found, without=victim - 100)
    assert read and max(read) < 1000
    (event,) = events
    name = f"site-{victim - 100}"
    assert event["client"] == name
    assert f"{name!r} is oversized: " in event["detail"] and "has at most" in event["detail"]


def test_a_reply_of_an_earlier_phase_is_refused(grid: Any) -> None:
    earlier: list[bytes] = []

    def bend(phase: str, node: int, entries: Entries) -> Entries:
        if node != VICTIM or phase == "keys":
            return entries
        earlier.append(entries["message"])
        return {**entries, "message": earlier[0] if phase == "blinded" else entries["message"]}

    grid.bend = bend
    found, events = session(grid, CLIENTS)
    check_products(found, without=2)
    (event,) = events
    assert event["client"] == "site-2"
    # Client 2 has two peers below it, so that its earlier reply is longer than this one may be.
    assert "the reply of client 'site-2' is oversized: 'blinded'" in event["detail"]


def test_a_reply_of_an_earlier_session_is_refused(grid: Any) -> None:
    session(grid, CLIENTS)
    kept = {
        phase: entries["message"]
        for phase, node, way, entries in grid.relayed
        if (node, way) == (VICTIM, "reply") and "message" in entries
    }
    grid.bend = lambda phase, node, entries: (
        {**entries, "message": kept[phase]} if (phase, node) == ("masked", VICTIM) else entries
    )
    found, events = session(grid, CLIENTS)
    check_products(found, without=2)
    assert "failed its authentication" in events[0]["detail"]


@pytest.mark.parametrize("phase", ["masked", "blinded", "shares"])
@pytest.mark.parametrize("how", list(ALTERED))
def test_an_altered_request_is_refused_by_the_node(grid: Any, phase: str, how: str) -> None:
    last: dict[str, Any] = {}

    def before(name: str, node: int, entries: Entries) -> Entries:
        entry = "directory" if name == "masked" else "message"
        if name == phase and node == OTHER:
            last["other"] = entries[entry]
        if name != phase or node != VICTIM:
            return entries
        given = ALTERED[how](entries[entry], last["other"])
        # All nodes get the same directory.
        return {**entries, entry: flipped(given) if given == entries[entry] else given}

    grid.before = before
    found, events = session(grid, CLIENTS)
    check_products(found, without=2)
    assert "site-2" in {event["client"] for event in events}
    assert {event["event"] for event in events} == {"refused"}


@pytest.mark.parametrize("entry", ["names", "invitation", "assignment", "session", "phase"])
def test_a_request_with_another_entry_is_refused(grid: Any, entry: str) -> None:
    def before(name: str, node: int, entries: Entries) -> Entries:
        if (name, node) != ("masked", VICTIM):
            return entries
        others = {
            "names": ["site-2", "b", "c", "d"],
            "session": bytes(16),
            "phase": "shares",
        }
        given = others.get(entry) or flipped(entries[entry])
        return {**entries, entry: given}

    grid.before = before
    found, events = session(grid, CLIENTS)
    check_products(found, without=2)
    assert {event["client"] for event in events} == {"site-2"}


def test_a_client_that_seals_garbage_for_all_others_is_left_out(
    grid: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedgs.secure import ring

    honest = ring.RingClient._mask

    def bad_vectors(self: Any, message: Any, rest: bytes) -> bytes:
        if (self._member.party, self._member.plan.clients) != (2, CLIENTS):
            return honest(self, message, rest)
        honest_words = ring.pack_words
        monkeypatch.setattr(ring, "pack_words", lambda row: honest_words(row)[:-8] + bytes(4))
        try:
            return honest(self, message, rest)
        finally:
            monkeypatch.setattr(ring, "pack_words", honest_words)

    monkeypatch.setattr(ring.RingClient, "_mask", bad_vectors)
    found, events = session(grid, CLIENTS)
    check_products(found, without=2)
    # The server cannot read what is sealed: it counts the accusations.
    assert {event["client"] for event in events} == {"site-0", "site-1", "site-3"}
    assert all(event["accused"] == ["site-2"] for event in events)


def test_a_server_that_shows_two_rosters_gets_no_product_between_them(world: Any) -> None:
    """The key of site-3 is another one in the directory that site-0 sees."""
    from fedgs.secure.channel import KeyPair

    grid, swapped = nodes(world, COUNTS), KeyPair.generate().public

    def before(name: str, node: int, entries: Entries) -> Entries:
        if (name, node) != ("masked", 100):
            return entries
        own = grid.relayed_public[103]
        directory = entries["directory"]
        assert own in directory
        return {**entries, "directory": directory.replace(own, swapped)}

    grid.relayed_public = {}

    def bend(name: str, node: int, entries: Entries) -> Entries:
        if name == "keys":
            grid.relayed_public[node] = entries["public"]
        return entries

    grid.before, grid.bend = before, bend
    found, events = session(grid, CLIENTS)
    # Its messages to the server already belong to another session.
    assert "site-0" in {event["client"] for event in events}
    assert np.isnan(found[0]).all()
    check_products(found, without=0)


def test_nodes_that_saw_different_rosters_refuse_each_other() -> None:
    """Also if the server's own key is right in both, so that it can open all that it gets."""
    from fedgs.secure.channel import KeyPair
    from fedgs.secure.fixed_point import fixed_point
    from fedgs.secure.ring import RingParty
    from fedgs.secure.server import RingServer
    from fedgs.secure.session import SessionPlan

    plan = SessionPlan(4, fixed_point(4))
    parties = {k: RingParty(plan, k, VECTORS[k]) for k in range(4)}
    keys = KeyPair.generate()
    honest, lying = RingServer(plan, keys=keys), RingServer(plan, keys=keys)
    lying.member._nonce = honest.member._nonce
    hellos = {k: parties[k].member.introduction for k in range(4)}
    fake = {**hellos, 3: KeyPair.generate().public + hellos[3][32:]}
    directory, other = honest.open(hellos)[1], lying.open(fake)[0]
    for k in (1, 2, 3):
        parties[k].answer(directory)
    parties[0].answer(other)
    assert parties[0].member.session != parties[1].member.session
    sealed = parties[1].member.channel(0).seal(Kind.SEALED_VECTOR, 0, bytes(32))
    (message,) = each(sealed, where="here")
    with pytest.raises(ProtocolError, match="showed its parties different directories") as caught:
        parties[0].member.channel(1).open(message)
    assert caught.value.sender == 1


# Random and mutated bytes.


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_mutated_messages_never_give_a_wrong_product(grid: Any, data: st.DataObject) -> None:
    phase = data.draw(st.sampled_from(["keys", "masked", "blinded", "shares"]))
    way = data.draw(st.sampled_from(["request", "reply"]))
    mutate = data.draw(mutations())

    def alter(wanted: str) -> Callable[[str, int, Entries], Entries]:
        def change(name: str, node: int, entries: Entries) -> Entries:
            if (name, node, way) != (phase, VICTIM, wanted):
                return entries
            names = sorted(entries)
            entry = names[mutate[0] % len(names)]
            return {**entries, entry: mutate[1](entries[entry])}

        return change

    grid.states.clear()
    grid.before, grid.bend = alter("request"), alter("reply")
    found, _ = session(grid, CLIENTS)
    known = ~np.isnan(found)
    np.testing.assert_allclose(found[known], TRUE[known], atol=1e-7)
    check_products(found, without=2)


@st.composite
def mutations(draw: st.DrawFn) -> tuple[int, Callable[[Any], Any]]:
    """Which entry, and what becomes of it."""
    which = draw(st.integers(0, 5))
    if draw(st.booleans()):
        replacement = draw(
            st.one_of(
                st.binary(max_size=300),
                st.text(max_size=5),
                st.integers(-(2**62), 2**62),
                st.floats(allow_nan=True),
                st.lists(st.text(max_size=3), min_size=1, max_size=4),
            )
        )
        return which, lambda value: replacement
    place, bits = draw(st.integers(0, 10_000)), draw(st.integers(1, 255))

    def mutated(value: Any) -> Any:
        if not isinstance(value, bytes) or not value:
            return b"mutated"
        changed = bytearray(value)
        changed[place % len(value)] ^= bits
        return bytes(changed)

    return which, mutated


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.sampled_from(["phase", "session", "message", "names"]), st.binary()))
def test_a_node_answers_any_request_with_a_refusal(entries: Entries) -> None:
    from flwr.app import ConfigRecord, Context, Message, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp()
    describe_privately(app, label_counts=lambda context: [1, 2])
    context = Context(1, 1, {"client-id": "a"}, RecordDict(), {})
    request = Message(RecordDict({"fedgs": ConfigRecord(entries)}), 1, "query.fedgs_private")
    request.metadata.__dict__["_message_id"] = "m"
    reply = app(request, context).content["fedgs"]
    assert set(reply) == {"refused"}


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(
        st.integers(0, 3),
        st.dictionaries(
            st.sampled_from(["public", "nonce", "length", "range", "refused", "accused"]),
            st.one_of(st.binary(max_size=40), st.integers(), st.floats(), st.lists(st.text())),
        ),
    )
)
def test_a_server_bears_any_replies(replies: dict[int, Entries]) -> None:
    begun = PrivateSession({k: f"site-{k}" for k in range(4)}, [(0, 1)])
    phases = begun.run()
    next(phases)
    with pytest.raises(StopIteration):
        phases.send(replies)
    assert begun.products == {}
    assert begun.silent.keys() | begun.refused.keys() == set(range(4))


def test_impossible_products_are_not_used_and_their_client_is_left_out(
    grid: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedgs.secure import ring

    honest, honest_words = ring.RingClient._share, ring.pack_words

    def share(self: Any, message: Any, rest: bytes) -> bytes:
        if (self._member.party, self._member.plan.clients) != (0, CLIENTS):
            return honest(self, message, rest)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ring, "pack_words", lambda v1: honest_words(v1 + np.uint64(2**63)))
            return honest(self, message, rest)

    monkeypatch.setattr(ring.RingClient, "_share", share)
    found, events = session(grid, CLIENTS)
    check_products(found, without=0)
    assert np.isnan(found[0]).all()
    (own,) = (event for event in events if event["client"] == "site-0")
    assert "its product with 'site-1' is impossible: -" in own["detail"]
    assert own["accused"] == ["site-1", "site-2", "site-3"]
