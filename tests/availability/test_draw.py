"""The draw of the available clients, and the rule for rounds without anybody."""

import random
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
import torch

from fedgs import Clients
from fedgs.arrays import BoolArray, FloatArray
from fedgs.availability import (
    Availability,
    AvailabilityDraws,
    Ideal,
    LabelCycle,
    LargeLabelsFirst,
    LessDataFirst,
    LogNormal,
    MoreDataFirst,
    SineLogNormal,
    activity,
    draw_available,
)
from fedgs.errors import ConfigError
from fedgs.records import Members, Record


class Constant(Availability):
    """The same given rates in every round."""

    values: tuple[float, ...]

    def rates(self, round: int, clients: Clients) -> FloatArray:
        return np.array(self.values)


def clients_of(count: int) -> Clients:
    return Clients(tuple(range(count)), np.ones(count, dtype=np.int64))


def test_draws_are_ascending_int64(toy: Clients) -> None:
    for t in range(30):
        available, status = draw_available(LogNormal(), toy, t)
        assert available.dtype == np.int64
        assert np.all(np.diff(available) > 0)
        assert status is None


def test_every_client_is_there_as_often_as_its_rate_says(toy: Clients) -> None:
    mode = LessDataFirst(empty_round="skip")
    share = activity(mode, toy, 8_000).mean(axis=1)
    # Standard error at most 0.5/sqrt(8000) = .0056; six of them, four clients: odds of a false
    # alarm 1e-8.
    np.testing.assert_allclose(share, mode.rates(0, toy), atol=0.0336)


def test_clients_are_there_independently_of_each_other(toy: Clients) -> None:
    matrix = activity(Constant(values=(0.5, 0.5, 0.5, 0.5), empty_round="skip"), toy, 8_000)
    # Correlations of 8000 fair coins have a standard error of .0112; six of them, six pairs: odds
    # 1e-8.
    assert np.abs(np.corrcoef(matrix) - np.eye(4)).max() < 0.0672


def test_a_round_can_be_drawn_without_the_rounds_before(toy: Clients) -> None:
    matrix = activity(SineLogNormal(), toy, 12)
    for t in (11, 3, 7, 3, 0):
        assert (
            draw_available(SineLogNormal(), toy, t)[0].tolist()
            == np.flatnonzero(matrix[:, t]).tolist()
        )


def test_the_seed_changes_the_draws_and_none_counts_as_zero(toy: Clients) -> None:
    base = activity(LessDataFirst(), toy, 50)
    assert np.array_equal(base, activity(LessDataFirst(seed=0), toy, 50))
    assert not np.array_equal(base, activity(LessDataFirst(seed=1), toy, 50))


def test_draws_are_equal_in_fresh_processes_whatever_else_draws(toy: Clients) -> None:
    np.random.seed(7)  # noqa: NPY002 - the global state that must not matter
    random.seed(7)
    torch.manual_seed(7)
    program = (
        "import numpy as np\n"
        "from fedgs import Clients\n"
        "from fedgs.availability import LogNormal, activity\n"
        "clients = Clients(tuple('abcd'), np.array([10, 20, 40, 80]))\n"
        "print(activity(LogNormal(), clients, 15).astype(int).tolist())"
    )
    fresh = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert fresh.strip() == str(activity(LogNormal(), toy, 15).astype(int).tolist())


def test_drawing_leaves_global_random_state_alone(toy: Clients) -> None:
    before = (
        np.random.get_state()[1].tolist(),  # noqa: NPY002
        random.getstate(),
        torch.get_rng_state().tolist(),
    )
    activity(LogNormal(), toy, 5)
    assert before == (
        np.random.get_state()[1].tolist(),  # noqa: NPY002
        random.getstate(),
        torch.get_rng_state().tolist(),
    )


def test_two_modes_in_one_process_do_not_touch_each_other(toy: Clients) -> None:
    alone = activity(LessDataFirst(), toy, 20)
    together = np.zeros_like(alone)
    for t in range(20):
        draw_available(SineLogNormal(), toy, t)
        together[draw_available(LessDataFirst(), toy, t)[0], t] = True
        draw_available(LabelCycle(), toy, t)
    np.testing.assert_array_equal(together, alone)


def test_ideal_has_everybody_in_every_round(toy: Clients) -> None:
    assert activity(Ideal(), toy, 30).all()


def test_skip_leaves_the_round_to_nobody() -> None:
    mode = Constant(values=(0.01, 0.01), empty_round="skip")
    draws = [draw_available(mode, clients_of(2), t) for t in range(200)]
    empty = [status for available, status in draws if len(available) == 0]
    assert empty
    assert set(empty) == {"skipped"}
    assert all(status is None for available, status in draws if len(available))


def test_redraw_changes_only_the_empty_rounds() -> None:
    rates, clients = (0.2, 0.3), clients_of(2)
    skipped = activity(Constant(values=rates, empty_round="skip"), clients, 200)
    redrawn = activity(Constant(values=rates), clients, 200)
    met = skipped.any(axis=0)
    assert 0 < met.sum() < 200
    np.testing.assert_array_equal(redrawn[:, met], skipped[:, met])
    assert redrawn.any(axis=0).all()


@pytest.mark.parametrize("rates", [(0.1, 0.3, 0.05), (0.5, 0.0, 0.02), (0.001, 0.002, 0.004)])
def test_redraw_draws_from_the_distribution_given_somebody(rates: tuple[float, ...]) -> None:
    rounds = 4000
    matrix = activity(Constant(values=rates), clients_of(3), rounds)
    somebody = 1 - np.prod(1 - np.array(rates))
    for pattern in product([0, 1], repeat=3):
        if not any(pattern):
            continue
        chance = (
            np.prod([p if there else 1 - p for p, there in zip(rates, pattern, strict=True)])
            / somebody
        )
        share = np.mean(np.all(np.array(pattern, dtype=bool) == matrix.T, axis=1))
        # Six standard errors (and one count for chances near 0); 21 patterns in all: odds below
        # 1e-6.
        assert share == pytest.approx(
            chance, abs=6 * np.sqrt(chance * (1 - chance) / rounds) + 1 / rounds
        )


def test_redraw_ends_at_the_smallest_rates() -> None:
    mode, clients = Constant(values=(0.0, 5e-324, 1e-300, 2e-300)), clients_of(4)
    drawn = [draw_available(mode, clients, t) for t in range(300)]
    assert all(status is None and len(available) == 1 for available, status in drawn)
    who = np.bincount([int(available[0]) for available, _ in drawn], minlength=4)
    assert who[0] == who[1] == 0  # rate 0, and a rate 1e-24 of the others'
    # In proportion to the rates: 200 of 300, standard error 8.2; six of them: odds 2e-9.
    assert who[3] == pytest.approx(200, abs=49)


def test_redraw_acts_as_skip_where_all_rates_are_zero() -> None:
    for rule in ("redraw", "skip"):
        available, status = draw_available(
            Constant(values=(0.0, 0.0), empty_round=rule), clients_of(2), 3
        )
        assert (available.tolist(), available.dtype, status) == ([], np.int64, "skipped")


def test_the_turn_of_a_label_that_nobody_has_passes_without_an_endless_loop(toy: Clients) -> None:
    # beta = 1, T_p = 100: labels 6, 7, 8 of the toy clients belong to nobody, rounds 60 to 89.
    statuses = [draw_available(LabelCycle(beta=1.0), toy, t)[1] for t in range(100)]
    assert [t for t, status in enumerate(statuses) if status == "skipped"] == list(range(60, 90))


def test_check_passes_where_some_round_can_have_somebody(toy: Clients) -> None:
    only_late = Clients(("a",), np.array([3]), label_counts=np.array([[0, 0, 3]]))
    LabelCycle(beta=1.0, period=30).check(only_late, 21)
    with pytest.raises(ConfigError, match="with 'YC' all 1 clients have rate 0 in all 20 rounds"):
        LabelCycle(beta=1.0, period=30).check(only_late, 20)


@pytest.mark.parametrize(
    "mode", [Ideal(), MoreDataFirst(), LessDataFirst(), LogNormal(), SineLogNormal()]
)
def test_modes_without_labels_serve_clients_without_labels(mode: Availability) -> None:
    mode.check(clients_of(3), 5)
    assert draw_available(mode, clients_of(3), 0)[1] is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            (0.5, 1.2),
            r"availability '' must give rates in \[0, 1\], got 1\.2 for client 1 in round 7",
        ),
        ((0.5, -0.1), r"got -0\.1 for client 1 in round 7"),
        ((float("nan"), 0.5), r"got nan for client 0 in round 7"),
        ((0.5,), r"must give 2 rates, one a client, got shape \(1,\) in round 7"),
    ],
)
def test_rates_of_others_are_checked(values: tuple[float, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        draw_available(Constant(values=values), clients_of(2), 7)


def test_a_mode_without_rates_says_what_it_must_define() -> None:
    with pytest.raises(TypeError, match=r"Availability must define rates\(round, clients\)"):
        draw_available(Availability(), clients_of(2), 0)


class Given(Availability):
    """Who is available, as given for every round."""

    here: object

    def available(self, round: int, clients: Clients) -> BoolArray:
        return self.here  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("here", "message"),
    [
        (np.array([0.5, 1.0]), r"booleans, one a client, got float64 of shape \(2,\) in round 7"),
        (np.array([True]), r"availability '' must give 2 booleans, .* got bool of shape \(1,\)"),
        (np.array([0, 1]), r"got int64 of shape \(2,\) in round 7"),
        ([[True], [True, False]], r"one a client, got \[\[True\], \[True, False\]\] in round 7"),
    ],
)
def test_what_others_say_is_available_is_checked(here: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        draw_available(Given(here=here), clients_of(2), 7)


def test_writing_into_what_was_available_changes_nothing() -> None:
    here = np.array([True, False])
    draws = AvailabilityDraws(Given(here=here), clients_of(2))
    first = draws.at(0)
    here[:] = True
    assert first.clients.tolist() == [0] and draws.at(0) is first


def test_check_refuses_a_mode_in_which_nobody_is_ever_available() -> None:
    with pytest.raises(
        ConfigError, match="with '' none of the 2 clients is available in any of the 5 rounds"
    ):
        Given(here=np.array([False, False])).check(clients_of(2), 5)
    Given(here=np.array([False, True])).check(clients_of(2), 5)


def test_rates_of_a_mode_without_rates_are_refused() -> None:
    draws = AvailabilityDraws(Given(here=np.array([True, False])), clients_of(2))
    with pytest.raises(ConfigError, match=r"availability '' defines no rates"):
        draws.rates(0)


def test_availability_draws_gives_what_the_draws_give_in_any_order_of_rounds(toy: Clients) -> None:
    mode = LessDataFirst(empty_round="skip", seed=5)
    draws = AvailabilityDraws(mode, toy)
    for t in (3, 0, 0, 7, 3, 1):
        present, (available, status) = draws.at(t), draw_available(mode, toy, t)
        np.testing.assert_array_equal(present.clients, available)
        assert (present.names, present.status) == ([toy.names[k] for k in available], status)
    with pytest.raises(ValueError, match="read-only"):
        draws.at(2).clients[:] = 0  # a sampler cannot take clients away from another run


def test_many_clients_are_recorded_as_bits_and_written_as_their_digest() -> None:
    clients = Clients(tuple(f"site-{k}" for k in range(1500)), np.arange(1, 1501))
    draws = AvailabilityDraws(LessDataFirst(seed=3), clients)
    for t in range(3):
        present = draws.at(t)
        names = [clients.names[k] for k in draw_available(LessDataFirst(seed=3), clients, t)[0]]
        assert (
            isinstance(present.names, Members)
            and present.names == names
            and present.names[-1] == names[-1]
        )
        line = Record(t, available=present.names, num_available=len(names)).to_json()
        stored = Record.from_json(line).available
        assert isinstance(stored, Members)
        assert (len(stored), stored.digest) == (len(names), present.names.digest)
        assert len(line) < 400


@pytest.mark.parametrize(
    "mode",
    [
        Ideal(),
        LessDataFirst(),
        MoreDataFirst(),
        LogNormal(),
        LargeLabelsFirst(),
        SineLogNormal(),
        LabelCycle(),
    ],
)
def test_a_steady_mode_has_the_same_rates_in_every_round_and_others_do_not(
    mode: Availability, toy: Clients
) -> None:
    rates = [mode.rates(t, toy) for t in range(60)]
    assert all(np.array_equal(rates[0], other) for other in rates) == mode.steady


def test_a_mode_made_of_a_steady_one_is_asked_in_every_round(toy: Clients) -> None:
    class EveryOther(Ideal):
        """Everybody in even rounds, nobody in odd ones."""

        def rates(self, round: int, clients: Clients) -> FloatArray:
            return np.full(len(clients), float(round % 2 == 0))

    mode = EveryOther(empty_round="skip")
    draws = AvailabilityDraws(mode, toy)
    assert not EveryOther.steady and Ideal.steady
    assert [len(draws.at(t).names) for t in range(4)] == [len(toy), 0, len(toy), 0]
