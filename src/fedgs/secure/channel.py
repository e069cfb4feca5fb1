"""Encryption between two parties of a session.

X25519, HKDF-SHA256 and ChaCha20-Poly1305 come from the package `cryptography`.
Two parties agree on a secret by X25519 and derive from it, with the session's digest as salt, one
key for each direction and one for the masks that they share. Every sealed message carries a fresh
random nonce. Its header (kind, sender, recipient, batch) and the session's digest are authenticated
with it, so that it opens for that pair, direction, session and message only.
"""

import hashlib
import os
import struct
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

from fedgs.errors import ProtocolError, require_extra
from fedgs.secure.wire import HEADER_BYTES, Head, Kind, Message, describe, header, party_name

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

__all__ = ["CHANNEL_KEY_BYTES", "KEY_BYTES", "SEAL_BYTES", "Channel", "KeyPair", "open_channel"]

KEY_BYTES = 32
CHANNEL_KEY_BYTES = 3 * KEY_BYTES
_NONCE_BYTES = 12
SEAL_BYTES = _NONCE_BYTES + 16  # what sealing adds to a body: nonce and tag
_MASK = struct.Struct(">IIIIII")  # batch, dealer, client, pair, entries


@cache
def _primitives() -> "tuple[type[ChaCha20Poly1305], type[HKDF], type[SHA256]]":
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return ChaCha20Poly1305, HKDF, SHA256


def _x25519() -> ModuleType:
    try:
        from cryptography.hazmat.primitives.asymmetric import x25519
    except ImportError as error:
        raise require_extra("cryptography", "secure") from error
    return x25519


@dataclass(frozen=True, repr=False)
class KeyPair:
    """A party's X25519 keys.

    The private key never leaves the party. A party that keeps it over sessions can be recognised by
    its public key, which others pin.
    """

    private: "X25519PrivateKey"
    public: bytes

    @classmethod
    def generate(cls) -> "KeyPair":
        """Fresh keys from the system's secure source.

        Raises:
            MissingExtraError: `cryptography` is not installed.

        >>> len(KeyPair.generate().public)
        32
        """
        return cls._of(_x25519().X25519PrivateKey.generate())

    @classmethod
    def from_private_bytes(cls, private: bytes) -> "KeyPair":
        """The key pair of a stored private key of 32 bytes.

        Raises:
            ProtocolError: another length.
        """
        if len(private) != KEY_BYTES:
            raise ProtocolError(f"a private key has {KEY_BYTES} bytes, got {len(private)}")
        return cls._of(_x25519().X25519PrivateKey.from_private_bytes(private))

    @property
    def private_bytes(self) -> bytes:
        """The private key as `from_private_bytes` reads it, to be stored by its owner alone.

        >>> kept = KeyPair.generate()
        >>> KeyPair.from_private_bytes(kept.private_bytes).public == kept.public
        True
        """
        return self.private.private_bytes_raw()

    @classmethod
    def _of(cls, private: "X25519PrivateKey") -> "KeyPair":
        return cls(private, private.public_key().public_bytes_raw())

    def secret(self, public: bytes) -> bytes:
        """The 32 bytes that only the holders of the two private keys can compute.

        Raises:
            ValueError: the public key is one of the few that give all parties the same secret.
        """
        return self.private.exchange(_x25519().X25519PublicKey.from_public_bytes(public))


@dataclass(frozen=True, repr=False, slots=True)
class Channel:
    """One party's end of its channel to a peer in one session; made by `open_channel`.

    Its `keys` are those of sealing, opening and masks, 96 bytes.
    """

    party: int
    peer: int
    session: bytes
    sealing: "ChaCha20Poly1305"
    opening: "ChaCha20Poly1305"
    mask_key: bytes
    keys: bytes

    @classmethod
    def of_keys(cls, keys: bytes, session: bytes, *, party: int, peer: int) -> "Channel":
        """The channel with the keys of an earlier one, which needs no key agreement."""
        cipher, _, _ = _primitives()
        sealing, opening, mask_key = (
            keys[start : start + KEY_BYTES] for start in range(0, CHANNEL_KEY_BYTES, KEY_BYTES)
        )
        return cls(party, peer, session, cipher(sealing), cipher(opening), mask_key, keys)

    def seal(self, kind: Kind, batch: int, body: bytes) -> bytes:
        """The message to the peer with an encrypted and authenticated body.

        Its length is the body's plus a constant.
        """
        nonce = os.urandom(_NONCE_BYTES)
        head = header(Head(kind, self.party, self.peer, batch), len(body) + SEAL_BYTES)
        return head + nonce + self.sealing.encrypt(nonce, body, self.session + head)

    def open(self, message: Message) -> bytes:
        """The body that the peer sealed.

        Raises:
            ProtocolError: the message has another sender or recipient, or was not sealed by the
                peer in this session for exactly this header.
        """
        from cryptography.exceptions import InvalidTag

        if message.recipient != self.party or message.sender != self.peer:
            raise ProtocolError(
                f"{describe(message)} is misaddressed: it reached {party_name(self.party)}",
                sender=message.sender,
            )
        nonce, sealed = message.body[:_NONCE_BYTES], message.body[_NONCE_BYTES:]
        try:
            return self.opening.decrypt(nonce, sealed, self.session + message.raw[:HEADER_BYTES])
        except (InvalidTag, ValueError):
            raise ProtocolError(
                f"{describe(message)} failed its authentication: it was tampered with, or sealed "
                "for another pair, direction, batch or session; a session differs where the server "
                "showed its parties different directories",
                sender=message.sender,
            ) from None

    def mask(self, batch: int, *, dealer: int, pair: tuple[int, int], words: int) -> bytes:
        """`words` ring elements of the key stream that dealer and client share for one pair.

        These are 8·words bytes of SHAKE256. The batch, the dealer and the pair are part of what is
        hashed, and the key belongs to the session, so that no two uses share a mask.
        """
        client = self.peer if self.party == dealer else self.party
        return hashlib.shake_256(
            self.mask_key + _MASK.pack(batch, dealer, client, *pair, words)
        ).digest(8 * words)


def open_channel(
    keys: KeyPair, session: bytes, *, party: int, peer: int, peer_public: bytes
) -> Channel:
    """The channel between two parties; both ends derive the same keys.

    Args:
        keys: the party's own.
        session: the session's digest, 32 bytes.
        party: the number of the party.
        peer: the number of the other one.
        peer_public: the public key of the other one, 32 bytes.

    Raises:
        ProtocolError: the peer's public key is not usable.
    """
    _, hkdf, sha256 = _primitives()
    try:
        secret = keys.secret(peer_public)
    except ValueError:
        text = f"the public key of {party_name(peer)} is not usable"
        raise ProtocolError(text, sender=peer) from None
    (low, low_key), (high, high_key) = sorted(((party, keys.public), (peer, peer_public)))
    info = b"fedgs ring channel 1" + struct.pack(">II", low, high) + low_key + high_key
    derived: bytes = hkdf(sha256(), 3 * KEY_BYTES, salt=session, info=info).derive(secret)
    upward, downward, mask_key = (
        derived[start : start + KEY_BYTES] for start in range(0, 3 * KEY_BYTES, KEY_BYTES)
    )
    sealing, opening = (upward, downward) if party == low else (downward, upward)
    return Channel.of_keys(sealing + opening + mask_key, session, party=party, peer=peer)
