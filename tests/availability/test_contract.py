"""What every availability mode keeps, those of others included.

A mode of others defines `rates`, `available`, or both.
"""

from pathlib import Path

import numpy as np
import pytest

from fedgs import Clients
from fedgs.arrays import BoolArray, FloatArray
from fedgs.availability import (
    Availability,
    AvailabilityDraws,
    Markov,
    activity,
    checked_available,
    draw_available,
)
from fedgs.errors import ConfigError
from fedgs.experiments.grid import expand
from fedgs.registry import build, register, table, variant_names
from fedgs.rng import stream
from fedgs.traces import Traces, write_traces

ROUNDS = 30


@register("availability", "every-other")
class EveryOther(Availability):
    """A plug-in: even clients in even rounds, the others in the odd ones, with a chance."""

    chance: float = 0.5

    def rates(self, round: int, clients: Clients) -> FloatArray:
        return np.where(np.arange(len(clients)) % 2 == round % 2, self.chance, 0.0)


@register("availability", "drawn")
class Drawn(Availability):
    """A plug-in that draws its own rates, from a stream of its own."""

    def rates(self, round: int, clients: Clients) -> FloatArray:
        return stream(self.seed or 0, "drawn rates", round).random(len(clients))


@register("availability", "shifts")
class Shifts(Availability):
    """A plug-in that says who is available, and no rates."""

    def available(self, round: int, clients: Clients) -> BoolArray:
        return np.arange(len(clients)) % 4 == round % 4


@register("availability", "blocks")
class Blocks(Availability):
    """A plug-in with both: all clients are available together, for a block of rounds."""

    steady = True

    def rates(self, round: int, clients: Clients) -> FloatArray:
        return np.full(len(clients), 0.5)

    def available(self, round: int, clients: Clients) -> BoolArray:
        heads = stream(self.seed or 0, "blocks", round // 3).random() < 0.5
        return np.full(len(clients), heads)


@register("availability", "moody")
class Moody(Markov):
    """A plug-in that replaces `available` of a mode with a step of its own."""

    def available(self, round: int, clients: Clients) -> BoolArray:
        return stream(self.seed or 0, "moody", round).random(len(clients)) < 0.5


OWN = ("every-other", "drawn", "shifts", "blocks", "moody")


def clients_of(sizes: list[int]) -> Clients:
    labels = np.random.default_rng(len(sizes)).multinomial(3, [0.25] * 4, size=len(sizes))
    return Clients(
        tuple(f"client-{k}" for k in range(len(sizes))), np.array(sizes), label_counts=labels
    )


@pytest.fixture(params=[name for name in variant_names("availability") if name not in OWN] + [*OWN])
def mode(request: pytest.FixtureRequest, tmp_path: Path) -> Availability:
    settings = {"name": request.param}
    if request.param == "file":
        matrix = np.random.default_rng(0).random((6, ROUNDS)) < 0.5
        np.save(tmp_path / "who.npy", matrix)
        settings["path"] = str(tmp_path / "who.npy")
    if request.param == "trace":
        on = np.arange(8) * 2400
        traces = Traces(on, on + 3600, range(9), [0] * 8, [86_400] * 8, [*"abcdefgh"])
        settings["path"] = str(write_traces(traces, tmp_path / "trace.npz"))
    built = build("availability", settings)
    assert isinstance(built, Availability)
    return built


@pytest.fixture
def clients() -> Clients:
    return clients_of([1, 7, 7, 30, 2, 10**12])


@pytest.fixture
def rated(mode: Availability) -> Availability:
    if not mode.has_rates():
        pytest.skip("the mode defines no rates")
    return mode


def test_rates_are_probabilities_in_every_round(rated: Availability, clients: Clients) -> None:
    mode = rated
    mode.check(clients, ROUNDS)
    for t in range(ROUNDS):
        rates = np.asarray(mode.rates(t, clients))
        assert rates.shape == (6,)
        assert rates.dtype == np.float64
        assert np.all((rates >= 0) & (rates <= 1))


def test_rates_are_equal_in_any_order(rated: Availability, clients: Clients) -> None:
    mode = rated
    forward = [mode.rates(t, clients).tolist() for t in range(ROUNDS)]
    order = np.random.default_rng(1).permutation(ROUNDS).tolist()
    shuffled = {t: mode.rates(t, clients).tolist() for t in order + order[:5]}
    assert [shuffled[t] for t in range(ROUNDS)] == forward


def test_writing_into_the_answer_changes_no_later_rate(
    rated: Availability, clients: Clients
) -> None:
    mode = rated
    first = mode.rates(0, clients)
    kept = first.tolist()
    if first.flags.writeable:
        first[:] = 0.5
    assert mode.rates(0, clients).tolist() == kept


def test_equal_settings_give_equal_draws(mode: Availability, clients: Clients) -> None:
    again = build("availability", table(mode))
    assert again == mode
    np.testing.assert_array_equal(activity(mode, clients, ROUNDS), activity(again, clients, ROUNDS))


def test_draws_follow_rates_of_zero_and_one(rated: Availability, clients: Clients) -> None:
    mode = rated
    for t in range(ROUNDS):
        rates, (available, _) = mode.rates(t, clients), draw_available(mode, clients, t)
        assert set(np.flatnonzero(rates == 1)) <= set(available.tolist())
        assert not np.any(rates[available] == 0)


def test_draws_do_not_depend_on_other_modes(mode: Availability, clients: Clients) -> None:
    alone = activity(mode, clients, ROUNDS)
    for other in ("IDL", "MDF", "LN", "SLN", "YC"):
        activity(build("availability", {"name": other, "seed": 5}), clients, 3)
    np.testing.assert_array_equal(activity(mode, clients, ROUNDS), alone)


def test_equal_clients_of_another_object_have_equal_draws(
    mode: Availability, clients: Clients
) -> None:
    np.testing.assert_array_equal(
        activity(mode, clients, ROUNDS),
        activity(mode, clients_of([1, 7, 7, 30, 2, 10**12]), ROUNDS),
    )


def test_rounds_of_independent_modes_are_empty_only_where_all_rates_are_zero(
    mode: Availability, clients: Clients
) -> None:
    if not mode.is_independent():
        pytest.skip("the mode defines who is available")
    for t in range(ROUNDS):
        _, status = draw_available(mode, clients, t)
        assert (status == "skipped") == (not mode.rates(t, clients).any())


def test_any_round_can_be_the_first(mode: Availability, clients: Clients) -> None:
    forward = activity(mode, clients, ROUNDS)
    for t in np.random.default_rng(2).permutation(ROUNDS).tolist():
        fresh = build("availability", table(mode))
        assert isinstance(fresh, Availability)
        available, status = draw_available(fresh, clients, t)
        assert available.tolist() == np.flatnonzero(forward[:, t]).tolist()
        assert (status == "skipped") == (not forward[:, t].any())


def test_shared_draws_are_equal_in_any_order(mode: Availability, clients: Clients) -> None:
    forward = activity(mode, clients, ROUNDS)
    draws = AvailabilityDraws(mode, clients)
    order = np.random.default_rng(3).permutation(ROUNDS).tolist()
    for t in [*order[:8], *range(12), *order, ROUNDS - 1, 0, 1]:
        assert draws.at(t).clients.tolist() == np.flatnonzero(forward[:, t]).tolist()


def test_available_is_one_boolean_a_client(mode: Availability, clients: Clients) -> None:
    for t in range(ROUNDS):
        available = mode.available(t, clients)
        assert (available.shape, available.dtype) == ((6,), np.bool_)


def test_a_step_is_a_look_back(mode: Availability, clients: Clients) -> None:
    before = None
    for t in range(ROUNDS):
        stepped = checked_available(mode, clients, t, before)
        np.testing.assert_array_equal(stepped, mode.available(t, clients))
        before = stepped


def test_draws_are_those_of_available_where_somebody_is(
    mode: Availability, clients: Clients
) -> None:
    met = 0
    for t in range(ROUNDS):
        expected = np.flatnonzero(mode.available(t, clients))
        if len(expected):
            met += 1
            np.testing.assert_array_equal(draw_available(mode, clients, t)[0], expected)
    assert met > 0


def test_modes_that_define_available_skip_empty_rounds(mode: Availability) -> None:
    assert mode.empty_round == ("redraw" if mode.is_independent() else "skip")
    settings = {**table(mode), "empty_round": "redraw"}
    if mode.is_independent():
        assert build("availability", settings) == mode
        return
    with pytest.raises(
        ConfigError,
        match=rf"availability\.empty_round must be 'skip' for '{mode.name}', whose clients are not "
        "drawn independently, got 'redraw'",
    ):
        build("availability", settings)


def test_the_settings_are_frozen(mode: Availability) -> None:
    with pytest.raises(ValueError, match="frozen"):
        mode.seed = 3


@pytest.mark.parametrize(
    "name",
    [name for name in variant_names("availability") if name not in ("file", "trace", *OWN)],
)
@pytest.mark.parametrize("sizes", [[1], [5, 5, 5], [1, 10**15]])
def test_built_in_modes_serve_one_equal_and_extreme_clients(name: str, sizes: list[int]) -> None:
    mode, some = build("availability", name), clients_of(sizes)
    assert isinstance(mode, Availability)
    mode.check(some, 3)
    matrix = activity(mode, some, 3)
    assert matrix.shape == (len(sizes), 3)
    assert matrix.any(axis=0).all() or not mode.is_independent()


@pytest.mark.parametrize(
    "name",
    [
        *("IDL", "MDF", "LDF", "YMF", "YC", "label_dirichlet", "label_uniform"),
        *("staircase", "sine", "interleaved", "cyclic"),
    ],
)
def test_rates_move_with_relabelled_clients(name: str, clients: Clients) -> None:
    mode, order = build("availability", name), np.array([3, 0, 5, 1, 4, 2])
    assert isinstance(mode, Availability)
    assert clients.label_counts is not None
    moved = Clients(
        tuple(clients.names[k] for k in order),
        clients.data_sizes[order],
        label_counts=clients.label_counts[order],
    )
    for t in range(ROUNDS):
        np.testing.assert_array_equal(mode.rates(t, moved), mode.rates(t, clients)[order])


@pytest.mark.parametrize("name", ["trace", "diurnal"])
def test_a_grid_leaves_a_coupling_out_of_modes_that_have_none(name: str) -> None:
    path = {"path": "phones.npz"} if name == "trace" else {}
    modes = [{"name": name, "couple": "data_size", **path}, {"name": name, **path}]
    grid = {"availability": modes, "availability.coupling": [0.5, 0.8]}
    configs = expand({"grid": grid}, []).configs
    assert [(c.availability.couple, c.availability.coupling) for c in configs] == [
        ("data_size", 0.5),
        ("data_size", 0.8),
        ("none", 0.0),
    ]
