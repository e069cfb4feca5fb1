"""Random and mutated bytes at every place where bytes arrive: only a `ProtocolError` leaves it."""

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.secure.material import PAIRS, PLAN, VECTORS, ask, joined

from fedgs.errors import ProtocolError
from fedgs.secure.ring import RingParty
from fedgs.secure.server import RingServer
from fedgs.secure.wire import DEALER, EVERYBODY, SERVER, Head, Kind, each, pack, single

pytest.importorskip("cryptography")

FEW = settings(max_examples=25, deadline=None)
PARTIES = st.sampled_from([0, 1, 2, 3, 4, SERVER, DEALER, EVERYBODY])
HEADS = st.builds(Head, st.sampled_from(Kind), PARTIES, PARTIES, st.sampled_from([0, 1, 2**32 - 1]))
MESSAGES = st.builds(pack, HEADS, st.binary(max_size=120))
# Counts of lists, indices and words, as well as anything else.
NUMBERS = st.lists(st.integers(0, 2**32 - 1) | st.integers(0, 6), max_size=12)
BODIES = st.binary(max_size=120) | NUMBERS.map(lambda few: np.array(few, dtype="<u4").tobytes())


Mutation = Callable[[bytes], bytes]


@st.composite
def mutations(draw: st.DrawFn) -> Mutation:
    """A bit flipped, bytes cut off or added, or another message in its place.

    It is drawn before the message is known, whose bytes are random.
    """
    place, bit, more = draw(st.integers(0, 400)), draw(st.integers(0, 7)), draw(st.binary())
    other = draw(MESSAGES | st.binary(max_size=80))

    def flip(data: bytes) -> bytes:
        at = place % max(1, len(data))
        return data[:at] + bytes([byte ^ (1 << bit) for byte in data[at : at + 1]]) + data[at + 1 :]

    def cut(data: bytes) -> bytes:
        return data[: place % max(1, len(data))]

    return draw(st.sampled_from([flip, cut, lambda data: data + more + b"x", lambda data: other]))


@FEW
@given(st.lists(MESSAGES, max_size=4), mutations(), st.binary(max_size=200))
def test_a_stream_of_messages_is_read_or_refused(
    messages: list[bytes], mutate: Mutation, other: bytes
) -> None:
    stream = b"".join(messages)
    assert [message.raw for message in each(stream, where="here")] == messages
    for altered in (mutate(stream), other):
        with suppress(ProtocolError):
            assert b"".join(message.raw for message in each(altered, where="here")) == altered
        with suppress(ProtocolError):
            assert single(altered, where="here").raw == altered


@FEW
@given(
    st.sampled_from([0, 1, 3]),
    st.sampled_from(["assignment", "dealing", "delivery", "return"]),
    mutations(),
)
def test_a_party_refuses_what_is_altered_and_continues(
    number: int, at: str, mutate: Mutation
) -> None:
    server, parties = joined()
    victim = parties[number]

    def disturb(step: str, mail: dict[int, bytes]) -> None:
        if step == at and number in mail:
            altered = mutate(mail[number])
            if altered != mail[number]:
                with pytest.raises(ProtocolError):
                    victim.answer(altered)

    assignments, dealings = server.assign(PAIRS)
    disturb("assignment", assignments)
    disturb("dealing", dealings)
    deliveries = server.deliver(ask(parties, assignments), ask(parties, dealings))
    disturb("delivery", deliveries)
    returns = server.forward(ask(parties, deliveries), deliveries)
    disturb("return", returns)
    found = server.finish(ask(parties, returns), returns)
    low, high = found.pairs.T
    np.testing.assert_allclose(found.products, (VECTORS @ VECTORS.T)[low, high], atol=1e-8)
    assert len(low) == len(PAIRS)


@FEW
@given(st.sampled_from(["masked", "corrections", "blinded", "shares"]), mutations())
def test_a_server_refuses_what_is_altered(at: str, mutate: Mutation) -> None:
    refused: dict[int, str] = {}
    server, parties = joined(refused=lambda party, error: refused.update({party: str(error)}))
    victim = 1

    def altered(step: str, replies: dict[int, bytes]) -> dict[int, bytes]:
        if step != at or victim not in replies:
            return replies
        return {**replies, victim: mutate(replies[victim])}

    assignments, dealings = server.assign(PAIRS)
    masked = altered("masked", ask(parties, assignments))
    deliveries = server.deliver(masked, altered("corrections", ask(parties, dealings)))
    blinded = altered("blinded", ask(parties, deliveries))
    returns = server.forward(blinded, deliveries)
    found = server.finish(altered("shares", ask(parties, returns)), returns)
    low, high = found.pairs.T
    np.testing.assert_allclose(found.products, (VECTORS @ VECTORS.T)[low, high], atol=1e-8)
    assert refused.keys() <= {victim}
    assert not refused or victim not in found.pairs


@FEW
@given(st.sampled_from([Kind.ASSIGNMENT, Kind.DEALING, Kind.DELIVERY, Kind.RETURN]), BODIES)
def test_a_party_refuses_any_content_that_the_server_seals(kind: Kind, body: bytes) -> None:
    server, parties = joined()
    party = parties[2]
    assignments, _ = server.assign(PAIRS)
    if kind in (Kind.DELIVERY, Kind.RETURN):
        party.answer(assignments[2])
    sealed = server.member.channel(2).seal(kind, 0, body)
    with suppress(ProtocolError):  # a body may be a valid list, of no peers or pairs for instance
        party.answer(sealed)


@FEW
@given(st.sampled_from([Kind.SEALED_VECTOR, Kind.SEALED_CORRECTION]), st.binary(max_size=60))
def test_a_client_refuses_any_content_that_a_peer_seals(kind: Kind, body: bytes) -> None:
    server, parties = joined()
    assignments, dealings = server.assign(PAIRS)
    deliveries = server.deliver(ask(parties, assignments), ask(parties, dealings))
    opened = server.member.channel(3)
    text = opened.sealing.decrypt(
        deliveries[3][21:33], deliveries[3][33:], server.member.session + deliveries[3][:21]
    )
    absent, letters = text[:4], list(each(text[4:], where="here"))
    place = next(n for n, letter in enumerate(letters) if letter.kind == kind)
    sender = letters[place].sender
    forged = parties[sender].member.channel(3).seal(kind, 0, body)
    mail = b"".join(forged if n == place else letter.raw for n, letter in enumerate(letters))
    honest = len(letters[place].body) - 28
    delivery = opened.seal(Kind.DELIVERY, 0, absent + mail)
    if len(body) == honest:
        assert parties[3].answer(delivery)
    else:
        with pytest.raises(ProtocolError) as refused:
            parties[3].answer(delivery)
        assert refused.value.sender == sender


@FEW
@given(st.binary(max_size=300) | MESSAGES)
def test_a_party_without_a_session_refuses_any_bytes(data: bytes) -> None:
    party = RingParty(PLAN, 0, VECTORS[0])
    invitation = RingServer(PLAN).invite()[0]
    if data != invitation:
        with pytest.raises(ProtocolError):
            party.answer(data)
    assert party.answer(invitation)
