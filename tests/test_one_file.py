"""`examples/fedgs_in_one_file.py` has the package's cohorts and parameters."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from tests.driving import driven, make_plan

import fedgs
from fedgs.availability import Availability, draw_available
from fedgs.local.parameters import initial_parameters
from fedgs.models import LogisticRegression
from fedgs.plan import Plan
from fedgs.requests import Work

FILE = Path(__file__).parents[1] / "examples" / "fedgs_in_one_file.py"


@pytest.fixture(scope="module")
def listing() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fedgs_in_one_file", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_short() -> None:
    assert len(FILE.read_text(encoding="utf-8").splitlines()) < 150


def plan_of(listing: ModuleType, federation: fedgs.Federation, mode: Availability) -> Plan:
    """The run of the package with the settings of the listing."""
    whole_data = int(federation.clients.data_sizes.max())  # one batch holds all examples
    return make_plan(
        federation,
        fedgs.FedGS(
            alpha=listing.ALPHA,
            graph=fedgs.Graph(epsilon=listing.EPSILON, sigma_squared=listing.SIGMA_SQUARED),
        ),
        availability=mode,
        rounds=listing.ROUNDS,
        cohort_limit=listing.M,
        learning_rate=listing.LEARNING_RATE,
        decay=listing.DECAY,
        work=Work(federation, LogisticRegression(), 0.0, listing.LOCAL_STEPS, whole_data),
    )


def assert_same(listing: ModuleType, *, seed: int, beta: float) -> None:
    """The listing and the package have the same cohorts and parameters."""
    federation, mode = listing.unequal_clients(seed=seed), fedgs.LogNormal(beta=beta)
    plan = plan_of(listing, federation, mode)
    (run,) = driven(plan)
    first = initial_parameters(plan.work.model, federation, plan.seed).numpy().astype(np.float64)
    theta, cohorts = listing.train(
        federation, mode, (first[:60].reshape(5, 12), first[60:]), listing.ROUNDS
    )
    assert cohorts == [list(record.cohort or []) for record in run.records[:-1]]
    assert len({tuple(cohort) for cohort in cohorts}) > 5
    assert run.final is not None
    ours = np.concatenate([part.ravel() for part in theta])
    np.testing.assert_allclose(run.final.parameters.numpy(), ours, rtol=1e-4, atol=1e-5)


def test_as_printed_its_cohorts_and_parameters_are_the_packages(listing: ModuleType) -> None:
    assert_same(listing, seed=0, beta=0.7)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("beta", [0.1, 0.5])
def test_on_a_graph_without_ties_its_cohorts_and_parameters_are_the_packages(
    listing: ModuleType, monkeypatch: pytest.MonkeyPatch, seed: int, beta: float
) -> None:
    # Long edges and no missing ones: no two cohorts are equally good.
    monkeypatch.setattr(listing, "EPSILON", 0.0)
    monkeypatch.setattr(listing, "SIGMA_SQUARED", 1.0)
    assert_same(listing, seed=seed, beta=beta)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_with_ties_the_packages_cohort_is_as_good_as_its_own(
    listing: ModuleType, seed: int
) -> None:
    federation, mode = listing.unequal_clients(seed=seed), fedgs.LogNormal(beta=0.1)
    (run,) = driven(plan_of(listing, federation, mode))
    clients, differing = federation.clients, 0
    label_counts = clients.label_counts
    assert label_counts is not None
    H = listing.shortest_paths(
        listing.client_graph(label_counts / label_counts.sum(axis=1, keepdims=True))
    )
    counts = np.zeros(len(clients), dtype=np.int64)
    for t, record in enumerate(run.records[:-1]):
        theirs = list(map(int, record.cohort or []))
        own = listing.select(H, counts, draw_available(mode, clients, t)[0])
        values = [listing.objective(cohort, H, counts) for cohort in (theirs, own)]
        assert values[0] == pytest.approx(values[1], abs=1e-12)
        differing += theirs != own
        counts[theirs] += 1
    assert differing > 0


def test_it_runs_as_a_script(listing: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    listing.main()
    *rounds, last = capsys.readouterr().out.splitlines()
    assert len(rounds) == listing.ROUNDS
    assert last.startswith("test accuracy ") and float(last.split()[-1]) > 0.8
