"""Compiled steps of SGD for linear layers, from the slopes of a batch."""

from typing import Any

import numpy as np

from fedgs.compiling import compiled
from fedgs.local.lanes import fma

__all__ = ["descend", "descend_by_velocity", "fill_pulls"]


@compiled
def descend(table: Any, first_input: int, slopes: Any, num_classes: int, bias: Any) -> None:
    """Subtract slopesᵀ·inputs from the weights, four examples at a time.

    Args:
        table: weights in rows 0..classes-1, inputs from row `first_input` on. They share one array,
            so that the inner loop has fewer arrays to tell apart whenever it is entered.
        first_input: the row of the first input.
        slopes: (B, classes), learning rate included.
        num_classes: how many classes there are without padding.
        bias: (classes,), changed like the weights.
    """
    for c in range(num_classes):
        for b in range(0, slopes.shape[0], 4):
            p, q, r, s = slopes[b, c], slopes[b + 1, c], slopes[b + 2, c], slopes[b + 3, c]
            bias[c] -= (p + q) + (r + s)
            i = first_input + b
            for j in range(table.shape[1]):
                late = fma(r, table[i + 2, j], s * table[i + 3, j])
                table[c, j] = fma(-q, table[i + 1, j], table[c, j]) + fma(-p, table[i, j], -late)


@compiled
def fill_pulls(
    weights: Any, bias: Any, start: Any, d: int, rate: Any, mu: Any, offset: Any, pulls: Any
) -> None:
    """Compute pulls = rate·(mu·(theta - start) + offset), (classes, d + 1) with the bias last.

    An `offset` of no entries is 0.
    """
    num_classes = len(pulls)
    for c in range(num_classes):
        pulls[c, -1] = (rate * mu) * (bias[c] - start[num_classes * d + c])
        for j in range(d):
            pulls[c, j] = (rate * mu) * (weights[c, j] - start[c * d + j])
        if len(offset) > 0:
            pulls[c, -1] = fma(rate, offset[num_classes * d + c], pulls[c, -1])
            for j in range(d):
                pulls[c, j] = fma(rate, offset[c * d + j], pulls[c, j])


@compiled
def descend_by_velocity(
    table: Any,
    first_input: int,
    slopes: Any,
    bias: Any,
    decay: Any,
    momentum: Any,
    nesterov: bool,
    pulls: Any,
    velocity: Any,
) -> None:
    """Move weights and biases by u <- momentum·u + g.

    g = slopesᵀ·inputs + decay·theta + pulls. The move is u, and g + momentum·u in Nesterov's form.
    The gradients of one class are summed in the last row of `velocity`, and the last four examples
    are added where the weights move.

    Args:
        table: as of `_descend`.
        first_input: as of `_descend`.
        slopes: (B, classes), learning rate included.
        bias: (classes,), changed like the weights.
        decay: learning rate times weight decay.
        momentum: in [0, 1).
        nesterov: whether the move is Nesterov's.
        pulls: (classes, d + 1) further gradients, learning rate included; (0, d + 1): none.
        velocity: (classes + 1, > d) u of the weights and, last, of the bias; the last row is
            working memory.
    """
    width, last = table.shape[1], slopes.shape[0] - 4
    g, i, zero = velocity[-1], first_input + last, np.float32(0)
    for c in range(len(velocity) - 1):
        u, w, begin, of_bias = velocity[c], table[c], 0, zero
        if len(pulls) > 0:
            g[:] = 0
            for j in range(pulls.shape[1] - 1):
                g[j] = pulls[c, j]
            of_bias = pulls[c, -1]
        elif last >= 8:  # the first eight at once, so that g passes through memory once
            begin = 8
            p, q, r, s = slopes[0, c], slopes[1, c], slopes[2, c], slopes[3, c]
            p2, q2, r2, s2 = slopes[4, c], slopes[5, c], slopes[6, c], slopes[7, c]
            of_bias = (of_bias + ((p + q) + (r + s))) + ((p2 + q2) + (r2 + s2))
            k = first_input
            for j in range(width):
                late = fma(r, table[k + 2, j], s * table[k + 3, j])
                four = fma(q, table[k + 1, j], zero) + fma(p, table[k, j], late)
                late = fma(r2, table[k + 6, j], s2 * table[k + 7, j])
                g[j] = fma(q2, table[k + 5, j], four) + fma(p2, table[k + 4, j], late)
        else:
            g[:] = 0
        for b in range(begin, last, 4):
            p, q, r, s = slopes[b, c], slopes[b + 1, c], slopes[b + 2, c], slopes[b + 3, c]
            of_bias += (p + q) + (r + s)
            k = first_input + b
            for j in range(width):
                late = fma(r, table[k + 2, j], s * table[k + 3, j])
                g[j] = fma(q, table[k + 1, j], g[j]) + fma(p, table[k, j], late)
        p, q = slopes[last, c], slopes[last + 1, c]
        r, s = slopes[last + 2, c], slopes[last + 3, c]
        of_bias = fma(decay, bias[c], of_bias + ((p + q) + (r + s)))
        u[-1] = fma(momentum, u[-1], of_bias)
        bias[c] -= fma(momentum, u[-1], of_bias) if nesterov else u[-1]
        for j in range(width):
            late = fma(r, table[i + 2, j], s * table[i + 3, j])
            total = fma(q, table[i + 1, j], g[j]) + fma(p, table[i, j], late)
            of_weight = fma(decay, w[j], total)
            u[j] = fma(momentum, u[j], of_weight)
            if nesterov:
                w[j] -= fma(momentum, u[j], of_weight)
            else:
                w[j] -= u[j]
