"""Label counts with noise that the client adds: differential privacy without a protocol.

The simpler choice beside a private graph. Client k has counts c in Z^C and reports the proportions
of max(0, c + Z), where Z_1, ..., Z_C are independent with the discrete Laplace distribution

    P(Z_y = z) = (e^(1/b) - 1) / (e^(1/b) + 1) · e^(-|z| / b),    b = 2 / epsilon.

Two data sets of one size that differ in one example differ by 1 in two counts, so that the counts
have sensitivity 2 in the l1 norm, and the report is epsilon-differentially private (Dwork et al.,
2006). Proportions and max(0, ·) are computed from the noisy counts alone and cost nothing more.

References:
    C. Dwork, F. McSherry, K. Nissim, A. Smith (2006): Calibrating Noise to Sensitivity in Private
    Data Analysis. TCC.
    A. Ghosh, T. Roughgarden, M. Sundararajan (2009): Universally Utility-Maximizing Privacy
    Mechanisms. STOC.
    C. Canonne, G. Kamath, T. Steinke (2020): The Discrete Gaussian for Differential Privacy.
    NeurIPS (exact sampling, Algorithm 2).
"""

import math
import secrets
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from flwr.app import ConfigRecord, Context

from fedgs.arrays import AnyArray
from fedgs.errors import ConfigError

__all__ = ["discrete_laplace", "expected_error", "noisy_counts"]

_STATE = "fedgs-noise"
_SENSITIVITY = 2  # of the counts in the l1 norm, if one example is replaced
_LEAST, _MOST = 1e-4, 1e4  # epsilon

Numbers = Sequence[float] | AnyArray


def noisy_counts(
    label_counts: Callable[[Context], Numbers], *, epsilon: float
) -> Callable[[Context], list[int]]:
    """A function for `describe(app, label_counts=...)` that adds noise to another one's counts.

    The noise is drawn once for a run of Flower and kept in the client state, so that further
    requests of the server get the same counts. A client that restarts draws again: after r draws
    the guarantee is r·epsilon. The number of examples n_k is not protected.

    Args:
        label_counts: context -> (C,) training examples by label, whole numbers >= 0.
        epsilon: of the guarantee, in [1e-4, 1e4]; smaller is more private.

    Returns:
        Context -> (C,) noisy counts >= 0; all 1 where none is left.

    Raises:
        ConfigError: a bad epsilon; from the returned function, counts that are no whole numbers.

    >>> from fedgs.flower import describe
    >>> from flwr.clientapp import ClientApp
    >>> describe(ClientApp(), label_counts=noisy_counts(lambda context: [30, 10], epsilon=1.0))
    """
    if not _LEAST <= epsilon <= _MOST:
        raise ConfigError(f"epsilon must be in [{_LEAST:g}, {_MOST:g}], got {epsilon}")
    scale = _SENSITIVITY / Fraction(repr(float(epsilon)))

    def noisy(context: Context) -> list[int]:
        stored = context.state.config_records.get(_STATE)
        if stored is None:
            counts = np.asarray(label_counts(context), dtype=np.float64).ravel()
            whole = np.isfinite(counts) & (counts >= 0) & (counts == np.rint(counts))
            if not len(counts) or not whole.all():
                raise ConfigError("label_counts must be whole numbers >= 0, got others")
            drawn = [max(0, int(count) + discrete_laplace(scale)) for count in counts.tolist()]
            stored = ConfigRecord({"counts": drawn if any(drawn) else [1] * len(drawn)})
            context.state[_STATE] = stored
        kept = stored["counts"]
        assert isinstance(kept, list)
        return [int(count) for count in kept]

    return noisy


def discrete_laplace(scale: Fraction) -> int:
    """One draw with P(z) proportional to exp(-|z| / scale), exact, from the system's secure source.

    No floating-point number is used, whose gaps would reveal something about the count.

    Args:
        scale: b > 0.

    >>> isinstance(discrete_laplace(Fraction(2)), int)
    True
    """
    numerator, denominator = scale.numerator, scale.denominator
    while True:
        low = secrets.randbelow(numerator)
        if not _exponential(Fraction(low, numerator)):
            continue
        high = 0
        while _exponential(Fraction(1)):
            high += 1
        size = (low + numerator * high) // denominator
        negative = secrets.randbelow(2) == 1
        if not (negative and size == 0):
            return -size if negative else size


def _exponential(rate: Fraction) -> bool:
    """True with probability exp(-rate), for rate in [0, 1]."""
    trial = 1
    while secrets.randbelow(rate.denominator * trial) < rate.numerator:
        trial += 1
    return trial % 2 == 1


def expected_error(epsilon: float) -> float:
    """E|Z_y|, the mean absolute noise of a count: 2q / (1 - q²) with q = e^(-epsilon / 2).

    >>> round(expected_error(1.0), 2)
    1.92
    """
    ratio = math.exp(-epsilon / _SENSITIVITY)
    return 2 * ratio / (1 - ratio**2)
