"""What runs of every built-in sampler keep: resume, engines, empty rounds, extreme federations."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.conftest import make_federation
from tests.driving import Gaps, RecordedRun, make_plan, resumes_everywhere
from tests.sampling.test_contract import BUILT_IN, DROPPING, REPEATING

from fedgs.availability import Ideal
from fedgs.data import Federation
from fedgs.driver import drive
from fedgs.local import LoopEngine, StackedEngine
from fedgs.plan import Plan
from fedgs.registry import build
from fedgs.sampling import Sampler


@pytest.fixture(params=BUILT_IN)
def method(request: pytest.FixtureRequest) -> Sampler:
    built = build("method", request.param)
    assert isinstance(built, Sampler)
    return built


def run_of(plan: Plan, engine: LoopEngine | StackedEngine | None = None) -> RecordedRun:
    run = RecordedRun(plan)
    drive([run.live], engine or LoopEngine())
    assert run.failed is None and run.final is not None
    assert bool(torch.isfinite(run.final.parameters).all())
    return run


def test_a_run_with_empty_rounds_resumes_from_any_checkpoint_with_the_same_bits(
    method: Sampler, toy_federation: Federation, tmp_path: Path
) -> None:
    resumes_everywhere(toy_federation, method, tmp_path / "run")


def test_engines_select_the_same_cohorts(method: Sampler, toy_federation: Federation) -> None:
    plan = make_plan(toy_federation, method, availability=Gaps(seed=2), rounds=8)
    one, other = run_of(plan, LoopEngine()), run_of(plan, StackedEngine())
    assert [record.cohort for record in one.records] == [record.cohort for record in other.records]


def test_a_cohort_limit_above_the_number_of_available_clients(
    method: Sampler, toy_federation: Federation
) -> None:
    run = run_of(
        make_plan(
            toy_federation, method, cohort_limit=4, availability=Gaps(seed=3), rounds=9, seed=1
        )
    )
    sizes = {record.num_available for record in run.records[:-1]}
    assert sizes & {1, 2, 3} and 0 in sizes
    for record in run.records[:-1]:
        assert record.cohort is not None and record.num_available is not None
        if method.name in REPEATING:
            limit = 4 if method.name == "md" else min(4, record.num_available)
            assert sum(record.draws or []) == (limit if record.num_available else 0)
        else:
            size = min(4, record.num_available)
            assert len(record.cohort) == size or method.name in DROPPING


def test_one_client_alone(method: Sampler) -> None:
    run = run_of(make_plan(make_federation((9,)), method, cohort_limit=1, availability=Ideal()))
    assert all(record.cohort == ["site-0"] for record in run.records[:-1])


def test_a_client_with_nearly_all_data_trains_once_where_it_is_drawn_more_often(
    method: Sampler,
) -> None:
    federation = make_federation((3000, 1, 1, 1))
    run = run_of(make_plan(federation, method, cohort_limit=3, availability=Ideal(), rounds=4))
    assert run.final is not None and run.final.counts.max() <= 4  # at most once in each round
    for record in run.records[:-1]:
        assert record.cohort is not None and record.weights is not None
        assert np.isfinite(record.weights).all() and min(record.weights) >= 0
        if method.name not in REPEATING:
            assert record.draws is None and len(record.cohort) == 3
            continue
        # Three draws in proportion: the first client takes at least two of them, odds of the
        # contrary in four rounds below 2e-5.
        assert record.draws is not None and record.cohort[0] == "site-0"
        assert record.draws[0] >= 2
        np.testing.assert_allclose(record.weights, np.array(record.draws) / 3)
