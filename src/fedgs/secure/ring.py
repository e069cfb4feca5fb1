"""The secure scalar product in Z_2^64 (default; experimental until reviewed by others): what a client and a dealer do.

For a pair of clients A < B and their dealer, who shares a key stream with each (all arithmetic
modulo 2^64, so that a uniform mask makes what it hides uniform):

    A and dealer derive R_a, r_a; B and dealer derive R_b; dealer tells B  r_b = R_a·R_b - r_a
    A tells B  Â = A + R_a;  B tells A  B̂ = B + R_b
    B draws v_2 and tells A  u = Â·B + r_b - v_2
    A computes  v_1 = u - R_a·B̂ + r_a;  server adds  v_1 + v_2 = A·B

All pairs of a batch go together, in four exchanges with the server: keys; masked vectors and
corrections r_b; u and v_2; v_1. What parties tell each other the server relays sealed; what they
tell the server is sealed for it.
"""

import os
from collections.abc import Mapping, Sequence

import numpy as np

from fedgs.arrays import AnyArray
from fedgs.errors import ProtocolError
from fedgs.secure.channel import KeyPair
from fedgs.secure.fixed_point import RingArray
from fedgs.secure.session import Member, SessionPlan, dealer_of
from fedgs.secure.wire import (
    SERVER,
    Kind,
    Message,
    describe,
    each,
    kind_name,
    numbers,
    pack_words,
    party_name,
    single,
    words,
)

__all__ = ["Line", "RingClient", "RingDealer", "RingParty"]


_NO_MASKS: RingArray = np.empty((0, 0), dtype=np.uint64)


def _stacked(bodies: Sequence[bytes], length: int, where: str) -> RingArray:
    """(n, length) ring elements, one row a body."""
    for body in bodies:
        if len(body) != 8 * length:
            raise ProtocolError(
                f"{where} is malformed: {length} ring elements were expected, {len(body)} bytes came"
            )
    return (
        np.frombuffer(b"".join(bodies), dtype="<u8").astype(np.uint64).reshape(len(bodies), length)
    )


class Line:
    """A role's line to the server: which messages come in which order, and who is known to be absent."""

    def __init__(self, member: Member, *steps: Kind) -> None:
        self.member = member
        self.batch = -1
        self.absent: frozenset[int] = frozenset()
        self._steps = steps
        self._next = 0

    def receive(self, message: Message) -> bytes:
        """What follows the list of absent parties in the message's body, if this message's turn has come."""
        expected, own = self._steps[self._next], self.member.party
        in_turn = message.batch > self.batch if self._next == 0 else message.batch == self.batch
        if message.kind != expected or not in_turn:
            raise ProtocolError(
                f"{describe(message)} is replayed or out of order: {party_name(own)} expects '{kind_name(expected)}' "
                f"of {f'a batch after {self.batch}' if self._next == 0 else f'batch {self.batch}'}"
            )
        absent, rest = numbers(self.member.channel(SERVER).open(message), message)
        if own in absent or not self.absent <= set(absent):
            raise ProtocolError(
                f"{describe(message)} is malformed: who was absent may not return, and {party_name(own)} is here"
            )
        if message.batch > self.member.batch:
            self.member.forget()
        self.absent, self.batch, self.member.batch = frozenset(absent), message.batch, message.batch
        self._next = (self._next + 1) % len(self._steps)
        return rest

    def dealer(self, peer: int) -> int | None:
        """Who deals the masks of this party and a peer, as things stand."""
        own = self.member.party
        return dealer_of(
            self.member.session, self.member.plan, (min(own, peer), max(own, peer)), self.absent
        )

    def unseal(
        self, body: bytes, expected: Mapping[Kind, Sequence[int]]
    ) -> dict[Kind, dict[int, bytes]]:
        """Open the sealed messages in `body`: exactly one of each kind from each of the senders expected."""
        opened: dict[Kind, dict[int, bytes]] = {kind: {} for kind in expected}
        own = self.member.party
        awaited = {kind: set(senders) for kind, senders in expected.items()}
        for message in each(body, where=f"a delivery to {party_name(own)}"):
            kind = Kind(message.kind)
            if message.recipient != own:
                raise ProtocolError(
                    f"{describe(message)} is misaddressed: it reached {party_name(own)}"
                )
            if message.batch != self.batch or message.sender not in awaited.get(kind, ()):
                raise ProtocolError(
                    f"{describe(message)} is out of order: {party_name(own)} awaits none now, in batch {self.batch}"
                )
            if message.sender in opened[kind]:
                raise ProtocolError(
                    f"{describe(message)} is replayed: {party_name(own)} has it already"
                )
            opened[kind][message.sender] = self.member.channel(message.sender).open(message)
        for kind, senders in awaited.items():
            for missing in sorted(senders - opened[kind].keys()):
                raise ProtocolError(
                    f"a delivery to {party_name(own)} lacks the '{kind_name(kind)}' of {party_name(missing)}"
                )
        return opened


class RingClient:
    """A client's part. It holds its own vector and its masks; of others it sees masked vectors only.

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
        self._peers: list[
            int
        ] = []  # ascending: towards lower ones this client is B, towards higher ones A
        self._dealers: list[int] = []
        self._masks = _NO_MASKS  # (n, d + 1): R and, where this client is A, r_a
        self._partial: dict[int, int] = {}  # by peer: R_a·B̂ - r_a

    def answer(self, message: Message) -> bytes:
        """The reply to an assignment (masked vectors), a delivery (u and v_2) or a return (v_1).

        Raises:
            ProtocolError: the message is not exactly what has to come now.
        """
        rest = self._line.receive(message)
        step = {Kind.ASSIGNMENT: self._mask, Kind.DELIVERY: self._blind, Kind.RETURN: self._share}[
            Kind(message.kind)
        ]
        return step(message, rest)

    def _mask(self, message: Message, rest: bytes) -> bytes:
        member, length = self._member, self._member.plan.encoding.length
        peers, surplus = numbers(rest, message)
        known = all(0 <= peer < member.plan.clients and peer != member.party for peer in peers)
        if (
            surplus
            or not known
            or peers != sorted(set(peers))
            or not self._line.absent.isdisjoint(peers)
        ):
            raise ProtocolError(
                f"{describe(message)} is malformed: it must list present clients, each once, ascending"
            )
        dealers = [self._line.dealer(peer) for peer in peers]
        if None in dealers:
            raise ProtocolError(
                f"{describe(message)} is malformed: it lists a pair that nobody is left to deal for"
            )
        self._peers, self._dealers = peers, [dealer for dealer in dealers if dealer is not None]
        self._masks = _stacked(
            [self._stream(peer, dealer) for peer, dealer in self._pairs()], length + 1, "a mask"
        )
        masked = self._vector + self._masks[:, :length]  # (n, d)
        batch = message.batch
        sealed = [
            member.channel(peer).seal(Kind.SEALED_VECTOR, batch, pack_words(row))
            for peer, row in zip(peers, masked, strict=True)
        ]
        return member.channel(SERVER).seal(Kind.MASKED, batch, b"".join(sealed))

    def _pairs(self) -> list[tuple[int, int]]:
        return list(zip(self._peers, self._dealers, strict=True))

    def _stream(self, peer: int, dealer: int) -> bytes:
        own = self._member.party
        pair = (min(own, peer), max(own, peer))
        channel = self._member.channel(dealer)
        return channel.mask(
            self._line.batch, dealer=dealer, pair=pair, words=self._member.plan.encoding.length + 1
        )

    def _blind(self, message: Message, rest: bytes) -> bytes:
        member, absent, batch = self._member, self._line.absent, message.batch
        dealers = {
            dealer for peer, dealer in self._pairs() if peer < member.party and dealer not in absent
        }
        peers = [peer for peer in self._peers if peer not in absent]
        opened = self._line.unseal(
            rest, {Kind.SEALED_VECTOR: peers, Kind.SEALED_CORRECTION: sorted(dealers)}
        )
        alive = [
            n
            for n, (peer, dealer) in enumerate(self._pairs())
            if peer not in absent and dealer not in absent
        ]
        below, above = (
            [n for n in alive if (self._peers[n] < member.party) == lower]
            for lower in (True, False)
        )
        self._partial = self._prepare(above, opened[Kind.SEALED_VECTOR])
        corrections = self._corrections(opened[Kind.SEALED_CORRECTION], message)
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
        return _stacked(
            [vectors[self._peers[n]] for n in rows], self._member.plan.encoding.length, where
        )

    def _prepare(self, rows: Sequence[int], vectors: Mapping[int, bytes]) -> dict[int, int]:
        """By peer, towards which this client is A: R_a·B̂ - r_a."""
        masks = self._masks[rows]  # (n, d + 1)
        partial = (masks[:, :-1] * self._hats(rows, vectors)).sum(axis=1, dtype=np.uint64) - masks[
            :, -1
        ]
        return dict(zip([self._peers[n] for n in rows], partial.tolist(), strict=True))

    def _corrections(self, bodies: Mapping[int, bytes], message: Message) -> dict[int, int]:
        """r_b by peer; a dealer's come in one body, ascending by peer."""
        peers: dict[int, list[int]] = {dealer: [] for dealer in bodies}
        for peer, dealer in self._pairs():
            if peer < self._member.party and dealer in bodies:
                peers[dealer].append(peer)
        found: dict[int, int] = {}
        for dealer, body in bodies.items():
            found.update(
                zip(peers[dealer], words(body, len(peers[dealer]), message).tolist(), strict=True)
            )
        return found

    def _share(self, message: Message, rest: bytes) -> bytes:
        peers = [peer for peer in self._partial if peer not in self._line.absent]
        u = self._line.unseal(rest, {Kind.SEALED_U: peers})[Kind.SEALED_U]
        mine = np.array([self._partial[peer] for peer in peers], dtype=np.uint64)
        v1 = _stacked([u[peer] for peer in peers], 1, "a sealed u")[:, 0] - mine
        self._peers, self._dealers, self._masks, self._partial = [], [], _NO_MASKS, {}
        return self._member.channel(SERVER).seal(Kind.SHARES, message.batch, pack_words(v1))


class RingDealer:
    """A dealer's part. It holds keys and masks and sees no traffic; of a pair it learns nothing but that it deals for it."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._line = Line(member, Kind.DEALING)

    def answer(self, message: Message) -> bytes:
        """The reply to the list of pairs to deal for: for each B, its corrections r_b = R_a·R_b - r_a, sealed.

        Raises:
            ProtocolError: the list is malformed, or names a pair that somebody else has to deal
                for.
        """
        member, length = self._member, self._member.plan.encoding.length
        flat, surplus = numbers(self._line.receive(message), message)
        pairs = list(zip(flat[::2], flat[1::2], strict=False))
        ascending = pairs == sorted(set(pairs)) and all(
            low < high < member.plan.clients for low, high in pairs
        )
        if surplus or len(flat) % 2 or not ascending:
            raise ProtocolError(
                f"{describe(message)} is malformed: it must list pairs of clients, each once, ascending"
            )
        for pair in pairs:
            if dealer_of(member.session, member.plan, pair, self._line.absent) != member.party:
                raise ProtocolError(
                    f"{describe(message)} is misaddressed: pair {pair} is not for {party_name(member.party)} to deal"
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
        masks = []
        for end in (0, 1):
            bodies = [
                self._member.channel((low, high)[end]).mask(
                    batch, dealer=self._member.party, pair=(low, high), words=length + 1
                )
                for low in lows
            ]
            masks.append(_stacked(bodies, length + 1, "a mask"))
        r_b = (masks[0][:, :length] * masks[1][:, :length]).sum(axis=1, dtype=np.uint64) - masks[0][
            :, length
        ]
        return self._member.channel(high).seal(Kind.SEALED_CORRECTION, batch, pack_words(r_b))


class RingParty:
    """One machine of a session: its keys, the client if it has a vector, and the dealer it may have to be for others.

    Args:
        plan: what all parties agreed on.
        party: 0..N-1 for clients; `wire.DEALER` for the named dealer, which has no vector.
        vector: (d,) the client's vector.
        keys, pins: see `Member`.

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
    ) -> None:
        self.member = Member(plan, party, keys=keys, pins=pins)
        self.client = None if vector is None else RingClient(self.member, vector)
        self.dealer = RingDealer(self.member)

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
                f"{describe(message)} is misaddressed: {party_name(self.member.party)} has no vector"
            )
        return role.answer(message)
