import ast
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.oracles import secure as oracle

import fedgs.secure
from fedgs import rng
from fedgs.errors import ConfigError, DataError, MissingExtraError
from fedgs.secure import PrivateProducts, private_rows, private_similarity
from fedgs.secure.meter import Answer
from fedgs.secure.ring import RingParty
from fedgs.secure.similarity import Connect
from fedgs.secure.wire import DEALER, Kind, each

shapes = st.tuples(st.integers(3, 6), st.integers(1, 5))
vector_sets = shapes.flatmap(lambda shape: arrays(np.float64, shape, elements=st.floats(-1, 1)))

SIMPLEX = np.random.default_rng(0).dirichlet(np.ones(4), 6)


def expected(vectors: np.ndarray, result: PrivateProducts) -> np.ndarray:
    assert result.encoding is not None
    return np.array(
        oracle.products(
            [list(map(float, vector)) for vector in vectors], result.encoding.fraction_bits
        )
    )


def dying(
    victim: int, kind: Kind, *, error: Exception | None = None, every: set[int] | None = None
) -> Connect:
    """A way to reach parties; `victim` fails at a message of that kind, and from then on."""
    gone: set[int] = set()
    victims = every or {victim}

    def connect(number: int, answer: Answer) -> Answer:
        def reach(data: bytes) -> bytes:
            arrived = next(iter(each(data, where="here"))).kind
            if number in victims and (number in gone or arrived == kind):
                gone.add(number)
                raise error or ConnectionError("gone")
            return answer(data)

        return reach

    return connect


# Right answers.


@given(vector_sets)
@settings(deadline=None, max_examples=40)
def test_products_are_exact_for_the_encoded_vectors(vectors: np.ndarray) -> None:
    result = private_similarity(vectors)
    np.testing.assert_array_equal(result.products, expected(vectors, result))


@given(vector_sets)
@settings(deadline=None, max_examples=40)
def test_products_lie_within_the_stated_error_of_the_real_ones(vectors: np.ndarray) -> None:
    result = private_similarity(vectors)
    real = vectors @ vectors.T
    off_diagonal = ~np.eye(len(vectors), dtype=bool)
    assert result.encoding is not None
    assert (
        np.abs(result.products - real)[off_diagonal].max() <= result.encoding.product_error + 1e-15
    )


@given(st.integers(2, 5), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=20)
def test_named_dealer_gives_the_same_products(clients: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).uniform(-1, 1, (clients, 3))
    result = private_similarity(vectors, dealer="registry office")
    np.testing.assert_array_equal(result.products, expected(vectors, result))


def test_extremes_of_the_range_do_not_wrap() -> None:
    vectors = np.array([[8.0] * 7, [-8.0] * 7, [8.0, -8.0] * 3 + [8.0]])
    result = private_similarity(vectors, value_range=8.0)
    np.testing.assert_array_equal(result.products[0], [np.nan, -448.0, 64.0])


def test_relabelled_clients_give_relabelled_products() -> None:
    order = np.array([3, 0, 5, 1, 4, 2])
    straight, turned = (
        private_similarity(vectors).products for vectors in (SIMPLEX, SIMPLEX[order])
    )
    np.testing.assert_array_equal(turned, straight[np.ix_(order, order)])


def test_paper_protocol_gives_the_real_products() -> None:
    result = private_similarity(SIMPLEX, protocol="paper")
    real = SIMPLEX @ SIMPLEX.T
    np.fill_diagonal(real, np.nan)
    np.testing.assert_allclose(result.products, real, atol=1e-9)
    assert result.encoding is None
    assert result.cost.exchanges == 3 * 15
    # Messages of a pair: masks and masked vectors (4), hats (2), u and v_2, u, v_1.
    assert result.cost.messages == 9 * 15


def test_one_client_has_no_pairs_and_costs_nothing() -> None:
    result = private_similarity([np.ones(3)])
    np.testing.assert_array_equal(result.products, [[np.nan]])
    assert (result.cost.messages, result.failures) == (0, ())
    assert [row.products.tolist() for row in private_rows([np.ones(1)])] == [
        pytest.approx([np.nan], nan_ok=True)
    ]


def test_only_the_pairs_asked_for_are_known() -> None:
    result = private_similarity(SIMPLEX, pairs=[(4, 1), (1, 4), (0, 2)])
    known = np.argwhere(~np.isnan(result.products)).tolist()
    assert known == [[0, 2], [1, 4], [2, 0], [4, 1]]
    assert np.isnan(private_similarity(SIMPLEX, pairs=[]).products).all()


def test_cost_counts_exchanges_messages_bytes_and_seconds() -> None:
    seen: list[bytes] = []

    def connect(_: int, answer: Answer) -> Answer:
        def reach(data: bytes) -> bytes:
            seen.extend([data, answer(data)])
            return seen[-1]

        return reach

    cost = private_similarity(SIMPLEX, connect=connect).cost
    sent = [data for data in seen if data]
    assert cost.exchanges == 4  # keys; masked vectors and corrections; u and v_2; v_1
    assert (cost.messages, cost.bytes) == (len(sent), sum(map(len, sent)))
    assert set(cost.seconds) == {"client", "dealer", "server"}
    assert all(seconds > 0 for seconds in cost.seconds.values())


def test_dealer_sends_one_ring_element_a_pair() -> None:
    dealt: dict[Kind, int] = {}

    def connect(number: int, answer: Answer) -> Answer:
        def reach(data: bytes) -> bytes:
            reply = answer(data)
            for message in each(reply, where="a reply"):
                dealt[Kind(message.kind)] = len(message.body)
            return reply

        return reach if number == DEALER else answer

    private_similarity(SIMPLEX, dealer="registry office", connect=connect)
    # 15 pairs; one sealed message to each of the 5 clients that are B of a pair, within one sealed
    # for the server.
    header, seal = 21, 28
    assert dealt[Kind.CORRECTIONS] == 15 * 8 + 5 * (header + seal) + seal


# Clients that go away.

STEPS = [Kind.INVITATION, Kind.DIRECTORY, Kind.ASSIGNMENT, Kind.DEALING, Kind.DELIVERY, Kind.RETURN]


def with_a_death(victim: int, kind: Kind) -> PrivateProducts:
    """A session in which the victim dies.

    Another session is tried if this one's key gave the victim nothing to deal (odds .06 or less).
    """
    results = (private_similarity(SIMPLEX, connect=dying(victim, kind)) for _ in range(20))
    return next(result for result in results if result.failures)


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("victim", [0, 2, 5])
def test_client_that_dies_is_named_its_pairs_unknown_and_the_rest_kept(
    victim: int, kind: Kind
) -> None:
    result = with_a_death(victim, kind)
    want = expected(SIMPLEX, result)
    want[victim] = want[:, victim] = np.nan
    np.testing.assert_array_equal(result.products, want)
    assert [failure.client for failure in result.failures] == [victim]
    assert "gone" in str(result.failures[0])
    assert str(result.failures[0]).startswith(f"client {victim} failed at step '")


def test_pairs_that_a_dead_client_should_have_dealt_are_dealt_by_another() -> None:
    result = with_a_death(3, Kind.DEALING)  # it had something to deal
    assert np.isnan(result.products).sum() == 6 + 2 * 5
    assert result.cost.exchanges == 7


def test_pairs_of_a_client_that_dies_while_others_are_dealt_anew_are_unknown_too() -> None:
    def connect(number: int, answer: Answer) -> Answer:
        def reach(data: bytes) -> bytes:
            message = next(iter(each(data, where="here")))
            if (number == 3 and message.kind == Kind.DEALING) or (
                number == 0 and message.batch == 1
            ):
                raise ConnectionError("gone")
            return answer(data)

        return reach

    # Client 0 has a part in the second batch with odds of more than 1/2 in each session.
    results = (private_similarity(SIMPLEX, connect=connect) for _ in range(60))
    result = next(result for result in results if len(result.failures) == 2)
    want = expected(SIMPLEX, result)
    want[[0, 3]] = want[:, [0, 3]] = np.nan
    np.testing.assert_array_equal(result.products, want)


@pytest.mark.parametrize("kind", [Kind.ASSIGNMENT, Kind.DELIVERY])
def test_two_clients_die_at_once(kind: Kind) -> None:
    result = private_similarity(SIMPLEX, connect=dying(0, kind, every={1, 4}))
    want = expected(SIMPLEX, result)
    want[[1, 4]] = want[:, [1, 4]] = np.nan
    np.testing.assert_array_equal(result.products, want)
    assert {failure.client for failure in result.failures} == {1, 4}


def test_everybody_dies() -> None:
    result = private_similarity(SIMPLEX, connect=dying(0, Kind.DELIVERY, every=set(range(6))))
    assert np.isnan(result.products).all()
    assert len(result.failures) == 6


def test_two_clients_left_have_nobody_to_deal_for_them() -> None:
    result = private_similarity(SIMPLEX[:3], connect=dying(1, Kind.INVITATION))
    assert np.isnan(result.products).all()
    assert [failure.client for failure in result.failures] == [1]


@pytest.mark.parametrize("kind", [Kind.INVITATION, Kind.DIRECTORY, Kind.DEALING])
def test_named_dealer_that_dies_is_named_and_nothing_is_known(kind: Kind) -> None:
    result = private_similarity(SIMPLEX, dealer="registry office", connect=dying(DEALER, kind))
    assert np.isnan(result.products).all()
    assert result.failures[0].client is None
    assert str(result.failures[0]).startswith("the named dealer failed at step '")


def test_a_clients_own_error_is_kept() -> None:
    error = ZeroDivisionError("in the client's code")
    result = private_similarity(SIMPLEX, connect=dying(2, Kind.DELIVERY, error=error))
    assert result.failures[0].exception is error
    assert result.failures[0].step == "u and v_2"


@pytest.mark.parametrize("message", range(1, 5))
def test_client_that_dies_in_the_papers_protocol_is_named(message: int) -> None:
    heard = 0

    def connect(number: int, answer: Answer) -> Answer:
        def reach(data: bytes) -> bytes:
            nonlocal heard
            heard += number == 2
            if number == 2 and heard >= message:
                raise TimeoutError("no reply")
            return answer(data)

        return reach

    result = private_similarity(SIMPLEX, protocol="paper", connect=connect)
    want = SIMPLEX @ SIMPLEX.T
    np.fill_diagonal(want, np.nan)
    want[2] = want[:, 2] = np.nan
    np.testing.assert_allclose(result.products, want, atol=1e-9)
    assert [failure.client for failure in result.failures] == [2]


# Rows, one by one.


def test_rows_are_those_of_the_matrix() -> None:
    products = private_similarity(SIMPLEX).products
    for row in private_rows(SIMPLEX):
        np.testing.assert_array_equal(
            row.products, np.where(np.arange(6) > row.client, products[row.client], np.nan)
        )
        assert row.cost.exchanges == (4 if row.client == 0 else 3 if row.client < 5 else 0)


def test_rows_continue_when_a_client_dies() -> None:
    rows = list(private_rows(SIMPLEX, connect=dying(2, Kind.DELIVERY)))
    want = expected(SIMPLEX, private_similarity(SIMPLEX))
    want[2] = want[:, 2] = np.nan
    for row in rows:
        np.testing.assert_array_equal(
            row.products, np.where(np.arange(6) > row.client, want[row.client], np.nan)
        )
    assert [failure.client for row in rows for failure in row.failures] == [2]


def test_rows_are_computed_when_asked_for_but_checked_at_once() -> None:
    with pytest.raises(DataError, match="needs at least one client"):
        private_rows([])
    heard = []

    def connect(number: int, answer: Answer) -> Answer:
        def reach(data: bytes) -> bytes:
            heard.append(number)
            return answer(data)

        return reach

    rows = private_rows(SIMPLEX, connect=connect)
    assert not heard
    next(rows)
    assert heard


def _peak(compute: Callable[[np.ndarray], object], clients: int) -> int:
    vectors = np.random.default_rng(0).uniform(-1, 1, (clients, 2))
    tracemalloc.start()
    try:
        compute(vectors)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_of_rows_grows_with_the_clients_and_not_with_the_pairs() -> None:
    def streamed(vectors: np.ndarray) -> None:
        for _ in private_rows(vectors):
            pass

    streamed(np.zeros((3, 2)))  # imports
    # Linear growth is a factor of 3 (and less with what is constant), quadratic growth 9.
    assert _peak(streamed, 30) < 4 * _peak(streamed, 10)
    # The measure would notice:
    assert _peak(private_similarity, 30) > 5 * _peak(private_similarity, 10)


def test_parties_forget_channels_of_earlier_rows() -> None:
    parties: list[RingParty] = []

    def connect(_: int, answer: Answer) -> Answer:
        parties.append(answer.__self__)  # type: ignore[attr-defined]
        return answer

    clients = 30
    for _ in private_rows(np.zeros((clients, 1)), connect=connect):
        # To the server: N. For a row: 2N between its client and others, up to 2N more between
        # dealers and others, and what parties that the next rows do not concern have kept. All
        # pairs would be 900.
        assert sum(len(party.member._channels) for party in parties) < 8 * clients


# What is refused.


@pytest.mark.parametrize("protocol", ["ring", "paper"])
@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([], "a private similarity needs at least one client, got none"),
        ([[1.0, 0.0], [1.0, 0.0, 0.5]], "client 1 has 3 entries, client 0 has 2"),
        ([[1.0, 0.0], [0.0, np.nan]], "client 1 has an entry that is not finite"),
        (
            [[1.0, 0.0], [[0.0], [1.0]]],
            "client 1 must have a vector with at least one entry, got shape (2, 1)",
        ),
        ([[], []], "client 0 must have a vector with at least one entry, got shape (0,)"),
    ],
)
def test_unusable_vectors_are_refused(
    protocol: str, vectors: list[list[float]], message: str
) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        private_similarity(vectors, protocol=protocol)  # type: ignore[arg-type]


def test_range_too_small_names_client_range_and_bits() -> None:
    message = (
        "the vector of client 2 has an entry of absolute value 1.5, outside the stated range "
        "[-1, 1] with 30 fraction bits"
    )
    with pytest.raises(DataError, match=re.escape(message)):
        private_similarity([[1.0, 0.0], [0.0, 1.0], [1.5, 0.0]])


def test_range_too_large_is_refused() -> None:
    with pytest.raises(ConfigError, match="too large for vectors of length 2"):
        private_similarity(np.zeros((3, 2)), value_range=1e12)


@pytest.mark.parametrize("client", [6, -1])
def test_unknown_client_is_refused(client: int) -> None:
    with pytest.raises(
        DataError,
        match=re.escape(f"pairs name client {client}, which is unknown; clients are 0..5"),
    ):
        private_similarity(SIMPLEX, pairs=[(0, client)])


def test_pair_of_a_client_with_itself_is_refused() -> None:
    with pytest.raises(DataError, match="a pair has two different clients, got client 3 twice"):
        private_similarity(SIMPLEX, pairs=[(3, 3)])


def test_two_clients_need_a_named_dealer() -> None:
    with pytest.raises(
        ConfigError, match="needs at least 3 clients, got 2; two clients need a named dealer"
    ):
        private_similarity(SIMPLEX[:2])


def test_unknown_protocol_is_refused() -> None:
    with pytest.raises(ConfigError, match="protocol must be 'ring' or 'paper', got 'rings'"):
        private_similarity(SIMPLEX, protocol="rings")  # type: ignore[arg-type]


def test_dealer_makes_no_sense_in_the_papers_protocol() -> None:
    with pytest.raises(
        ConfigError, match="dealer must be None for protocol 'paper', whose server is the dealer"
    ):
        private_similarity(SIMPLEX, protocol="paper", dealer="registry office")


def test_ring_without_cryptography_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MissingExtraError, match=re.escape("pip install 'fedgs[secure]'")):
        private_similarity(SIMPLEX)
    assert not np.isnan(private_similarity(SIMPLEX, protocol="paper").products[0, 1])


# Where masks come from.


def _forbidden(*_: object, **__: object) -> None:
    raise AssertionError("a mask came from a reproducible source")


@pytest.mark.parametrize("protocol", ["ring", "paper"])
def test_no_mask_comes_from_reproducible_streams(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("stream", "derived_seed"):
        monkeypatch.setattr(rng, name, _forbidden)
    sources = "default_rng Generator SeedSequence PCG64 random normal standard_normal randint bytes"
    for name in sources.split():
        monkeypatch.setattr(np.random, name, _forbidden)
    for name in ("random", "gauss", "getrandbits", "randbytes", "normalvariate"):
        monkeypatch.setattr(f"random.{name}", _forbidden)
    assert not np.isnan(private_similarity(SIMPLEX, protocol=protocol).products[0, 1])  # type: ignore[arg-type]


def test_secure_modules_do_not_import_the_streams_or_torch() -> None:
    imported = set()
    for file in Path(fedgs.secure.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                imported |= {f"{alias.name}.*" for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                imported |= {str(node.module), *names}
    # The system's secure source as a generator, and nothing else of that module.
    allowed = {"random", "random.SystemRandom"}
    assert not {
        name
        for name in imported - allowed
        if name.split(".")[0] in ("torch", "random") or "rng" in name or "numpy.r" in name
    }


def test_importing_loads_neither_cryptography_nor_torch() -> None:
    code = "import sys, fedgs.secure; print(sorted({'cryptography', 'torch'} & set(sys.modules)))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("protocol", ["ring", "paper"])
def test_two_computations_share_no_message(protocol: str) -> None:
    """Keys, nonces, masks, masked values and seals are fresh; only invitations are alike."""

    def messages() -> set[bytes]:
        seen: set[bytes] = set()

        def connect(_: int, answer: Answer) -> Answer:
            def reach(data: bytes) -> bytes:
                reply = answer(data)
                seen.update((data, reply))
                return reply

            return reach

        np.random.seed(0)  # noqa: NPY002  a seed must change nothing
        private_similarity(SIMPLEX, protocol=protocol, connect=connect)  # type: ignore[arg-type]
        return seen - {b""}

    shared = messages() & messages()
    assert all(
        protocol == "ring" and next(iter(each(data, where="here"))).kind == Kind.INVITATION
        for data in shared
    )
