"""Compiled training and evaluation of logistic regression."""

import math
from typing import Any

import numpy as np

from fedgs.compiling import compiled
from fedgs.local.kernels.logits import exponentials, load_weights, logits, relative_to_largest
from fedgs.local.kernels.steps import descend, descend_by_velocity, fill_pulls
from fedgs.local.lanes import LANES, fma

__all__ = ["linear_losses", "train_linear"]


@compiled
def _slopes(z: Any, labels: Any, num_classes: int, rate: Any, bits: Any) -> None:
    """Turn rows of z from logits into rate·(softmax - one-hot).

    Rows without a label become 0.
    """
    relative_to_largest(z, num_classes)
    exponentials(z.reshape(-1), bits)
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


@compiled
def _cross_entropies(z: Any, labels: Any, num_classes: int, bits: Any, losses: Any) -> None:
    """The losses of a batch from rows of logits, which become their exponentials."""
    relative_to_largest(z, num_classes)
    for b in range(len(labels)):
        losses[b] = z[b, labels[b]]
    exponentials(z.reshape(-1), bits)
    for b in range(len(labels)):
        share = np.float32(0)
        for c in range(num_classes):
            share += z[b, c]
        losses[b] = math.log(share) - losses[b]


@compiled
def train_linear(
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
    velocity = np.zeros((0 if plain else num_classes + 1, padded_d + LANES), dtype=np.float32)
    pulled = not plain and (mu > 0 or len(offsets) > 0)
    pulls = np.zeros((num_classes if pulled else 0, d + 1), dtype=np.float32)
    no_offset = np.zeros(0, dtype=np.float32)
    for i in order:
        start = starts[run[i]]
        velocity[:] = 0
        load_weights(start, num_classes, d, weights, bias)
        for step in range(local_steps):
            size = sizes[i, step]
            if size == 0:  # the client has made all its steps
                break
            for b in range(size):
                row = rows[i, step, b]
                labels[b] = y[row]
                for j in range(d):
                    inputs[b, j] = x[row, j]
            logits(inputs, weights, bias, z)
            if len(losses) > 0:
                copy[:] = z
                _cross_entropies(copy, labels[:size], num_classes, bits, losses[i, step])
            # Rows that an earlier batch left in `inputs` have no label, so their slope is 0.
            _slopes(z, labels[:size], num_classes, rates[i] / np.float32(size), bits)
            if not plain:
                if pulled:
                    offset = offsets[i] if len(offsets) > 0 else no_offset
                    fill_pulls(weights, bias, start, d, rates[i], mu, offset, pulls)
                descend_by_velocity(
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
            descend(table, padded_classes, z, num_classes, bias)
        for c in range(num_classes):
            for j in range(d):
                models[i, c * d + j] = weights[c, j]
            models[i, num_classes * d + c] = bias[c]


@compiled
def linear_losses(
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
        load_weights(vectors[run[i]], num_classes, d, weights, bias)
        sums[i : last + 1] = 0.0
        correct[i : last + 1] = 0.0
        right_place, loss_place = i, i
        for start in range(begin[i], end[last], 8):
            count = min(8, end[last] - start)
            for b in range(count):
                for j in range(d):
                    inputs[b, j] = x[start + b, j]
            logits(inputs, weights, bias, z)
            relative_to_largest(z, num_classes)
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
            exponentials(z.reshape(-1), bits)
            for b in range(count):
                share = np.float32(0)
                for c in range(num_classes):
                    share += z[b, c]
                while end[loss_place] <= start + b:
                    loss_place += 1
                sums[loss_place] += math.log(share) - of_label[b]
        i = last + 1
