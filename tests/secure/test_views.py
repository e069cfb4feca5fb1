"""Two inputs with the same products: the views of server and dealer do not tell them apart.

The second input is the first with all vectors' coordinates permuted alike, so that every product is
the same. A view is everything that a party receives, derives and sends, opened as far as the party
can open it. Its shape (contents, parties and lengths, in order) must be equal exactly; its numbers
must follow the same distribution.

The stated test, over `SESSIONS` sessions with each input: for every bit of the view, in what share
of the sessions it is 1. If the two inputs give the same distribution, the shares of a bit differ by
t or more with odds of at most 2·exp(-SESSIONS·t²) (Hoeffding), so that t =
sqrt(log(2·bits/ODDS)/SESSIONS), some .7 here, is reached by any bit of all with odds of at most
`ODDS`. Randomness is the system's and cannot be seeded, hence odds of 1e-9. Beside it, the
frequencies of byte values of each kind of content are compared by chi-square tests at the same odds
each.
"""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from fedgs.secure import channel, private_similarity
from fedgs.secure.channel import Channel
from fedgs.secure.line import Line
from fedgs.secure.meter import Answer
from fedgs.secure.paper import PaperServer, Seen, Step
from fedgs.secure.server import RingServer
from fedgs.secure.wire import DEALER, Kind, Message, each

ODDS = 1e-9
SESSIONS = 60
SHARP = np.array(
    [[1.0, 0.0, 0.0, 0.0], [0.75, 0.25, 0.0, 0.0], [0.0, 0.5, 0.5, 0.0], [0.0, 0.0, 0.0, 1.0]]
)
PERMUTED = SHARP[:, [2, 3, 1, 0]]


class View:
    """What a party saw: for each session a list of (content, sender, recipient, bytes)."""

    def __init__(self) -> None:
        self.sessions: list[list[tuple[str, int, int, bytes]]] = []

    def add(self, name: str, message: Message, body: bytes) -> None:
        self.sessions[-1].append((name, message.sender, message.recipient, body))

    @property
    def shapes(self) -> set[tuple[tuple[str, int, int, int], ...]]:
        return {
            tuple((*entry[:3], len(entry[3])) for entry in session) for session in self.sessions
        }

    @property
    def bits(self) -> np.ndarray:
        """(sessions, bits) of all that was seen."""
        rows = [
            np.frombuffer(b"".join(entry[3] for entry in session), dtype=np.uint8)
            for session in self.sessions
        ]
        return np.unpackbits(np.array(rows), axis=1)

    def content(self, name: str) -> bytes:
        return b"".join(
            entry[3] for session in self.sessions for entry in session if entry[0] == name
        )

    @property
    def names(self) -> set[str]:
        return {entry[0] for session in self.sessions for entry in session}


# A named dealer, so that shapes do not depend on who deals for whom by the session's key.


def server_view(vectors: np.ndarray, sessions: int = SESSIONS) -> View:
    """All that reaches the server, opened with its keys: sealed messages, v_2 and v_1."""
    view, honest = View(), RingServer._open

    def opened(
        self: RingServer, kind: Kind, party: int, data: bytes, *, most: int
    ) -> tuple[bytes, Message]:
        body, message = honest(self, kind, party, data, most=most)
        v2 = 8 * sum(high == party for (_, high), _ in self._pairs)
        words = {Kind.BLINDED: v2, Kind.SHARES: len(body)}.get(kind, 0)
        view.add(f"{kind.name} words", message, body[:words])
        for inner in each(body[words:], where="here"):
            view.add(Kind(inner.kind).name, inner, inner.body)
        return body, message

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RingServer, "_open", opened)
        for _ in range(sessions):
            view.sessions.append([])
            private_similarity(vectors, dealer="registry office")
    return view


def dealer_view(vectors: np.ndarray, sessions: int = SESSIONS) -> View:
    """All that reaches the dealer, opened with its keys, all masks it derives, and all it sends."""
    view, receive, mask = View(), Line.receive, Channel.mask

    def received(self: Line, message: Message) -> bytes:
        rest = receive(self, message)
        if self.member.party == DEALER:
            view.add(Kind(message.kind).name, message, rest)
        return rest

    def masked(
        self: Channel, batch: int, *, dealer: int, pair: tuple[int, int], words: int
    ) -> bytes:
        stream = mask(self, batch, dealer=dealer, pair=pair, words=words)
        if self.party == DEALER:
            view.add("mask", Message(0, self.party, self.peer, 0, b"", b""), stream)
        return stream

    def connect(number: int, answer: Answer) -> Answer:
        def reach(data: bytes) -> bytes:
            reply = answer(data)
            for message in each(data + reply, where="here"):
                view.add(f"raw {Kind(message.kind).name}", message, message.body)
            return reply

        return reach if number == DEALER else answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Line, "receive", received)
        patch.setattr(Channel, "mask", masked)
        for _ in range(sessions):
            view.sessions.append([])
            private_similarity(vectors, dealer="registry office", connect=connect)
    return view


def peer_view(vectors: np.ndarray) -> bytes:
    """The masked vectors, opened, that clients get from each other."""
    seen, honest = bytearray(), Channel.open

    def opened(self: Channel, message: Message) -> bytes:
        body = honest(self, message)
        seen.extend(body if message.kind == Kind.SEALED_VECTOR else b"")
        return body

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Channel, "open", opened)
        for _ in range(30):
            private_similarity(vectors)
    return bytes(seen)


def counts(data: bytes) -> np.ndarray:
    return np.bincount(np.frombuffer(data, dtype=np.uint8), minlength=256)


def uniform(data: bytes) -> float:
    return float(stats.chisquare(counts(data)).pvalue)


def telling_bits(left: View, right: View) -> int:
    """How many bits of two views of equal shape tell them apart."""
    ones = [view.bits.mean(axis=0) for view in (left, right)]
    threshold = np.sqrt(np.log(2 * len(ones[0]) / ODDS) / len(left.sessions))
    return int((np.abs(ones[0] - ones[1]) >= threshold).sum())


def telling_contents(left: View, right: View) -> set[str]:
    """Contents whose bytes have different frequencies in two views."""
    found = set()
    for name in left.names:
        table = np.array([counts(view.content(name)) for view in (left, right)])
        table = table[:, table.sum(axis=0) > 0]
        if (table[0] != table[1]).any() and stats.chi2_contingency(table).pvalue < ODDS:
            found.add(name)
    return found


See = Callable[[np.ndarray], View]


@pytest.fixture(scope="module", params=[server_view, dealer_view])
def views(request: pytest.FixtureRequest) -> tuple[View, View]:
    see: See = request.param
    return see(SHARP), see(PERMUTED)


def test_views_of_two_inputs_with_the_same_products_cannot_be_told_apart(
    views: tuple[View, View],
) -> None:
    np.testing.assert_array_equal(SHARP @ SHARP.T, PERMUTED @ PERMUTED.T)
    left, right = views
    assert left.shapes == right.shapes
    assert len(left.shapes) == 1
    assert telling_bits(left, right) == 0
    assert telling_contents(left, right) == set()


def test_views_hold_what_their_parties_receive() -> None:
    server, dealer, pairs = server_view(SHARP, 2), dealer_view(SHARP, 2), 2 * 6
    # Masked vectors and u pass the server sealed (28 bytes more); v_1 and v_2 it gets, one ring
    # element a pair.
    assert len(server.content("SEALED_VECTOR")) == 2 * pairs * (4 * 8 + 28)
    assert len(server.content("SEALED_U")) == pairs * (8 + 28)
    assert len(server.content("BLINDED words")) == len(server.content("SHARES words")) == 8 * pairs
    # The dealer receives pairs, and nothing that a client sends.
    kinds = ("INVITATION", "HELLO", "DIRECTORY", "DEALING", "CORRECTIONS")
    assert dealer.names == {"DEALING", "mask", *(f"raw {kind}" for kind in kinds)}
    assert len(dealer.content("mask")) == 2 * pairs * 5 * 8
    assert len(dealer.content("DEALING")) == 2 * (4 + 6 * 2 * 4)


def test_all_that_the_server_sees_is_uniform(views: tuple[View, View]) -> None:
    for view in views:
        sealed = {"SEALED_VECTOR", "SEALED_U", "SEALED_CORRECTION"}
        for name in view.names & (sealed | {"BLINDED words", "SHARES words"}):
            assert uniform(view.content(name)) > ODDS, name


@pytest.mark.parametrize("vectors", [SHARP, np.zeros((4, 4)), np.ones((4, 4))])
def test_masked_vectors_are_uniform_whatever_they_hide(vectors: np.ndarray) -> None:
    assert uniform(peer_view(vectors)) > ODDS


# The tests above would notice: each of these takes protections away.


def test_the_test_notices_missing_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Channel, "mask", lambda self, batch, *, dealer, pair, words: bytes(8 * words)
    )
    assert uniform(peer_view(SHARP)) < ODDS


def test_the_test_notices_a_client_that_does_not_blind_u(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.urandom", bytes)  # v_2 = 0, so that v_1 is the product
    view = server_view(SHARP, 20)
    assert uniform(view.content("SHARES words")) < ODDS


def test_the_test_notices_vectors_that_are_neither_masked_nor_encrypted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Open:
        """A cipher that hides nothing."""

        def __init__(self, key: bytes) -> None: ...

        def encrypt(self, nonce: bytes, body: bytes, header: bytes) -> bytes:
            return body + bytes(16)

        def decrypt(self, nonce: bytes, sealed: bytes, header: bytes) -> bytes:
            return sealed[:-16]

    honest = channel._primitives()
    monkeypatch.setattr(channel, "_primitives", lambda: (Open, *honest[1:]))
    assert telling_bits(server_view(SHARP), server_view(PERMUTED)) == 0  # masked, if not encrypted
    monkeypatch.setattr(
        Channel, "mask", lambda self, batch, *, dealer, pair, words: bytes(8 * words)
    )
    assert telling_bits(server_view(SHARP), server_view(PERMUTED)) > 0


def test_papers_server_tells_the_two_inputs_apart_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    transcripts: list[list[Seen]] = []
    honest = PaperServer.add

    def add(self: PaperServer, share: bytes) -> float:
        product = honest(self, share)
        transcripts.append(self.transcript.copy())
        return product

    monkeypatch.setattr(PaperServer, "add", add)
    for vectors in (SHARP, PERMUTED):
        private_similarity(vectors, protocol="paper", pairs=[(0, 2)])
        seen = {(entry.step, entry.sender): entry.values for entry in transcripts[-1]}
        np.testing.assert_allclose(
            seen[Step.MASKED, "A"] - seen[Step.MASKS_A, "dealer"][:4], vectors[0], atol=1e-12
        )
