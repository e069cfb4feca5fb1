"""Compiled kernels (numba). Imported only where numba is installed; each has a plain counterpart that it is tested against.

Each client and each run is worked on by one thread, in an order of additions that nothing else has a part in: a result has the
same bits alone, among others, and with any number of threads. Additions inside a dot product may be reordered by the compiler
(once, when it compiles); NaN and inf are kept.
"""

import math
from typing import Any

import numpy as np

from fedgs.compiling import compiled

__all__ = ["fill_batches", "linear_losses", "train_linear"]

_FLOAT_RULES = {"reassoc", "contract", "nsz"}  # not "fast": that would let NaN and inf disappear


def _fill_batches(keys: Any, data_sizes: Any, indices: Any) -> None:
    """Write (r, E, B) batches: see `fedgs.local.batches`."""
    count, local_steps, batch_size = indices.shape
    order = np.arange(data_sizes.max() if count else 0)
    touched = np.empty(local_steps * batch_size, dtype=np.int64)
    for row in range(count):
        n, state, used, position = data_sizes[row], keys[row], 0, 0
        for step in range(local_steps):
            if position >= n:  # the pass is over: put the order back
                for i in range(used):
                    order[touched[i]] = touched[i]
                used, position = 0, 0
            for slot in range(min(batch_size, n - position)):
                state = state + np.uint64(0x9E3779B97F4A7C15)
                mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                mixed = mixed ^ (mixed >> np.uint64(31))
                jump = (np.uint64(n - position) * (mixed >> np.uint64(32))) >> np.uint64(32)
                there = position + np.int64(jump)
                indices[row, step, slot] = order[there]
                order[there] = order[position]
                touched[used] = there
                used, position = used + 1, position + 1
        for i in range(used):
            order[touched[i]] = touched[i]


def _load_weights(vector: Any, num_classes: int, d: int, weights: Any, bias: Any) -> None:
    """The (P,) vector of a linear layer into padded (classes, d) weights and biases; the padding is 0."""
    weights[:] = 0  # a client that diverged leaves NaN in the padding too
    for c in range(num_classes):
        for j in range(d):
            weights[c, j] = vector[c * d + j]
        bias[c] = vector[num_classes * d + c]


def _logits(inputs: Any, weights: Any, bias: Any, z: Any) -> None:
    """z = inputs·weightsᵀ + bias, four examples and two classes at a time (the shapes are padded to that)."""
    for b in range(0, inputs.shape[0], 4):
        p, q, r, s = inputs[b], inputs[b + 1], inputs[b + 2], inputs[b + 3]
        for c in range(0, weights.shape[0], 2):
            u, v = weights[c], weights[c + 1]
            u0 = u1 = u2 = u3 = v0 = v1 = v2 = v3 = np.float32(0)
            for j in range(inputs.shape[1]):
                u0 += u[j] * p[j]
                u1 += u[j] * q[j]
                u2 += u[j] * r[j]
                u3 += u[j] * s[j]
                v0 += v[j] * p[j]
                v1 += v[j] * q[j]
                v2 += v[j] * r[j]
                v3 += v[j] * s[j]
            z[b, c], z[b + 1, c], z[b + 2, c], z[b + 3, c] = u0 + bias[c], u1 + bias[c], u2 + bias[c], u3 + bias[c]
            d = c + 1
            z[b, d], z[b + 1, d], z[b + 2, d], z[b + 3, d] = v0 + bias[d], v1 + bias[d], v2 + bias[d], v3 + bias[d]


def _exponentials(z: Any, bits: Any) -> None:
    """z = exp(z) for z <= 0, to about 1e-6 relative; below -87 it is exp(-87).

    exp(z) = 2^k·exp(f) with |f| <= ln(2)/2, a polynomial (that of the Cephes library) for exp(f) and 2^k made from its bits, so
    that the loops become vector instructions, which a call of the C library would not.
    """
    for i in range(len(z)):
        t = np.float32(-87.0) if z[i] < np.float32(-87.0) else z[i]
        k = np.int32(t * np.float32(1.44269504) - np.float32(0.5))
        f = t - np.float32(k) * np.float32(0.693359375) + np.float32(k) * np.float32(2.12194440e-4)
        p = np.float32(1.9875691500e-4) * f + np.float32(1.3981999507e-3)
        p = p * f + np.float32(8.3334519073e-3)
        p = p * f + np.float32(4.1665795894e-2)
        p = p * f + np.float32(1.6666665459e-1)
        p = p * f + np.float32(5.0000001201e-1)
        z[i] = p * f * f + f + np.float32(1)
        bits[i] = (k + np.int32(127)) << np.int32(23)
    powers = bits.view(np.float32)
    for i in range(len(z)):
        z[i] *= powers[i]


def _softmax(z: Any, count: int, num_classes: int, bits: Any) -> None:
    """Rows 0..count-1 of z from logits to probabilities."""
    for b in range(count):
        largest = z[b, 0]
        for c in range(1, num_classes):
            largest = max(largest, z[b, c])
        for c in range(num_classes):
            z[b, c] -= largest
    _exponentials_of(z[:count].reshape(-1), bits)
    for b in range(count):
        total = np.float32(0)
        for c in range(num_classes):
            total += z[b, c]
        for c in range(num_classes):
            z[b, c] /= total


def _descend(inputs: Any, slopes: Any, num_classes: int, rate: Any, weights: Any, bias: Any) -> None:
    """weights -= rate·slopesᵀ·inputs, four examples at a time."""
    for c in range(num_classes):
        w = weights[c]
        for b in range(inputs.shape[0]):
            bias[c] -= rate * slopes[b, c]
        for b in range(0, inputs.shape[0], 4):
            p, q, r, s = inputs[b], inputs[b + 1], inputs[b + 2], inputs[b + 3]
            s0, s1, s2, s3 = rate * slopes[b, c], rate * slopes[b + 1, c], rate * slopes[b + 2, c], rate * slopes[b + 3, c]
            for j in range(inputs.shape[1]):
                w[j] -= s0 * p[j] + s1 * q[j] + s2 * r[j] + s3 * s[j]


def _train_linear(x: Any, y: Any, rows: Any, sizes: Any, starts: Any, run: Any, rates: Any, mu: Any, models: Any) -> None:
    """Local SGD of multinomial logistic regression for r clients.

    Args:
        x: (n, d) float32 examples; y: (n,) labels.
        rows: (r, E, B) rows of x; sizes: (r, E) how many of the B are used.
        starts: (R, P) theta^t of each run; run: (r,) whose it is; rates: (r,); mu: the proximal weight.
        models: (r, P) is filled with the local models.
    """
    count, local_steps, batch_size = rows.shape
    d = x.shape[1]
    num_classes = starts.shape[1] // (d + 1)
    padded_batch, padded_d, padded_classes = (batch_size + 3) // 4 * 4, (d + 31) // 32 * 32, (num_classes + 1) // 2 * 2
    inputs = np.zeros((padded_batch, padded_d), dtype=np.float32)
    weights, bias = np.zeros((padded_classes, padded_d), dtype=np.float32), np.zeros(padded_classes, dtype=np.float32)
    first, first_bias = np.zeros_like(weights), np.zeros_like(bias)
    z = np.zeros((padded_batch, padded_classes), dtype=np.float32)
    bits = np.zeros(padded_batch * padded_classes, dtype=np.int32)
    for i in range(count):
        _load_weights_of(starts[run[i]], num_classes, d, weights, bias)
        first[:], first_bias[:] = weights, bias
        for step in range(local_steps):
            size = sizes[i, step]
            for b in range(size):
                inputs[b, :d] = x[rows[i, step, b]]
            _logits_of(inputs, weights, bias, z)
            _softmax_of(z, size, num_classes, bits)
            for b in range(size):
                z[b, y[rows[i, step, b]]] -= np.float32(1)
            z[:size] /= np.float32(size)
            z[size:] = 0  # what is left in `inputs` from an earlier batch has no slope
            if mu > 0:
                pull = rates[i] * mu
                for c in range(num_classes):
                    bias[c] -= pull * (bias[c] - first_bias[c])
                    for j in range(d):
                        weights[c, j] -= pull * (weights[c, j] - first[c, j])
            _descend_by(inputs, z, num_classes, rates[i], weights, bias)
        for c in range(num_classes):
            models[i, c * d : (c + 1) * d] = weights[c, :d]
            models[i, num_classes * d + c] = bias[c]


def _linear_losses(x: Any, y: Any, vectors: Any, run: Any, begin: Any, end: Any, sums: Any, correct: Any) -> None:
    """Sum of cross-entropies and number of right answers of logistic regression on r ranges of rows.

    Args:
        x, y: see `_train_linear`.
        vectors: (R, P); run: (r,) which of them is asked; begin, end: (r,) rows begin..end-1.
        sums, correct: (r,) float64, filled.
    """
    d = x.shape[1]
    num_classes = vectors.shape[1] // (d + 1)
    padded_d, padded_classes = (d + 31) // 32 * 32, (num_classes + 1) // 2 * 2
    inputs = np.zeros((8, padded_d), dtype=np.float32)
    weights, bias = np.zeros((padded_classes, padded_d), dtype=np.float32), np.zeros(padded_classes, dtype=np.float32)
    z = np.zeros((8, padded_classes), dtype=np.float32)
    bits = np.zeros(8 * padded_classes, dtype=np.int32)
    of_label = np.zeros(8, dtype=np.float32)
    for i in range(len(run)):
        _load_weights_of(vectors[run[i]], num_classes, d, weights, bias)
        total, right = 0.0, 0
        for start in range(begin[i], end[i], 8):
            count = min(8, end[i] - start)
            for b in range(count):
                inputs[b, :d] = x[start + b]
            _logits_of(inputs, weights, bias, z)
            for b in range(count):
                best = 0
                for c in range(1, num_classes):
                    if z[b, c] > z[b, best]:
                        best = c
                largest = z[b, best]
                right += best == y[start + b]
                of_label[b] = z[b, y[start + b]] - largest
                for c in range(num_classes):
                    z[b, c] -= largest
            _exponentials_of(z[:count].reshape(-1), bits)
            for b in range(count):
                share = np.float32(0)
                for c in range(num_classes):
                    share += z[b, c]
                total += math.log(share) - of_label[b]
        sums[i], correct[i] = total, right


_load_weights_of = compiled(_load_weights)
_logits_of = compiled(_logits, fastmath=_FLOAT_RULES)
_exponentials_of = compiled(_exponentials, fastmath={"contract", "nsz"})
_softmax_of = compiled(_softmax, fastmath={"contract", "nsz"})
_descend_by = compiled(_descend, fastmath=_FLOAT_RULES)
fill_batches = compiled(_fill_batches)
train_linear = compiled(_train_linear, fastmath={"contract", "nsz"})
linear_losses = compiled(_linear_losses, fastmath={"contract", "nsz"})
