import pytest

from fedgs.errors import ProtocolError
from fedgs.secure.wire import (
    DEALER,
    EVERYBODY,
    SERVER,
    Head,
    Kind,
    each,
    numbers,
    pack,
    pack_numbers,
    party_name,
    single,
    words,
)

MESSAGE = pack(Head(Kind.SEALED_U, 3, 5, 2), b"body")


def test_message_comes_apart_as_it_was_packed() -> None:
    message = single(MESSAGE, where="here")
    assert message == (Kind.SEALED_U, 3, 5, 2, b"body", MESSAGE)


@pytest.mark.parametrize("kept", range(1, len(MESSAGE)))
def test_truncated_message_is_refused(kept: int) -> None:
    with pytest.raises(ProtocolError, match="is truncated"):
        single(MESSAGE[:kept], where="a reply of client 3")


def test_refusal_of_a_short_body_names_the_message() -> None:
    with pytest.raises(
        ProtocolError,
        match=r"'sealed u' of batch 2 from client 3 to client 5 is truncated.* 3 of 4 bytes",
    ):
        single(MESSAGE[:-1], where="here")


@pytest.mark.parametrize("data", [b"x" * 40, MESSAGE[:4] + b"\x63" + MESSAGE[5:]])
def test_bytes_of_something_else_are_malformed(data: bytes) -> None:
    with pytest.raises(
        ProtocolError,
        match="the hello of client 1 is malformed: it is not a message of this protocol",
    ):
        single(data, where="the hello of client 1")


@pytest.mark.parametrize("data", [b"", MESSAGE * 2])
def test_none_or_two_messages_are_not_one(data: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"one message was expected, [02] came"):
        single(data, where="a reply")


def test_several_messages_are_read_in_order() -> None:
    mail = MESSAGE + pack(Head(Kind.SHARES, 9, 1, 0), b"")
    assert [message.sender for message in each(mail, where="mail")] == [3, 9]


@pytest.mark.parametrize("size", [0, 7, 9, 24])
def test_another_number_of_ring_elements_is_malformed(size: int) -> None:
    with pytest.raises(ProtocolError, match=f"2 ring elements were expected, {size} bytes came"):
        words(bytes(size), 2, single(MESSAGE, where="here"))


def test_ring_elements_are_little_endian() -> None:
    body = bytes([1, *[0] * 6, 128])
    assert words(body, 1, single(MESSAGE, where="here")).tolist() == [2**63 + 1]


@pytest.mark.parametrize("kept", range(12))
def test_cut_list_of_numbers_is_malformed(kept: int) -> None:
    with pytest.raises(ProtocolError, match="a list of numbers is cut short"):
        numbers(pack_numbers([1, 2])[:kept], single(MESSAGE, where="here"))


def test_special_parties_have_names() -> None:
    assert [party_name(party) for party in (SERVER, DEALER, EVERYBODY, 0)] == [
        "the server",
        "the dealer",
        "everybody",
        "client 0",
    ]
