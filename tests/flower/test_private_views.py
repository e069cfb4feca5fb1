"""What the server can learn from every byte that it relays, opened with every key that it has.

The test holds all requests and replies of a session, and the server's private key. What opens with
that key are the blinded shares v_1 and v_2, whose sums are the products. They are the same, bit for
bit, for other vectors with the same products and the same randomness, so nothing else about the
vectors is in them. What clients send each other does not open.
"""

import hashlib
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("cryptography")

from tests.flower.private_nodes import nodes, session, shares

from fedgs.errors import ProtocolError
from fedgs.secure import private_similarity
from fedgs.secure.channel import KeyPair, open_channel
from fedgs.secure.fixed_point import fixed_point
from fedgs.secure.meter import Answer
from fedgs.secure.session import dealer_of
from fedgs.secure.wire import DEALER, SERVER, Kind, Message, each

CLIENTS, LABELS = 4, 4
COUNTS = shares(CLIENTS, LABELS, seed=3)
PERMUTED = COUNTS[:, [2, 3, 1, 0]]  # the same products
BETWEEN_CLIENTS = {Kind.SEALED_VECTOR, Kind.SEALED_CORRECTION, Kind.SEALED_U}


class Wiretap:
    """A session's bytes, and the server's keys."""

    def __init__(self, world: Any, counts: np.ndarray, seed: int | None = None) -> None:
        self.made: list[KeyPair] = []  # in order of making: those of the nodes, then the server's
        honest = KeyPair.generate
        draw = itertools.count()

        def urandom(size: int) -> bytes:
            """The same bytes in every run with one seed."""
            return hashlib.shake_256(f"{seed} {next(draw)}".encode()).digest(size)

        def generate() -> KeyPair:
            pair = honest() if seed is None else KeyPair.from_private_bytes(urandom(32))
            self.made.append(pair)
            return pair

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(KeyPair, "generate", generate)
            if seed is not None:
                patch.setattr("os.urandom", urandom)
            grid = nodes(world, counts)
            self.made.clear()  # `describe_privately` made one to see that it can
            self.products, events = session(grid, CLIENTS)
        assert events == []
        self.relayed = grid.relayed
        self.keys = dict(zip((0, 1, 2, 3, SERVER), self.made, strict=True))
        (directory,) = {
            entries["directory"] for _, _, _, entries in self.relayed if "directory" in entries
        }
        (message,) = each(directory, where="here")
        self.publics = {
            slot if slot < CLIENTS else SERVER: message.body[64 * slot :][:32]
            for slot in (*range(CLIENTS), CLIENTS + 1)
        }
        self.names = next(e["names"] for _, _, _, e in self.relayed if "names" in e)
        self.session_id = next(e["session"] for _, _, way, e in self.relayed if way == "request")
        self.plan, self.digest = self._digest(message.body)

    def _digest(self, directory: bytes) -> tuple[Any, bytes]:
        from fedgs.flower.private.messages import roster_label
        from fedgs.secure.session import SessionPlan

        label = roster_label(self.session_id, self.names)
        plan = SessionPlan(CLIENTS, fixed_point(LABELS), label=label)
        text = b"fedgs ring session 1" + plan.to_bytes() + directory
        return plan, hashlib.sha256(text).digest()

    @property
    def bytes(self) -> bytes:
        """Every byte of every entry."""
        return b"".join(
            value
            for _, _, _, entries in self.relayed
            for value in entries.values()
            if isinstance(value, bytes)
        )

    def channel(self, party: int, peer: int) -> Any:
        """The channel that the owner of a party's key can open."""
        return open_channel(
            self.keys[party], self.digest, party=party, peer=peer, peer_public=self.publics[peer]
        )

    def envelopes(self) -> Iterator[Message]:
        """The messages between server and nodes."""
        for _, _, _, entries in self.relayed:
            for name in ("message", "corrections", "assignment", "dealing"):
                if name in entries:
                    yield from each(entries[name], where="here")

    def opened(self) -> list[tuple[Message, bytes]]:
        """What the server can open: envelopes to it and from it."""
        found = []
        for message in self.envelopes():
            peer = message.sender if message.recipient == SERVER else message.recipient
            channel = self.channel(SERVER, peer)
            if message.sender == SERVER:  # its own; it knows what it sealed
                text = channel.sealing.decrypt(
                    message.body[:12], message.body[12:], self.digest + message.raw[:21]
                )
            else:
                text = channel.open(message)
            found.append((message, text))
        return found

    def letters(self) -> list[Message]:
        """What clients send each other, as the server relays it."""
        letters: list[Message] = []
        for message, text in self.opened():
            skip = {Kind.MASKED: 0, Kind.CORRECTIONS: 0, Kind.BLINDED: 8 * message.sender}
            if message.recipient == SERVER and message.kind in skip:
                letters += each(text[skip[Kind(message.kind)] :], where="here")
        return letters

    def shares(self) -> dict[int, list[bytes]]:
        """The words that the server reads: v_2 of each B and v_1 of each A, in order."""
        words: dict[int, list[bytes]] = {}
        for message, text in self.opened():
            if message.kind == Kind.BLINDED:
                words.setdefault(Kind.BLINDED, []).append(text[: 8 * message.sender])
            if message.kind == Kind.SHARES:
                words.setdefault(Kind.SHARES, []).append(text)
        return words


def vectors(counts: np.ndarray) -> np.ndarray:
    return counts / counts.sum(axis=1, keepdims=True)


def test_the_server_opens_shares_and_nothing_that_clients_send_each_other(world: Any) -> None:
    tap = Wiretap(world, COUNTS)
    letters = tap.letters()
    pairs = CLIENTS * (CLIENTS - 1) // 2
    kinds = [letter.kind for letter in letters]
    assert set(kinds) == BETWEEN_CLIENTS
    assert (kinds.count(Kind.SEALED_VECTOR), kinds.count(Kind.SEALED_U)) == (2 * pairs, pairs)
    for letter in letters:
        for peer in range(CLIENTS):
            channel = tap.channel(SERVER, peer)
            for key in (channel.sealing, channel.opening):
                with pytest.raises(Exception, match=r"^$"):  # InvalidTag
                    key.decrypt(letter.body[:12], letter.body[12:], tap.digest + letter.raw[:21])
    # The shares are all that is left, and their sums are the products.
    words = {kind: np.frombuffer(b"".join(parts), "<u8") for kind, parts in tap.shares().items()}
    assert {kind: len(values) for kind, values in words.items()} == {
        Kind.BLINDED: pairs,
        Kind.SHARES: pairs,
    }
    order = [(low, high) for high in range(CLIENTS) for low in range(high)]  # of v_2
    v2 = dict(zip(order, words[Kind.BLINDED].tolist(), strict=True))
    encoded = [
        (v1 + v2[pair]) % 2**64
        for v1, pair in zip(words[Kind.SHARES].tolist(), sorted(order), strict=True)
    ]
    products = fixed_point(LABELS).decode_products(np.array(encoded, dtype=np.uint64))
    true = vectors(COUNTS) @ vectors(COUNTS).T
    np.testing.assert_allclose(products, [true[pair] for pair in sorted(order)], atol=1e-7)


def test_vectors_with_the_same_products_give_the_server_the_same_bits(world: Any) -> None:
    left, right = (Wiretap(world, counts, seed=7) for counts in (COUNTS, PERMUTED))
    np.testing.assert_array_equal(left.products, right.products)
    assert left.digest == right.digest
    opened = [[text for _, text in tap.opened()] for tap in (left, right)]
    # Letters differ, since they hold masked vectors; all else that the server opens does not.
    for kind in (Kind.BLINDED, Kind.SHARES):
        assert left.shares()[kind] == right.shares()[kind]
    assert [len(text) for text in opened[0]] == [len(text) for text in opened[1]]
    assert left.letters() != right.letters()


def test_vectors_with_other_products_give_other_shares(world: Any) -> None:
    left, right = (Wiretap(world, counts, seed=7) for counts in (COUNTS, COUNTS[::-1].copy()))
    assert left.shares()[Kind.BLINDED] == right.shares()[Kind.BLINDED]
    assert left.shares()[Kind.SHARES] != right.shares()[Kind.SHARES]


@pytest.mark.parametrize("encode", ["fixed", "double", "float", "counts"])
def test_no_entry_of_a_vector_is_among_the_bytes(world: Any, encode: str) -> None:
    tap = Wiretap(world, COUNTS)
    for row, vector in enumerate(vectors(COUNTS)):
        encoded = {
            "fixed": fixed_point(LABELS).encode(vector).tobytes(),
            "double": vector.astype("<f8").tobytes(),
            "float": vector.astype("<f4").tobytes(),
            "counts": COUNTS[row].astype("<i8").tobytes(),
        }[encode]
        assert encoded not in tap.bytes
        assert encoded[: len(encoded) // 2] not in tap.bytes


def test_a_dealer_and_a_client_together_read_a_vector(world: Any) -> None:
    """The same bytes do hold the vectors, for those who have the keys of a pair's dealer and A."""
    tap = Wiretap(world, COUNTS)
    dealer = dealer_of(tap.digest, tap.plan, (0, 2), ())
    assert dealer in (1, 3)
    (letter,) = (
        letter
        for letter in tap.letters()
        if (letter.kind, letter.sender, letter.recipient) == (Kind.SEALED_VECTOR, 2, 0)
    )
    masked = np.frombuffer(tap.channel(0, 2).open(letter), dtype="<u8")
    stream = tap.channel(dealer, 2).mask(0, dealer=dealer, pair=(0, 2), words=LABELS + 1)
    mask = np.frombuffer(stream, dtype="<u8")[:LABELS]
    encoded = (masked - mask).astype(np.int64)
    bits = fixed_point(LABELS).fraction_bits
    np.testing.assert_allclose(np.ldexp(encoded, -bits), vectors(COUNTS)[2], atol=1e-8)
    with pytest.raises(ProtocolError):
        tap.channel(dealer, 2).open(letter)  # the dealer alone cannot


def test_papers_server_computes_every_vector_from_what_it_relays() -> None:
    """Control: the same attack on Algorithm 2 as printed, whose server deals the masks."""
    relayed: list[tuple[int, str, bytes]] = []

    def connect(number: int, answer: Answer) -> Answer:
        def reach(data: bytes) -> bytes:
            reply = answer(data)
            relayed.extend([(number, "request", data), (number, "reply", reply)])
            return reply

        return reach

    true = vectors(COUNTS)
    private_similarity(true, protocol="paper", pairs=[(0, 1), (2, 3)], connect=connect)
    for client in range(CLIENTS):
        own = [data for number, _, data in relayed if number == client]
        masks, masked = (np.frombuffer(data, dtype="<f8", offset=9)[:LABELS] for data in own[:2])
        np.testing.assert_allclose(masked - masks, true[client], atol=1e-10)
    assert DEALER not in {number for number, _, _ in relayed}
