"""CA-Fed by its definition: J of whole allocation vectors, and the two passes over them."""

import math
from itertools import pairwise

__all__ = ["estimates", "passes", "total_error"]


def total_error(
    q: list[float], *, p: list[float], pi: list[float], gaps: list[float], bias: float
) -> float:
    """J(q) = sum w_k g_k + b max g TV(p, w)^2 with w proportional to pi q."""
    products = [a * b for a, b in zip(pi, q, strict=True)]
    w = [product / math.fsum(products) for product in products]
    distance = 0.5 * math.fsum(abs(a - b) for a, b in zip(p, w, strict=True))
    return math.fsum(a * g for a, g in zip(w, gaps, strict=True)) + bias * max(gaps) * distance**2


def passes(
    p: list[float],
    pi: list[float],
    lam: list[float],
    gaps: list[float],
    *,
    bias: float,
    tolerance: float,
) -> list[float]:
    """(N,) q after both passes."""
    q = [a / b for a, b in zip(p, pi, strict=True)]
    numbers = range(len(p))
    for order in (
        sorted(numbers, key=lambda k: (-abs(lam[k]), k)),
        sorted(numbers, key=lambda k: (pi[k], k)),
    ):
        for k in order:
            without = [0.0 if i == k else value for i, value in enumerate(q)]
            if not any(without):
                break
            before = total_error(q, p=p, pi=pi, gaps=gaps, bias=bias)
            after = total_error(without, p=p, pi=pi, gaps=gaps, bias=bias)
            if before - after >= tolerance:
                q = without
    return q


def estimates(
    states: list[bool], *, rate: float = 0.5, correlation: float = 0.0, observations: float = 2.0
) -> tuple[float, float]:
    """pi and lambda of one client from its states in all rounds, by counting."""
    pairs = list(pairwise(states))

    def mean(prior: float, successes: int, trials: int) -> float:
        return (observations * prior + successes) / (observations + trials)

    stay_on = mean(
        correlation + (1 - correlation) * rate,
        sum(a and b for a, b in pairs),
        sum(a for a, _ in pairs),
    )
    stay_off = mean(
        1 - (1 - correlation) * rate,
        sum(not a and not b for a, b in pairs),
        sum(not a for a, _ in pairs),
    )
    return mean(rate, sum(states), len(states)), stay_on + stay_off - 1
