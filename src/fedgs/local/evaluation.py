"""Losses of clients and metrics of a model: forward passes over blocks, summed by client."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch

from fedgs.arrays import AnyArray, FloatArray, IntArray
from fedgs.data.federation import Federation
from fedgs.local.batches import client_keys, local_batches
from fedgs.local.objective import example_figures
from fedgs.local.threads import SMALL_STEP, one_thread_if
from fedgs.local.workbench import Workbench, client_part_of, part_of
from fedgs.losses import loss_of
from fedgs.metrics import (
    client_metrics,
    mean_losses,
    metric_key,
    metric_value,
    weighted_metrics,
)
from fedgs.requests import ClientMetrics, Evaluate, Losses, Metrics
from fedgs.rng import generator_states, seeded

__all__ = [
    "ExampleFigures",
    "RequestedRows",
    "block_rows",
    "figures_of_rows",
    "measure",
    "measured",
    "segment_sums",
    "shape_of_block",
]

# Numbers in the examples of one forward pass; activations take some tens of times that.
_BLOCK_NUMBERS = 1 << 18


@dataclass(frozen=True, eq=False)
class RequestedRows:
    """The ranges of rows that a `Losses` or `Evaluate` request concerns, one for each client.

    Attributes:
        begin, end: (s,) rows begin..end-1 of the split's part, or places in `drawn`; a range may be
            empty.
        weights: (s,) of the mean over clients, not normalised; None where the reply is each
            client's own mean.
        by_client: whether the reply has the figures of each client, see `ClientMetrics`.
        drawn: (n,) rows of the clients' mini-batches, where losses are computed on these.
    """

    begin: IntArray
    end: IntArray
    weights: AnyArray | None
    drawn: IntArray | None = None
    by_client: bool = False

    @staticmethod
    def of(request: Losses | Evaluate) -> "RequestedRows":
        """The ranges of rows of a request.

        Raises:
            ConfigError: the federation has no such part.
        """
        offsets = part_of(request.work.federation, request.split).offsets
        if isinstance(request, Losses):
            begin, end = offsets[request.clients], offsets[request.clients + 1]
            if request.batch is None:
                return RequestedRows(begin, end, None)
            drawn, sizes = _mini_batches(request, begin, end)
            stops = np.cumsum(sizes)
            return RequestedRows(stops - sizes, stops, None, drawn)
        chosen = slice(None) if request.clients is None else request.clients
        if request.by_client:
            offsets = client_part_of(request.work.federation, request.split).offsets
            return RequestedRows(offsets[:-1][chosen], offsets[1:][chosen], None, by_client=True)
        clients = request.work.federation.clients
        if request.split == "test":
            return RequestedRows(offsets[:-1], offsets[1:], np.ones(1))
        if request.work.objective == "equal":
            weights = np.ones(len(clients))
        else:
            weights = clients.data_sizes.astype(np.float64)
        return RequestedRows(offsets[:-1][chosen], offsets[1:][chosen], weights[chosen])

    @property
    def sizes(self) -> IntArray:
        """(s,) examples in each range."""
        return self.end - self.begin

    @property
    def rows(self) -> IntArray:
        """(n,) all the rows, one range after another."""
        if self.drawn is not None:
            return self.drawn
        sizes = self.sizes
        shift = np.cumsum(sizes) - sizes  # rows in the ranges before
        rows: IntArray = np.arange(int(sizes.sum())) + np.repeat(self.begin - shift, sizes)
        return rows

    def reply(self, sums: Mapping[str, FloatArray]) -> FloatArray | Metrics | ClientMetrics:
        """The reply to the request from (s,) sums over its ranges, see `weighted_metrics`."""
        if self.by_client:
            return client_metrics(sums, self.sizes)
        if self.weights is None:
            return mean_losses(sums["losses"], sums.get("weights", self.sizes))
        return weighted_metrics(sums, self.sizes, self.weights)


def _mini_batches(request: Losses, begin: IntArray, end: IntArray) -> tuple[IntArray, IntArray]:
    """The rows of each client's mini-batch, ascending, one client after another, and their numbers.

    Args:
        request: the clients, the size of a batch and the key of the draw.
        begin: (m,) first row of each client.
        end: (m,) row after the last of each client.
    """
    counts = end - begin
    batch = min(int(request.batch or 1), int(counts.max(initial=1)))
    sizes = np.minimum(counts, batch)
    some = counts > 0
    keys = client_keys(request.key, request.clients[some], purpose="loss batches")
    places = local_batches(keys, counts[some], local_steps=1, batch_size=batch).indices[:, 0]
    rows = places + begin[some][:, None]
    rows[np.arange(batch) >= sizes[some][:, None]] = np.iinfo(np.int64).max  # behind the others
    rows.sort(axis=1)
    return rows[np.arange(batch) < sizes[some][:, None]], sizes


class ExampleFigures(NamedTuple):
    """Figures of n examples, from which replies are computed.

    Attributes:
        values: name -> (n,) numbers, see `example_figures`.
        outputs: (n, ...) float32 outputs; None: no metric is asked for.
        targets: (n, ...) labels of the examples; None likewise.
        drew: whether the model drew random numbers; None: it was not watched.
    """

    values: Mapping[str, AnyArray]
    outputs: AnyArray | None = None
    targets: AnyArray | None = None
    drew: bool | None = None

    @staticmethod
    def joined(pieces: Sequence["ExampleFigures"]) -> "ExampleFigures":
        """The figures of all examples, one piece after another."""
        names = pieces[0].values
        values = {name: np.concatenate([piece.values[name] for piece in pieces]) for name in names}
        outputs = [piece.outputs for piece in pieces if piece.outputs is not None]
        targets = [piece.targets for piece in pieces if piece.targets is not None]
        if not outputs:
            return ExampleFigures(values)
        return ExampleFigures(values, np.concatenate(outputs), np.concatenate(targets))


def measure(
    workbench: Workbench, request: Losses | Evaluate
) -> FloatArray | Metrics | ClientMetrics:
    """The reply to a request for losses or metrics."""
    requested = RequestedRows.of(request)
    return measured(request, requested, figures_of_rows(workbench, request, requested.rows))


def figures_of_rows(
    workbench: Workbench, request: Losses | Evaluate, rows: IntArray, *, watch: bool = False
) -> ExampleFigures:
    """The figures of some examples of the request's part.

    Forward passes take `block_rows` rows each, so that the figures of rows which begin at a
    multiple of it have the bits that they have among all rows, unless the model draws random
    numbers.

    Args:
        workbench: its module gets the request's parameters.
        request: for losses or metrics.
        rows: (n,) of the part.
        watch: whether to find out if the model draws random numbers on the CPU.
    """
    examples, module = workbench.examples(request.split), workbench.flat.module
    loss, task = loss_of(request.work), request.work.federation.task
    wants_outputs = isinstance(request, Evaluate) and bool(request.metrics)
    workbench.flat.load(request.parameters)
    module.eval()
    step = block_rows(shape_of_block(request.work.federation))
    small = (
        workbench.is_small(request.work.batch_size)
        if workbench.convolutional
        else workbench.flat.layout.size * step < SMALL_STEP
    )
    pieces, collected = [], []
    seed, round_index = request.key
    with seeded(seed, "evaluate", round_index), torch.no_grad(), one_thread_if(small):
        before = generator_states() if watch else None
        for block in torch.split(torch.from_numpy(rows).to(workbench.device), step):
            x, y = examples.gather(block)
            outputs = workbench.forward(x)
            pieces.append(example_figures(loss, task, outputs, y))
            if wants_outputs:
                collected.append(outputs.float().cpu())
        drew = before != generator_states() if watch else None
    values = {
        name: torch.cat([piece[name] for piece in pieces]).cpu().numpy() for name in pieces[0]
    }
    if not wants_outputs:
        return ExampleFigures(values, drew=drew)
    targets = examples.y.cpu().numpy()[rows]
    return ExampleFigures(values, torch.cat(collected).numpy(), targets, drew)


def measured(
    request: Losses | Evaluate, requested: RequestedRows, figures: ExampleFigures
) -> FloatArray | Metrics | ClientMetrics:
    """The reply to a request from the figures of all its examples."""
    reply = requested.reply(segment_sums(figures.values, requested.sizes))
    answers, targets = figures.outputs, figures.targets
    if answers is None or targets is None or not isinstance(reply, Metrics):
        return reply
    assert isinstance(request, Evaluate)
    if request.work.federation.task == "sequence":
        counted = targets >= 0
        answers, targets = answers[counted], targets[counted]
    others = {metric_key(one): metric_value(one, answers, targets) for one in request.metrics}
    return replace(reply, others=others)


def shape_of_block(federation: Federation) -> tuple[int, ...]:
    """What decides how many examples a forward pass takes: the shape of one example.

    A sequence counts with the outputs at all its places, which are many more numbers.
    """
    outputs = (federation.num_labels,) if federation.task == "sequence" else ()
    return (*federation.example_shape, *outputs)


def block_rows(example_shape: tuple[int, ...]) -> int:
    """Examples in one forward pass.

    It is a rule of the shape alone, so that results do not depend on what else is evaluated.

    >>> block_rows((60,)), block_rows((1, 28, 28)), block_rows((3, 32, 32))
    (2048, 334, 85)
    """
    return max(1, min(2048, _BLOCK_NUMBERS // max(1, math.prod(example_shape))))


def segment_sums(figures: Mapping[str, AnyArray], sizes: IntArray) -> dict[str, FloatArray]:
    """Sums over consecutive segments of the given sizes; 0 for an empty segment.

    >>> figures = {"losses": np.array([1.0, 2.0, 4.0]), "correct": np.array([True, False, True])}
    >>> segment_sums(figures, np.array([2, 0, 1]))
    {'losses': array([3., 0., 4.]), 'correct': array([1., 0., 1.])}
    """
    owner, count = np.repeat(np.arange(len(sizes)), sizes), len(sizes)
    return {
        name: np.bincount(owner, values, count).astype(np.float64)
        for name, values in figures.items()
    }
