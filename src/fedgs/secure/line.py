"""A client's or dealer's line to the server: which message has to come next, and opening what comes with it."""

from collections.abc import Mapping, Sequence

from fedgs.errors import ProtocolError
from fedgs.secure.session import Member, dealer_of
from fedgs.secure.wire import SERVER, Kind, Message, describe, each, kind_name, numbers, party_name

__all__ = ["Line"]


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
