import numpy as np
import pytest
from tests.oracles.selection import brute_force as slow
from tests.solver.conftest import problem_of

from fedgs.bench.referee import milp_cohort
from fedgs.bench.solver import (
    FEDERATIONS,
    brute_force,
    features,
    instances,
    markdown,
    run,
    tree_instances,
)
from fedgs.errors import SelectionError
from fedgs.solver import objective


@pytest.mark.parametrize("name", FEDERATIONS)
def test_federations_are_reproducible(name: str) -> None:
    assert np.array_equal(features(name, 6, 3), features(name, 6, 3))
    if name != "synthetic":
        np.testing.assert_allclose(features(name, 6, 3).sum(axis=1), 1.0)


def test_instances_cover_every_federation_and_availability() -> None:
    batch = list(instances(12, 3, graph="paper", scale="cohort", rounds=2))
    assert len({(i.federation, i.availability, i.round) for i in batch}) == 5 * 3 * 2


@pytest.mark.parametrize("seed", range(3))
def test_brute_force_and_highs_equal_the_plain_loop(seed: int) -> None:
    problem = problem_of("uniform", 13, seed + 20, scale="cohort", alpha=3.0)
    best, _ = slow(problem)
    assert objective(problem, brute_force(problem)) == pytest.approx(best)
    assert milp_cohort(problem)[1] == pytest.approx(best, rel=1e-5)


def test_tree_instances_are_solved_to_the_tree_optimum() -> None:
    from fedgs.solver import solve

    for instance in tree_instances(300, 30, count=1):
        assert solve(instance.problem).status == "optimal"


def test_the_table_has_a_line_for_each_graph_and_scale() -> None:
    table = markdown(run((30,), rounds=1, referee=0.1)).splitlines()
    assert len(table) == 2 + 4
    assert all(line.count("|") == table[0].count("|") for line in table)
    assert (
        "| 30, 6 | paper, paper | 15 | 100.0% | 0.000% | brute force; HiGHS agrees on" in table[2]
    )


def test_unknown_sizes_are_named() -> None:
    with pytest.raises(
        SelectionError, match="clients must be among 30, 100, 200, 1000, 10000, got 31"
    ):
        run((31,))
