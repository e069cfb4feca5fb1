"""Selection problems by plain loops."""

from itertools import combinations

import numpy as np

from fedgs.solver import SelectionProblem


def value(problem: SelectionProblem, cohort: tuple[int, ...]) -> float:
    """J(S) term by term; inf counts as the largest finite distance, or 1 where there is none."""
    H = np.asarray(getattr(problem.distance, "matrix", problem.distance))
    finite = [h for h in H.flat if np.isfinite(h)]
    largest = max(finite, default=0.0) or 1.0
    total = 0.0
    for i, j in combinations(cohort, 2):
        total += problem.pair_weight * (H[i, j] if np.isfinite(H[i, j]) else largest)
    return total - sum(float(problem.balance_penalty[k]) for k in cohort)


def brute_force(problem: SelectionProblem) -> tuple[float, list[tuple[int, ...]]]:
    """The largest value and every cohort that reaches it (to 1e-9)."""
    pool = (
        range(len(problem.balance_penalty))
        if problem.available is None
        else sorted(int(k) for k in problem.available)
    )
    values = {cohort: value(problem, cohort) for cohort in combinations(pool, problem.cohort_size)}
    best = max(values.values())
    return best, [
        cohort for cohort, its in values.items() if its >= best - 1e-9 * max(1.0, abs(best))
    ]
