"""The server of a ring session: it relays sealed messages and adds v_1 + v_2.

It sees ciphertext, lengths and the products.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from fedgs.arrays import FloatArray, IntArray
from fedgs.errors import ProtocolError
from fedgs.secure.channel import KEY_BYTES, SEAL_BYTES, KeyPair
from fedgs.secure.fixed_point import RingArray
from fedgs.secure.session import Member, SessionPlan, dealer_of, directory_of
from fedgs.secure.wire import (
    DEALER,
    HEADER_BYTES,
    SERVER,
    Head,
    Kind,
    Message,
    describe,
    each,
    kind_name,
    pack,
    pack_numbers,
    party_name,
    single,
    words,
)

__all__ = ["BatchProducts", "Refused", "RingServer"]

Pair = tuple[int, int]
Mail = dict[int, bytes]  # party -> the message to it, or from it
Refused = Callable[[int, ProtocolError], None]
T = TypeVar("T")

_SEALED = HEADER_BYTES + SEAL_BYTES  # bytes of a sealed message with an empty body


@dataclass(frozen=True, eq=False)
class BatchProducts:
    """The result of a batch: (n, 2) pairs low < high, and their (n,) products, encoded and real."""

    pairs: IntArray
    encoded: RingArray
    products: FloatArray


class RingServer:
    """The server's role, one method for each step.

    Each method takes the replies that arrived, by party, and returns the next messages. A party
    that sends no reply is absent from then on: its own pairs stay unknown, and pairs that it should
    have dealt for can be requested again in another batch.

    Args:
        plan: what the parties agreed on.
        keys: stored keys, which parties can pin. None: fresh ones for this session.
        refused: called with a party and the reason why its reply is refused; the party is absent
            from then on. None: the error is raised.

    Raises:
        ProtocolError: in any step, a reply is oversized, malformed, tampered with, replayed,
            misaddressed or from an unknown party.
    """

    def __init__(
        self, plan: SessionPlan, *, keys: KeyPair | None = None, refused: Refused | None = None
    ) -> None:
        self.plan = plan
        self._refused = refused
        self.member = Member(plan, SERVER, keys=keys)
        self.absent: set[int] = set()
        self._batch = -1
        # Pairs of this batch that are still being computed, ascending, with their dealers.
        self._pairs: list[tuple[Pair, int]] = []
        self._requested: list[Pair] = []
        self._v2: dict[Pair, int] = {}

    def invite(self) -> Mail:
        """The first messages: the plan, to every client and the named dealer."""
        parties = [*range(self.plan.clients), *([DEALER] if self.plan.named_dealer else [])]
        plan = self.plan.to_bytes()
        return {party: pack(Head(Kind.INVITATION, SERVER, party, 0), plan) for party in parties}

    def introduce(self, hellos: Mapping[int, bytes]) -> Mail:
        """The directory of keys, the same for every party that said hello."""
        invited = self.invite()
        introductions = {}
        for party, data in hellos.items():
            message = single(data, where=f"the hello of {party_name(party)}")
            if message.head != Head(Kind.HELLO, party, SERVER, 0) or party not in invited:
                raise ProtocolError(
                    f"{describe(message)} is misaddressed: it came from {party_name(party)} as a "
                    "hello"
                )
            self.plan.check(message.body[: -2 * KEY_BYTES], message)
            introductions[party] = message.body[-2 * KEY_BYTES :]
        return self.open(introductions)

    def open(self, introductions: Mapping[int, bytes]) -> Mail:
        """The directory of keys, the same for every party that introduced itself.

        Args:
            introductions: party -> its public key and nonce, 64 bytes.
        """
        parties = [party for party in introductions if party != SERVER]
        self._miss(self.invite(), parties)
        own = {SERVER: self.member.introduction}
        directory = directory_of(self.plan, {**introductions, **own})
        self.member.join(directory)
        return dict.fromkeys(parties, directory)

    def _miss(self, expected: Iterable[int], replied: Collection[int]) -> None:
        self.absent |= {party for party in expected if party not in replied}

    def assign(self, pairs: Iterable[Pair]) -> tuple[Mail, Mail]:
        """Open a batch: the messages that give each client its peers and each dealer its pairs.

        Pairs that no party can deal for are left out.
        """
        self._batch += 1
        self._requested = sorted({(min(pair), max(pair)) for pair in pairs})
        dealers = [(pair, self._dealer(pair)) for pair in self._available()]
        self._pairs = [(pair, dealer) for pair, dealer in dealers if dealer is not None]
        self._v2 = {}
        assignments = {
            party: self._send(Kind.ASSIGNMENT, party, pack_numbers(peers))
            for party, peers in sorted(self._peers().items())
        }
        dealings = {
            dealer: self._send(Kind.DEALING, dealer, pack_numbers(np.ravel(dealt)))
            for dealer, dealt in sorted(self._dealt().items())
        }
        return assignments, dealings

    def _available(self) -> list[Pair]:
        """The requested pairs whose clients are both available."""
        return [pair for pair in self._requested if self.absent.isdisjoint(pair)]

    def _dealer(self, pair: Pair) -> int | None:
        return dealer_of(self.member.session, self.plan, pair, self.absent)

    def _peers(self) -> dict[int, list[int]]:
        peers: dict[int, list[int]] = defaultdict(list)
        for (low, high), _ in self._pairs:
            peers[low].append(high)
            peers[high].append(low)
        return {party: sorted(others) for party, others in peers.items()}

    def _dealt(self) -> dict[int, list[Pair]]:
        dealt: dict[int, list[Pair]] = defaultdict(list)
        for pair, dealer in self._pairs:
            dealt[dealer].append(pair)
        return dealt

    def _send(self, kind: Kind, party: int, rest: bytes) -> bytes:
        return self.member.channel(party).seal(
            kind, self._batch, pack_numbers(sorted(self.absent)) + rest
        )

    def _open(self, kind: Kind, party: int, data: bytes, *, most: int) -> tuple[bytes, Message]:
        """The content of a party's reply; one of more than `most` bytes is not read."""
        if len(data) > most:
            raise ProtocolError(
                f"the reply of {party_name(party)} is oversized: '{kind_name(kind)}' of batch "
                f"{self._batch} has at most {most} bytes, {len(data)} came",
                sender=party,
            )
        message = single(data, where=f"the reply of {party_name(party)}")
        if message.kind != kind or message.batch != self._batch or message.sender != party:
            raise ProtocolError(
                f"{describe(message)} is replayed, out of order or misaddressed: the server "
                f"expects '{kind_name(kind)}' of batch {self._batch} from {party_name(party)}"
            )
        return self.member.channel(party).open(message), message

    def _letters(
        self, kind: Kind, party: int, body: bytes, recipients: Iterable[int]
    ) -> list[Message]:
        """What a party sends to others: exactly one message to each recipient."""
        awaited, letters = set(recipients), []
        for message in each(body, where=f"the reply of {party_name(party)}"):
            due = (message.kind, message.sender, message.batch) == (kind, party, self._batch)
            if not due or message.recipient not in awaited:
                raise ProtocolError(
                    f"{describe(message)} is misaddressed or replayed: {party_name(party)} may not "
                    "send it now"
                )
            awaited.remove(message.recipient)
            letters.append(message)
        if awaited:
            raise ProtocolError(
                f"the reply of {party_name(party)} lacks its message to {party_name(min(awaited))}"
            )
        return letters

    def _examined(
        self, replies: Mapping[int, bytes], read: Callable[[int, bytes], T]
    ) -> dict[int, T]:
        """What the replies hold, by party; a party whose reply is refused is absent."""
        held: dict[int, T] = {}
        for party, data in sorted(replies.items()):
            try:
                held[party] = read(party, data)
            except ProtocolError as error:
                if self._refused is None:
                    raise
                self._refused(party, error)
                self.absent.add(party)
        return held

    def _sorted(self, letters: Iterable[list[Message]]) -> dict[int, list[bytes]]:
        """The letters of available parties by recipient."""
        mail: dict[int, list[bytes]] = defaultdict(list)
        for message in (message for sent in letters for message in sent):
            if message.sender not in self.absent:
                mail[message.recipient].append(message.raw)
        return mail

    def _deliver(self, kind: Kind, mail: Mapping[int, list[bytes]], parties: Iterable[int]) -> Mail:
        available = [party for party in parties if party not in self.absent]
        return {
            party: self._send(kind, party, b"".join(mail.get(party, []))) for party in available
        }

    def deliver(self, masked: Mapping[int, bytes], corrections: Mapping[int, bytes]) -> Mail:
        """From masked vectors and corrections to each client's delivery."""
        peers, dealt, length = self._peers(), self._dealt(), self.plan.encoding.length
        self._miss(peers, masked)
        self._miss(dealt, corrections)

        def vectors(party: int, data: bytes) -> list[Message]:
            recipients = peers.get(party, [])
            most = _SEALED + len(recipients) * (_SEALED + 8 * length)
            body, _ = self._open(Kind.MASKED, party, data, most=most)
            return self._letters(Kind.SEALED_VECTOR, party, body, recipients)

        def corrected(dealer: int, data: bytes) -> list[Message]:
            pairs = dealt.get(dealer, [])
            highs = {high for _, high in pairs}
            most = _SEALED * (1 + len(highs)) + 8 * len(pairs)
            body, _ = self._open(Kind.CORRECTIONS, dealer, data, most=most)
            return self._letters(Kind.SEALED_CORRECTION, dealer, body, highs)

        letters = self._examined(masked, vectors), self._examined(corrections, corrected)
        sent = [messages for by_party in letters for messages in by_party.values()]
        deliveries = self._deliver(Kind.DELIVERY, self._sorted(sent), peers)
        self._pairs = [
            (pair, dealer)
            for pair, dealer in self._pairs
            if self.absent.isdisjoint((*pair, dealer))
        ]
        return deliveries

    def forward(self, blinded: Mapping[int, bytes], asked: Collection[int]) -> Mail:
        """From u and v_2 to each client's return; `asked` are the clients that got a delivery."""
        self._miss(asked, blinded)
        lows: dict[int, list[int]] = defaultdict(list)
        for (low, high), _ in self._pairs:
            lows[high].append(low)

        def read(party: int, data: bytes) -> list[Message]:
            peers = lows[party]
            size = 8 * len(peers)
            most = _SEALED + size + len(peers) * (_SEALED + 8)
            body, message = self._open(Kind.BLINDED, party, data, most=most)
            v2 = words(body[:size], len(peers), message).tolist()
            letters = self._letters(Kind.SEALED_U, party, body[size:], peers)
            self._v2.update({(low, party): value for low, value in zip(peers, v2, strict=True)})
            return letters

        letters = self._examined(blinded, read)
        self._pairs = [(pair, dealer) for pair, dealer in self._pairs if pair[1] not in self.absent]
        return self._deliver(Kind.RETURN, self._sorted(letters.values()), asked)

    def finish(self, shares: Mapping[int, bytes], asked: Collection[int]) -> BatchProducts:
        """From v_1 to the products; `asked` are the clients that got a return. Closes the batch."""
        self._miss(asked, shares)
        highs: dict[int, list[int]] = defaultdict(list)
        for (low, high), _ in self._pairs:
            highs[low].append(high)
        products: dict[Pair, int] = {}

        def read(party: int, data: bytes) -> None:
            most = _SEALED + 8 * len(highs[party])
            body, message = self._open(Kind.SHARES, party, data, most=most)
            v1 = words(body, len(highs[party]), message).tolist()
            for high, value in zip(highs[party], v1, strict=True):
                products[party, high] = (value + self._v2[party, high]) % 2**64

        self._examined(shares, read)
        known = sorted(pair for pair in products if self.absent.isdisjoint(pair))
        encoded = np.array([products[pair] for pair in known], dtype=np.uint64)
        pairs = np.array(known, dtype=np.int64).reshape(len(known), 2)
        self._requested = sorted(set(self._requested) - set(known))
        self._pairs, self._v2 = [], {}
        return BatchProducts(pairs, encoded, self.plan.encoding.decode_products(encoded))

    @property
    def undealt(self) -> list[Pair]:
        """After `finish`: unknown pairs of available clients for which another party can deal."""
        return [pair for pair in self._available() if self._dealer(pair) is not None]
