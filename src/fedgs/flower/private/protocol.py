"""The server's side of one session of the private graph, without Flower.

A session is a generator: it yields the requests of a phase and receives the replies. A client whose
reply is missing or refused is absent from then on; its products stay unknown.
"""

import os
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

from fedgs.errors import ConfigError, ProtocolError
from fedgs.flower.private.messages import (
    ACCUSED,
    FAILED,
    REFUSED,
    Entries,
    PhaseName,
    Sent,
    entry,
    named,
    roster_label,
)
from fedgs.flower.private.products import Pair
from fedgs.secure.channel import KEY_BYTES
from fedgs.secure.fixed_point import FixedPoint, fixed_point
from fedgs.secure.server import BatchProducts, RingServer
from fedgs.secure.session import SessionPlan

__all__ = ["LEAST_CLIENTS", "Phase", "PrivateSession"]

LEAST_CLIENTS = 3  # a third client deals for each pair
_LONGEST_TEXT = 300  # characters


@dataclass(frozen=True)
class Phase:
    """The requests of a phase: row -> entries."""

    name: PhaseName
    requests: Mapping[int, Sent]


class PrivateSession:
    """One session: keys, masked vectors, blinded products, shares.

    Args:
        names: row -> name of each client that is asked.
        pairs: the pairs of rows whose products are wanted, low < high.

    Attributes:
        products: pair of rows -> product.
        silent: rows of clients without a reply, with the phase.
        refused: rows of clients whose reply is refused, or that refused a request, with the reason.
        accused: row -> rows of the clients whose messages it refused.

    >>> session = PrivateSession({0: "a", 4: "b", 7: "c"}, [(0, 4)])
    >>> next(session.run()).name
    'keys'
    """

    def __init__(self, names: Mapping[int, str], pairs: Sequence[Pair]) -> None:
        self._names = dict(names)
        self._rows = {name: row for row, name in names.items()}
        self._pairs = pairs
        self._session = os.urandom(16)
        self.products: dict[Pair, float] = {}
        self.silent: dict[int, PhaseName] = {}
        self.refused: dict[int, str] = {}
        self.accused: dict[int, set[int]] = {}

    def run(self) -> Generator[Phase, Mapping[int, Entries], None]:
        """The phases; the replies to each are sent into the generator, by row."""
        everyone: dict[int, Sent] = {row: {} for row in self._names}
        greeted = self._valid("keys", everyone, (yield self._phase("keys", everyone)))
        introductions, vector = self._introductions(greeted)
        rows = sorted(introductions)
        if vector is None or len(rows) < LEAST_CLIENTS:
            return
        party_of = {row: party for party, row in enumerate(rows)}

        def refuse(party: int, error: ProtocolError) -> None:
            self.refused.setdefault(rows[party], named(str(error), dict(enumerate(names))))

        names = [self._names[row] for row in rows]
        label = roster_label(self._session, names)
        plan = SessionPlan(len(rows), fixed_point(*vector), label=label)
        server = RingServer(plan, refused=refuse)
        directory = server.open({party_of[row]: introductions[row] for row in rows})[0]
        wanted = [
            (party_of[low], party_of[high])
            for low, high in self._pairs
            if low in party_of and high in party_of
        ]
        assignments, dealings = server.assign(wanted)
        invitations = server.invite()
        requests: dict[int, Sent] = {}
        for party in sorted({*assignments, *dealings}):
            common: Sent = {
                "names": names,
                "directory": directory,
                "invitation": invitations[party],
            }
            requests[rows[party]] = common
            if party in assignments:
                common["assignment"] = assignments[party]
            if party in dealings:
                common["dealing"] = dealings[party]
        replies = yield self._phase("masked", requests)
        valid = self._valid("masked", requests, replies)
        masked = self._entries(valid, "message", {rows[party] for party in assignments})
        corrections = self._entries(valid, "corrections", {rows[party] for party in dealings})
        deliveries = server.deliver(_by_party(masked, party_of), _by_party(corrections, party_of))
        blinded = yield from self._exchange("blinded", deliveries, rows)
        returns = server.forward(blinded, deliveries)
        shares = yield from self._exchange("shares", returns, rows)
        self._learn(server.finish(shares, returns), rows, plan.encoding)

    def _phase(self, name: PhaseName, requests: Mapping[int, Sent]) -> Phase:
        head: Sent = {"phase": name, "session": self._session}
        return Phase(name, {row: {**head, **entries} for row, entries in requests.items()})

    def _exchange(
        self, name: PhaseName, mail: Mapping[int, bytes], rows: Sequence[int]
    ) -> Generator[Phase, Mapping[int, Entries], dict[int, bytes]]:
        """Send each party its message; returns the replies by party."""
        requests: dict[int, Sent] = {
            rows[party]: {"message": message} for party, message in mail.items()
        }
        replies = yield self._phase(name, requests)
        valid = self._valid(name, requests, replies)
        party_of = {row: party for party, row in enumerate(rows)}
        return _by_party(self._entries(valid, "message", set(requests)), party_of)

    def _valid(
        self, phase: PhaseName, asked: Mapping[int, object], replies: Mapping[int, Entries]
    ) -> dict[int, Entries]:
        """The replies that do not refuse the request; the other clients are noted."""
        valid: dict[int, Entries] = {}
        for row in asked:
            if row not in replies:
                self.silent[row] = phase
            elif FAILED in replies[row]:
                self.refused[row] = str(replies[row][FAILED])[:_LONGEST_TEXT]
            elif REFUSED in replies[row]:
                self._note_refusal(row, replies[row])
            else:
                valid[row] = replies[row]
        return valid

    def _note_refusal(self, row: int, reply: Entries) -> None:
        self.refused[row] = f"it refused a message: {str(reply[REFUSED])[:_LONGEST_TEXT]}"
        accused = reply.get(ACCUSED)
        names = accused[: len(self._rows)] if isinstance(accused, list) else []
        known = {self._rows[name] for name in names if name in self._rows} - {row}
        if known:
            self.accused[row] = known

    def _entries(
        self, replies: Mapping[int, Entries], name: str, rows: set[int]
    ) -> dict[int, bytes]:
        """An entry of the replies of `rows`; its size is checked before it is read."""
        found: dict[int, bytes] = {}
        for row in sorted(rows & replies.keys()):
            try:
                found[row] = entry(replies[row], name, most=2**31)
            except ProtocolError as error:
                self.refused.setdefault(row, f"its reply is malformed: {error}")
        return found

    def _introductions(
        self, replies: Mapping[int, Entries]
    ) -> tuple[dict[int, bytes], tuple[int, float] | None]:
        """Public key and nonce by row, and the length and range of most clients' vectors."""
        stated: dict[int, tuple[int, float]] = {}
        introductions: dict[int, bytes] = {}
        for row, reply in sorted(replies.items()):
            try:
                parts = (
                    entry(reply, name, least=KEY_BYTES, most=KEY_BYTES)
                    for name in ("public", "nonce")
                )
                introductions[row] = b"".join(parts)
                stated[row] = _vector(reply)
            except ProtocolError as error:
                introductions.pop(row, None)
                self.refused[row] = f"its reply is malformed: {error}"
        if not stated:
            return {}, None
        usual = Counter(stated.values()).most_common(1)[0][0]
        for row, vector in stated.items():
            if vector != usual:
                del introductions[row]
                self.refused[row] = (
                    f"its vector has {vector[0]} entries in a range of {vector[1]:g}, the others' "
                    f"{usual[0]} in {usual[1]:g}"
                )
        return introductions, usual

    def _learn(self, found: BatchProducts, rows: Sequence[int], encoding: FixedPoint) -> None:
        """Keep the products; one that no two vectors have accuses both clients of each other."""
        most = encoding.length * encoding.value_range**2 + encoding.product_error
        for pair, product in zip(found.pairs.tolist(), found.products.tolist(), strict=True):
            low, high = rows[pair[0]], rows[pair[1]]
            if abs(product) <= most:
                self.products[low, high] = product
                continue
            for row, other in ((low, high), (high, low)):
                self.accused.setdefault(row, set()).add(other)
                why = f"its product with {self._names[other]!r} is impossible: {product:g}"
                self.refused.setdefault(row, why)


def _by_party(by_row: Mapping[int, bytes], party_of: Mapping[int, int]) -> dict[int, bytes]:
    return {party_of[row]: data for row, data in by_row.items()}


def _vector(reply: Entries) -> tuple[int, float]:
    """Length and range of the vector that a reply states.

    Raises:
        ProtocolError: they are missing, or no encoding fits them.
    """
    length, value_range = reply.get("length"), reply.get("range")
    if type(length) is not int or type(value_range) is not float:
        raise ProtocolError("it states no length and range of its vector")
    try:
        fixed_point(length, value_range)
    except ConfigError as error:
        raise ProtocolError(str(error)) from None
    return length, value_range
