"""Golden tables of every mode for the four toy clients, rounds 0 to 24, and allowed settings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import availability as oracle

from fedgs import Clients
from fedgs.availability import (
    Availability,
    Ideal,
    LabelCycle,
    LargeLabelsFirst,
    LessDataFirst,
    LogNormal,
    MoreDataFirst,
    SineLogNormal,
)
from fedgs.errors import ConfigError
from fedgs.registry import build
from fedgs.rng import stream

ROUNDS = range(25)
SIZES = [10, 20, 40, 80]
LABELS = [{0}, {0, 1}, {2, 3, 4, 5}, {9}]


def golden(mode: Availability, beta: float, period: int) -> np.ndarray:
    """(25, 4) rates from the plain formulas."""
    normals = stream(mode.seed or 0, "log_normal").standard_normal(4).tolist()
    given = {
        "sizes": SIZES,
        "labels": LABELS,
        "num_labels": 10,
        "beta": beta,
        "period": period,
        "normals": normals,
    }
    return np.array(
        [[oracle.rate(mode.name, k, round=t, **given) for k in range(4)] for t in ROUNDS]
    )


@pytest.mark.parametrize(
    ("mode", "beta", "period"),
    [
        (Ideal(), 0.0, 1),
        (MoreDataFirst(), 0.7, 1),
        (MoreDataFirst(beta=1.0), 1.0, 1),
        (LessDataFirst(), 0.7, 1),
        (LessDataFirst(beta=0.0), 0.0, 1),
        (LargeLabelsFirst(), 0.9, 1),
        (LargeLabelsFirst(beta=1.0), 1.0, 1),
        (LabelCycle(), 0.9, 100),
        (LabelCycle(period=10), 0.9, 10),
        (LabelCycle(beta=1.0, period=7), 1.0, 7),
        (LabelCycle(period=24), 0.9, 24),
        (LogNormal(), 0.5, 1),
        (LogNormal(beta=0.95, seed=4), 0.95, 1),
        (SineLogNormal(), 0.5, 24),
        (SineLogNormal(beta=0.2, period=10, seed=4), 0.2, 10),
    ],
    ids=lambda value: repr(value) if isinstance(value, Availability) else "",
)
def test_rates_are_those_of_the_plain_formulas(
    toy: Clients, mode: Availability, beta: float, period: int
) -> None:
    table = np.array([mode.rates(t, toy) for t in ROUNDS])
    np.testing.assert_allclose(table, golden(mode, beta, period), rtol=1e-12, atol=1e-15)


def test_ideal_by_hand(toy: Clients) -> None:
    assert Ideal().rates(24, toy).tolist() == [1, 1, 1, 1]


def test_more_data_first_by_hand(toy: Clients) -> None:
    # (1/8)^.7, (1/4)^.7, (1/2)^.7 are 2^-2.1, 2^-1.4, 2^-.7
    np.testing.assert_allclose(
        MoreDataFirst().rates(3, toy), [0.2332582, 0.3789291, 0.6155722, 1], atol=1e-7
    )


def test_less_data_first_by_hand(toy: Clients) -> None:
    np.testing.assert_allclose(
        LessDataFirst().rates(3, toy), [1, 0.6155722, 0.3789291, 0.2332582], atol=1e-7
    )


def test_large_labels_first_by_hand(toy: Clients) -> None:
    # smallest labels 0, 0, 2, 9 of at most 9: .9·(0, 0, 2/9, 1) + .1
    np.testing.assert_allclose(LargeLabelsFirst().rates(3, toy), [0.1, 0.1, 0.3, 1.0], atol=1e-12)


def test_label_cycle_by_hand(toy: Clients) -> None:
    # T_p = 100: ten rounds a label, so label 0 in rounds 0 to 9, label 1 in 10 to 19, label 2 in 20
    # to 29.
    table = np.array([LabelCycle().rates(t, toy) for t in ROUNDS])
    expected = np.full((25, 4), 0.1)
    expected[0:10, [0, 1]] = 1
    expected[10:20, 1] = 1
    expected[20:25, 2] = 1
    np.testing.assert_allclose(table, expected, atol=1e-12)


def test_label_cycle_with_one_round_a_label_by_hand(toy: Clients) -> None:
    present = np.array([LabelCycle(beta=1.0, period=10).rates(t, toy) for t in ROUNDS]) == 1
    assert np.flatnonzero(present[:, 0]).tolist() == [0, 10, 20]  # label 0
    assert np.flatnonzero(present[:, 1]).tolist() == [0, 1, 10, 11, 20, 21]  # labels 0 and 1
    assert np.flatnonzero(present[:, 2]).tolist() == [
        2,
        3,
        4,
        5,
        12,
        13,
        14,
        15,
        22,
        23,
        24,
    ]  # labels 2 to 5
    assert np.flatnonzero(present[:, 3]).tolist() == [9, 19]  # label 9, in the round with r = 1


def test_log_normal_keeps_its_golden_rates(toy: Clients) -> None:
    # Pinned: stored runs are repeated with these very rates. ln c_k = ln 2 · (first four normal
    # numbers of the stream).
    expected = [0.3649501558616125, 0.4725035881585018, 1.0, 0.3615129990716249]
    np.testing.assert_allclose(
        [LogNormal().rates(t, toy) for t in ROUNDS], np.tile(expected, (25, 1)), rtol=1e-12
    )


def test_sine_log_normal_by_hand(toy: Clients) -> None:
    # The third client has LN's rate 1; sin is 1, 0, -1, 0 at quarters of the 24 rounds.
    third = [float(SineLogNormal().rates(t, toy)[2]) for t in ROUNDS]
    assert [third[t] for t in (5, 11, 17, 23)] == pytest.approx([0.9, 0.5, 0.1, 0.5])
    assert third[24] == third[0] == pytest.approx(0.4 * np.sin(np.pi / 12) + 0.5)


@given(labels=st.integers(1, 12), rounds_each=st.integers(1, 9))
@settings(max_examples=30, deadline=None)
def test_label_cycle_gives_every_label_equally_many_rounds(labels: int, rounds_each: int) -> None:
    each_one = Clients(
        tuple(range(labels)),
        np.ones(labels, dtype=np.int64),
        label_counts=np.eye(labels, dtype=np.int64),
    )
    cycle = LabelCycle(beta=1.0, period=labels * rounds_each)
    turns = sum(cycle.rates(t, each_one) for t in range(labels * rounds_each))
    assert np.asarray(turns).tolist() == [rounds_each] * labels


@given(labels=st.integers(1, 12), period=st.integers(1, 60), round=st.integers(0, 500))
@settings(max_examples=60, deadline=None)
def test_label_cycle_has_exactly_one_label_a_round(labels: int, period: int, round: int) -> None:
    each_one = Clients(
        tuple(range(labels)),
        np.ones(labels, dtype=np.int64),
        label_counts=np.eye(labels, dtype=np.int64),
    )
    turn = [oracle.turn_of(y, round=round, period=period, num_labels=labels) for y in range(labels)]
    assert LabelCycle(beta=1.0, period=period).rates(round, each_one).tolist() == [
        float(theirs) for theirs in turn
    ]
    assert sum(turn) == 1


def test_large_labels_first_when_label_zero_is_the_largest() -> None:
    only_zero = Clients((0, 1), np.array([3, 4]), label_counts=np.array([[3], [4]]))
    assert LargeLabelsFirst(beta=0.75).rates(0, only_zero).tolist() == [0.25, 0.25]


def test_large_labels_first_looks_at_labels_that_are_held() -> None:
    # Label 3 exists in no training part: the largest label is 2.
    clients = Clients((0, 1), np.array([3, 4]), label_counts=np.array([[0, 3, 0, 0], [0, 0, 4, 0]]))
    assert LargeLabelsFirst(beta=1.0).rates(0, clients).tolist() == [0.5, 1.0]


def test_sine_and_plain_log_normal_share_their_clients_rates(toy: Clients) -> None:
    plain = LogNormal(beta=0.6, seed=9).rates(0, toy)
    np.testing.assert_allclose(
        SineLogNormal(beta=0.6, seed=9).rates(5, toy), 0.9 * plain, rtol=1e-12
    )


def test_log_normal_has_the_spread_of_the_paper() -> None:
    many = Clients(tuple(range(20_000)), np.ones(20_000, dtype=np.int64))
    logarithms = np.log(LogNormal(beta=0.9).rates(0, many))
    # sd ln(1/(1-.9)) = 2.3026; the sample's sd has a standard error of 2.3026/sqrt(40000) = .0115.
    # Six of them: odds 2e-9.
    assert np.std(logarithms) == pytest.approx(np.log(10), abs=0.07)


def test_log_normal_at_the_largest_beta_stays_in_range() -> None:
    many = Clients(tuple(range(5000)), np.ones(5000, dtype=np.int64))
    rates = LogNormal(beta=np.nextafter(1.0, 0.0)).rates(0, many)
    assert rates.max() == 1.0
    assert np.all((rates >= 0) & np.isfinite(rates))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"name": "LN", "beta": 1.0},
            "availability.beta must be in [0, 1) for 'LN', got 1.0; at 1 every rate is undefined",
        ),
        (
            {"name": "SLN", "beta": 1},
            "availability.beta must be in [0, 1) for 'SLN', got 1.0; at 1 every rate is undefined",
        ),
        ({"name": "LN", "beta": -0.5}, "availability.beta must be in [0, 1) for 'LN', got -0.5"),
        (
            {"name": "SLN", "beta": float("inf")},
            "availability.beta must be in [0, 1) for 'SLN', got inf",
        ),
        ({"name": "MDF", "beta": 1.5}, "availability.beta must be in [0, 1] for 'MDF', got 1.5"),
        (
            {"name": "LDF", "beta": float("nan")},
            "availability.beta must be in [0, 1] for 'LDF', got nan",
        ),
        ({"name": "YMF", "beta": -1}, "availability.beta must be in [0, 1] for 'YMF', got -1.0"),
        ({"name": "YC", "beta": 2}, "availability.beta must be in [0, 1] for 'YC', got 2.0"),
        (
            {"name": "YC", "period": 0},
            "availability.period should be greater than or equal to 1, got 0",
        ),
        (
            {"name": "SLN", "period": 0},
            "availability.period should be greater than or equal to 1, got 0",
        ),
        (
            {"name": "IDL", "beta": 0.5},
            "availability.beta is not a setting; known are seed, empty_round; it is a setting of "
            "'MDF', 'LDF', 'YMF', 'YC', 'LN', 'SLN'",
        ),
        ({"name": "LDF", "beta": "0.5"}, "availability.beta should be a valid number, got '0.5'"),
        (
            {"name": "LDF", "seed": -1},
            "availability.seed should be greater than or equal to 0, got -1",
        ),
        (
            {"name": "IDL", "empty_round": "skip"},
            "availability.empty_round has no effect with 'IDL', in which no round is empty",
        ),
        (
            {"name": "LDF", "empty_round": "wait"},
            "availability.empty_round should be 'redraw' or 'skip', got 'wait'",
        ),
    ],
)
def test_settings_out_of_range_are_refused_in_one_sentence(
    table: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError) as error:
        build("availability", table)
    assert str(error.value) == message


def test_a_mistyped_mode_is_refused_with_the_nearest() -> None:
    with pytest.raises(
        ConfigError,
        match=r"availability\.name must be one of .* lists; got 'LFD'; did you mean 'LDF'\?",
    ):
        build("availability", "LFD")


@pytest.mark.parametrize("mode", [LargeLabelsFirst(), LabelCycle()])
def test_modes_of_labels_need_labels(mode: Availability) -> None:
    unlabelled = Clients(("a", "b"), np.array([1, 2]))
    with pytest.raises(
        ConfigError,
        match=rf"^availability '{mode.name}' needs the clients' labels, .* has none; data.groups",
    ):
        mode.check(unlabelled, 10)


@pytest.mark.parametrize("mode", [LargeLabelsFirst(), LabelCycle()])
def test_modes_of_labels_need_a_label_of_every_client(mode: Availability) -> None:
    half = Clients(("a", "b"), np.array([1, 2]), label_counts=np.array([[1, 0], [0, 0]]))
    with pytest.raises(
        ConfigError,
        match=rf"^availability '{mode.name}' needs at least one label .*; client 'b' has none$",
    ):
        mode.check(half, 10)
