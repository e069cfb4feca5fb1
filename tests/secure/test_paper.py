import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgs.errors import DataError, ProtocolError
from fedgs.secure.paper import PaperClient, PaperDealer, PaperServer, Step

A, B = np.array([0.5, 0.25, 0.25]), np.array([0.0, 0.125, 0.875])


def run(a: np.ndarray, b: np.ndarray) -> tuple[float, PaperServer, PaperClient, PaperClient]:
    """Algorithm 2 for one pair."""
    client_a, client_b, server = PaperClient(a), PaperClient(b), PaperServer(len(a))
    to_a, to_b = PaperDealer().deal(len(a))
    hat_to_a, hat_to_b = server.exchange(
        client_a.answer(server.relay(to_a)), client_b.answer(server.relay(to_b))
    )
    assert client_a.answer(hat_to_a) == b""
    u = server.pass_u(client_b.answer(hat_to_b))
    return server.add(client_a.answer(u)), server, client_a, client_b


def seen(party: PaperServer | PaperClient, step: Step, sender: str = "server") -> np.ndarray:
    return next(
        entry.values for entry in party.transcript if (entry.step, entry.sender) == (step, sender)
    )


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=1, max_size=12))
@settings(deadline=None, max_examples=50)
def test_result_is_the_scalar_product(pairs: list[tuple[float, float]]) -> None:
    a, b = (np.array(side) for side in zip(*pairs, strict=True))
    # Masks of standard deviation 100: rounding errors are about 12·10⁵·2^-52.
    assert run(a, b)[0] == pytest.approx(a @ b, abs=1e-8)


def test_server_can_recover_both_vectors() -> None:
    _, server, _, _ = run(A, B)
    recovered = [
        seen(server, Step.MASKED, name) - seen(server, masks, "dealer")[:3]
        for name, masks in (("A", Step.MASKS_A), ("B", Step.MASKS_B))
    ]
    np.testing.assert_allclose(recovered, [A, B], atol=1e-12)


def test_clients_see_their_own_masks_and_the_other_vector_masked_only() -> None:
    _, server, a, b = run(A, B)
    assert [entry.step for entry in a.transcript] == [Step.MASKS_A, Step.HAT_TO_A, Step.U]
    assert [entry.step for entry in b.transcript] == [Step.MASKS_B, Step.HAT_TO_B]
    np.testing.assert_array_equal(
        seen(b, Step.HAT_TO_B), A + seen(server, Step.MASKS_A, "dealer")[:3]
    )


def test_dealer_sees_what_it_dealt_and_nothing_else() -> None:
    dealer = PaperDealer()
    dealer.deal(3)
    to_a, to_b = (entry.values for entry in dealer.transcript)
    assert to_a[3] + to_b[3] == pytest.approx(to_a[:3] @ to_b[:3])  # r_a + r_b = R_a·R_b


def test_masks_are_fresh_for_every_pair() -> None:
    dealer = PaperDealer()
    assert len({message for _ in range(20) for message in dealer.deal(2)}) == 40


def test_steps_out_of_order_are_refused() -> None:
    client = PaperClient(A)
    to_a, to_b = PaperDealer().deal(3)
    with pytest.raises(
        ProtocolError, match="a message of step 7 is out of order: MASKS_A or MASKS_B was expected"
    ):
        client.answer(to_a[:4] + b"\x07" + to_a[5:])
    client.answer(to_b)
    with pytest.raises(
        ProtocolError,
        match="a message of step 4 is out of order: HAT_TO_B or MASKS_A or MASKS_B was expected",
    ):
        client.answer(to_a[:4] + b"\x04" + to_a[5:])


@pytest.mark.parametrize("kept", [0, 3, 8, 9, 20])
def test_truncated_messages_are_refused(kept: int) -> None:
    to_a, _ = PaperDealer().deal(3)
    with pytest.raises(ProtocolError, match="malformed"):
        PaperClient(A).answer(to_a[:kept])


def test_masks_of_another_length_are_refused() -> None:
    to_a, _ = PaperDealer().deal(2)
    with pytest.raises(
        ProtocolError, match="message MASKS_A is malformed: 4 numbers were expected, 24 bytes came"
    ):
        PaperClient(A).answer(to_a)


def test_numbers_that_are_not_finite_are_refused() -> None:
    to_a, _ = PaperDealer().deal(3)
    with pytest.raises(ProtocolError, match="message MASKS_A has a number that is not finite"):
        PaperClient(A).answer(to_a[:-8] + np.array([np.nan]).tobytes())


@pytest.mark.parametrize("vector", [np.zeros((2, 2)), np.zeros(0), np.array([np.inf])])
def test_unusable_vector_is_refused(vector: np.ndarray) -> None:
    with pytest.raises(DataError, match="a vector must be one-dimensional with finite entries"):
        PaperClient(vector)
