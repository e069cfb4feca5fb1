"""The private similarity of clients: all scalar products u_i·u_j, their cost and the failures.

Here all parties are in one process and exchange bytes. In a deployment each machine holds its
`RingParty` and the server its `RingServer`; `connect` says how to reach a party.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from fedgs.arrays import FloatArray, FloatMatrix
from fedgs.errors import ConfigError, DataError
from fedgs.secure.fixed_point import FixedPoint, fixed_point
from fedgs.secure.meter import Answer, Cost, Meter, PartyFailure
from fedgs.secure.paper import PaperClient, PaperDealer, PaperServer
from fedgs.secure.ring import RingParty
from fedgs.secure.server import BatchProducts, RingServer
from fedgs.secure.session import SessionPlan
from fedgs.secure.wire import DEALER

__all__ = ["Connect", "PrivateProducts", "PrivateRow", "private_rows", "private_similarity"]

Pair = tuple[int, int]
# How to reach a party, given its number and its own `answer`.
Connect = Callable[[int, Answer], Answer]


@dataclass(frozen=True, eq=False)
class PrivateProducts:
    """The scalar products of all pairs of clients.

    Attributes:
        products: (N, N) symmetric, NaN on the diagonal and where a pair is unknown.
        cost: messages, bytes and seconds.
        failures: clients that stopped answering; all their pairs are unknown.
        encoding: the fixed-point numbers used. None for the paper's protocol, which uses float64.
    """

    products: FloatMatrix
    cost: Cost
    failures: tuple[PartyFailure, ...]
    encoding: FixedPoint | None


@dataclass(frozen=True, eq=False)
class PrivateRow:
    """The products of one client with those after it.

    Attributes:
        client: its number.
        products: (N,) NaN up to the client itself and where a pair is unknown.
        cost: of this row; the first row's includes the exchange of keys.
        failures: in this row; the first row's include the exchange of keys.
    """

    client: int
    products: FloatArray
    cost: Cost
    failures: tuple[PartyFailure, ...]


class _RingSession:
    """A server and its parties, ready to compute batches of pairs."""

    def __init__(
        self,
        vectors: Sequence[FloatArray],
        encoding: FixedPoint,
        dealer: str | None,
        connect: Connect | None,
    ) -> None:
        plan = SessionPlan(len(vectors), encoding, named_dealer=dealer is not None)
        parties = {client: RingParty(plan, client, vector) for client, vector in enumerate(vectors)}
        if dealer is not None:
            parties[DEALER] = RingParty(plan, DEALER)
        self.server = RingServer(plan)
        self.meter = Meter(
            {number: _reached(connect, number, party.answer) for number, party in parties.items()}
        )

    def open(self) -> None:
        """Exchange 1: keys."""
        meter, server = self.meter, self.server
        hellos = meter.ask(server.invite(), "keys", "client")
        directories = meter.serve(lambda: server.introduce(hellos))
        joined = meter.ask(directories, "keys", "client")
        server.absent |= directories.keys() - joined.keys()
        meter.exchanges += 1

    def run(self, pairs: Iterable[Pair]) -> Iterator[BatchProducts]:
        """Exchanges 2 to 4, repeated for pairs whose dealer stopped answering."""
        wanted = list(pairs)
        while wanted:
            yield self._batch(wanted)
            wanted = self.server.undealt

    def _batch(self, pairs: Sequence[Pair]) -> BatchProducts:
        meter, server = self.meter, self.server
        assignments, dealings = meter.serve(lambda: server.assign(pairs))
        masked = meter.ask(assignments, "masked vectors", "client")
        corrections = meter.ask(dealings, "corrections", "dealer")
        deliveries = meter.serve(lambda: server.deliver(masked, corrections))
        blinded = meter.ask(deliveries, "u and v_2", "client")
        returns = meter.serve(lambda: server.forward(blinded, deliveries))
        shares = meter.ask(returns, "v_1", "client")
        meter.exchanges += 3
        return meter.serve(lambda: server.finish(shares, returns))


class _PaperSession:
    """The clients, the server and its dealer of the paper's protocol."""

    def __init__(self, vectors: Sequence[FloatArray], connect: Connect | None) -> None:
        self.meter = Meter(
            {
                client: _reached(connect, client, PaperClient(vector).answer)
                for client, vector in enumerate(vectors)
            }
        )
        self._dealer, self._server = PaperDealer(), PaperServer(len(vectors[0]))

    @property
    def failed(self) -> set[int]:
        """Clients that stopped answering."""
        return {failure.client for failure in self.meter.failures if failure.client is not None}

    def product(self, low: int, high: int) -> float | None:
        """The product of one pair, A = low and B = high; None if one of them fails."""
        meter, server = self.meter, self._server
        # In Algorithm 2 the server is the dealer.
        to_a, to_b = meter.serve(lambda: self._dealer.deal(server.length))
        meter.exchanges += 3
        mail = {low: server.relay(to_a), high: server.relay(to_b)}
        masked = meter.ask(mail, "masked vectors", "client")
        if len(masked) < 2:
            return None
        hat_to_a, hat_to_b = meter.serve(lambda: server.exchange(masked[low], masked[high]))
        blinded = meter.ask({low: hat_to_a, high: hat_to_b}, "u and v_2", "client")
        if len(blinded) < 2:
            return None
        u = meter.serve(lambda: server.pass_u(blinded[high]))
        shares = meter.ask({low: u}, "v_1", "client")
        return meter.serve(lambda: server.add(shares[low])) if low in shares else None


def _reached(connect: Connect | None, number: int, answer: Answer) -> Answer:
    return answer if connect is None else connect(number, answer)


def _checked(vectors: Sequence[npt.ArrayLike] | FloatMatrix) -> list[FloatArray]:
    """The clients' vectors: at least one, of one length, one-dimensional, finite."""
    arrays = [np.asarray(vector, dtype=np.float64) for vector in vectors]
    if not arrays:
        raise DataError("a private similarity needs at least one client, got none")
    for client, array in enumerate(arrays):
        if array.ndim != 1 or not len(array):
            raise DataError(
                f"client {client} must have a vector with at least one entry, "
                f"got shape {array.shape}"
            )
        if len(array) != len(arrays[0]):
            raise DataError(
                f"all clients' vectors must have the same length; client {client} has "
                f"{len(array)} entries, client 0 has {len(arrays[0])}"
            )
        if not np.isfinite(array).all():
            raise DataError(f"client {client} has an entry that is not finite")
    return arrays


def _checked_pairs(pairs: Iterable[Pair] | None, clients: int) -> list[Pair]:
    if pairs is None:
        return [(low, high) for low in range(clients) for high in range(low + 1, clients)]
    wanted = {(int(min(pair)), int(max(pair))) for pair in pairs}
    for pair in sorted(wanted):
        unknown = [client for client in pair if not 0 <= client < clients]
        if unknown:
            raise DataError(
                f"pairs name client {unknown[0]}, which is unknown; clients are 0..{clients - 1}"
            )
        if pair[0] == pair[1]:
            raise DataError(f"a pair has two different clients, got client {pair[0]} twice")
    return sorted(wanted)


def private_similarity(
    vectors: Sequence[npt.ArrayLike] | FloatMatrix,
    *,
    protocol: Literal["ring", "paper"] = "ring",
    value_range: float = 1.0,
    fraction_bits: int | None = None,
    dealer: str | None = None,
    pairs: Iterable[Pair] | None = None,
    connect: Connect | None = None,
) -> PrivateProducts:
    """All scalar products of N clients' vectors; no party sees the vector of another (Algorithm 2).

    All pairs are computed at once, in O(N²·d).

    Args:
        vectors: N vectors of d real entries.
        protocol: "ring", exact for the encoded vectors; "paper", Algorithm 2 as printed, whose
            server can compute the vectors.
        value_range: "ring" only: public bound of the entries' absolute values.
        fraction_bits: "ring" only. None: as many as cannot overflow.
        dealer: "ring" only: the name of an outside party that deals all masks. None: a third client
            for each pair, which needs N >= 3.
        pairs: the pairs to compute; None: all.
        connect: how to reach a party; None: directly. A party that raises there is noted as failed,
            and its pairs are unknown.

    Raises:
        DataError: vectors of unequal length, outside the range or not finite, an unknown client.
        ConfigError: an unknown protocol, a range that leaves no bits, two clients without a dealer.
        ProtocolError: a message that was tampered with, replayed, reordered, misaddressed or is
            malformed.
        MissingExtraError: "ring" without the package `cryptography`.

    >>> result = private_similarity(np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]))
    >>> result.products
    array([[nan, 0.5, 0. ],
           [0.5, nan, 0.5],
           [0. , 0.5, nan]])
    >>> result.cost.exchanges
    4
    """
    arrays = _checked(vectors)
    wanted = _checked_pairs(pairs, len(arrays))
    products = np.full((len(arrays), len(arrays)), np.nan)
    if protocol == "paper":
        return _paper_products(arrays, wanted, products, dealer=dealer, connect=connect)
    if protocol != "ring":
        raise ConfigError(f"protocol must be 'ring' or 'paper', got {protocol!r}")
    encoding = fixed_point(len(arrays[0]), value_range, fraction_bits)
    if not wanted:
        return PrivateProducts(products, Cost(), (), encoding)
    session = _RingSession(arrays, encoding, dealer, connect)
    session.open()
    for batch in session.run(wanted):
        low, high = batch.pairs.T
        products[low, high] = products[high, low] = batch.products
    absent = sorted(party for party in session.server.absent if party < len(arrays))
    products[absent] = products[:, absent] = np.nan
    return PrivateProducts(products, session.meter.cost, tuple(session.meter.failures), encoding)


def private_rows(
    vectors: Sequence[npt.ArrayLike] | FloatMatrix,
    *,
    value_range: float = 1.0,
    fraction_bits: int | None = None,
    dealer: str | None = None,
    connect: Connect | None = None,
) -> Iterator[PrivateRow]:
    """The ring protocol row by row: one batch for each client with those after it.

    Memory holds the vectors and one client's row, O(N·d); a row costs three exchanges. Rows that
    were returned before a client stopped answering stay as they are.

    Args:
        vectors: N vectors of d real entries.
        value_range: see `private_similarity`.
        fraction_bits: see `private_similarity`.
        dealer: see `private_similarity`.
        connect: see `private_similarity`.

    Returns:
        An iterator over N rows; each is computed when it is requested.

    Raises:
        DataError: see `private_similarity`.
        ConfigError: see `private_similarity`.
        ProtocolError: see `private_similarity`.
        MissingExtraError: see `private_similarity`.

    >>> for row in private_rows(np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])):
    ...     print(row.client, row.products)
    0 [nan 0.5 0. ]
    1 [nan nan 0.5]
    2 [nan nan nan]
    """
    arrays = _checked(vectors)
    count = len(arrays)
    encoding = fixed_point(len(arrays[0]), value_range, fraction_bits)
    session = _RingSession(arrays, encoding, dealer, connect) if count > 1 else None
    return _rows(session, count)


def _rows(session: _RingSession | None, count: int) -> Iterator[PrivateRow]:
    for client in range(count):
        products = np.full(count, np.nan)
        if session is None:
            yield PrivateRow(client, products, Cost(), ())
            continue
        if client == 0:
            session.open()
        for batch in session.run((client, other) for other in range(client + 1, count)):
            products[batch.pairs[:, 1]] = batch.products
        products[[party for party in session.server.absent if party < count]] = np.nan
        if client in session.server.absent:
            products[:] = np.nan
        yield PrivateRow(client, products, session.meter.cost, tuple(session.meter.failures))
        session.meter.start()


def _paper_products(
    vectors: Sequence[FloatArray],
    pairs: Sequence[Pair],
    products: FloatMatrix,
    *,
    dealer: str | None,
    connect: Connect | None,
) -> PrivateProducts:
    """Algorithm 2 as printed, pair after pair; a client that fails is left out from then on."""
    if dealer is not None:
        raise ConfigError(
            f"dealer must be None for protocol 'paper', whose server is the dealer, got {dealer!r}"
        )
    session = _PaperSession(vectors, connect)
    for low, high in pairs:
        if session.failed.isdisjoint((low, high)):
            product = session.product(low, high)
            products[low, high] = products[high, low] = np.nan if product is None else product
    failed = sorted(session.failed)
    products[failed] = products[:, failed] = np.nan
    return PrivateProducts(products, session.meter.cost, tuple(session.meter.failures), None)
