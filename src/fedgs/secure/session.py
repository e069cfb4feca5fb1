"""What every party of a ring session has: the plan, its keys, the digest and its channels.

The session's digest is a hash of the plan and of all parties' public keys and fresh nonces. It
salts all keys and chooses, for each pair of clients, the third client that deals its masks.
"""

import hashlib
import os
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from fedgs.errors import ConfigError, ProtocolError
from fedgs.secure.channel import (
    CHANNEL_KEY_BYTES,
    KEY_BYTES,
    Channel,
    KeyPair,
    open_channel,
)
from fedgs.secure.fixed_point import FixedPoint
from fedgs.secure.wire import (
    DEALER,
    EVERYBODY,
    HEADER_BYTES,
    SERVER,
    Head,
    Kind,
    Message,
    describe,
    pack,
    party_name,
    single,
)

__all__ = ["Member", "SessionPlan", "dealer_of", "directory_of"]

_PLAN = struct.Struct(">IIdI?")
_SLOT = 2 * KEY_BYTES  # public key and nonce
_EMPTY = bytes(_SLOT)


@dataclass(frozen=True)
class SessionPlan:
    """What all parties must agree on before they start.

    Attributes:
        clients: N >= 2; clients are 0..N-1.
        encoding: length, range and fraction bits of the vectors.
        named_dealer: True: one outside party deals all masks. False: a third client deals for each
            pair, which needs N >= 3.
        label: public bytes that the parties agree on too, such as a hash of their names.

    Raises:
        ConfigError: too few clients.
    """

    clients: int
    encoding: FixedPoint
    named_dealer: bool = False
    label: bytes = b""

    def __post_init__(self) -> None:
        least = 2 if self.named_dealer else 3
        if self.clients < least:
            advice = "; two clients need a named dealer, an outside party that deals their masks"
            hint = "" if self.named_dealer else advice
            raise ConfigError(
                f"the ring protocol needs at least {least} clients, got {self.clients}{hint}"
            )

    def to_bytes(self) -> bytes:
        """The plan as it is sent and hashed."""
        encoding = self.encoding
        stated = _PLAN.pack(
            self.clients,
            encoding.length,
            encoding.value_range,
            encoding.fraction_bits,
            self.named_dealer,
        )
        return stated + self.label

    def slot(self, party: int) -> int:
        """The party's position in the directory: clients, then dealer, then server."""
        return {DEALER: self.clients, SERVER: self.clients + 1}.get(party, party)

    def knows(self, party: int) -> bool:
        """Whether the party can be part of the session."""
        return (
            0 <= party < self.clients or party == SERVER or (self.named_dealer and party == DEALER)
        )

    def check(self, stated: bytes, message: Message) -> None:
        """Refuse a `message` that states another plan than this one; the error spells out both."""
        if len(stated) != _PLAN.size + len(self.label):
            raise ProtocolError(f"{describe(message)} is malformed: it states no plan")
        if stated != self.to_bytes():
            raise ProtocolError(
                f"{describe(message)} states another plan ({_in_words(stated)}) than "
                f"({_in_words(self.to_bytes())})"
            )


def _in_words(plan: bytes) -> str:
    clients, length, value_range, bits, named = _PLAN.unpack_from(plan)
    dealer = "a named dealer" if named else "third clients as dealers"
    return (
        f"{clients} clients, vectors of length {length}, range {value_range:g}, "
        f"{bits} fraction bits, {dealer}"
        f"{f', label {label}' if (label := plan[_PLAN.size :].hex()) else ''}"
    )


def dealer_of(
    session: bytes, plan: SessionPlan, pair: tuple[int, int], absent: Collection[int]
) -> int | None:
    """The party that deals the masks of a pair, or None if no party is left that could.

    It is the named dealer, or a third client that the session's digest chooses. Candidates are
    drawn by hashing digest, pair and trial until one is not absent. So all parties find the same
    dealer, and a pair keeps its dealer as long as that one is available.
    """
    if plan.named_dealer:
        return None if DEALER in absent else DEALER
    low, high = pair
    candidates = plan.clients - 2
    if candidates - sum(party < plan.clients and party not in pair for party in absent) <= 0:
        return None
    trial = 0
    while True:
        digest = hashlib.sha256(session + struct.pack(">III", low, high, trial)).digest()
        chosen = int.from_bytes(digest[:8], "big") % candidates
        chosen += chosen >= low  # skip the pair itself: low < high
        chosen += chosen >= high
        if chosen not in absent:
            return chosen
        trial += 1


def directory_of(plan: SessionPlan, introductions: Mapping[int, bytes]) -> bytes:
    """The message with the directory: public key and nonce of each party, zeros for an absent one.

    It is the same bytes for all parties.
    """
    slots = [_EMPTY] * (plan.clients + 2)
    for party, introduction in introductions.items():
        slots[plan.slot(party)] = introduction
    return pack(Head(Kind.DIRECTORY, SERVER, EVERYBODY, 0), b"".join(slots))


class Member:
    """A party's keys and its view of the session; each client, dealer and server holds one.

    Args:
        plan: what the parties agreed on.
        party: its number: 0..N-1, `DEALER` or `SERVER`.
        keys: stored keys, which others can pin. None: fresh ones for this session.
        pins: public keys that this party insists on, by party. Without them it trusts the server
            not to swap keys.
        nonce: 32 bytes of its introduction, for a party that was stored. None: fresh ones.

    Raises:
        ConfigError: a pin names an unknown party.
    """

    def __init__(
        self,
        plan: SessionPlan,
        party: int,
        *,
        keys: KeyPair | None = None,
        pins: Mapping[int, bytes] | None = None,
        nonce: bytes | None = None,
    ) -> None:
        unknown = [pinned for pinned in pins or {} if not plan.knows(pinned)]
        if unknown:
            raise ConfigError(
                f"pins name {party_name(unknown[0])}, but the session's clients are "
                f"0..{plan.clients - 1}"
            )
        self.plan = plan
        self.party = party
        self.batch = -1  # the last batch that one of this party's roles took part in
        self._keys = KeyPair.generate() if keys is None else keys
        self._pins = dict(pins or {})
        self._nonce = os.urandom(KEY_BYTES) if nonce is None else nonce
        self._directory: bytes | None = None
        self._session = b""
        self._channels: dict[int, Channel] = {}

    def save(self) -> dict[str, bytes]:
        """What a machine stores between two messages; it does not hold the private key.

        The keys of the open channels are stored too, since a key agreement takes longer than all
        else that a message needs.
        """
        return {
            "nonce": self._nonce,
            "directory": self._directory or b"",
            "channel-peers": np.array(list(self._channels), dtype="<u4").tobytes(),
            "channel-keys": b"".join(channel.keys for channel in self._channels.values()),
        }

    @classmethod
    def restored(
        cls, plan: SessionPlan, party: int, saved: Mapping[str, bytes], *, keys: KeyPair
    ) -> "Member":
        """The member that was saved; keys that it had checked are not checked again."""
        member = cls(plan, party, keys=keys, nonce=saved["nonce"])
        if saved["directory"]:
            member.join(saved["directory"])
        for n, peer in enumerate(np.frombuffer(saved["channel-peers"], dtype="<u4").tolist()):
            keys_of_it = saved["channel-keys"][CHANNEL_KEY_BYTES * n : CHANNEL_KEY_BYTES * (n + 1)]
            member._channels[peer] = Channel.of_keys(
                keys_of_it, member.session, party=party, peer=peer
            )
        return member

    @property
    def session(self) -> bytes:
        """The session's digest, known once the directory has arrived."""
        if self._directory is None:
            raise ProtocolError(
                f"{party_name(self.party)} was asked to act before it had the directory of keys"
            )
        return self._session

    @property
    def introduction(self) -> bytes:
        """Public key and nonce, for the directory."""
        return self._keys.public + self._nonce

    def hello(self, data: bytes) -> bytes:
        """Answer the server's invitation.

        The reply holds the plan as this party knows it, its public key and a fresh nonce.
        """
        message = single(data, where=f"the invitation of {party_name(self.party)}")
        if message.head != Head(Kind.INVITATION, SERVER, self.party, 0):
            raise ProtocolError(
                f"{describe(message)} is misaddressed: it reached {party_name(self.party)} as an "
                "invitation"
            )
        self.plan.check(message.body, message)
        head = Head(Kind.HELLO, self.party, SERVER, 0)
        return pack(head, self.plan.to_bytes() + self.introduction)

    def join(self, data: bytes) -> None:
        """Read the directory of keys, once.

        Raises:
            ProtocolError: it is malformed, a second one, lacks this party's own key, or has a key
                that differs from the pinned one.
        """
        message = single(data, where="the directory")
        if self._directory is not None:
            raise ProtocolError(
                f"{describe(message)} is replayed: {party_name(self.party)} has joined already"
            )
        expected = Head(Kind.DIRECTORY, SERVER, EVERYBODY, 0)
        if message.head != expected or len(message.body) != _SLOT * (self.plan.clients + 2):
            raise ProtocolError(
                f"{describe(message)} is malformed: a directory of {self.plan.clients} clients was "
                "expected"
            )
        if self._entry(message.raw, self.party) != self.introduction:
            raise ProtocolError(
                f"{describe(message)} was tampered with: the entry of {party_name(self.party)} is "
                "not its own"
            )
        for party, pinned in self._pins.items():
            entry = self._entry(message.raw, party)
            if entry not in (_EMPTY, pinned + entry[KEY_BYTES:]):
                raise ProtocolError(
                    f"{describe(message)} gives a key for {party_name(party)} that is not the "
                    "pinned one",
                    sender=party,
                )
        self._directory = message.raw  # parties of one process share these bytes
        self._session = hashlib.sha256(
            b"fedgs ring session 1" + self.plan.to_bytes() + message.body
        ).digest()

    def public_key(self, party: int) -> bytes | None:
        """The public key of a party in the directory; None if it is absent there."""
        if self._directory is None or not self.plan.knows(party):
            return None
        entry = self._entry(self._directory, party)
        return None if entry == _EMPTY else entry[:KEY_BYTES]

    def _entry(self, directory: bytes, party: int) -> bytes:
        start = HEADER_BYTES + _SLOT * self.plan.slot(party)
        return directory[start : start + _SLOT]

    def channel(self, peer: int) -> Channel:
        """The channel to a peer in this session; kept until `forget`.

        Raises:
            ProtocolError: the peer is unknown, or is not part of this session.
        """
        if peer not in self._channels:
            session = self.session
            assert self._directory is not None
            entry = self._entry(self._directory, peer) if self.plan.knows(peer) else _EMPTY
            if entry == _EMPTY or peer == self.party:
                raise ProtocolError(
                    f"{party_name(peer)} is not a party that {party_name(self.party)} can exchange "
                    "messages with"
                )
            self._channels[peer] = open_channel(
                self._keys, session, party=self.party, peer=peer, peer_public=entry[:KEY_BYTES]
            )
        return self._channels[peer]

    def forget(self) -> None:
        """Drop all channels but the one to the server, so that memory holds those of one batch.

        They are derived again when needed.
        """
        server = self._channels.get(SERVER)
        self._channels = {} if server is None else {SERVER: server}
