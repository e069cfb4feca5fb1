"""The weights w_k of the average of local models, by rule.

Uses NumPy alone, so that a deployment computes the same weights as a simulation.
"""

from collections.abc import Callable

import numpy as np

from fedgs.arrays import AnyArray, FloatArray
from fedgs.clients import Weighting
from fedgs.errors import UpdateError

__all__ = ["aggregation_weights"]

_RULES: dict[str, Callable[[FloatArray, FloatArray, FloatArray], FloatArray]] = {
    "data_size": lambda sizes, draws, counts: sizes,
    "draws": lambda sizes, draws, counts: draws,
    "equal": lambda sizes, draws, counts: np.ones_like(sizes),
    "inverse_participation": lambda sizes, draws, counts: sizes / (counts + 1.0),
}


def aggregation_weights(
    weighting: Weighting,
    data_sizes: AnyArray,
    draws: AnyArray | None = None,
    counts: AnyArray | None = None,
) -> FloatArray:
    """The weights w_k of the cohort's local models.

    Args:
        weighting: "data_size": n_k; "draws": how often each was drawn; "equal": 1;
            "inverse_participation": n_k / (v_k + 1).
        data_sizes: (m,) n_k of the cohort.
        draws: (m,) how often each was drawn; None: once each.
        counts: (m,) sampling counts v_k before this round; None: all 0.

    Returns:
        (m,) weights >= 0 that sum to 1.

    Raises:
        UpdateError: the weights are all 0, or one is negative, NaN or inf.

    >>> aggregation_weights("data_size", np.array([1, 3])).tolist()
    [0.25, 0.75]
    >>> aggregation_weights("draws", np.array([1, 3]), draws=np.array([2, 2])).tolist()
    [0.5, 0.5]
    """
    sizes = np.asarray(data_sizes, dtype=np.float64)
    drawn = np.ones_like(sizes) if draws is None else np.asarray(draws, dtype=np.float64)
    participated = np.zeros_like(sizes) if counts is None else np.asarray(counts, dtype=np.float64)
    raw = _RULES[weighting](sizes, drawn, participated)
    total = float(raw.sum())
    if not (raw.min(initial=np.inf) >= 0 and total < np.inf):  # NaN fails both
        raise UpdateError(
            f"aggregation weights ({weighting}) must be finite and >= 0, got {raw.tolist()}"
        )
    if total <= 0:
        raise UpdateError(
            f"aggregation weights ({weighting}) must not all be 0, got {raw.tolist()}"
        )
    weights: FloatArray = raw / total
    return weights
