"""The stacked engine: requests that share their work are answered by one tensor program."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from fedgs.aggregation import WeightedMean, all_finite
from fedgs.local.averages import weighted_means
from fedgs.local.batches import compiled_kernels, local_batches, stacked_keys
from fedgs.local.bounds import training_sizes
from fedgs.local.evaluation import Asked, segment_sums
from fedgs.local.linear import LinearProgram, suits_kernels
from fedgs.local.loop import LoopEngine, not_finite
from fedgs.local.memory import filled_batch_size
from fedgs.local.stacking import PERIOD, StackedProgram
from fedgs.local.workbench import work_key
from fedgs.requests import Failure, Request, Train, Work

__all__ = ["NUMERICS", "StackedEngine"]

NUMERICS = 1
"""Version of the numbers that the stacked engine computes for general networks, part of a run's identity.

Raise it in every change that gives a trained model, a loss or an accuracy other bits. Linear models: see `fedgs.local.linear`.
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
        self._programs: dict[Any, LinearProgram | StackedProgram] = {}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Any]]:
        """See `fedgs.requests.Engine`."""
        groups: dict[Any, list[int]] = {}
        for position, request in enumerate(requests):
            split = None if isinstance(request, Train) else request.split
            groups.setdefault((work_key(request.work), split), []).append(position)
        for positions in groups.values():
            members: list[Any] = [requests[position] for position in positions]
            found = (
                self._train(members) if isinstance(members[0], Train) else self._measure(members)
            )
            for index, reply in found:
                yield positions[index], reply

    def program(self, work: Work) -> LinearProgram | StackedProgram:
        """The program for a kind of work, set up when first asked for."""
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

    def _train(self, requests: list[Train]) -> Iterator[tuple[int, Any]]:
        """Replies to training requests of one kind of work, stack by stack."""
        folding = [_Folding(request) for request in requests]
        for stack in _stacks(
            [len(request.clients) for request in requests], self._limit(requests[0].work)
        ):
            pieces = [piece for piece in stack if folding[piece.request].reply is None]
            if not pieces:
                continue
            try:
                models = self._models(requests, pieces)
                lengths = [piece.stop - piece.start for piece in pieces]
                for index, reply in _averages(requests, pieces, models).items():
                    folding[index].reply = reply
                if any(folding[piece.request].reply is None for piece in pieces):
                    for piece, own in zip(pieces, torch.split(models, lengths), strict=True):
                        if folding[piece.request].reply is None:
                            folding[piece.request].add(piece, own)
            except Exception as error:
                asked = sorted({piece.request for piece in pieces})
                for index, reply in zip(
                    asked, self._by_loop([requests[index] for index in asked], error), strict=True
                ):
                    folding[index].reply = reply
            for piece in pieces:
                if (
                    piece.stop == len(requests[piece.request].clients)
                    or folding[piece.request].reply is not None
                ):
                    yield piece.request, folding[piece.request].finish()

    def _limit(self, work: Work) -> int:
        """How many clients one stack may hold: parameters, gradients and what a forward pass keeps."""
        workbench = self.loop.workbench(work)
        if isinstance(self.program(work), LinearProgram):
            per_client = 4 * workbench.flat.layout.size + 8 * work.local_steps * filled_batch_size(
                work
            )
        else:
            per_client = 4 * (
                4 * workbench.flat.layout.size
                + 32 * work.batch_size * int(np.prod(work.federation.example_shape))
            )
        return max(1, _STACK_BYTES // per_client // PERIOD) * PERIOD

    def _models(self, requests: list[Train], pieces: "list[_Piece]") -> torch.Tensor:
        """The (r, P) local models of the pieces' clients, one after another."""
        work, members = requests[0].work, [requests[piece.request] for piece in pieces]
        lengths = [piece.stop - piece.start for piece in pieces]
        clients = np.concatenate(
            [r.clients[p.start : p.stop] for r, p in zip(members, pieces, strict=True)]
        )
        keys = stacked_keys([request.key for request in members], lengths, clients)
        sizes = training_sizes(work.federation, clients)
        program = self.program(work)
        slots = filled_batch_size(work) if isinstance(program, LinearProgram) else work.batch_size
        batches = local_batches(keys, sizes, local_steps=work.local_steps, batch_size=slots)
        rows = batches.indices + work.federation.train.offsets[clients][:, None, None]
        starts = torch.stack([request.parameters.to(self.device) for request in members])
        rates = np.repeat([request.learning_rate for request in members], lengths)
        return program.train(
            starts, np.repeat(np.arange(len(pieces)), lengths), rates, rows, batches.sizes
        )

    def _measure(self, requests: list[Any]) -> Iterator[tuple[int, Any]]:
        """Replies to requests for losses or metrics on one split."""
        try:
            program, asked = (
                self.program(requests[0].work),
                [Asked.by(request) for request in requests],
            )
            if isinstance(program, LinearProgram):
                replies = _measure_linear(program, requests, asked)
            elif (
                self.device.type == "cpu"
            ):  # large blocks of one model at a time are as fast, and have the same bits alone
                replies = [self.loop.reply(request) for request in requests]
            else:
                replies = _measure_stacked(program, requests, asked)
        except Exception as error:
            replies = self._by_loop(requests, error)
        yield from enumerate(replies)

    def _by_loop(self, requests: Sequence[Request], error: Exception) -> list[Any]:
        """Replies of the loop engine after a stack raised: it finds out whose fault it is, and says so if it was nobody's."""
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


def _stacks(lengths: Sequence[int], limit: int) -> Iterator[list[_Piece]]:
    """Cut requests with so many clients each into stacks of at most `limit` clients, in order.

    Args:
        lengths: how many clients each request has.
        limit: a multiple of `PERIOD`; so are the places where requests are cut.
    """
    stack: list[_Piece] = []
    room = limit
    for request, length in enumerate(lengths):
        start = 0
        while start < length or length == 0:
            stop = min(length, start + room)
            stack.append(_Piece(request, start, stop))
            room -= -(-(stop - start) // PERIOD) * PERIOD
            start = stop
            if room == 0:
                yield stack
                stack, room = [], limit
            if length == 0:
                break
    if stack:
        yield stack


@dataclass
class _Folding:
    """A training request on its way: what its folds have gathered, and which local models were finite."""

    request: Train
    reply: Any = None
    kept: list[Any] = field(default_factory=list)
    finite: list[torch.Tensor] = field(default_factory=list)

    def add(self, piece: _Piece, models: torch.Tensor) -> None:
        """Take in the (b, P) models of the next b clients."""
        kept = self.kept or [fold.start() for fold in self.request.folds]
        clients = self.request.clients[piece.start : piece.stop]
        self.kept = [
            fold.add(k, clients, models) for fold, k in zip(self.request.folds, kept, strict=True)
        ]
        self.finite.append(all_finite(models))

    def finish(self) -> Any:
        """The reply: what the folds made, or whose model was not finite."""
        if self.reply is not None:
            return self.reply
        finite = torch.cat(self.finite)
        try:
            if not bool(finite.all()):
                client = int(self.request.clients[int(torch.argmin(finite.int()))])
                return Failure(client, not_finite(self.request.work, client))
            return tuple(
                fold.finish(k) for fold, k in zip(self.request.folds, self.kept, strict=True)
            )
        except Exception as error:
            return Failure(None, error)


def _averages(
    requests: Sequence[Train], pieces: Sequence[_Piece], models: torch.Tensor
) -> dict[int, tuple[torch.Tensor]]:
    """Replies to the requests that ask for a weighted mean and nothing else, all at once.

    Requests that are cut, and those where something is not finite, are left to the folds
    themselves.
    """
    if models.numel() > _AVERAGED_NUMBERS:
        return {}
    ends = np.cumsum([piece.stop - piece.start for piece in pieces])
    asked, begin, end, weights = [], [], [], []
    for piece, stop in zip(pieces, ends.tolist(), strict=True):
        request, length = requests[piece.request], piece.stop - piece.start
        fold = request.folds[0] if len(request.folds) == 1 else None
        if type(fold) is WeightedMean and length == len(request.clients) == len(fold.weights) > 0:
            asked.append(piece.request)
            begin.append(stop - length)
            end.append(stop)
            weights.append(fold.weights)
    if not asked:
        return {}
    averages, fine = weighted_means(models, np.array(begin), np.array(end), weights)
    found = zip(asked, averages.unbind(), fine.tolist(), strict=True)
    return {index: (average,) for index, average, good in found if good}


def _measure_linear(program: LinearProgram, requests: list[Any], asked: list[Asked]) -> list[Any]:
    """All ranges of all requests in one compiled call."""
    lengths = [len(one.begin) for one in asked]
    vectors = torch.stack([request.parameters.cpu() for request in requests])
    run = np.repeat(np.arange(len(requests)), lengths)
    begin, end = (
        np.concatenate([one.begin for one in asked]),
        np.concatenate([one.end for one in asked]),
    )
    cuts = np.cumsum(lengths)[:-1]
    sums, correct = (
        np.split(values, cuts)
        for values in program.sums(vectors, run, requests[0].split, begin, end)
    )
    return [one.reply(*pair) for one, *pair in zip(asked, sums, correct, strict=True)]


def _measure_stacked(program: StackedProgram, requests: list[Any], asked: list[Asked]) -> list[Any]:
    """Every model on all rows that somebody asks for; each request then takes its own."""
    rows = np.unique(np.concatenate([one.rows for one in asked]))
    vectors = torch.stack([request.parameters.to(program.workbench.device) for request in requests])
    losses, correct = (
        values.cpu().numpy()  # (R, n)
        for values in program.example_losses(
            vectors, requests[0].split, torch.from_numpy(rows).to(program.workbench.device)
        )
    )
    replies = []
    for index, one in enumerate(asked):
        own = np.searchsorted(rows, one.rows)
        replies.append(one.reply(*segment_sums(losses[index, own], correct[index, own], one.sizes)))
    return replies
