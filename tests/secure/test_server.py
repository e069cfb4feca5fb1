"""What the server refuses of the replies that reach it."""

import numpy as np
import pytest
from tests.secure.material import PAIRS, PLAN, VECTORS, ask, joined

from fedgs.errors import ProtocolError
from fedgs.secure.fixed_point import fixed_point
from fedgs.secure.ring import RingParty
from fedgs.secure.server import RingServer
from fedgs.secure.session import SessionPlan
from fedgs.secure.wire import SERVER, Head, Kind, pack


def test_server_refuses_replies_of_others_and_of_the_past() -> None:
    server, parties = joined()
    assignments, dealings = server.assign(PAIRS)
    masked, corrections = ask(parties, assignments), ask(parties, dealings)
    with pytest.raises(
        ProtocolError,
        match="'masked' of batch 0 from client 1 to the server is replayed, out of order or mis",
    ):
        server.deliver({**masked, 0: masked[1]}, corrections)
    deliveries = server.deliver(masked, corrections)
    blinded = ask(parties, deliveries)
    with pytest.raises(ProtocolError, match="client 0 is oversized: 'blinded' of batch 0 has at"):
        server.forward({**blinded, 0: masked[0]}, deliveries)
    with pytest.raises(
        ProtocolError, match="the server expects 'blinded' of batch 0 from client 3"
    ):
        server.forward({**blinded, 3: masked[3]}, deliveries)


def test_server_refuses_a_client_that_leaves_a_peer_out_or_writes_twice() -> None:
    for twice in (False, True):
        server, parties = joined()
        assignments, dealings = server.assign(PAIRS)
        masked, corrections = ask(parties, assignments), ask(parties, dealings)
        channel = parties[0].member.channel(SERVER)
        inner = [parties[0].member.channel(1).seal(Kind.SEALED_VECTOR, 0, bytes(16))] * (
            2 if twice else 1
        )
        masked[0] = channel.seal(Kind.MASKED, 0, b"".join(inner))
        message = (
            "client 0 may not send it now"
            if twice
            else "the reply of client 0 lacks its message to client 2"
        )
        with pytest.raises(ProtocolError, match=message):
            server.deliver(masked, corrections)


def test_server_refuses_shares_of_the_wrong_length() -> None:
    server, parties = joined()
    assignments, dealings = server.assign(PAIRS)
    deliveries = server.deliver(ask(parties, assignments), ask(parties, dealings))
    returns = server.forward(ask(parties, deliveries), deliveries)
    shares = ask(parties, returns)
    shares[0] = parties[0].member.channel(SERVER).seal(Kind.SHARES, 0, bytes(8))
    with pytest.raises(
        ProtocolError,
        match="'shares' of batch 0 from client 0 to the server is malformed: 3 ring elements",
    ):
        server.finish(shares, returns)


def test_client_that_seals_a_vector_of_the_wrong_length_is_refused_by_its_peer() -> None:
    server, parties = joined()
    assignments, dealings = server.assign(PAIRS)
    masked, corrections = ask(parties, assignments), ask(parties, dealings)
    inner = [
        parties[0].member.channel(peer).seal(Kind.SEALED_VECTOR, 0, bytes(8)) for peer in (1, 2, 3)
    ]
    masked[0] = parties[0].member.channel(SERVER).seal(Kind.MASKED, 0, b"".join(inner))
    with pytest.raises(
        ProtocolError,
        match="a masked vector to client 1 from client 0 is malformed: 2 ring .* expected, 8 bytes",
    ):
        ask(parties, server.deliver(masked, corrections))


def test_server_refuses_a_hello_of_a_stranger_or_to_another_plan() -> None:
    server = RingServer(PLAN)
    invitations = server.invite()
    hello = RingParty(PLAN, 1, VECTORS[1]).answer(invitations[1])
    with pytest.raises(
        ProtocolError,
        match="from client 1 to the server is misaddressed: it came from client 2 as a hello",
    ):
        server.introduce({2: hello})
    with pytest.raises(ProtocolError, match="it came from client 9 as a hello"):
        server.introduce({9: pack(Head(Kind.HELLO, 9, SERVER, 0), bytes(90))})
    other = SessionPlan(4, fixed_point(3))
    hello = RingParty(other, 1, np.zeros(3)).answer(RingServer(other).invite()[1])
    with pytest.raises(
        ProtocolError,
        match=r"from client 1 to the server states another plan .4 clients, vectors of length 3",
    ):
        server.introduce({1: hello})


def test_a_server_that_notes_refusals_keeps_the_products_of_the_others() -> None:
    refusals: dict[int, str] = {}
    server, parties = joined(refused=lambda party, error: refusals.update({party: str(error)}))
    assignments, dealings = server.assign(PAIRS)
    masked, corrections = ask(parties, assignments), ask(parties, dealings)
    masked[2] = masked[2][:-1]
    deliveries = server.deliver(masked, corrections)
    returns = server.forward(ask(parties, deliveries), deliveries)
    found = server.finish(ask(parties, returns), returns)
    assert list(refusals) == [2]
    assert "from client 2 to the server is truncated" in refusals[2]
    assert 2 not in found.pairs
    products = VECTORS @ VECTORS.T
    low, high = found.pairs.T
    np.testing.assert_allclose(found.products, products[low, high], atol=1e-8)
    # Pairs that client 2 dealt for are unknown, and can be asked for again.
    left = {(0, 1), (0, 3), (1, 3)} - {tuple(pair) for pair in found.pairs.tolist()}
    assert left == set(server.undealt)
