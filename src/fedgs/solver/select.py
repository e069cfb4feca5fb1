"""One cohort from plain arrays, for any framework."""

import numpy as np

from fedgs.arrays import AnyArray, FloatMatrix, IntArray
from fedgs.errors import SelectionError
from fedgs.solver.problem import Distances, SelectionProblem, check_available
from fedgs.solver.scales import Scale, balance_penalty, pair_weight
from fedgs.solver.solve import solve

__all__ = ["select"]


def select(
    distance: FloatMatrix | Distances,
    sampling_counts: IntArray,
    available: IntArray,
    cohort_limit: int,
    alpha: float = 1.0,
    scale: Scale = "paper",
    seed: int | np.random.Generator = 0,
) -> IntArray:
    """One cohort of FedGS, for any framework: balanced counts, far apart in the graph.

    Args:
        distance: (N, N) matrix H, symmetric, >= 0, 0 on the diagonal, inf for unreachable; or a
            `MatrixDistances`, which is checked once instead of in every call.
        sampling_counts: (N,) in how many rounds before each client was selected, >= 0.
        available: (a,) indices of the clients that can be selected now.
        cohort_limit: M >= 1; if at most M clients are available, all of them are the cohort.
        alpha: diversity weight >= 0; at 0 the smallest counts are selected.
        scale: "paper" or "cohort" (the authors' code).
        seed: breaks ties; pass another in each round.

    Returns:
        (m,) ascending indices, m = min(M, a).

    Raises:
        SelectionError: one sentence that names the argument, what is allowed and what was passed.

    >>> line = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0))) / 3
    >>> select(line, np.array([0, 0, 0, 1]), np.array([0, 1, 2, 3]), 2)
    array([0, 2])
    """
    distances = _distances(distance)
    counts, clients = _numbers(sampling_counts, "sampling_counts"), _numbers(available, "available")
    if isinstance(distances, np.ndarray) and distances.ndim != 2:
        raise SelectionError(f"distance must be a square matrix, got shape {distances.shape}")
    total = len(distances)
    if counts.shape != (total,):
        raise SelectionError(
            f"sampling_counts must have shape ({total},), one a client, got {counts.shape}"
        )
    if not (total == 0 or np.minimum.reduce(counts) >= 0):
        raise SelectionError(f"sampling_counts must be >= 0, got {counts[~(counts >= 0)][0]}")
    if counts.dtype.kind == "f" and not np.isfinite(counts).all():
        raise SelectionError("sampling_counts must be finite, got inf")
    if clients.ndim != 1 or len(clients) == 0:
        check_available(clients, total)
    if not isinstance(cohort_limit, int | np.integer) or cohort_limit < 1:
        raise SelectionError(f"cohort_limit must be an integer >= 1, got {cohort_limit!r}")
    if not isinstance(alpha, int | float | np.integer | np.floating):
        raise SelectionError(f"alpha must be a number >= 0, got {alpha!r}")
    if not isinstance(seed, np.random.Generator) and (
        not isinstance(seed, int | np.integer) or seed < 0
    ):
        raise SelectionError(f"seed must be an integer >= 0 or a NumPy generator, got {seed!r}")
    size = min(int(cohort_limit), len(clients))
    weight = pair_weight(alpha, scale, total, size)
    penalty = balance_penalty(counts, int(cohort_limit), clients, scale)
    return solve(SelectionProblem(distances, penalty, size, weight, clients), seed=seed).cohort


def _distances(distance: FloatMatrix | Distances) -> FloatMatrix | Distances:
    """An object with rows of distances as it is, anything else as an array of float64."""
    if hasattr(distance, "rows") and hasattr(distance, "maximum"):
        return distance
    return _numbers(distance, "distance").astype(np.float64, copy=False)


def _numbers(value: object, name: str) -> AnyArray:
    """An array of real numbers; arrays of objects are read as float64."""
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O" and array.ndim:
            array = array.astype(np.float64)
    except (ValueError, TypeError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise SelectionError(
            f"{name} must be an array of numbers, got {type(value).__name__}: {reason}"
        ) from None
    if array.dtype.kind not in "biuf":
        raise SelectionError(
            f"{name} must be an array of numbers, got {type(value).__name__} of {array.dtype}"
        )
    return array
