"""Compiled logits of linear layers, and exponentials of them."""

from typing import Any

import numpy as np

from fedgs.compiling import compiled
from fedgs.local.lanes import LANES, fma, fma_lanes, load, total, zero_lanes

__all__ = ["exponentials", "load_weights", "logits", "relative_to_largest"]


@compiled
def load_weights(vector: Any, num_classes: int, d: int, weights: Any, bias: Any) -> None:
    """Copy the (P,) vector of a linear layer into padded (classes, d) weights and biases.

    The padding is 0.
    """
    for c in range(num_classes):
        for j in range(d):
            weights[c, j] = vector[c * d + j]
        for j in range(d, weights.shape[1]):
            weights[c, j] = 0  # a client that diverged leaves NaN in the padding too
        bias[c] = vector[num_classes * d + c]


@compiled
def logits(inputs: Any, weights: Any, bias: Any, z: Any) -> None:
    """Compute z = inputs·weightsᵀ + bias, four examples and two classes at a time.

    The shapes are padded to that, and to whole lanes.
    """
    for b in range(0, inputs.shape[0], 4):
        p, q, r, s = inputs[b], inputs[b + 1], inputs[b + 2], inputs[b + 3]
        for c in range(0, weights.shape[0], 2):
            u, v = weights[c], weights[c + 1]
            u0 = u1 = u2 = u3 = v0 = v1 = v2 = v3 = zero_lanes()
            for j in range(0, inputs.shape[1], LANES):
                left, right = load(u, j), load(v, j)
                x = load(p, j)
                u0, v0 = fma_lanes(left, x, u0), fma_lanes(right, x, v0)
                x = load(q, j)
                u1, v1 = fma_lanes(left, x, u1), fma_lanes(right, x, v1)
                x = load(r, j)
                u2, v2 = fma_lanes(left, x, u2), fma_lanes(right, x, v2)
                x = load(s, j)
                u3, v3 = fma_lanes(left, x, u3), fma_lanes(right, x, v3)
            d, low, high = c + 1, bias[c], bias[c + 1]
            z[b, c], z[b, d] = total(u0) + low, total(v0) + high
            z[b + 1, c], z[b + 1, d] = total(u1) + low, total(v1) + high
            z[b + 2, c], z[b + 2, d] = total(u2) + low, total(v2) + high
            z[b + 3, c], z[b + 3, d] = total(u3) + low, total(v3) + high


@compiled
def exponentials(z: Any, bits: Any) -> None:
    """Compute z = exp(z) for z <= 0, to about 1e-6 relative; below -87 it is exp(-87).

    exp(z) = 2^k·exp(f) with |f| <= ln(2)/2, a polynomial (that of the Cephes library) for exp(f)
    and 2^k made from its bits, so that the loops become vector instructions, which a call of the C
    library would not.
    """
    for i in range(len(z)):
        t = np.float32(-87.0) if z[i] < np.float32(-87.0) else z[i]
        k = np.int32(fma(t, np.float32(1.44269504), np.float32(-0.5)))
        f = fma(
            np.float32(k),
            np.float32(2.12194440e-4),
            fma(np.float32(k), np.float32(-0.693359375), t),
        )
        p = fma(np.float32(1.9875691500e-4), f, np.float32(1.3981999507e-3))
        p = fma(p, f, np.float32(8.3334519073e-3))
        p = fma(p, f, np.float32(4.1665795894e-2))
        p = fma(p, f, np.float32(1.6666665459e-1))
        p = fma(p, f, np.float32(5.0000001201e-1))
        z[i] = fma(p * f, f, f) + np.float32(1)
        bits[i] = (k + np.int32(127)) << np.int32(23)
    powers = bits.view(np.float32)
    for i in range(len(z)):
        z[i] *= powers[i]


@compiled
def relative_to_largest(z: Any, num_classes: int) -> None:
    """Each row of z less its largest entry, four rows at a time."""
    for b in range(0, z.shape[0], 4):
        p, q, r, s = z[b, 0], z[b + 1, 0], z[b + 2, 0], z[b + 3, 0]
        for c in range(1, num_classes):
            # Not `max`, which tests for NaN at each step; NaN stays in z all the same.
            p = z[b, c] if z[b, c] > p else p
            q = z[b + 1, c] if z[b + 1, c] > q else q
            r = z[b + 2, c] if z[b + 2, c] > r else r
            s = z[b + 3, c] if z[b + 3, c] > s else s
        for c in range(num_classes):
            z[b, c] -= p
            z[b + 1, c] -= q
            z[b + 2, c] -= r
            z[b + 3, c] -= s
