"""From a selection problem to a cohort, in the steps that `fedgs.solver` lists."""

from math import comb, isfinite, isnan
from operator import index
from time import perf_counter
from typing import NamedTuple

import numpy as np

from fedgs.arrays import FloatArray, IntArray
from fedgs.compiling import load_kernels
from fedgs.errors import SelectionError
from fedgs.graph.matrix_distances import MatrixDistances
from fedgs.graph.tree import SpanningForest
from fedgs.rng import stream
from fedgs.solver import limits, plain
from fedgs.solver.narrowing import can_be_narrowed, groups_of, narrowed
from fedgs.solver.on_demand import search_rows
from fedgs.solver.plain import XorshiftState
from fedgs.solver.problem import (
    Distances,
    Effort,
    SelectionProblem,
    Solution,
    Status,
    block_of,
    objective,
)
from fedgs.solver.reduction import Reduced, reduced
from fedgs.solver.search import (
    DESCENT,
    Clock,
    Incumbent,
    Residual,
    SearchPlan,
    improve,
    prove,
    search,
    search_plan,
    settle_ties,
    tighten,
)
from fedgs.solver.small_pools import SmallPoolSteps, small_pool_steps
from fedgs.solver.tree import best_on_forest

__all__ = ["solve"]

_CHANGED = (
    "distances were changed after they were checked: "
    "they must stay finite, >= 0 and of the same shape"
)


def solve(
    problem: SelectionProblem,
    *,
    effort: Effort = "default",
    time_limit: float | None = None,
    seed: int | np.random.Generator = 0,
) -> Solution:
    """The best cohort that the effort finds, and how good it is.

    The answer depends on the problem, the effort and the seed, not on the machine's speed, unless
    the time limit fires.

    Args:
        problem: what to maximise.
        effort: counts work, not seconds. "fast": starts and descent. "default": also 4 to 24 short
            rounds of tabu search. "thorough": long rounds that take some tenths of a second, and
            branch and bound in pools of up to 300 clients.
        time_limit: seconds > 0 (the paper's tau_max), after which the best cohort found so far is
            returned with status "time_limit".
        seed: breaks ties and drives the search's random choices; an integer >= 0 or a generator.

    Raises:
        SelectionError: an unknown effort, a time limit that is not positive, an invalid seed, or
            distances of another size than their tree.

    >>> line = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    >>> solve(SelectionProblem(line, np.zeros(4), cohort_size=2, pair_weight=1.0)).cohort
    array([0, 3])
    """
    started = perf_counter()
    if effort not in ("fast", "default", "thorough"):
        raise SelectionError(
            f"solver.effort must be 'fast', 'default' or 'thorough', got {effort!r}"
        )
    if time_limit is not None and not time_limit > 0:
        raise SelectionError(f"solver.time_limit must be > 0 seconds or None, got {time_limit}")
    rng = seed if isinstance(seed, np.random.Generator) else stream(_checked_seed(seed), "select")
    if len(problem.distances) != len(problem.balance_penalty):
        raise SelectionError(_CHANGED)
    clock, clients = Clock(time_limit), None
    if can_be_narrowed(problem):
        problem, clients = narrowed(problem, rng)
    steps = small_pool_steps(problem)
    answer = _decide(problem, steps, effort=effort, clock=clock, rng=rng)
    cohort = answer.cohort
    if steps is None:
        cohort.sort()
        reached = objective(problem, cohort)
    else:
        reached = steps.conclude(problem, cohort)
    if isnan(reached):
        raise SelectionError(_CHANGED)
    if clients is not None:
        cohort = clients[cohort]
    return Solution(
        cohort, reached, reached + answer.slack, answer.status, perf_counter() - started
    )


def _checked_seed(seed: int) -> int:
    try:
        number = index(seed)
    except TypeError:
        number = -1
    if number < 0:
        raise SelectionError(f"seed must be an integer >= 0 or a generator, got {seed!r}")
    return number


class _Answer(NamedTuple):
    """A cohort and how good it is.

    Attributes:
        cohort: (m,) in any order, an array without other references.
        slack: by how much the optimum can exceed its objective at most.
        status: see `Solution`.
    """

    cohort: IntArray
    slack: float = 0.0
    status: Status = "optimal"


def _decide(
    problem: SelectionProblem,
    steps: SmallPoolSteps | None,
    *,
    effort: Effort,
    clock: Clock,
    rng: np.random.Generator,
) -> _Answer:
    """Reduce the problem; enumerate what is left open if that is little, search it otherwise.

    The clients are first put in a random order, which decides between equals.
    """
    size, weight, largest = problem.cohort_size, problem.pair_weight, problem.distances.maximum
    state = np.empty(1, dtype=np.uint64)
    state[0] = rng.bit_generator.random_raw() | 1
    if steps is None:
        order = rng.permutation(problem.pool)
        if size == len(order):
            return _Answer(order)
        if size == 1 or weight * largest == 0:
            return _Answer(order[np.argsort(problem.balance_penalty[order], kind="stable")[:size]])
        rest = reduced(problem, order)
    else:
        rest = steps.reduced(problem, state)
    forced, clients, gains, left = rest
    if not 0 <= left <= len(clients):
        raise SelectionError(_CHANGED)
    if left in (0, len(clients)):
        return _Answer(np.concatenate([forced, clients[:left]]))
    if left == 1:
        return _Answer(np.concatenate([forced, clients[np.argmax(gains)][None]]))
    choices = comb(len(clients), left)
    if steps is not None and choices <= limits.MAX_CHOICES_ENUMERATED_COMPILED:
        return _Answer(np.concatenate([forced, clients[steps.best(problem, clients, gains, left)]]))
    if choices <= limits.MAX_CHOICES_ENUMERATED:
        block = block_of(problem.distances, clients, clients)
        return _Answer(np.concatenate([forced, clients[plain.enumerate_all(block, gains, left)]]))
    incumbent = _search_open(
        problem.distances, steps, rest, effort=effort, clock=clock, state=state, rng=rng
    )
    chosen = clients[incumbent.chosen]
    cohort = chosen if len(forced) == 0 else np.concatenate([forced, chosen])
    status: Status = (
        "time_limit" if clock.fired else "bounded" if isfinite(incumbent.bound) else "feasible"
    )
    if not isfinite(incumbent.bound):  # the trivial bound: every pair at the largest distance
        incumbent.bound = float(np.sort(gains)[-left:].sum()) + largest * left * (left - 1) / 2
    if incumbent.proven(limits.TOLERANCE_OF_LARGEST_DISTANCE * largest):
        return _Answer(cohort)
    return _Answer(cohort, weight * max(incumbent.bound - incumbent.value, 0.0), status)


def _search_open(
    distances: Distances,
    steps: SmallPoolSteps | None,
    rest: Reduced,
    *,
    effort: Effort,
    clock: Clock,
    state: XorshiftState,
    rng: np.random.Generator,
) -> Incumbent:
    """Search what the reduction has left open."""
    _, clients, gains, left = rest
    given, bound = _start(distances, steps, rest)
    if not isinstance(distances, MatrixDistances) and len(clients) > limits.MAX_CLIENTS_HELD:
        return search_rows(
            distances,
            clients,
            gains=gains,
            size=left,
            given=given,
            bound=bound,
            clock=clock,
            rng=rng,
            groups=groups_of(distances, clients),
        )
    plain_numpy = load_kernels("fedgs.solver.kernels.search") is None
    plan = search_plan(effort, len(clients), left, plain_numpy=plain_numpy)
    if (
        steps is not None
        and effort != "thorough"
        and clock.limit is None
        and isinstance(distances, MatrixDistances)
        and len(distances) <= limits.MAX_CLIENTS_COPIED
    ):
        return steps.searched(
            distances,
            clients,
            gains=gains,
            size=left,
            given=given,
            bound=bound,
            plan=plan,
            state=state,
        )
    residual = _residual(distances, clients, gains, left)
    return _search_residual(
        residual, given, bound, plan=plan, effort=effort, clock=clock, state=state
    )


def _start(
    distances: Distances, steps: SmallPoolSteps | None, rest: Reduced
) -> tuple[IntArray | None, float]:
    """A choice of positions and a bound from the tree, or None and inf if there is no tree."""
    tree = distances.tree
    if tree is None:
        return None, np.inf
    if not isinstance(tree, SpanningForest) or len(tree) != len(distances):
        raise SelectionError(
            "the tree of distances must be None or a SpanningForest "
            f"over all {len(distances)} clients"
        )
    _, clients, gains, left = rest
    small = steps is not None and len(tree) <= limits.MAX_CLIENTS_SMALL_POOL
    working = steps.forest_workspace if steps is not None and small else None
    given, bound = best_on_forest(
        tree, clients, gains, left, apart=distances.maximum, working=working
    )
    return given, bound + tree.shortfall * left * (left - 1) / 2


def _search_residual(
    residual: Residual,
    given: IntArray | None,
    bound: float,
    *,
    plan: SearchPlan,
    effort: Effort,
    clock: Clock,
    state: XorshiftState,
) -> Incumbent:
    """Descent and tabu rounds; for "thorough" with proofs before and after the rounds."""
    at_once = effort != "thorough" and clock.limit is None
    incumbent = search(residual, given, bound=bound, plan=plan if at_once else DESCENT, state=state)
    if effort == "thorough":
        tighten(residual, incumbent, always=True)
        few_choices = comb(len(residual), residual.size) <= limits.MAX_CHOICES_PROVEN_AT_ONCE
        work = limits.PROOF_DISTANCES if few_choices else limits.FIRST_PROOF_DISTANCES
        prove(residual, incumbent, work, clock)
    if not at_once:
        improve(residual, incumbent, plan, clock=clock, state=state)
    if effort == "thorough":
        prove(residual, incumbent, limits.PROOF_DISTANCES, clock)
    else:
        tighten(residual, incumbent, always=False)
    if not clock.over():
        settle_ties(residual, incumbent, state)
    return incumbent


def _residual(distances: Distances, clients: IntArray, gains: FloatArray, left: int) -> Residual:
    """The open positions over the whole matrix, or over a copied block where that is faster."""
    tolerance = limits.TOLERANCE_OF_LARGEST_DISTANCE * distances.maximum
    if isinstance(distances, MatrixDistances) and (
        len(clients) > limits.MAX_CLIENTS_COPIED or len(distances) <= limits.MAX_CLIENTS_COPIED
    ):
        return Residual(distances.matrix, clients, gains, left, tolerance)
    block = np.ascontiguousarray(block_of(distances, clients, clients))
    return Residual(block, np.arange(len(clients)), gains, left, tolerance)
