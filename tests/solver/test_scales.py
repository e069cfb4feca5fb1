import numpy as np
import pytest
from tests.oracles.selection import brute_force

from fedgs.errors import SelectionError
from fedgs.solver import SelectionProblem, balance_bound, balance_penalty, pair_weight


def test_paper_scale_by_hand() -> None:
    # z_k = 2 (v_k - 2 - 2/4) + 1
    assert balance_penalty(np.array([1, 2, 2, 3]), 2, np.array([0, 1, 2]), "paper").tolist() == [
        -2.0,
        0.0,
        0.0,
        2.0,
    ]


def test_cohort_scale_by_hand() -> None:
    # z_k = (2 (v_k - 2 - 2/3) + 1) / 3: two of the three available are selected.
    expected = [(2 * (v - 2 - 2 / 3) + 1) / 3 for v in (1, 2, 2, 3)]
    assert balance_penalty(
        np.array([1, 2, 2, 3]), 2, np.array([0, 1, 2]), "cohort"
    ) == pytest.approx(expected)


def test_one_client_divides_by_nothing() -> None:
    assert balance_penalty(np.array([3]), 1, np.array([0]), "cohort").tolist() == [-1.0]
    assert pair_weight(1.0, "cohort", 1, 1) == 0.0


def test_pair_weights() -> None:
    assert pair_weight(3.0, "paper", 30, 6) == pytest.approx(0.2)
    assert pair_weight(3.0, "cohort", 30, 6) == pytest.approx(0.2)  # 2·3 / (6·5)


@pytest.mark.parametrize("alpha", [-1.0, np.nan, np.inf])
def test_bad_alpha_is_named(alpha: float) -> None:
    with pytest.raises(SelectionError, match=f"alpha must be >= 0 and finite, got {alpha}"):
        pair_weight(alpha, "paper", 30, 6)


def test_unknown_scale_is_named() -> None:
    with pytest.raises(SelectionError, match="scale must be 'paper' or 'cohort', got 'papre'"):
        pair_weight(1.0, "papre", 30, 6)  # type: ignore[arg-type]


def test_below_the_bound_the_best_cohort_does_not_depend_on_alpha() -> None:
    """Random distances of at most 1 and counts with many ties; by brute force."""
    depends_above = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        half = np.triu(rng.random((7, 7)), 1)
        distance, counts = (half + half.T) / half.max(), rng.integers(0, 3, 7)
        bound = balance_bound(7, 3)
        assert bound == 3.5
        best = [
            brute_force(
                SelectionProblem(
                    distance,
                    balance_penalty=balance_penalty(counts, 3, np.arange(7)),
                    cohort_size=3,
                    pair_weight=pair_weight(alpha, "paper", 7, 3),
                )
            )[1]
            for alpha in (1e-3 * bound, 0.999 * bound, 20 * bound)
        ]
        assert best[0] == best[1]
        (cohort, *_) = best[1]
        assert sorted(counts[list(cohort)]) == sorted(counts)[:3]
        depends_above += best[2] != best[0]
    assert depends_above > 20  # the bound is not vacuous
