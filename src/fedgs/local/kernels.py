"""Compiled kernels (numba), imported only where numba is installed.

Each kernel has a counterpart in plain Python that it is tested against. One thread computes each
client and each run, in an order of additions that depends on nothing else. So a result has the same
bits alone, among others, and with any number of threads. The
source fixes every rounding: no kernel allows the compiler to reorder or fuse operations, and sums
and fused products are written with `fedgs.local.lanes`. So a result also has the same bits whether
its kernel was compiled in this process or read from numba's cache, and for any processor that it
was compiled for.
"""

import math
from typing import Any

import numpy as np

from fedgs.compiling import compiled
from fedgs.local.lanes import LANES, fma, fma_lanes, load, total, zero_lanes

__all__ = ["averages", "block_sums", "fill_batches", "linear_losses", "train_linear"]


def _fill_batches(keys: Any, data_sizes: Any, ends: Any, steps: Any, indices: Any) -> None:
    """Write (r, E, B) batches: see `fedgs.local.batches`.

    Args:
        keys: (r,) the start of each client's stream.
        data_sizes: (r,) examples of each client.
        ends: (r,) how many of them a pass uses.
        steps: (r,) steps of each client.
        indices: (r, E, B), filled.
    """
    count, local_steps, batch_size = indices.shape
    order = np.arange(data_sizes.max() if count else 0)
    touched = np.empty(local_steps * batch_size, dtype=np.int64)
    for row in range(count):
        n, end, state, used, position = data_sizes[row], ends[row], keys[row], 0, 0
        for step in range(min(local_steps, steps[row])):
            if position >= end:  # the pass is over: put the order back
                for i in range(used):
                    order[touched[i]] = touched[i]
                used, position = 0, 0
            for slot in range(min(batch_size, end - position)):
                state = state + np.uint64(0x9E3779B97F4A7C15)
                mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                mixed = mixed ^ (mixed >> np.uint64(31))
                jump = (np.uint64(n - position) * (mixed >> np.uint64(32))) >> np.uint64(32)
                partner = position + np.int64(jump)
                indices[row, step, slot] = order[partner]
                order[partner] = order[position]
                touched[used] = partner
                used, position = used + 1, position + 1
        for i in range(used):
            order[touched[i]] = touched[i]


def _load_weights(vector: Any, num_classes: int, d: int, weights: Any, bias: Any) -> None:
    """Copy the (P,) vector of a linear layer into padded (classes, d) weights and biases.

    The padding is 0.
    """
    for c in range(num_classes):
        for j in range(d):
            weights[c, j] = vector[c * d + j]
        for j in range(d, weights.shape[1]):
            weights[c, j] = 0  # a client that diverged leaves NaN in the padding too
        bias[c] = vector[num_classes * d + c]


def _logits(inputs: Any, weights: Any, bias: Any, z: Any) -> None:
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


def _exponentials(z: Any, bits: Any) -> None:
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


def _relative(z: Any, num_classes: int) -> None:
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


def _slopes(z: Any, labels: Any, num_classes: int, rate: Any, bits: Any) -> None:
    """Turn rows of z from logits into rate·(softmax - one-hot).

    Rows without a label become 0.
    """
    _relative_to_largest(z, num_classes)
    _exponentials_of(z.reshape(-1), bits)
    for b in range(0, z.shape[0], 4):
        p = q = r = s = np.float32(0)
        for c in range(num_classes):
            p += z[b, c]
            q += z[b + 1, c]
            r += z[b + 2, c]
            s += z[b + 3, c]
        p, q, r, s = rate / p, rate / q, rate / r, rate / s
        for c in range(num_classes):
            z[b, c] *= p
            z[b + 1, c] *= q
            z[b + 2, c] *= r
            z[b + 3, c] *= s
    for b in range(len(labels)):
        z[b, labels[b]] -= rate
    for b in range(len(labels), z.shape[0]):
        for c in range(num_classes):
            z[b, c] = 0


def _cross_entropies(z: Any, labels: Any, num_classes: int, bits: Any, losses: Any) -> None:
    """The losses of a batch from rows of logits, which become their exponentials."""
    _relative_to_largest(z, num_classes)
    for b in range(len(labels)):
        losses[b] = z[b, labels[b]]
    _exponentials_of(z.reshape(-1), bits)
    for b in range(len(labels)):
        share = np.float32(0)
        for c in range(num_classes):
            share += z[b, c]
        losses[b] = math.log(share) - losses[b]


def _descend(table: Any, first_input: int, slopes: Any, num_classes: int, bias: Any) -> None:
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


def _pulls(
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


def _descend_by_velocity(
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
        velocity: (classes + 1, d + 1) u of the weights and, last, of the bias.
    """
    width, last = table.shape[1], slopes.shape[0] - 4
    g, i = velocity[-1], first_input + last
    for c in range(len(velocity) - 1):
        u, w = velocity[c], table[c]
        g[:] = 0
        if len(pulls) > 0:
            for j in range(pulls.shape[1] - 1):
                g[j] = pulls[c, j]
            g[-1] = pulls[c, -1]
        for b in range(0, last, 4):
            p, q, r, s = slopes[b, c], slopes[b + 1, c], slopes[b + 2, c], slopes[b + 3, c]
            g[-1] += (p + q) + (r + s)
            k = first_input + b
            for j in range(width):
                late = fma(r, table[k + 2, j], s * table[k + 3, j])
                g[j] = fma(q, table[k + 1, j], g[j]) + fma(p, table[k, j], late)
        p, q = slopes[last, c], slopes[last + 1, c]
        r, s = slopes[last + 2, c], slopes[last + 3, c]
        of_bias = fma(decay, bias[c], g[-1] + ((p + q) + (r + s)))
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


def _train_linear(
    x: Any,
    y: Any,
    order: Any,
    rows: Any,
    sizes: Any,
    starts: Any,
    run: Any,
    rates: Any,
    mu: Any,
    decay: Any,
    momentum: Any,
    nesterov: bool,
    offsets: Any,
    models: Any,
    losses: Any,
) -> None:
    """Local SGD of multinomial logistic regression for some of r clients.

    Args:
        x: (n, d) float32 examples.
        y: (n,) labels.
        order: which of the r clients are trained, in this order. Clients with the same examples are
            next to each other, since their examples are then in the processor's cache.
        rows: (r, E, B) rows of x.
        sizes: (r, E) how many of the B are used; 0 after a client's last step.
        starts: (R, P) where clients start.
        run: (r,) the row of `starts` for each client.
        rates: (r,) learning rates.
        mu: the proximal weight.
        decay: the weight decay.
        momentum: in [0, 1).
        nesterov: whether the momentum is Nesterov's.
        offsets: (r, P) float32, added to the gradient of every step; (0, P): nothing is added.
        models: (r, P), filled with the local models.
        losses: (r, E, B) float32, filled with the losses of the examples that are used; (0, E, B):
            they are not computed.
    """
    local_steps, batch_size = rows.shape[1:]
    d = x.shape[1]
    num_classes = starts.shape[1] // (d + 1)
    padded_batch, padded_d = (batch_size + 3) // 4 * 4, (d + 31) // 32 * 32
    padded_classes = (num_classes + 1) // 2 * 2
    table = np.zeros((padded_classes + padded_batch, padded_d), dtype=np.float32)
    bias = np.zeros(padded_classes, dtype=np.float32)
    weights, inputs = table[:padded_classes], table[padded_classes:]
    z = np.zeros((padded_batch, padded_classes), dtype=np.float32)
    bits = np.zeros(padded_batch * padded_classes, dtype=np.int32)
    labels = np.zeros(batch_size, dtype=np.int64)
    copy = np.zeros_like(z)
    plain = momentum == 0 and decay == 0
    velocity = np.zeros((0 if plain else num_classes + 1, padded_d + 1), dtype=np.float32)
    pulled = not plain and (mu > 0 or len(offsets) > 0)
    pulls = np.zeros((num_classes if pulled else 0, d + 1), dtype=np.float32)
    no_offset = np.zeros(0, dtype=np.float32)
    for i in order:
        start = starts[run[i]]
        velocity[:] = 0
        _load_weights_of(start, num_classes, d, weights, bias)
        for step in range(local_steps):
            size = sizes[i, step]
            if size == 0:  # the client has made all its steps
                break
            for b in range(size):
                row = rows[i, step, b]
                labels[b] = y[row]
                for j in range(d):
                    inputs[b, j] = x[row, j]
            _logits_of(inputs, weights, bias, z)
            if len(losses) > 0:
                copy[:] = z
                _losses_of(copy, labels[:size], num_classes, bits, losses[i, step])
            # Rows that an earlier batch left in `inputs` have no label, so their slope is 0.
            _slopes_of(z, labels[:size], num_classes, rates[i] / np.float32(size), bits)
            if not plain:
                if pulled:
                    offset = offsets[i] if len(offsets) > 0 else no_offset
                    _pulls_of(weights, bias, start, d, rates[i], mu, offset, pulls)
                _descend_by_velocity_by(
                    table,
                    padded_classes,
                    z,
                    bias,
                    rates[i] * decay,
                    momentum,
                    nesterov,
                    pulls,
                    velocity,
                )
                continue
            if mu > 0:
                pull = rates[i] * mu
                for c in range(num_classes):
                    bias[c] = fma(-pull, bias[c] - start[num_classes * d + c], bias[c])
                    for j in range(d):
                        weights[c, j] = fma(-pull, weights[c, j] - start[c * d + j], weights[c, j])
            if len(offsets) > 0:
                offset = offsets[i]
                for c in range(num_classes):
                    bias[c] = fma(-rates[i], offset[num_classes * d + c], bias[c])
                    for j in range(d):
                        weights[c, j] = fma(-rates[i], offset[c * d + j], weights[c, j])
            _descend_by(table, padded_classes, z, num_classes, bias)
        for c in range(num_classes):
            for j in range(d):
                models[i, c * d + j] = weights[c, j]
            models[i, num_classes * d + c] = bias[c]


def _linear_losses(
    x: Any, y: Any, vectors: Any, run: Any, begin: Any, end: Any, sums: Any, correct: Any
) -> None:
    """Sums of losses and numbers of correct predictions of logistic regression on ranges of rows.

    Args:
        x: (n, d) float32 examples.
        y: (n,) labels.
        vectors: (R, P) the models.
        run: (r,) the model for each range.
        begin: (r,) first row of each range.
        end: (r,) row after the last of each range.
        sums: (r,) float64, filled with sums of cross-entropies.
        correct: (r,) float64, filled with numbers of correct predictions.
    """
    d = x.shape[1]
    num_classes = vectors.shape[1] // (d + 1)
    padded_d, padded_classes = (d + 31) // 32 * 32, (num_classes + 1) // 2 * 2
    inputs = np.zeros((8, padded_d), dtype=np.float32)
    weights = np.zeros((padded_classes, padded_d), dtype=np.float32)
    bias = np.zeros(padded_classes, dtype=np.float32)
    z = np.zeros((8, padded_classes), dtype=np.float32)
    bits = np.zeros(8 * padded_classes, dtype=np.int32)
    of_label = np.zeros(8, dtype=np.float32)
    i = 0
    while i < len(run):
        # Ranges of one model that follow each other, such as those of clients, are one stretch of
        # rows: blocks of 8 are then full across their ends. A block gives the same bits anyhow.
        last = i
        while last + 1 < len(run) and run[last + 1] == run[i] and begin[last + 1] == end[last]:
            last += 1
        _load_weights_of(vectors[run[i]], num_classes, d, weights, bias)
        sums[i : last + 1] = 0.0
        correct[i : last + 1] = 0.0
        right_place, loss_place = i, i
        for start in range(begin[i], end[last], 8):
            count = min(8, end[last] - start)
            for b in range(count):
                for j in range(d):
                    inputs[b, j] = x[start + b, j]
            _logits_of(inputs, weights, bias, z)
            _relative_to_largest(z, num_classes)
            for b in range(count):
                label = y[start + b]
                of_label[b] = z[b, label]
                if z[b, label] == 0:  # the largest; of equal ones the first is the answer
                    first = 0
                    while z[b, first] != 0:
                        first += 1
                    if first == label:
                        while end[right_place] <= start + b:
                            right_place += 1
                        correct[right_place] += 1
            _exponentials_of(z.reshape(-1), bits)
            for b in range(count):
                share = np.float32(0)
                for c in range(num_classes):
                    share += z[b, c]
                while end[loss_place] <= start + b:
                    loss_place += 1
                sums[loss_place] += math.log(share) - of_label[b]
        i = last + 1


def _averages(
    models: Any, begin: Any, end: Any, weights: Any, references: Any, averages: Any, fine: Any
) -> None:
    """The weighted means or sums of R ranges of models.

    They have the same bits as those of the folds of `fedgs.aggregation`.

    Args:
        models: (r, P) float32.
        begin: (R,) first row of each range of models and weights.
        end: (R,) row after the last of each range, > begin.
        weights: (r,) float64.
        references: (R, P) float32, what differences are taken to; (0, P): the first model of each
            range.
        averages: (R, P) float32, filled.
        fine: (R,) bool, filled: whether the range's models and their average are all finite.
    """
    total = np.zeros(models.shape[1])
    for i in range(len(begin)):
        first = references[i] if len(references) > 0 else models[begin[i]]
        total[:] = 0
        sums = 0.0  # no number of float32's overflows it
        for row in range(begin[i], end[i]):
            model, weight = models[row], weights[row]
            for j in range(len(total)):
                total[j] += (np.float64(model[j]) - np.float64(first[j])) * weight
            sums += _sum_of(model)
        for j in range(len(total)):
            averages[i, j] = np.float32(first[j] + total[j])
        fine[i] = math.isfinite(sums + _sum_of(averages[i]))


def _block_sums(
    models: Any, begin: Any, end: Any, weights: Any, references: Any, totals: Any, fine: Any
) -> None:
    """The weighted sums of differences in R ranges of models, as those of a fold's blocks.

    Args:
        models: see `_averages`.
        begin: likewise.
        end: likewise.
        weights: likewise.
        references: likewise.
        totals: (R, P) float64, filled.
        fine: (R,) bool, filled: whether the range's models are all finite.
    """
    for i in range(len(begin)):
        first = references[i] if len(references) > 0 else models[begin[i]]
        total = totals[i]
        total[:] = 0
        sums = 0.0
        for row in range(begin[i], end[i]):
            model, weight = models[row], weights[row]
            for j in range(len(total)):
                total[j] += (np.float64(model[j]) - np.float64(first[j])) * weight
            sums += _sum_of(model)
        fine[i] = math.isfinite(sums)


def _sum(vector: Any) -> Any:
    total = 0.0
    for value in vector:
        total += value
    return total


_load_weights_of = compiled(_load_weights)
_logits_of = compiled(_logits)
_exponentials_of = compiled(_exponentials)
_relative_to_largest = compiled(_relative)
_slopes_of = compiled(_slopes)
_losses_of = compiled(_cross_entropies)
_descend_by = compiled(_descend)
_pulls_of = compiled(_pulls)
_descend_by_velocity_by = compiled(_descend_by_velocity)
_sum_of = compiled(_sum)
averages = compiled(_averages)
block_sums = compiled(_block_sums)
fill_batches = compiled(_fill_batches)
train_linear = compiled(_train_linear)
linear_losses = compiled(_linear_losses)
