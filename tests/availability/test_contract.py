"""What every availability mode keeps, those of others included."""

from pathlib import Path

import numpy as np
import pytest

from fedgs import Clients
from fedgs.arrays import FloatArray
from fedgs.availability import Availability, activity, draw_available
from fedgs.registry import build, register, table, variant_names
from fedgs.rng import stream

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


def clients_of(sizes: list[int]) -> Clients:
    labels = np.random.default_rng(len(sizes)).multinomial(3, [0.25] * 4, size=len(sizes))
    return Clients(
        tuple(f"client-{k}" for k in range(len(sizes))), np.array(sizes), label_counts=labels
    )


@pytest.fixture(params=[*variant_names("availability"), "every-other", "drawn"])
def mode(request: pytest.FixtureRequest, tmp_path: Path) -> Availability:
    settings = {"name": request.param}
    if request.param == "file":
        matrix = np.random.default_rng(0).random((6, ROUNDS)) < 0.5
        np.save(tmp_path / "who.npy", matrix)
        settings["path"] = str(tmp_path / "who.npy")
    built = build("availability", settings)
    assert isinstance(built, Availability)
    return built


@pytest.fixture
def clients() -> Clients:
    return clients_of([1, 7, 7, 30, 2, 10**12])


def test_rates_are_probabilities_in_every_round(mode: Availability, clients: Clients) -> None:
    mode.check(clients, ROUNDS)
    for t in range(ROUNDS):
        rates = np.asarray(mode.rates(t, clients))
        assert rates.shape == (6,)
        assert rates.dtype == np.float64
        assert np.all((rates >= 0) & (rates <= 1))


def test_rates_are_equal_in_any_order(mode: Availability, clients: Clients) -> None:
    forward = [mode.rates(t, clients).tolist() for t in range(ROUNDS)]
    order = np.random.default_rng(1).permutation(ROUNDS).tolist()
    shuffled = {t: mode.rates(t, clients).tolist() for t in order + order[:5]}
    assert [shuffled[t] for t in range(ROUNDS)] == forward


def test_writing_into_the_answer_changes_no_later_rate(
    mode: Availability, clients: Clients
) -> None:
    first = mode.rates(0, clients)
    kept = first.tolist()
    if first.flags.writeable:
        first[:] = 0.5
    assert mode.rates(0, clients).tolist() == kept


def test_equal_settings_give_equal_draws(mode: Availability, clients: Clients) -> None:
    again = build("availability", table(mode))
    assert again == mode
    np.testing.assert_array_equal(activity(mode, clients, ROUNDS), activity(again, clients, ROUNDS))


def test_draws_follow_rates_of_zero_and_one(mode: Availability, clients: Clients) -> None:
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


def test_rounds_are_empty_only_where_all_rates_are_zero(
    mode: Availability, clients: Clients
) -> None:
    for t in range(ROUNDS):
        _, status = draw_available(mode, clients, t)
        assert (status == "skipped") == (not mode.rates(t, clients).any())


def test_the_settings_are_frozen(mode: Availability) -> None:
    with pytest.raises(ValueError, match="frozen"):
        mode.seed = 3


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in variant_names("availability")
        if name not in ("file", "every-other", "drawn")
    ],
)
@pytest.mark.parametrize("sizes", [[1], [5, 5, 5], [1, 10**15]])
def test_built_in_modes_serve_one_equal_and_extreme_clients(name: str, sizes: list[int]) -> None:
    mode, some = build("availability", name), clients_of(sizes)
    assert isinstance(mode, Availability)
    mode.check(some, 3)
    assert activity(mode, some, 3).any(axis=0).all()


@pytest.mark.parametrize("name", ["IDL", "MDF", "LDF", "YMF", "YC"])
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
