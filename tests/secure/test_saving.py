"""Parties whose machine keeps no process between two messages."""

import numpy as np
import pytest
from tests.secure.material import PAIRS, PLAN, VECTORS, ask, joined

from fedgs.secure.channel import KeyPair
from fedgs.secure.ring import RingParty
from fedgs.secure.server import RingServer


class Stored:
    """A party that is saved and restored around every message."""

    def __init__(self, number: int) -> None:
        self.number, self.keys = number, KeyPair.generate()
        self.saved = RingParty(PLAN, number, VECTORS[number], keys=self.keys).save()

    def answer(self, message: bytes) -> bytes:
        party = RingParty.restored(PLAN, self.number, self.saved, keys=self.keys)
        reply = party.answer(message)
        self.saved = party.save()
        return reply


def test_parties_that_are_stored_between_messages_give_the_same_products() -> None:
    server, parties = RingServer(PLAN), {k: Stored(k) for k in range(4)}
    ask(parties, server.introduce(ask(parties, server.invite())))
    for pairs in (PAIRS[:4], PAIRS):  # two batches of one session
        assignments, dealings = server.assign(pairs)
        deliveries = server.deliver(ask(parties, assignments), ask(parties, dealings))
        returns = server.forward(ask(parties, deliveries), deliveries)
        found = server.finish(ask(parties, returns), returns)
        assert found.pairs.tolist() == [list(pair) for pair in pairs]
        low, high = found.pairs.T
        np.testing.assert_allclose(found.products, (VECTORS @ VECTORS.T)[low, high], atol=1e-8)


def test_a_restored_party_refuses_what_it_has_answered_already() -> None:
    server, parties = RingServer(PLAN), {k: Stored(k) for k in range(4)}
    ask(parties, server.introduce(ask(parties, server.invite())))
    assignments, dealings = server.assign(PAIRS)
    ask(parties, assignments)
    with pytest.raises(Exception, match="is replayed or out of order: client 0 expects 'delivery'"):
        parties[0].answer(assignments[0])
    dealer, dealing = next(iter(dealings.items()))
    parties[dealer].answer(dealing)
    with pytest.raises(Exception, match=r"out of order.*expects 'dealing' of a batch after 0"):
        parties[dealer].answer(dealing)


def test_what_is_stored_holds_no_private_key_and_no_mask() -> None:
    server, parties = joined()
    assignments, _ = server.assign(PAIRS)
    parties[0].answer(assignments[0])
    assert parties[0].client is not None
    stored = b"".join(parties[0].save().values())
    assert parties[0].member._keys.private_bytes not in stored
    assert parties[0].client._masks[0].tobytes() not in stored
    assert parties[0].client._vector.tobytes() in stored
