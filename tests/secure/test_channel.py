import os
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs.errors import MissingExtraError, ProtocolError
from fedgs.secure.channel import SEAL_BYTES, Channel, KeyPair, open_channel
from fedgs.secure.wire import HEADER_BYTES, Head, Kind, Message, pack, single

SESSION = bytes(range(32))


def ends(low: int = 2, high: int = 7, session: bytes = SESSION) -> tuple[Channel, Channel]:
    left, right = KeyPair.generate(), KeyPair.generate()
    return (
        open_channel(left, session, party=low, peer=high, peer_public=right.public),
        open_channel(right, session, party=high, peer=low, peer_public=left.public),
    )


LEFT, RIGHT = ends()
SEALED = LEFT.seal(Kind.SEALED_VECTOR, 4, b"a masked vector")


def read(data: bytes) -> Message:
    return single(data, where="here")


def resealed(message: Message, **changes: int) -> Message:
    """The same sealed body under another header."""
    return read(pack(message.head._replace(**changes), message.body))


@given(st.binary(max_size=200), st.sampled_from(Kind), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=50)
def test_what_is_sealed_opens_in_both_directions(body: bytes, kind: Kind, batch: int) -> None:
    assert RIGHT.open(read(LEFT.seal(kind, batch, body))) == body
    assert LEFT.open(read(RIGHT.seal(kind, batch, body))) == body


def test_nonces_are_fresh_and_the_length_tells_the_bodys_length_only() -> None:
    sealed = {LEFT.seal(Kind.SEALED_U, 0, b"12345678") for _ in range(50)}
    assert len({data[HEADER_BYTES : HEADER_BYTES + 12] for data in sealed}) == 50
    assert {len(data) for data in sealed} == {HEADER_BYTES + SEAL_BYTES + 8}


@pytest.mark.parametrize("position", range(HEADER_BYTES, len(SEALED)))
def test_a_changed_byte_fails_the_authentication(position: int) -> None:
    data = bytearray(SEALED)
    data[position] ^= 1
    with pytest.raises(
        ProtocolError,
        match="'sealed vector' of batch 4 from client 2 to client 7 failed its authentication",
    ):
        RIGHT.open(read(bytes(data)))


@pytest.mark.parametrize("change", [{"kind": Kind.SEALED_U}, {"batch": 5}])
def test_another_number_or_kind_fails_the_authentication(change: dict[str, int]) -> None:
    with pytest.raises(ProtocolError, match="failed its authentication"):
        RIGHT.open(resealed(read(SEALED), **change))


def test_a_short_body_fails_the_authentication() -> None:
    for size in (0, 11, 12, 20):
        with pytest.raises(ProtocolError, match="failed its authentication"):
            RIGHT.open(read(pack(Head(Kind.SEALED_VECTOR, 2, 7, 4), bytes(size))))


def test_a_message_reflected_to_its_sender_is_refused() -> None:
    with pytest.raises(ProtocolError, match="misaddressed: it reached client 2"):
        LEFT.open(read(SEALED))
    with pytest.raises(ProtocolError, match="failed its authentication"):
        LEFT.open(resealed(read(SEALED), sender=7, recipient=2))


def test_a_message_of_another_pair_or_session_is_refused() -> None:
    keys = KeyPair.generate(), KeyPair.generate()
    here = open_channel(keys[1], SESSION, party=7, peer=2, peer_public=keys[0].public)
    there = open_channel(keys[0], os.urandom(32), party=2, peer=7, peer_public=keys[1].public)
    for stranger in (there, ends()[0]):
        with pytest.raises(
            ProtocolError,
            match=r"failed its authentication.* another pair, direction, batch or session",
        ):
            here.open(read(stranger.seal(Kind.SEALED_U, 0, b"12345678")))


def test_both_ends_share_masks_which_no_two_uses_share() -> None:
    def masks(channel: Channel) -> list[bytes]:
        return [
            channel.mask(batch, dealer=dealer, pair=pair, words=3)
            for batch in (0, 1)
            for dealer in (2, 7)
            for pair in ((0, 2), (2, 7), (1, 7))
        ]

    left = masks(LEFT)
    assert left == masks(RIGHT)
    elements = [mask[start : start + 8] for mask in left for start in (0, 8, 16)]
    # Two equal ones among 36 have odds of 36²/2 / 2^64 < 1e-16.
    assert len(set(elements)) == len(elements) == 36


def test_masks_differ_between_sessions() -> None:
    keys = KeyPair.generate(), KeyPair.generate()
    channels = [
        open_channel(keys[0], session, party=0, peer=1, peer_public=keys[1].public)
        for session in (SESSION, bytes(32))
    ]
    assert len({channel.mask(0, dealer=1, pair=(0, 2), words=4) for channel in channels}) == 2


def test_a_kept_private_key_gives_its_public_key_again() -> None:
    private = os.urandom(32)
    assert KeyPair.from_private_bytes(private).public == KeyPair.from_private_bytes(private).public
    with pytest.raises(ProtocolError, match="a private key has 32 bytes, got 31"):
        KeyPair.from_private_bytes(private[1:])


def test_a_public_key_that_gives_everybody_the_same_secret_is_refused() -> None:
    with pytest.raises(ProtocolError, match="the public key of client 3 is not usable"):
        open_channel(KeyPair.generate(), SESSION, party=0, peer=3, peer_public=bytes(32))


def test_missing_cryptography_says_which_extra_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MissingExtraError, match=re.escape("pip install 'fedgs[secure]'")):
        KeyPair.generate()


def test_keys_do_not_show_themselves_when_printed() -> None:
    keys = KeyPair.generate()
    assert keys.private.private_bytes_raw().hex() not in repr(keys)
    assert repr(LEFT.mask_key) not in repr(LEFT)
