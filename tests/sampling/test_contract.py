"""What every sampler keeps, those of others included."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import fedgs
from fedgs import Clients, Selection, View
from fedgs.arrays import FloatArray, IntArray
from fedgs.clients import Memory, Outcome
from fedgs.registry import build, register, table, variant_class, variant_names
from fedgs.rng import stream
from fedgs.sampler_answers import checked_memory, checked_selection
from fedgs.sampling import AsksLosses, AsksReports, LearnsFromModels, Remembers, Sampler
from fedgs.weighting import as_weighting


@fedgs.sampler("fewest-first")
def fewest_first(view: View, rng: np.random.Generator) -> Selection:
    """A plug-in function: the smallest counts, ties at random."""
    order = np.lexsort((rng.random(len(view.available)), view.counts[view.available]))
    return Selection(view.available[order[: view.cohort_limit]])


@register("method", "remembering")
class Remembering(Sampler):
    """A plug-in class with a memory and losses: the highest sum of losses, ties at random."""

    loss_on: str = "train"

    def start(self, clients: Clients) -> Memory:
        return {"sums": np.zeros(len(clients))}

    def observe(self, memory: Memory, view: View, outcome: Outcome) -> Memory:
        assert view.losses is not None
        return {"sums": memory["sums"] + np.nan_to_num(view.losses)}

    def loss_candidates(self, view: View, rng: np.random.Generator) -> IntArray:
        return view.available

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        assert view.losses is not None
        sums = (view.memory["sums"] + view.losses)[view.available]
        order = np.lexsort((rng.random(len(sums)), -sums))
        return Selection(view.available[order[: view.cohort_limit]])


BUILT_IN = [
    name
    for name in variant_names("method")
    if variant_class("method", name).__module__.startswith("fedgs.sampling.")
]
# Methods whose clients can be drawn twice in a round.
REPEATING = {"md", "clustered", "clustered_sizes"}
# Methods that may leave clients out, also where the cohort limit has room.
DROPPING = {"ca_fed"}
SETTINGS = [
    *({"name": name} for name in [*BUILT_IN, "fewest-first", "remembering"]),
    {"name": "fedgs", "alpha": 0.0},
    {"name": "fedgs", "scale": "cohort", "graph": {"preset": "authors"}},
    {"name": "fedgs", "balance": "share", "weighting": "deficit"},
    {"name": "power_of_choice", "candidates": 12},
    {"name": "rpow_d", "candidates": 12},
    {"name": "f3ast", "beta": 0.5},
    {"name": "oort", "exploration": 0.0, "exploration_least": 0.0, "cut_off": 0.5},
    {"name": "active_fl", "excluded_share": 0.25, "inverse_temperature": 1.0, "uniform_share": 0.5},
]


@pytest.fixture(
    params=SETTINGS, ids=lambda settings: " ".join(str(value) for value in settings.values())
)
def method(request: pytest.FixtureRequest) -> Sampler:
    built = build("method", request.param)
    assert isinstance(built, Sampler)
    return built


def clients_of(sizes: list[int]) -> Clients:
    labels = np.random.default_rng(3).multinomial(20, [0.4, 0.3, 0.2, 0.1], size=len(sizes))
    return Clients(tuple(f"c{k}" for k in range(len(sizes))), np.array(sizes), label_counts=labels)


def alike(count: int) -> Clients:
    return Clients(tuple(range(count)), np.full(count, 5), label_counts=np.full((count, 2), 3))


def view_of(
    method: Sampler,
    clients: Clients,
    *,
    limit: int,
    available: list[int] | None = None,
    counts: list[int] | None = None,
    losses: FloatArray | None = None,
    round: int = 0,
) -> View:
    """What the sampler sees, as the loop makes it: memory and losses only for those that ask."""
    count = len(clients)
    view = View(
        round=round,
        clients=clients,
        available=np.arange(count) if available is None else np.array(available),
        counts=np.zeros(count, dtype=np.int64) if counts is None else np.array(counts),
        cohort_limit=limit,
        memory=method.start(clients) if isinstance(method, Remembers) else {},
        weighting_memory=as_weighting(method.weighting).start(clients, limit),
    )
    if not isinstance(method, AsksLosses):
        return view
    candidates = method.loss_candidates(view, stream(0, "candidates", round))
    assert np.all(np.diff(candidates) > 0)
    assert np.isin(candidates, view.available).all()
    reported = np.full(count, np.nan)
    reported[candidates] = (np.ones(count) if losses is None else losses)[candidates]
    return replace(view, losses=reported)


def select(method: Sampler, view: View, seed: int = 0) -> Selection:
    return checked_selection(method.select(view, stream(seed, "select", view.round)), view)


def shares(method: Sampler, view: View, *, times: int = 1000) -> FloatArray:
    """(N,) in which share of the draws each client is in the cohort."""
    chosen = np.zeros(len(view.clients))
    for seed in range(times):
        chosen[select(method, view, seed).clients] += 1
    return chosen / times


def test_the_contract_covers_the_methods_of_the_paper() -> None:
    assert {"fedgs", "uniform", "md", "power_of_choice"} <= set(BUILT_IN)


def test_cohorts_are_feasible_in_every_round(method: Sampler) -> None:
    clients, rng = clients_of([5, 80, 3, 1, 40, 9, 9, 22, 7, 1]), np.random.default_rng(0)
    counts = np.zeros(10, dtype=np.int64)
    for t in range(30):
        available = np.flatnonzero(rng.random(10) < 0.6)
        available = available if len(available) else np.array([4])
        view = view_of(
            method,
            clients,
            limit=3,
            available=available.tolist(),
            counts=counts.tolist(),
            losses=rng.random(10),
            round=t,
        )
        # Raises unless the clients are distinct, available and within the limit.
        selection = select(method, view)
        if method.name in DROPPING:
            assert selection.draws is None
        elif method.name not in REPEATING:
            assert len(selection.clients) == view.cohort_size
        else:
            assert selection.draws is not None
            assert selection.draws.sum() == (3 if method.name == "md" else view.cohort_size)
        counts[selection.clients] += 1


def test_equal_generators_give_equal_cohorts(method: Sampler) -> None:
    clients = clients_of([5, 80, 3, 1, 40, 9, 9, 22, 7, 1] * 2)
    view = view_of(method, clients, limit=6, losses=np.random.default_rng(0).random(20))
    first, second = select(method, view, 5), select(build("method", table(method)), view, 5)  # type: ignore[arg-type]
    assert first.clients.tolist() == second.clients.tolist()
    assert (first.draws is None) == (second.draws is None)
    assert first.draws is None or np.array_equal(first.draws, second.draws)  # type: ignore[arg-type]


def test_selecting_changes_nothing_of_the_view(method: Sampler) -> None:
    view = view_of(method, clients_of([5, 80, 3, 1, 40, 9]), limit=3, losses=np.arange(6.0))
    before = [
        view.available.copy(),
        view.counts.copy(),
        view.clients.data_sizes.copy(),
        *map(np.copy, view.memory.values()),
    ]
    select(method, view)
    after = [view.available, view.counts, view.clients.data_sizes, *view.memory.values()]
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)


def test_ties_are_not_broken_by_the_client_id(method: Sampler) -> None:
    view = view_of(method, alike(6), limit=2)
    # Clients that are alike: each is in the cohort with the same probability, 1/3 for two of six
    # without replacement and 1 - (5/6)² for md. Standard error of 1000 draws at most .0158; six of
    # them: odds below 1e-7.
    expected = 1 - (5 / 6) ** 2 if method.name == "md" else 1 / 3
    np.testing.assert_allclose(shares(method, view), expected, atol=0.095)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_relabelled_clients_are_selected_as_often(settings: dict[str, object]) -> None:
    method = build("method", settings)
    assert isinstance(method, Sampler)
    sizes, counts, losses = [5, 80, 3, 1, 40], [1, 0, 1, 1, 1], np.array([0.1, 0.4, 0.4, 0.4, 0.2])
    clients, order = clients_of(sizes), np.array([4, 2, 0, 3, 1])
    assert clients.label_counts is not None
    moved = Clients(
        tuple(clients.names[k] for k in order),
        clients.data_sizes[order],
        clients.label_counts[order],
    )
    plain = shares(method, view_of(method, clients, limit=2, counts=counts, losses=losses))
    other = shares(
        method,
        view_of(method, moved, limit=2, counts=[counts[k] for k in order], losses=losses[order]),
    )
    # Two shares of 1000 draws each: standard error of the difference at most .0224; six of them:
    # odds below 1e-7.
    np.testing.assert_allclose(other, plain[order], atol=0.135)


@pytest.mark.parametrize("limit", [1, 6])
def test_cohorts_of_one_and_of_all(method: Sampler, limit: int) -> None:
    view = view_of(method, clients_of([5, 80, 3, 1, 40, 9]), limit=limit, losses=np.arange(6.0))
    cohort = select(method, view).clients
    if limit == 6 and method.name not in REPEATING | DROPPING:
        assert cohort.tolist() == [0, 1, 2, 3, 4, 5]
    else:
        assert 1 <= len(cohort) <= limit


def test_fewer_available_than_the_limit(method: Sampler) -> None:
    view = view_of(
        method, clients_of([5, 80, 3, 1, 40, 9]), limit=5, available=[1, 4], losses=np.arange(6.0)
    )
    cohort = select(method, view).clients
    assert set(cohort.tolist()) <= {1, 4}
    assert method.name in REPEATING | DROPPING or len(cohort) == 2


def test_one_available_client_is_selected(method: Sampler) -> None:
    view = view_of(method, clients_of([5, 80, 3, 1, 40, 9]), limit=3, available=[3])
    assert select(method, view).clients.tolist() == [3]


def test_a_federation_of_one_client(method: Sampler) -> None:
    assert select(method, view_of(method, clients_of([4]), limit=1)).clients.tolist() == [0]


@pytest.mark.parametrize("sizes", [[1] * 5, [2**62, 1, 1, 1, 2**62], [10**18] * 5])
def test_equal_and_huge_data_sizes(method: Sampler, sizes: list[int]) -> None:
    selection = select(method, view_of(method, clients_of(sizes), limit=3))
    assert 1 <= len(selection.clients) <= 3


@pytest.mark.parametrize("counts", [[0] * 5, [7] * 5, [0, 10**9, 0, 10**9, 3]])
def test_equal_and_huge_counts(method: Sampler, counts: list[int]) -> None:
    selection = select(method, view_of(method, clients_of([3, 4, 5, 6, 7]), limit=3, counts=counts))
    assert 1 <= len(selection.clients) <= 3


@pytest.mark.parametrize(
    "losses", [[0.0] * 5, [1e300] * 5, [np.inf] * 5, [0.0, np.inf, 0.0, np.inf, -1.0], [np.nan] * 5]
)
def test_losses_of_zero_inf_and_nan_lose_nobody(method: Sampler, losses: list[float]) -> None:
    view = view_of(method, clients_of([3, 4, 5, 6, 7]), limit=3, losses=np.array(losses))
    if method.name in DROPPING:
        assert 1 <= len(select(method, view).clients) <= 3
        return
    assert method.name in REPEATING or len(select(method, view).clients) == 3
    whole = view_of(method, clients_of([3, 4, 5, 6, 7]), limit=5, losses=np.array(losses))
    assert method.name in REPEATING or select(method, whole).clients.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "name", [settings["name"] for settings in SETTINGS if settings["name"] != "fedgs"]
)
def test_cohorts_do_not_depend_on_labels_unless_a_graph_is_made_of_them(name: str) -> None:
    method = build("method", name)
    assert isinstance(method, Sampler)
    clients = clients_of([5, 80, 3, 1, 40, 9])
    bare = Clients(clients.names, clients.data_sizes)
    losses = np.arange(6.0)
    with_labels = select(method, view_of(method, clients, limit=3, losses=losses)).clients
    assert (
        with_labels.tolist()
        == select(method, view_of(method, bare, limit=3, losses=losses)).clients.tolist()
    )


def outcome_of(method: Sampler, cohort: IntArray, rng: np.random.Generator) -> Outcome:
    """What comes back from a cohort: the features and the reports that the sampler asks for."""
    size = len(cohort)
    learns = isinstance(method, LearnsFromModels) and method.wish("round") is not None
    wanted = method.wanted_reports if isinstance(method, AsksReports) else ()
    return Outcome(
        cohort,
        np.full(size, 1 / size),
        rng.normal(size=(size, 4)) if learns else None,
        {report: rng.random(size) for report in wanted},
    )


def played(
    method: Sampler, clients: Clients, schedule: Sequence[Sequence[int]], *, limit: int
) -> tuple[list[Selection | None], Memory]:
    """The cohorts of rounds in which these clients are available, and the memory after them.

    They are played as the simulation does: nobody is asked in a round without available clients,
    whose cohort is None here.
    """
    counts, rng = np.zeros(len(clients), dtype=np.int64), np.random.default_rng(0)
    memory = method.start(clients) if isinstance(method, Remembers) else {}
    weighting = as_weighting(method.weighting)
    weights = weighting.start(clients, limit)
    types = {name: array.dtype for name, array in memory.items()}
    selections: list[Selection | None] = []
    for t, available in enumerate(schedule):
        if not len(available):
            selections.append(None)
            nobody = View(t, clients, np.array([], dtype=np.int64), counts.copy(), limit)
            weights = weighting.observe(weights, nobody, None)
            continue
        view = view_of(
            method,
            clients,
            limit=limit,
            available=list(available),
            counts=counts.tolist(),
            losses=rng.random(len(clients)),
            round=t,
        )
        view = replace(view, memory=memory, weighting_memory=weights)
        selection = select(method, view)
        selections.append(selection)
        counts[selection.clients] += 1
        outcome = outcome_of(method, selection.clients, rng) if len(selection.clients) else None
        weights = weighting.observe(weights, view, outcome)
        if isinstance(method, Remembers) and outcome is not None:
            memory = checked_memory(method.observe(memory, view, outcome), "observe")
            assert {name: array.dtype for name, array in memory.items()} == types
    return selections, memory


def assert_full(
    method: Sampler, selection: Selection | None, *, available: int, limit: int
) -> None:
    """The cohort has min(M, |A_t|) clients, or as many draws; `md` always draws M."""
    assert selection is not None
    size = min(limit, available)
    if method.name not in REPEATING:
        assert selection.draws is None
        assert len(selection.clients) == size or method.name in DROPPING
        return
    assert selection.draws is not None
    assert selection.draws.sum() == (limit if method.name == "md" else size)


def test_empty_rounds_and_a_client_that_was_never_seen(method: Sampler) -> None:
    clients, rng = clients_of([5, 80, 3, 1, 40, 9, 9, 22]), np.random.default_rng(1)
    schedule = [np.flatnonzero(rng.random(7) < 0.6).tolist() for _ in range(20)]  # never client 7
    schedule[0] = schedule[4] = schedule[5] = []
    selections, _ = played(method, clients, [*schedule, [7], [2, 7], list(range(8))], limit=3)
    for available, selection in zip(schedule, selections, strict=False):
        if available:
            assert_full(method, selection, available=len(available), limit=3)
        else:
            assert selection is None
    newcomer, pair, everyone = selections[-3:]
    assert newcomer is not None
    assert newcomer.clients.tolist() == [7] or method.name in DROPPING
    assert_full(method, pair, available=2, limit=3)
    assert_full(method, everyone, available=8, limit=3)


@pytest.mark.parametrize("place", [0, 3])
def test_one_client_with_nearly_all_data(method: Sampler, place: int) -> None:
    sizes = [1, 2, 1, 3, 1, 2]
    sizes[place] = 10**12
    rng = np.random.default_rng(2)
    schedule = [np.flatnonzero(rng.random(6) < 0.7).tolist() for _ in range(25)]
    selections, _ = played(method, clients_of(sizes), schedule, limit=3)
    for available, selection in zip(schedule, selections, strict=True):
        if available:
            assert_full(method, selection, available=len(available), limit=3)


def test_a_client_is_drawn_twice_only_by_methods_that_draw_with_replacement(
    method: Sampler,
) -> None:
    # Client 1 has all but 5e-12 of the data, so that three draws in proportion are all of it; odds
    # of another client: 1.5e-11.
    view = view_of(method, clients_of([1, 10**12, 1, 3]), limit=3, losses=np.arange(4.0))
    selection = select(method, view)
    if method.name in REPEATING:
        assert selection.draws is not None
        assert (selection.clients.tolist(), selection.draws.tolist()) == ([1], [3])
    else:
        assert_full(method, selection, available=4, limit=3)


def test_a_federation_of_one_client_over_rounds(method: Sampler) -> None:
    for limit in (1, 3):
        selections, _ = played(method, clients_of([4]), [[0], [], [0], [0]], limit=limit)
        cohorts = [None if one is None else one.clients.tolist() for one in selections]
        assert cohorts == [[0], None, [0], [0]]


def test_observing_a_round_makes_a_new_memory(method: Sampler) -> None:
    if not isinstance(method, Remembers):
        assert not hasattr(method, "observe")
        return
    view = view_of(method, clients_of([5, 80, 3, 1]), limit=2, losses=np.arange(4.0))
    before = {name: array.copy() for name, array in view.memory.items()}
    cohort = select(method, view).clients
    after = method.observe(view.memory, view, outcome_of(method, cohort, np.random.default_rng(0)))
    assert list(after) == list(view.memory) == list(before)
    for name, array in before.items():
        np.testing.assert_array_equal(view.memory[name], array)
        assert isinstance(after[name], np.ndarray)
    select(method, replace(view, round=1, memory=after))


REMEMBERING = [one for one in SETTINGS if isinstance(build("method", one), Remembers)]


@pytest.mark.parametrize("settings", REMEMBERING, ids=str)
def test_relabelled_clients_with_a_memory_are_selected_as_often(
    settings: dict[str, object],
) -> None:
    method = build("method", settings)
    assert isinstance(method, Sampler)
    # Sizes alike, so that the memory decides as well.
    sizes, counts, losses = [5, 8, 6, 7, 4], [1, 0, 2, 1, 1], np.array([0.1, 0.4, 0.4, 0.4, 0.2])
    clients, order = clients_of(sizes), np.array([4, 2, 0, 3, 1])
    _, memory = played(method, clients, [[0, 2], [1, 2], [2, 4], [0, 3]], limit=2)
    assert clients.label_counts is not None
    moved = Clients(
        tuple(clients.names[k] for k in order),
        clients.data_sizes[order],
        clients.label_counts[order],
    )
    moved_memory = {}
    for name, array in memory.items():
        for axis in range(array.ndim):
            array = array.take(order, axis=axis) if array.shape[axis] == len(order) else array
        moved_memory[name] = array
    present = [0, 1, 3, 4]
    plain = view_of(method, clients, limit=2, available=present, counts=counts, losses=losses)
    other = view_of(
        method,
        moved,
        limit=2,
        available=np.flatnonzero(np.isin(order, present)).tolist(),
        counts=[counts[k] for k in order],
        losses=losses[order],
    )
    # Odds as in the test without a memory.
    before = shares(method, replace(plain, round=8, memory=memory))
    after = shares(method, replace(other, round=8, memory=moved_memory))
    np.testing.assert_allclose(after, before[order], atol=0.135)
