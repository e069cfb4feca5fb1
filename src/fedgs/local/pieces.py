"""Training requests that are cut into stacks, and their replies gathered from the pieces."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from fedgs.aggregation import BLOCK, WeightedMean, WeightedSum, all_finite
from fedgs.arrays import FloatArray, IntArray
from fedgs.local.averages import tree_means, weighted_means
from fedgs.local.loop import not_finite
from fedgs.local.stacking import PERIOD
from fedgs.local.terms import Trained, joined_reports, reports_of
from fedgs.requests import Failure, Train

__all__ = ["Folding", "Piece", "add_reports", "averages_of", "fold_models", "stacks"]

_AVERAGED_NUMBERS = 1 << 23  # above, the work is in the numbers and not in the calls


@dataclass(frozen=True)
class Piece:
    """Clients start..stop-1 of a request."""

    request: int
    start: int
    stop: int

    @property
    def length(self) -> int:
        """How many clients it has."""
        return self.stop - self.start


def stacks(lengths: Sequence[int], limit: int) -> Iterator[list[Piece]]:
    """Cut requests with so many clients each into stacks of at most `limit` clients, in order.

    Args:
        lengths: how many clients each request has.
        limit: a multiple of `PERIOD`; so are the places where requests are cut.
    """
    stack: list[Piece] = []
    free = limit
    for request, length in enumerate(lengths):
        start = 0
        while start < length or length == 0:
            stop = min(length, start + free)
            stack.append(Piece(request, start, stop))
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
class Folding:
    """A training request in progress.

    Attributes:
        request: the request.
        reply: once it is known.
        accumulators: what the request's folds have gathered.
        finite: (b,) bool for each block of local models: which are finite.
        reports: the reports of each block of clients.
    """

    request: Train
    reply: object | None = None
    accumulators: list[object] = field(default_factory=list)
    finite: list[torch.Tensor] = field(default_factory=list)
    reports: list[Mapping[str, FloatArray]] = field(default_factory=list)

    def add(self, piece: Piece, models: torch.Tensor) -> None:
        """Take in the (b, P) models of the next b clients."""
        accumulators = self.accumulators or [fold.start() for fold in self.request.folds]
        clients = self.request.clients[piece.start : piece.stop]
        self.accumulators = [
            fold.add(accumulator, clients, models)
            for fold, accumulator in zip(self.request.folds, accumulators, strict=True)
        ]
        self.finite.append(all_finite(models))

    def with_reports(self, results: Iterable[object]) -> tuple[object, ...]:
        """The reply with these results of the folds."""
        return (*results, *joined_reports(self.request, self.reports))

    def finish(self) -> object:
        """The reply: the results of the folds, or the client whose model is not finite."""
        if self.reply is not None:
            return self.reply
        finite = torch.cat(self.finite)
        try:
            if not bool(finite.all()):
                client = int(self.request.clients[int(torch.argmin(finite.int()))])
                return Failure(client, not_finite(self.request.work, client))
            folds = zip(self.request.folds, self.accumulators, strict=True)
            return self.with_reports([fold.finish(gathered) for fold, gathered in folds])
        except Exception as error:
            return Failure(None, error)


def fold_models(folding: list[Folding], pieces: Sequence[Piece], models: torch.Tensor) -> None:
    """Give the (r, P) local models of the pieces to the requests that have no reply yet."""
    if all(folding[piece.request].reply is not None for piece in pieces):
        return
    blocks = torch.split(models, [piece.length for piece in pieces])
    for piece, block in zip(pieces, blocks, strict=True):
        if folding[piece.request].reply is None:
            folding[piece.request].add(piece, block)


def add_reports(
    folding: list[Folding], pieces: Sequence[Piece], trained: Trained, sizes: IntArray
) -> None:
    """Give the pieces' reports to the requests that want some.

    Args:
        folding: the requests.
        pieces: the clients that were trained.
        trained: their r models and losses.
        sizes: (r, E) examples in each batch.
    """
    begin = 0
    for piece in pieces:
        rows, request = slice(begin, begin + piece.length), folding[piece.request].request
        begin = rows.stop
        if request.reports:
            place = slice(piece.start, piece.stop)
            of_piece = reports_of(request, place, trained.part(rows), sizes[rows])
            folding[piece.request].reports.append(of_piece)


def averages_of(
    requests: Sequence[Train], pieces: Sequence[Piece], models: torch.Tensor
) -> dict[int, tuple[torch.Tensor]]:
    """The average of each request whose only fold is a weighted mean or sum, all at once.

    Requests that are cut, and those where something is not finite, are left to the folds
    themselves.
    """
    if models.numel() > _AVERAGED_NUMBERS:
        return {}
    averages = _weighted(WeightedMean, requests, pieces=pieces, models=models)
    return averages | _weighted(WeightedSum, requests, pieces=pieces, models=models)


def _weighted(
    kind: type[WeightedMean | WeightedSum],
    requests: Sequence[Train],
    *,
    pieces: Sequence[Piece],
    models: torch.Tensor,
) -> dict[int, tuple[torch.Tensor]]:
    ends = np.cumsum([piece.length for piece in pieces])
    members, begin, end, weights, references = [], [], [], [], []
    for piece, stop in zip(pieces, ends.tolist(), strict=True):
        request = requests[piece.request]
        fold = request.folds[0] if len(request.folds) == 1 else None
        if type(fold) is not kind:
            continue
        if 0 < piece.length == len(request.clients) == len(fold.weights):
            members.append(piece.request)
            begin.append(stop - piece.length)
            end.append(stop)
            weights.append(fold.weights)
            if isinstance(fold, WeightedSum):
                references.append(fold.parameters.to(models.device))
    if not members:
        return {}
    fit = max(map(len, weights)) <= BLOCK
    averages, fine = (weighted_means if fit else tree_means)(
        models,
        np.array(begin),
        end=np.array(end),
        weights=weights,
        references=torch.stack(references) if references else None,
    )
    results = zip(members, averages.unbind(), fine.tolist(), strict=True)
    return {index: (average,) for index, average, good in results if good}
