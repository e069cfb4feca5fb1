"""The messages that a role of the ring protocol receives: their order, and who is absent."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest

import numpy as np

from fedgs.errors import ProtocolError
from fedgs.secure.fixed_point import RingArray
from fedgs.secure.session import Member, dealer_of
from fedgs.secure.wire import (
    SERVER,
    Kind,
    Message,
    describe,
    each,
    kind_name,
    numbers,
    party_name,
)

__all__ = ["Line", "packed_numbers", "stacked", "unpacked_numbers"]


def stacked(
    bodies: Sequence[bytes], length: int, where: str, senders: Sequence[int | None] = ()
) -> RingArray:
    """(n, length) ring elements, one row for each body; `senders` are those of the bodies."""
    for body, sender in zip_longest(bodies, senders):
        if len(body) != 8 * length:
            origin = "" if sender is None else f" from {party_name(sender)}"
            raise ProtocolError(
                f"{where}{origin} is malformed: {length} ring elements were expected, "
                f"{len(body)} bytes came",
                sender=sender,
            )
    flat = np.frombuffer(b"".join(bodies), dtype="<u8").astype(np.uint64)
    return flat.reshape(len(bodies), length)


def packed_numbers(values: Sequence[int]) -> bytes:
    """Numbers below 2^32, four bytes each."""
    return np.asarray(values, dtype="<u4").tobytes()


def unpacked_numbers(saved: bytes) -> list[int]:
    """The numbers that `packed_numbers` packed."""
    values: list[int] = np.frombuffer(saved, dtype="<u4").tolist()
    return values


class Line:
    """The messages that a role receives from the server: their order, and which parties are absent.

    Args:
        member: the party's keys and session.
        steps: the kinds of messages that the role receives in each batch, in order.
    """

    def __init__(self, member: Member, *steps: Kind) -> None:
        self.member = member
        self.batch = -1
        self.absent: frozenset[int] = frozenset()
        self._steps = steps
        self._next = 0

    def receive(self, message: Message) -> bytes:
        """The part of the message's body after the list of absent parties.

        Raises:
            ProtocolError: the message is not the one expected next, or its list is impossible.
        """
        expected, party = self._steps[self._next], self.member.party
        in_turn = message.batch > self.batch if self._next == 0 else message.batch == self.batch
        if message.kind != expected or not in_turn:
            raise ProtocolError(
                f"{describe(message)} is replayed or out of order: {party_name(party)} expects "
                f"'{kind_name(expected)}' of "
                f"{f'a batch after {self.batch}' if self._next == 0 else f'batch {self.batch}'}"
            )
        absent, rest = numbers(self.member.channel(SERVER).open(message), message)
        if party in absent or not self.absent <= set(absent):
            raise ProtocolError(
                f"{describe(message)} is malformed: who was absent may not return, "
                f"and {party_name(party)} is here"
            )
        if message.batch > self.member.batch:
            self.member.forget()
        self.absent, self.batch, self.member.batch = frozenset(absent), message.batch, message.batch
        self._next = (self._next + 1) % len(self._steps)
        return rest

    def dealer(self, peer: int) -> int | None:
        """The party that deals the masks of this party and a peer, given who is absent."""
        member = self.member
        pair = (min(member.party, peer), max(member.party, peer))
        return dealer_of(member.session, member.plan, pair, self.absent)

    def save(self) -> bytes:
        """Its place in the order of messages, and the absent parties."""
        return packed_numbers([self._next, self.batch + 1, *sorted(self.absent)])

    def restore(self, saved: bytes) -> None:
        """Continue at the place that `save` returned."""
        self._next, batch, *absent = unpacked_numbers(saved)
        self.batch, self.absent = batch - 1, frozenset(absent)
        self.member.batch = max(self.member.batch, self.batch)

    def unseal(
        self, body: bytes, expected: Mapping[Kind, Sequence[int]]
    ) -> dict[Kind, dict[int, bytes]]:
        """Open the sealed messages in `body`: kind -> sender -> content.

        Raises:
            ProtocolError: there is not exactly one message of each kind from each sender expected.
        """
        opened: dict[Kind, dict[int, bytes]] = {kind: {} for kind in expected}
        party, name = self.member.party, party_name(self.member.party)
        awaited = {kind: set(senders) for kind, senders in expected.items()}
        for message in each(body, where=f"a delivery to {name}"):
            kind = Kind(message.kind)
            if message.recipient != party:
                raise ProtocolError(f"{describe(message)} is misaddressed: it reached {name}")
            if message.batch != self.batch or message.sender not in awaited.get(kind, ()):
                raise ProtocolError(
                    f"{describe(message)} is out of order: {name} awaits none now, "
                    f"in batch {self.batch}"
                )
            if message.sender in opened[kind]:
                raise ProtocolError(f"{describe(message)} is replayed: {name} has it already")
            opened[kind][message.sender] = self.member.channel(message.sender).open(message)
        for kind, senders in awaited.items():
            for missing in sorted(senders - opened[kind].keys()):
                raise ProtocolError(
                    f"a delivery to {name} lacks the '{kind_name(kind)}' of {party_name(missing)}"
                )
        return opened
