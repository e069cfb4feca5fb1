"""What is kept from round to round never changes a result."""

import numpy as np
import pytest

from fedgs.availability import Trace
from fedgs.bench.system import generated_traces
from fedgs.clients import Clients
from fedgs.system import work
from fedgs.system.kept import KnownStates, Rounds
from fedgs.system.work import ClientWork
from fedgs.system_settings import Away, System
from fedgs.traces import write_traces

COUNT = 40


@pytest.fixture(scope="module")
def mode(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    path = write_traces(generated_traces(COUNT), tmp_path_factory.mktemp("few") / "few.npz")
    return Trace(path=path, round_seconds=700)


@pytest.fixture(scope="module")
def clients() -> Clients:
    return Clients(tuple(range(COUNT)), np.arange(10, 10 + COUNT))


@pytest.mark.parametrize("away", ["lost", "pause", "at_end", None])
@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_tasks_made_for_many_rounds_are_those_of_a_single_cohort(
    mode: Trace, clients: Clients, away: Away | None, noise: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds in any order, work that is interrupted several times, and two sizes of a model."""
    system = System(
        away=away or "lost", noise=noise, drop_out=0.2, work=2500, deadline=9000, seed=3
    )
    examples = np.full(COUNT, 60.0)
    many = ClientWork(system, clients, mode if away else None, examples)
    single = ClientWork(system, clients, mode if away else None, examples)
    rng = np.random.default_rng(0)
    fates = set()
    for t in rng.permutation(100)[:24].tolist():
        available = np.flatnonzero(mode.available(t, clients)) if away else np.arange(COUNT)
        cohort = np.sort(rng.choice(available, min(6, len(available)), replace=False))
        size = (1000, 2_000_000)[t % 2]
        kept = many.tasks(t, 0.0, cohort, update_bytes=size)
        with monkeypatch.context() as few:
            few.setattr(work, "_FEW", 0)
            made = single.tasks(t, 0.0, cohort, update_bytes=size)
        for name in ("durations", "ends", "fates"):
            assert getattr(kept, name).tolist() == getattr(made, name).tolist()
        fates |= set(kept.words)
    assert fates == {"answered", "failed"} | ({"gone"} if away else set())


def test_known_states_are_those_of_the_mode_in_any_order(mode: Trace, clients: Clients) -> None:
    known, everyone = KnownStates(mode, clients), np.arange(COUNT)
    rng = np.random.default_rng(1)
    near = 250_000 + np.cumsum(rng.exponential(40.0, 150))
    before = None
    for second in [*near.tolist(), *rng.uniform(0, 900_000, 50).tolist(), near[0]]:
        seconds = np.full(COUNT, second)
        is_on = known.is_available(second)
        assert is_on.tolist() == mode.is_available(seconds, clients, everyone).tolist()
        changes = mode.next_change(seconds, clients, everyone)
        assert known.next_change(second).tolist() == changes.tolist()
        if before is not None:  # what was returned does not change afterwards
            assert before[0].tolist() == before[1]
        before = is_on, is_on.tolist()


def test_rounds_are_made_together_and_once() -> None:
    made: list[range] = []
    rounds = Rounds(1000, lambda some: made.append(some) or np.array(some))  # type: ignore[func-returns-value]
    for t in (0, 1, 0, 7, 6, 7):
        numbers, place = rounds.of(t)
        assert numbers[place] == t
    assert made == [range(2), range(6, 8)]
    assert Rounds(10**6, np.array).of(5)[1] == 0  # one round of a million clients
