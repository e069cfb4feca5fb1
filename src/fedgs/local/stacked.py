"""The stacked engine: requests that share their work are answered by one tensor program."""

import logging
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from fedgs.arrays import FloatArray, IntArray
from fedgs.local.batches import compiled_kernels, local_batches, stacked_keys, steps_of
from fedgs.local.bounds import training_sizes
from fedgs.local.evaluation import RequestedRows, segment_sums
from fedgs.local.linear import LinearProgram, suits_kernels
from fedgs.local.loop import LoopEngine
from fedgs.local.memory import filled_batch_size
from fedgs.local.pieces import Folding, Piece, add_reports, averages_of, fold_models, stacks
from fedgs.local.stacking import PERIOD, StackedProgram
from fedgs.local.terms import Trained, kind_of, terms_of
from fedgs.local.workbench import work_key
from fedgs.requests import (
    ClientMetrics,
    Evaluate,
    Failure,
    Losses,
    Metrics,
    Request,
    Train,
    Work,
)

__all__ = ["NUMERICS", "StackedEngine"]

NUMERICS = 1
"""Version of the numbers that the stacked program computes, part of a run's identity.

Raise it in every change that gives a trained model, a loss or an accuracy other bits. Linear
models: see `fedgs.local.linear`.
"""

_log = logging.getLogger("fedgs")
_STACK_BYTES = 1 << 29  # what one stack may take


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
        self._programs: dict[int, LinearProgram | StackedProgram] = {}
        self._kinds: dict[Hashable, int] = {}
        self._known: dict[int, _Known] = {}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, object]]:
        """See `fedgs.requests.Engine`."""
        groups: dict[Hashable, list[int]] = {}
        for position, request in enumerate(requests):
            if isinstance(request, Train) and request.states is not None:
                yield position, self.loop.reply(request)  # stacks do not keep optimisers' states
                continue
            kind = self._facts(request.work).kind
            groups.setdefault((kind, _kind(request)), []).append(position)
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
        kind = self._facts(work).kind
        if kind not in self._programs:
            workbench = self.loop.workbench(work)
            compiled = (
                self.device.type == "cpu"
                and compiled_kernels("linear") is not None
                and suits_kernels(work, workbench.flat.module)
            )
            self._programs[kind] = (
                LinearProgram(work) if compiled else StackedProgram(workbench, work)
            )
        return self._programs[kind]

    def _facts(self, work: Work) -> "_Known":
        """What is found out once for each work, and not in every round."""
        known = self._known.get(id(work))
        if known is None:
            kind = self._kinds.setdefault(work_key(work), len(self._kinds))
            steps = int(np.max(steps_of(work, work.federation.clients.data_sizes)))
            known = self._known[id(work)] = _Known(work, kind, filled_batch_size(work), steps)
        return known

    def _train(self, requests: list[Train]) -> Iterator[tuple[int, object]]:
        """Replies to training requests of one kind of work, stack by stack."""
        folding = [Folding(request) for request in requests]
        lengths = [len(request.clients) for request in requests]
        for stack in stacks(lengths, self._limit(requests[0])):
            pieces = [piece for piece in stack if folding[piece.request].reply is None]
            if not pieces:
                continue
            try:
                trained, sizes = self._models(requests, pieces)
                add_reports(folding, pieces, trained, sizes)
                for index, average in averages_of(requests, pieces, trained.models).items():
                    folding[index].reply = folding[index].with_reports(average)
                fold_models(folding, pieces, trained.models)
            except Exception as error:
                failed = sorted({piece.request for piece in pieces})
                replies = self._by_loop([requests[index] for index in failed], error)
                for index, reply in zip(failed, replies, strict=True):
                    folding[index].reply = reply
            for piece in pieces:
                in_progress = folding[piece.request]
                if piece.stop == lengths[piece.request] or in_progress.reply is not None:
                    yield piece.request, in_progress.finish()

    def _limit(self, request: Train) -> int:
        """How many clients one stack may hold.

        Parameters, gradients and what a forward pass keeps count.
        """
        work, size = request.work, len(request.parameters)
        facts = self._facts(work)
        own_starts, offsets, losses = kind_of(request)
        if isinstance(self.program(work), LinearProgram):
            per_client = 4 * size + 8 * facts.steps * facts.slots
        else:
            batch = work.batch_size * int(np.prod(work.federation.example_shape))
            per_client = 4 * (4 * size + 32 * batch)
        per_client += 4 * size * (own_starts + offsets)
        per_client += 4 * facts.steps * facts.slots * losses
        return max(1, _STACK_BYTES // per_client // PERIOD) * PERIOD

    def _models(self, requests: list[Train], pieces: list[Piece]) -> tuple[Trained, IntArray]:
        """What the pieces' r clients trained, one after another, and (r, E) sizes of batches."""
        work, lengths = requests[0].work, [piece.length for piece in pieces]
        members = [(requests[piece.request], slice(piece.start, piece.stop)) for piece in pieces]
        clients = np.concatenate([request.clients[part] for request, part in members])
        keys = stacked_keys([request.key for request, _ in members], lengths, clients)
        sizes = training_sizes(work.federation, clients)
        program = self.program(work)
        by_kernels = isinstance(program, LinearProgram)
        slots = self._facts(work).slots if by_kernels else work.batch_size
        batches = local_batches(
            keys,
            sizes,
            local_steps=steps_of(work, sizes),
            batch_size=slots,
            drop_last=work.drop_last,
        )
        rows = batches.indices + work.federation.train.offsets[clients][:, None, None]
        starts, terms = terms_of(members)
        rates = np.repeat([request.learning_rate for request, _ in members], lengths)
        run = np.repeat(np.arange(len(pieces)), lengths)
        trained = program.train(
            starts.to(self.device), run, rates=rates, rows=rows, sizes=batches.sizes, terms=terms
        )
        return trained, batches.sizes

    def _measure(self, requests: list[Losses | Evaluate]) -> Iterator[tuple[int, object]]:
        """Replies to requests for losses or metrics on one split."""
        replies: Sequence[object]
        try:
            program = self.program(requests[0].work)
            rows = [RequestedRows.of(request) for request in requests]
            metrics = any(isinstance(one, Evaluate) and one.metrics for one in requests)
            if isinstance(program, LinearProgram):
                figures = _measure_linear(program, requests, rows)
                pairs = zip(requests, figures, strict=True)
                replies = [self._with_metrics(one, reply) for one, reply in pairs]
            elif self.device.type == "cpu" or metrics:
                # Large blocks of one model at a time are as fast, and have the same bits alone.
                replies = [self.loop.reply(request) for request in requests]
            else:
                replies = _measure_stacked(program, requests, rows)
        except Exception as error:
            replies = self._by_loop(requests, error)
        yield from enumerate(replies)

    def _with_metrics(
        self, request: Losses | Evaluate, reply: FloatArray | Metrics | ClientMetrics
    ) -> object:
        """The reply with the metrics that are computed from outputs, by the loop engine."""
        if not (isinstance(request, Evaluate) and request.metrics and isinstance(reply, Metrics)):
            return reply
        whole = self.loop.reply(request)
        return replace(reply, others=whole.others) if isinstance(whole, Metrics) else whole

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


@dataclass(frozen=True, eq=False)
class _Known:
    """What is found out once for a work.

    Attributes:
        work: it is held, so that no other work gets its id.
        kind: equal for works that can share a tensor program.
        slots: see `filled_batch_size`.
        steps: of the client that makes the most.
    """

    work: Work
    kind: int
    slots: int
    steps: int


def _kind(request: Request) -> Hashable:
    """Equal for requests of one kind of work that one stack can answer."""
    if isinstance(request, Train):
        return kind_of(request)
    if isinstance(request, Evaluate):
        return request.split, bool(request.metrics)
    return request.split, request.batch is not None


def _measure_linear(
    program: LinearProgram, requests: list[Losses | Evaluate], rows: list[RequestedRows]
) -> list[FloatArray | Metrics | ClientMetrics]:
    """Replies from all ranges of all requests in one compiled call."""
    lengths = [len(of_request.begin) for of_request in rows]
    drawn = [of_request.drawn for of_request in rows if of_request.drawn is not None]
    shift = np.zeros(len(requests), dtype=np.int64)  # the drawn rows of the requests before
    shift[1:] = np.cumsum([len(of_request) for of_request in drawn])[:-1] if drawn else 0
    sums, correct = program.sums(
        torch.stack([request.parameters.cpu() for request in requests]),
        np.repeat(np.arange(len(requests)), lengths),
        split=requests[0].split,
        begin=np.concatenate([r.begin + s for r, s in zip(rows, shift, strict=True)]),
        end=np.concatenate([r.end + s for r, s in zip(rows, shift, strict=True)]),
        rows=np.concatenate(drawn) if drawn else None,
    )
    cuts = np.cumsum(lengths)[:-1]
    figures = zip(rows, np.split(sums, cuts), np.split(correct, cuts), strict=True)
    return [
        of_request.reply({"losses": losses, "correct": right})
        for of_request, losses, right in figures
    ]


def _measure_stacked(
    program: StackedProgram, requests: list[Losses | Evaluate], rows: list[RequestedRows]
) -> list[FloatArray | Metrics | ClientMetrics]:
    """Replies from every model's losses on the union of all rows."""
    device = program.workbench.device
    union = np.unique(np.concatenate([of_request.rows for of_request in rows]))
    vectors = torch.stack([request.parameters.to(device) for request in requests])
    of_models = program.example_figures(
        vectors, requests[0].split, torch.from_numpy(union).to(device)
    )
    figures = {name: values.cpu().numpy() for name, values in of_models.items()}  # (R, n)
    replies = []
    for index, of_request in enumerate(rows):
        places = np.searchsorted(union, of_request.rows)
        of_model = {name: values[index, places] for name, values in figures.items()}
        replies.append(of_request.reply(segment_sums(of_model, of_request.sizes)))
    return replies
