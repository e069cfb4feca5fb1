import numpy as np
import pytest

from fedgs.errors import SelectionError
from fedgs.solver import balance_penalty, pair_weight


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
