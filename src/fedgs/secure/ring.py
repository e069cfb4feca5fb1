"""The roles of client and dealer in the secure scalar product in Z_2^64.

It is the default protocol, and experimental until reviewed by others. For a pair of clients A < B
and their dealer, who shares a key stream with each (all arithmetic is modulo 2^64, so that a
uniform mask makes a masked value uniform):

    A and dealer derive R_a, r_a; B and dealer derive R_b; dealer sends B  r_b = R_a·R_b - r_a
    A sends B  Â = A + R_a;  B sends A  B̂ = B + R_b
    B draws v_2 and sends A  u = Â·B + r_b - v_2
    A computes  v_1 = u - R_a·B̂ + r_a;  server adds  v_1 + v_2 = A·B

All pairs of a batch are computed together, in four exchanges with the server: keys; masked vectors
and corrections r_b; u and v_2; v_1. Messages between parties are sealed and relayed by the server;
messages to the server are sealed for it.
"""

import os
from collections.abc import Mapping, Sequence

import numpy as np

from fedgs.arrays import AnyArray
from fedgs.errors import ProtocolError
from fedgs.secure.channel import KeyPair
from fedgs.secure.fixed_point import RingArray
from fedgs.secure.line import Line, packed_numbers, stacked, unpacked_numbers
from fedgs.secure.session import Member, SessionPlan, dealer_of
from fedgs.secure.wire import (
    SERVER,
    Kind,
    Message,
    describe,
    numbers,
    pack_words,
    party_name,
    single,
)

__all__ = ["RingClient", "RingDealer", "RingParty"]

_NO_MASKS: RingArray = np.empty((0, 0), dtype=np.uint64)


class RingClient:
    """The client's role: it holds its own vector and masks, and sees masked vectors of others.

    Args:
        member: the party's keys and session.
        vector: (d,) real entries within the plan's range.

    Raises:
        DataError: the vector cannot be encoded.
    """

    def __init__(self, member: Member, vector: AnyArray) -> None:
        self._vector = member.plan.encoding.encode(
            vector, who=f"the vector of {party_name(member.party)}"
        )
        self._member = member
        self._line = Line(member, Kind.ASSIGNMENT, Kind.DELIVERY, Kind.RETURN)
        # Ascending: this client is B towards lower peers and A towards higher ones.
        self._peers: list[int] = []
        self._dealers: list[int] = []
        self._masks = _NO_MASKS  # (n, d + 1): R and, where this client is A, r_a
        self._partial: dict[int, int] = {}  # by peer: R_a·B̂ - r_a

    @property
    def absent(self) -> frozenset[int]:
        """The parties that the server has declared absent."""
        return self._line.absent

    def answer(self, message: Message) -> bytes:
        """The reply to an assignment (masked vectors), a delivery (u and v_2) or a return (v_1).

        Raises:
            ProtocolError: the message is malformed, or not the one expected next.
        """
        rest = self._line.receive(message)
        steps = {Kind.ASSIGNMENT: self._mask, Kind.DELIVERY: self._blind, Kind.RETURN: self._share}
        return steps[Kind(message.kind)](message, rest)

    def _mask(self, message: Message, rest: bytes) -> bytes:
        member, length = self._member, self._member.plan.encoding.length
        peers, surplus = numbers(rest, message)
        known = all(0 <= peer < member.plan.clients and peer != member.party for peer in peers)
        available = known and self._line.absent.isdisjoint(peers)
        if surplus or not available or peers != sorted(set(peers)):
            raise ProtocolError(
                f"{describe(message)} is malformed: it must list present clients, each once, "
                "ascending"
            )
        dealers = [self._line.dealer(peer) for peer in peers]
        if None in dealers:
            raise ProtocolError(
                f"{describe(message)} is malformed: it lists a pair that nobody is left to deal for"
            )
        self._peers, self._dealers = peers, [dealer for dealer in dealers if dealer is not None]
        self._masks = self._derived()
        masked = self._vector + self._masks[:, :length]  # (n, d)
        batch = message.batch
        sealed = [
            member.channel(peer).seal(Kind.SEALED_VECTOR, batch, pack_words(row))
            for peer, row in zip(peers, masked, strict=True)
        ]
        return member.channel(SERVER).seal(Kind.MASKED, batch, b"".join(sealed))

    def _pairs(self) -> list[tuple[int, int]]:
        return list(zip(self._peers, self._dealers, strict=True))

    def _derived(self) -> RingArray:
        """(n, d + 1) the masks of this batch, which follow from its pairs and their dealers."""
        streams = [self._stream(peer, dealer) for peer, dealer in self._pairs()]
        return stacked(streams, self._member.plan.encoding.length + 1, "a mask")

    def _stream(self, peer: int, dealer: int) -> bytes:
        member = self._member
        pair = (min(member.party, peer), max(member.party, peer))
        return member.channel(dealer).mask(
            self._line.batch, dealer=dealer, pair=pair, words=member.plan.encoding.length + 1
        )

    def save(self) -> dict[str, bytes]:
        """What a machine stores between two messages; it holds the vector."""
        return {
            "vector": pack_words(self._vector),
            "line": self._line.save(),
            "peers": packed_numbers(self._peers),
            "dealers": packed_numbers(self._dealers),
            "partial-peers": packed_numbers(list(self._partial)),
            "partial": pack_words(np.array(list(self._partial.values()), dtype=np.uint64)),
        }

    @classmethod
    def restored(cls, member: Member, saved: Mapping[str, bytes]) -> "RingClient":
        """The client that was saved; its masks are derived again."""
        encoding = member.plan.encoding
        fixed = np.frombuffer(saved["vector"], dtype="<u8").view(np.int64)
        client = cls(member, np.ldexp(fixed.astype(np.float64), -encoding.fraction_bits))
        client._line.restore(saved["line"])
        client._peers, client._dealers = (
            unpacked_numbers(saved["peers"]),
            unpacked_numbers(saved["dealers"]),
        )
        values = np.frombuffer(saved["partial"], dtype="<u8").tolist()
        client._partial = dict(zip(unpacked_numbers(saved["partial-peers"]), values, strict=True))
        if client._peers and not client._partial:
            client._masks = client._derived()
        return client

    def _blind(self, message: Message, rest: bytes) -> bytes:
        member, absent, batch = self._member, self._line.absent, message.batch
        dealers = {
            dealer for peer, dealer in self._pairs() if peer < member.party and dealer not in absent
        }
        peers = [peer for peer in self._peers if peer not in absent]
        opened = self._line.unseal(
            rest, {Kind.SEALED_VECTOR: peers, Kind.SEALED_CORRECTION: sorted(dealers)}
        )
        available = [n for n, pair in enumerate(self._pairs()) if absent.isdisjoint(pair)]
        below = [n for n in available if self._peers[n] < member.party]
        above = [n for n in available if self._peers[n] > member.party]
        self._partial = self._prepare(above, opened[Kind.SEALED_VECTOR])
        corrections = self._corrections(opened[Kind.SEALED_CORRECTION])
        v2 = np.frombuffer(os.urandom(8 * len(below)), dtype="<u8").astype(np.uint64)
        r_b = np.array([corrections[self._peers[n]] for n in below], dtype=np.uint64)
        u = self._hats(below, opened[Kind.SEALED_VECTOR]) @ self._vector + r_b - v2
        sealed = [
            member.channel(self._peers[n]).seal(Kind.SEALED_U, batch, pack_words(word))
            for n, word in zip(below, u, strict=True)
        ]
        return member.channel(SERVER).seal(Kind.BLINDED, batch, pack_words(v2) + b"".join(sealed))

    def _hats(self, rows: Sequence[int], vectors: Mapping[int, bytes]) -> RingArray:
        """(n, d) masked vectors of the peers in `rows`."""
        where = f"a masked vector to {party_name(self._member.party)}"
        peers = [self._peers[n] for n in rows]
        bodies = [vectors[peer] for peer in peers]
        return stacked(bodies, self._member.plan.encoding.length, where, peers)

    def _prepare(self, rows: Sequence[int], vectors: Mapping[int, bytes]) -> dict[int, int]:
        """R_a·B̂ - r_a by peer, for the peers towards which this client is A."""
        masks = self._masks[rows]  # (n, d + 1)
        products = (masks[:, :-1] * self._hats(rows, vectors)).sum(axis=1, dtype=np.uint64)
        partial = (products - masks[:, -1]).tolist()
        return dict(zip([self._peers[n] for n in rows], partial, strict=True))

    def _corrections(self, bodies: Mapping[int, bytes]) -> dict[int, int]:
        """r_b by peer; those of one dealer are in one body, ascending by peer."""
        peers: dict[int, list[int]] = {dealer: [] for dealer in bodies}
        for peer, dealer in self._pairs():
            if peer < self._member.party and dealer in bodies:
                peers[dealer].append(peer)
        corrections: dict[int, int] = {}
        where = f"a correction to {party_name(self._member.party)}"
        for dealer, body in bodies.items():
            values = stacked([body], len(peers[dealer]), where, [dealer])[0].tolist()
            corrections.update(zip(peers[dealer], values, strict=True))
        return corrections

    def _share(self, message: Message, rest: bytes) -> bytes:
        peers = [peer for peer in self._partial if peer not in self._line.absent]
        u = self._line.unseal(rest, {Kind.SEALED_U: peers})[Kind.SEALED_U]
        partial = np.array([self._partial[peer] for peer in peers], dtype=np.uint64)
        v1 = stacked([u[peer] for peer in peers], 1, "a sealed u", peers)[:, 0] - partial
        self._peers, self._dealers, self._masks, self._partial = [], [], _NO_MASKS, {}
        return self._member.channel(SERVER).seal(Kind.SHARES, message.batch, pack_words(v1))


class RingDealer:
    """The dealer's role: it holds keys and masks, and sees no messages of clients.

    Of a pair it learns only that it deals for it.

    Args:
        member: the party's keys and session.
    """

    def __init__(self, member: Member) -> None:
        self._member = member
        self.line = Line(member, Kind.DEALING)

    def answer(self, message: Message) -> bytes:
        """The reply to the list of pairs to deal for: for each B its sealed corrections.

        A correction is r_b = R_a·R_b - r_a.

        Raises:
            ProtocolError: the list is malformed, or names a pair that another party has to deal
                for.
        """
        member, length = self._member, self._member.plan.encoding.length
        flat, surplus = numbers(self.line.receive(message), message)
        pairs = list(zip(flat[::2], flat[1::2], strict=False))
        ascending = pairs == sorted(set(pairs)) and all(
            low < high < member.plan.clients for low, high in pairs
        )
        if surplus or len(flat) % 2 or not ascending:
            raise ProtocolError(
                f"{describe(message)} is malformed: it must list pairs of clients, each once, "
                "ascending"
            )
        for pair in pairs:
            if dealer_of(member.session, member.plan, pair, self.line.absent) != member.party:
                raise ProtocolError(
                    f"{describe(message)} is misaddressed: pair {pair} is not for "
                    f"{party_name(member.party)} to deal"
                )
        by_high: dict[int, list[int]] = {}
        for low, high in pairs:
            by_high.setdefault(high, []).append(low)
        sealed = [
            self._correct(message.batch, high, lows, length)
            for high, lows in sorted(by_high.items())
        ]
        return member.channel(SERVER).seal(Kind.CORRECTIONS, message.batch, b"".join(sealed))

    def _correct(self, batch: int, high: int, lows: Sequence[int], length: int) -> bytes:
        """The sealed corrections of one B for its pairs with `lows`."""
        member = self._member

        def mask(client: int, pair: tuple[int, int]) -> bytes:
            channel = member.channel(client)
            return channel.mask(batch, dealer=member.party, pair=pair, words=length + 1)

        masks_a = stacked([mask(low, (low, high)) for low in lows], length + 1, "a mask")
        masks_b = stacked([mask(high, (low, high)) for low in lows], length + 1, "a mask")
        products = (masks_a[:, :length] * masks_b[:, :length]).sum(axis=1, dtype=np.uint64)
        r_b = products - masks_a[:, length]
        return member.channel(high).seal(Kind.SEALED_CORRECTION, batch, pack_words(r_b))


class RingParty:
    """One machine of a session: its keys, the client if it has a vector, and a dealer for others.

    Args:
        plan: what all parties agreed on.
        party: 0..N-1 for clients; `wire.DEALER` for the named dealer, which has no vector.
        vector: (d,) the client's vector.
        keys: see `Member`.
        pins: see `Member`.
        nonce: see `Member`.

    >>> from fedgs.secure.fixed_point import fixed_point
    >>> from fedgs.secure.server import RingServer
    >>> plan = SessionPlan(clients=3, encoding=fixed_point(2))
    >>> parties = [RingParty(plan, k, vector) for k, vector in enumerate(np.eye(3, 2))]
    >>> hello = parties[0].answer(RingServer(plan).invite()[0])
    >>> len(hello)
    106
    """

    def __init__(
        self,
        plan: SessionPlan,
        party: int,
        vector: AnyArray | None = None,
        *,
        keys: KeyPair | None = None,
        pins: Mapping[int, bytes] | None = None,
        nonce: bytes | None = None,
    ) -> None:
        self.member = Member(plan, party, keys=keys, pins=pins, nonce=nonce)
        self.client = None if vector is None else RingClient(self.member, vector)
        self.dealer = RingDealer(self.member)

    def save(self) -> dict[str, bytes]:
        """What a machine stores between two messages, if its process does not live that long.

        It holds the vector, but not the private key.
        """
        client = {} if self.client is None else self.client.save()
        return {**client, **self.member.save(), "dealer-line": self.dealer.line.save()}

    @classmethod
    def restored(
        cls, plan: SessionPlan, party: int, saved: Mapping[str, bytes], *, keys: KeyPair
    ) -> "RingParty":
        """The party that was saved.

        Args:
            plan: as before.
            party: as before.
            saved: what `save` returned.
            keys: as before.

        >>> from fedgs.secure.fixed_point import fixed_point
        >>> plan, keys = SessionPlan(clients=3, encoding=fixed_point(2)), KeyPair.generate()
        >>> saved = RingParty(plan, 0, np.ones(2), keys=keys).save()
        >>> RingParty.restored(plan, 0, saved, keys=keys).save() == saved
        True
        """
        party_again = cls(plan, party, keys=keys)
        party_again.member = member = Member.restored(plan, party, saved, keys=keys)
        party_again.dealer = RingDealer(member)
        party_again.dealer.line.restore(saved["dealer-line"])
        if "vector" in saved:
            party_again.client = RingClient.restored(member, saved)
        return party_again

    def answer(self, data: bytes) -> bytes:
        """The reply to one message of the server; empty where none is due.

        Raises:
            ProtocolError: the message is malformed, truncated, tampered with, replayed, out of
                order or misaddressed.
        """
        message = single(data, where=f"a message to {party_name(self.member.party)}")
        if message.kind == Kind.INVITATION:
            return self.member.hello(data)
        if message.kind == Kind.DIRECTORY:
            self.member.join(data)
            return b""
        role = self.dealer if message.kind == Kind.DEALING else self.client
        if role is None:
            raise ProtocolError(
                f"{describe(message)} is misaddressed: {party_name(self.member.party)} has no "
                "vector"
            )
        return role.answer(message)
