"""The ring protocol under attack: every altered, dropped, doubled or replayed message is named."""

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.secure.material import PAIRS, VECTORS, ask, joined

from fedgs.errors import ProtocolError
from fedgs.secure import private_similarity
from fedgs.secure.fixed_point import fixed_point
from fedgs.secure.meter import Answer
from fedgs.secure.server import RingServer
from fedgs.secure.session import SessionPlan
from fedgs.secure.wire import DEALER, SERVER, Head, Kind, pack, pack_numbers, single

Mail = Mapping[int, list[bytes]]


def crooked(
    monkeypatch: pytest.MonkeyPatch, alter: Callable[[Mail], Mail], kind: Kind = Kind.DELIVERY
) -> None:
    """Make servers alter what clients send each other before they relay it."""
    honest = RingServer._deliver

    def deliver(self: RingServer, step: Kind, mail: Mail, parties: list[int]) -> dict[int, bytes]:
        if step == kind:
            mail = alter({party: list(raws) for party, raws in mail.items()})
        return honest(self, step, mail, parties)

    monkeypatch.setattr(RingServer, "_deliver", deliver)


def flipped(data: bytes, position: int) -> bytes:
    return bytes([*data[:position], data[position] ^ 1, *data[position + 1 :]])


def of_kind(raws: list[bytes], kind: Kind) -> int:
    """The place of the first message of a kind."""
    return next(n for n, raw in enumerate(raws) if single(raw, where="mail").kind == kind)


def changed(recipient: int, place: int, raw: bytes) -> Callable[[Mail], Mail]:
    def alter(mail: Mail) -> Mail:
        mail[recipient][place] = raw
        return mail

    return alter


def test_relay_that_alters_a_masked_vector_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    crooked(monkeypatch, lambda mail: changed(1, 0, flipped(mail[1][0], -1))(mail))
    with pytest.raises(
        ProtocolError,
        match="'sealed vector' of batch 0 from client 0 to client 1 failed its authentication",
    ):
        private_similarity(VECTORS)


def test_relay_that_alters_a_correction_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def alter(mail: Mail) -> Mail:
        place = of_kind(mail[3], Kind.SEALED_CORRECTION)
        return changed(3, place, flipped(mail[3][place], -1))(mail)

    crooked(monkeypatch, alter)
    with pytest.raises(
        ProtocolError,
        match=r"'sealed correction' of batch 0 from client \d to client 3 failed its auth",
    ):
        private_similarity(VECTORS)


def test_relay_that_alters_u_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    crooked(monkeypatch, lambda mail: changed(0, 0, flipped(mail[0][0], -1))(mail), Kind.RETURN)
    with pytest.raises(
        ProtocolError,
        match="'sealed u' of batch 0 from client 1 to client 0 failed its authentication",
    ):
        private_similarity(VECTORS)


def test_relay_that_swaps_recipients_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    crooked(monkeypatch, lambda mail: {**mail, 1: mail[2], 2: mail[1]})
    with pytest.raises(
        ProtocolError, match=r"from client 0 to client 2 is misaddressed: it reached client 1"
    ):
        private_similarity(VECTORS)


def test_relay_that_readdresses_a_message_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def alter(mail: Mail) -> Mail:
        message = single(mail[2][0], where="mail")
        return changed(1, 0, pack(Head(Kind.SEALED_VECTOR, message.sender, 1, 0), message.body))(
            mail
        )

    crooked(monkeypatch, alter)
    with pytest.raises(ProtocolError, match="from client 0 to client 1 failed its authentication"):
        private_similarity(VECTORS)


def test_relay_that_doubles_a_message_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    crooked(monkeypatch, lambda mail: {**mail, 1: [mail[1][0], *mail[1]]})
    with pytest.raises(
        ProtocolError, match="from client 0 to client 1 is replayed: client 1 has it already"
    ):
        private_similarity(VECTORS)


def test_relay_that_drops_a_message_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    crooked(monkeypatch, lambda mail: {**mail, 1: mail[1][1:]})
    with pytest.raises(
        ProtocolError, match="a delivery to client 1 lacks the 'sealed vector' of client 0"
    ):
        private_similarity(VECTORS)


def test_relay_that_reflects_a_message_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def alter(mail: Mail) -> Mail:
        body = single(mail[0][0], where="mail").body  # from client 1 to client 0
        return changed(1, 0, pack(Head(Kind.SEALED_VECTOR, 0, 1, 0), body))(mail)

    crooked(monkeypatch, alter)
    with pytest.raises(ProtocolError, match="from client 0 to client 1 failed its authentication"):
        private_similarity(VECTORS)


def test_relay_that_keeps_a_message_for_a_later_step_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crooked(
        monkeypatch,
        lambda mail: {**mail, 0: [pack(Head(Kind.SEALED_VECTOR, 1, 0, 0), b"x" * 44), *mail[0]]},
        Kind.RETURN,
    )
    with pytest.raises(
        ProtocolError, match="'sealed vector' of batch 0 from client 1 to client 0 is out of order"
    ):
        private_similarity(VECTORS)


def test_message_of_an_earlier_batch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    server, parties = joined()
    kept: list[Mail] = []

    def alter(mail: Mail) -> Mail:
        kept.append(mail)
        return {**mail, 1: [kept[0][1][0], *mail[1][1:]]}

    crooked(monkeypatch, alter)
    for _ in range(2):
        assignments, dealings = server.assign(PAIRS)
        deliveries = server.deliver(ask(parties, assignments), ask(parties, dealings))
        if server._batch == 1:
            with pytest.raises(
                ProtocolError,
                match="'sealed vector' of batch 0 from client 0 to client 1 is out of order",
            ):
                ask(parties, deliveries)
            return
        returns = server.forward(ask(parties, deliveries), deliveries)
        server.finish(ask(parties, returns), returns)


def test_same_header_from_another_session_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Mail] = []

    def alter(mail: Mail) -> Mail:
        kept.append(mail)
        return changed(1, 0, kept[0][1][0])(mail)

    crooked(monkeypatch, alter)
    private_similarity(VECTORS)
    with pytest.raises(
        ProtocolError, match=r"from client 0 to client 1 failed its authentication.*or session"
    ):
        private_similarity(VECTORS)


# What comes from the server itself, replayed or at the wrong time.


def test_replayed_assignment_is_refused() -> None:
    server, parties = joined()
    assignments, _ = server.assign(PAIRS)
    ask(parties, assignments)
    with pytest.raises(
        ProtocolError,
        match="'assignment' of batch 0 from the server to client 0 is replayed or out of order",
    ):
        parties[0].answer(assignments[0])


def test_replayed_dealing_is_refused_so_that_masks_are_used_once() -> None:
    server, parties = joined()
    _, dealings = server.assign(PAIRS)
    dealer, message = next(iter(dealings.items()))
    parties[dealer].answer(message)
    with pytest.raises(
        ProtocolError,
        match=r"'dealing' of batch 0 from the server to client . is replayed or out of order",
    ):
        parties[dealer].answer(message)


def test_delivery_before_an_assignment_is_refused() -> None:
    _, parties = joined()
    data = pack(Head(Kind.DELIVERY, SERVER, 0, 0), b"")
    with pytest.raises(ProtocolError, match="client 0 expects 'assignment' of a batch after -1"):
        parties[0].answer(data)


def test_message_for_another_client_is_misaddressed() -> None:
    server, parties = joined()
    assignments, _ = server.assign(PAIRS)
    with pytest.raises(
        ProtocolError, match="from the server to client 1 is misaddressed: it reached client 0"
    ):
        parties[0].answer(assignments[1])


def test_assignment_to_a_dealer_without_a_vector_is_refused() -> None:
    _, parties = joined(SessionPlan(4, fixed_point(2), named_dealer=True))
    with pytest.raises(ProtocolError, match="misaddressed: the dealer has no vector"):
        parties[DEALER].answer(pack(Head(Kind.ASSIGNMENT, SERVER, DEALER, 0), b""))


def send(server: RingServer, kind: Kind, party: int, absent: list[int], listed: list[int]) -> bytes:
    """A message that a server which breaks the rules may seal."""
    server._batch, server.absent = max(server._batch, 0), set(absent)
    return server._send(kind, party, pack_numbers(listed))


@pytest.mark.parametrize("peers", [[0], [1, 1], [2, 1], [4], [SERVER]])
def test_assignment_of_impossible_peers_is_malformed(peers: list[int]) -> None:
    server, parties = joined()
    with pytest.raises(ProtocolError, match="it must list present clients, each once, ascending"):
        parties[0].answer(send(server, Kind.ASSIGNMENT, 0, [], peers))


def test_assignment_of_an_absent_peer_is_malformed() -> None:
    server, parties = joined()
    with pytest.raises(ProtocolError, match="it must list present clients"):
        parties[0].answer(send(server, Kind.ASSIGNMENT, 0, [1], [1]))


def test_assignment_of_a_pair_without_a_dealer_is_malformed() -> None:
    server, parties = joined()
    with pytest.raises(ProtocolError, match="a pair that nobody is left to deal for"):
        parties[0].answer(send(server, Kind.ASSIGNMENT, 0, [2, 3], [1]))


@pytest.mark.parametrize("listed", [[0], [0, 1, 0, 1], [1, 0], [0, 9]])
def test_dealing_of_impossible_pairs_is_malformed(listed: list[int]) -> None:
    server, parties = joined()
    with pytest.raises(ProtocolError, match="it must list pairs of clients, each once, ascending"):
        parties[3].answer(send(server, Kind.DEALING, 3, [], listed))


def test_dealer_refuses_pairs_that_are_not_its_own_to_deal() -> None:
    server, parties = joined()
    _, dealings = server.assign([(0, 1)])
    stranger = ({2, 3} - set(dealings)).pop()
    with pytest.raises(
        ProtocolError, match=rf"misaddressed: pair \(0, 1\) is not for client {stranger} to deal"
    ):
        parties[stranger].answer(send(server, Kind.DEALING, stranger, [], [0, 1]))


def test_server_may_not_bring_absent_parties_back() -> None:
    server, parties = joined()
    parties[0].answer(send(server, Kind.ASSIGNMENT, 0, [3], []))
    with pytest.raises(ProtocolError, match="who was absent may not return"):
        parties[0].answer(send(server, Kind.DELIVERY, 0, [], []))


# Anything at all that goes wrong with any message on its way.

MESSAGES = private_similarity(VECTORS[:3]).cost.messages


@given(
    st.integers(0, MESSAGES - 1),
    st.floats(0, 1, exclude_max=True),
    st.sampled_from(["flip", "cut", "append", "empty"]),
)
@settings(deadline=None, max_examples=150)
def test_any_spoiled_message_is_refused(target: int, where: float, harm: str) -> None:
    sent = 0

    def spoil(data: bytes) -> bytes:
        nonlocal sent
        sent += data != b""
        if data == b"" or sent != target + 1:
            return data
        place = int(where * len(data))
        return {
            "flip": flipped(data, place),
            "cut": data[:place],
            "append": data + b"\0",
            "empty": b"",
        }[harm]

    def connect(number: int, answer: Answer) -> Answer:
        return lambda data: spoil(answer(spoil(data)))

    with pytest.raises(ProtocolError):
        private_similarity(VECTORS[:3], connect=connect)
    assert sent >= target + 1
