"""The stacked engine: requests that share their work are answered by one tensor program."""

import logging
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from fedgs.aggregation import WeightedMean, WeightedSum, all_finite
from fedgs.arrays import FloatArray
from fedgs.local.averages import weighted_means
from fedgs.local.batches import compiled_kernels, local_batches, stacked_keys
from fedgs.local.bounds import training_sizes
from fedgs.local.evaluation import RequestedRows, segment_sums
from fedgs.local.linear import LinearProgram, suits_kernels
from fedgs.local.loop import LoopEngine, not_finite
from fedgs.local.memory import filled_batch_size
from fedgs.local.stacking import PERIOD, StackedProgram
from fedgs.local.workbench import work_key
from fedgs.requests import Evaluate, Failure, Losses, Metrics, Request, Train, Work

__all__ = ["NUMERICS", "StackedEngine"]

NUMERICS = 1
"""Version of the numbers that the stacked program computes, part of a run's identity.

Raise it in every change that gives a trained model, a loss or an accuracy other bits. Linear
models: see `fedgs.local.linear`.
"""

_log = logging.getLogger("fedgs")
_STACK_BYTES = 1 << 29  # what one stack may take
_AVERAGED_NUMBERS = 1 << 23  # above, the work is in the numbers and not in the calls


class StackedEngine:
    """Answers all requests that share their work at once: the clients of many runs are one stack.

    Logistic regression on the CPU has its own compiled program; any other module goes through
    torch.func. Where a stack raises, its requests are answered one by one by the loop engine, so
    that only the failing client's run fails.

    Args:
        device: where parameters and data live, such as "cpu" or "cuda".
    """

    name = "stacked"

    def __init__(self, device: str = "cpu") -> None:
        self.device = torch.device(device)
        self.loop = LoopEngine(device)
        self._programs: dict[Hashable, LinearProgram | StackedProgram] = {}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, object]]:
        """See `fedgs.requests.Engine`."""
        groups: dict[Hashable, list[int]] = {}
        for position, request in enumerate(requests):
            split = None if isinstance(request, Train) else request.split
            groups.setdefault((work_key(request.work), split), []).append(position)
        for positions in groups.values():
            training: list[Train] = []
            measuring: list[Losses | Evaluate] = []
            for position in positions:
                request = requests[position]
                if isinstance(request, Train):
                    training.append(request)
                else:
                    measuring.append(request)
            # A group holds requests of one kind.
            replies = self._train(training) if training else self._measure(measuring)
            for index, reply in replies:
                yield positions[index], reply

    def program(self, work: Work) -> LinearProgram | StackedProgram:
        """The program for a kind of work, set up at first use."""
        key = work_key(work)
        if key not in self._programs:
            workbench = self.loop.workbench(work)
            compiled = (
                self.device.type == "cpu"
                and compiled_kernels() is not None
                and suits_kernels(work, workbench.flat.module)
            )
            self._programs[key] = (
                LinearProgram(work) if compiled else StackedProgram(workbench, work)
            )
        return self._programs[key]

    def _train(self, requests: list[Train]) -> Iterator[tuple[int, object]]:
        """Replies to training requests of one kind of work, stack by stack."""
        folding = [_Folding(request) for request in requests]
        lengths = [len(request.clients) for request in requests]
        for stack in _stacks(lengths, self._limit(requests[0].work)):
            pieces = [piece for piece in stack if folding[piece.request].reply is None]
            if not pieces:
                continue
            try:
                models = self._models(requests, pieces)
                for index, averages in _averages(requests, pieces, models).items():
                    folding[index].reply = averages
                _fold(folding, pieces, models)
            except Exception as error:
                failed = sorted({piece.request for piece in pieces})
                replies = self._by_loop([requests[index] for index in failed], error)
                for index, reply in zip(failed, replies, strict=True):
                    folding[index].reply = reply
            for piece in pieces:
                in_progress = folding[piece.request]
                if piece.stop == lengths[piece.request] or in_progress.reply is not None:
                    yield piece.request, in_progress.finish()

    def _limit(self, work: Work) -> int:
        """How many clients one stack may hold.

        Parameters, gradients and what a forward pass keeps count.
        """
        workbench = self.loop.workbench(work)
        size = workbench.flat.layout.size
        if isinstance(self.program(work), LinearProgram):
            per_client = 4 * size + 8 * work.local_steps * filled_batch_size(work)
        else:
            batch = work.batch_size * int(np.prod(work.federation.example_shape))
            per_client = 4 * (4 * size + 32 * batch)
        return max(1, _STACK_BYTES // per_client // PERIOD) * PERIOD

    def _models(self, requests: list[Train], pieces: "list[_Piece]") -> torch.Tensor:
        """The (r, P) local models of the pieces' clients, one after another."""
        work, members = requests[0].work, [requests[piece.request] for piece in pieces]
        lengths = [piece.length for piece in pieces]
        clients = np.concatenate(
            [
                request.clients[piece.start : piece.stop]
                for request, piece in zip(members, pieces, strict=True)
            ]
        )
        keys = stacked_keys([request.key for request in members], lengths, clients)
        sizes = training_sizes(work.federation, clients)
        program = self.program(work)
        slots = filled_batch_size(work) if isinstance(program, LinearProgram) else work.batch_size
        batches = local_batches(keys, sizes, local_steps=work.local_steps, batch_size=slots)
        rows = batches.indices + work.federation.train.offsets[clients][:, None, None]
        starts = torch.stack([request.parameters.to(self.device) for request in members])
        rates = np.repeat([request.learning_rate for request in members], lengths)
        run = np.repeat(np.arange(len(pieces)), lengths)
        return program.train(starts, run, rates=rates, rows=rows, sizes=batches.sizes)

    def _measure(self, requests: list[Losses | Evaluate]) -> Iterator[tuple[int, object]]:
        """Replies to requests for losses or metrics on one split."""
        replies: Sequence[object]
        try:
            program = self.program(requests[0].work)
            rows = [RequestedRows.of(request) for request in requests]
            if isinstance(program, LinearProgram):
                replies = _measure_linear(program, requests, rows)
            elif self.device.type == "cpu":
                # Large blocks of one model at a time are as fast, and have the same bits alone.
                replies = [self.loop.reply(request) for request in requests]
            else:
                replies = _measure_stacked(program, requests, rows)
        except Exception as error:
            replies = self._by_loop(requests, error)
        yield from enumerate(replies)

    def _by_loop(self, requests: Sequence[Request], error: Exception) -> list[object]:
        """Replies of the loop engine after a stack raised.

        It finds out which client is to blame. A warning is logged if none is.
        """
        replies = [self.loop.reply(request) for request in requests]
        if not any(isinstance(reply, Failure) for reply in replies):
            _log.warning(
                "a stack of %d requests failed (%r) and was answered by the loop engine instead",
                len(requests),
                error,
            )
        return replies


@dataclass(frozen=True)
class _Piece:
    """Clients start..stop-1 of a request."""

    request: int
    start: int
    stop: int

    @property
    def length(self) -> int:
        return self.stop - self.start


def _stacks(lengths: Sequence[int], limit: int) -> Iterator[list[_Piece]]:
    """Cut requests with so many clients each into stacks of at most `limit` clients, in order.

    Args:
        lengths: how many clients each request has.
        limit: a multiple of `PERIOD`; so are the places where requests are cut.
    """
    stack: list[_Piece] = []
    free = limit
    for request, length in enumerate(lengths):
        start = 0
        while start < length or length == 0:
            stop = min(length, start + free)
            stack.append(_Piece(request, start, stop))
            free -= -(-(stop - start) // PERIOD) * PERIOD
            start = stop
            if free == 0:
                yield stack
                stack, free = [], limit
            if length == 0:
                break
    if stack:
        yield stack


@dataclass
class _Folding:
    """A training request in progress.

    Attributes:
        request: the request.
        reply: once it is known.
        accumulators: what the request's folds have gathered.
        finite: (b,) bool for each block of local models: which are finite.
    """

    request: Train
    reply: object | None = None
    accumulators: list[object] = field(default_factory=list)
    finite: list[torch.Tensor] = field(default_factory=list)

    def add(self, piece: _Piece, models: torch.Tensor) -> None:
        """Take in the (b, P) models of the next b clients."""
        accumulators = self.accumulators or [fold.start() for fold in self.request.folds]
        clients = self.request.clients[piece.start : piece.stop]
        self.accumulators = [
            fold.add(accumulator, clients, models)
            for fold, accumulator in zip(self.request.folds, accumulators, strict=True)
        ]
        self.finite.append(all_finite(models))

    def finish(self) -> object:
        """The reply: the results of the folds, or the client whose model is not finite."""
        if self.reply is not None:
            return self.reply
        finite = torch.cat(self.finite)
        try:
            if not bool(finite.all()):
                client = int(self.request.clients[int(torch.argmin(finite.int()))])
                return Failure(client, not_finite(self.request.work, client))
            return tuple(
                fold.finish(accumulator)
                for fold, accumulator in zip(self.request.folds, self.accumulators, strict=True)
            )
        except Exception as error:
            return Failure(None, error)


def _fold(folding: "list[_Folding]", pieces: Sequence[_Piece], models: torch.Tensor) -> None:
    """Give the (r, P) local models of the pieces to the requests that have no reply yet."""
    if all(folding[piece.request].reply is not None for piece in pieces):
        return
    blocks = torch.split(models, [piece.length for piece in pieces])
    for piece, block in zip(pieces, blocks, strict=True):
        if folding[piece.request].reply is None:
            folding[piece.request].add(piece, block)


def _averages(
    requests: Sequence[Train], pieces: Sequence[_Piece], models: torch.Tensor
) -> dict[int, tuple[torch.Tensor]]:
    """Replies to the requests whose only fold is a weighted mean or sum, all at once, by request.

    Requests that are cut, and those where something is not finite, are left to the folds
    themselves.
    """
    if models.numel() > _AVERAGED_NUMBERS:
        return {}
    averages = _averages_by(WeightedMean, requests, pieces=pieces, models=models)
    return averages | _averages_by(WeightedSum, requests, pieces=pieces, models=models)


def _averages_by(
    kind: type[WeightedMean | WeightedSum],
    requests: Sequence[Train],
    *,
    pieces: Sequence[_Piece],
    models: torch.Tensor,
) -> dict[int, tuple[torch.Tensor]]:
    ends = np.cumsum([piece.length for piece in pieces])
    members, begin, end, weights, references = [], [], [], [], []
    for piece, stop in zip(pieces, ends.tolist(), strict=True):
        request = requests[piece.request]
        fold = request.folds[0] if len(request.folds) == 1 else None
        if type(fold) is not kind:
            continue
        if piece.length == len(request.clients) == len(fold.weights) > 0:
            members.append(piece.request)
            begin.append(stop - piece.length)
            end.append(stop)
            weights.append(fold.weights)
            if isinstance(fold, WeightedSum):
                references.append(fold.parameters.to(models.device))
    if not members:
        return {}
    averages, fine = weighted_means(
        models,
        np.array(begin),
        end=np.array(end),
        weights=weights,
        references=torch.stack(references) if references else None,
    )
    results = zip(members, averages.unbind(), fine.tolist(), strict=True)
    return {index: (average,) for index, average, good in results if good}


def _measure_linear(
    program: LinearProgram, requests: list[Losses | Evaluate], rows: list[RequestedRows]
) -> list[FloatArray | Metrics]:
    """Replies from all ranges of all requests in one compiled call."""
    lengths = [len(of_request.begin) for of_request in rows]
    sums, correct = program.sums(
        torch.stack([request.parameters.cpu() for request in requests]),
        np.repeat(np.arange(len(requests)), lengths),
        split=requests[0].split,
        begin=np.concatenate([of_request.begin for of_request in rows]),
        end=np.concatenate([of_request.end for of_request in rows]),
    )
    cuts = np.cumsum(lengths)[:-1]
    figures = zip(rows, np.split(sums, cuts), np.split(correct, cuts), strict=True)
    return [of_request.reply(losses, right) for of_request, losses, right in figures]


def _measure_stacked(
    program: StackedProgram, requests: list[Losses | Evaluate], rows: list[RequestedRows]
) -> list[FloatArray | Metrics]:
    """Replies from every model's losses on the union of all rows."""
    device = program.workbench.device
    union = np.unique(np.concatenate([of_request.rows for of_request in rows]))
    vectors = torch.stack([request.parameters.to(device) for request in requests])
    figures = program.example_losses(vectors, requests[0].split, torch.from_numpy(union).to(device))
    losses, correct = (values.cpu().numpy() for values in figures)  # (R, n)
    replies = []
    for index, of_request in enumerate(rows):
        places = np.searchsorted(union, of_request.rows)
        sums = segment_sums(losses[index, places], correct[index, places], of_request.sizes)
        replies.append(of_request.reply(*sums))
    return replies
