"""Requests cut into pieces that may be answered in several places, and replies joined from them.

The training of a cohort is cut at multiples of `fedgs.aggregation.BLOCK` clients, and an evaluation
at those of a forward pass, so that a reply has the bits of one that was never cut.
"""

import pickle
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import torch

from fedgs.aggregation import BLOCK, Rows
from fedgs.data.on_demand import FederationOnDemand
from fedgs.errors import ClientError, RunError
from fedgs.local.engines import program_of
from fedgs.local.evaluation import (
    ExampleFigures,
    RequestedRows,
    block_rows,
    figures_of_rows,
    measured,
    shape_of_block,
)
from fedgs.local.loop import LoopEngine
from fedgs.local.on_demand import OnDemandEngine
from fedgs.local.stacked import StackedEngine
from fedgs.requests import (
    AnyFold,
    Engine,
    Evaluate,
    Failure,
    Losses,
    MergingFold,
    Reply,
    Request,
    Train,
)

__all__ = ["Piece", "RowBlocks", "answered", "count_of_units", "cut", "joined", "portable"]


@dataclass(frozen=True, eq=False)
class RowBlocks:
    """Forward passes start..stop-1 of those that a request for losses or metrics takes."""

    request: Losses | Evaluate
    start: int
    stop: int


# What one place answers: a whole request, some clients of one, or some of its forward passes.
Piece: TypeAlias = Request | RowBlocks


def count_of_units(request: Request, *, engine: str, device: str) -> int:
    """How many units the request has that different places may answer; 1: it is not cut.

    Args:
        request: any.
        engine: as registered, by which every place answers.
        device: of the engine.
    """
    if isinstance(request, Train):
        return max(1, -(-len(request.clients) // BLOCK))
    if isinstance(request.work.federation, FederationOnDemand):
        return 1
    by_loop = engine == "loop" or (
        engine == "stacked" and program_of(engine, device=device, work=request.work) != "linear"
    )
    if not by_loop or device != "cpu":
        return 1
    size = block_rows(shape_of_block(request.work.federation))
    return max(1, -(-len(RequestedRows.of(request).rows) // size))


def cut(request: Request, start: int, stop: int, *, units: int) -> Piece:
    """The units start..stop-1 of a request that has so many."""
    if isinstance(request, Train):
        begin, end = start * BLOCK, min(stop * BLOCK, len(request.clients))
        folds = tuple(_Gathered(_part(fold, begin, end)) for fold in request.folds)
        return replace(
            request,
            clients=request.clients[begin:end],
            folds=folds,
            starts=_rows(request.starts, begin, end),
            offsets=_rows(request.offsets, begin, end),
            states=None if request.states is None else request.states[begin:end],
        )
    return request if units == 1 else RowBlocks(request, start, stop)


def _rows(matrix: torch.Tensor | None, start: int, stop: int) -> torch.Tensor | None:
    """A copy of some rows: a view is sent with the storage of all rows."""
    return None if matrix is None else matrix[start:stop].clone()


def answered(engine: Engine, piece: Piece) -> object:
    """The answer of one place, which another process can load.

    None: the model draws random numbers in an evaluation that was cut, which has to be answered as
    a whole.
    """
    if not isinstance(piece, RowBlocks):
        ((_, reply),) = engine.answer([piece])
        return portable(reply) if isinstance(reply, Failure) else reply
    inner = engine.engine if isinstance(engine, OnDemandEngine) else engine
    loop = inner.loop if isinstance(inner, StackedEngine) else inner
    assert isinstance(loop, LoopEngine)
    try:
        request, requested = piece.request, RequestedRows.of(piece.request)
        size = block_rows(shape_of_block(request.work.federation))
        rows = requested.rows[piece.start * size : piece.stop * size]
        figures = figures_of_rows(loop.workbench(request.work), request, rows, watch=True)
        return None if figures.drew else figures
    except Exception as error:
        return portable(Failure(None, error))


def joined(request: Request, answers: Sequence[Any]) -> Reply:
    """The reply from the answers to all pieces, in their order."""
    failure = _failure(answers)
    if failure is not None:
        return failure
    try:
        if isinstance(request, Train):
            return _trained(request, answers)
        if not isinstance(answers[0], ExampleFigures):
            return answers[0]
        figures = ExampleFigures.joined(answers)
        return measured(request, RequestedRows.of(request), figures)
    except ClientError as error:
        return Failure(error.client, error)
    except Exception as error:
        return Failure(None, error)


def portable(failure: Failure) -> Failure:
    """The failure with its traceback as a note, and an exception that can be sent."""
    error = failure.exception
    text = "".join(traceback.format_exception(error)).rstrip()
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        name = f"{type(error).__name__}: {error}"
        error = RunError(name) if failure.client is None else ClientError(failure.client, name)
    error.add_note(f"raised in another process:\n{text}")
    return Failure(failure.client, error)


@dataclass(frozen=True, eq=False)
class _Gathered:
    """A fold whose result is what the given one has gathered."""

    fold: AnyFold

    def start(self) -> Any:
        return self.fold.start()

    def add(self, accumulator: Any, clients: Any, models: Any) -> Any:
        return self.fold.add(accumulator, clients, models)

    def finish(self, accumulator: Any) -> object:
        return accumulator


def _merges(fold: AnyFold) -> bool:
    """Whether `merge` was written for what `start` and `add` gather.

    A subclass may have replaced these alone.
    """
    if not isinstance(fold, MergingFold):
        return False
    order = type(fold).__mro__
    place = {
        name: next(n for n, cls in enumerate(order) if name in vars(cls))
        for name in ("start", "add", "part", "merge")
        if any(name in vars(cls) for cls in order)
    }
    return len(place) == 4 and max(place["part"], place["merge"]) <= min(
        place["start"], place["add"]
    )


def _part(fold: AnyFold, begin: int, end: int) -> AnyFold:
    """What gathers the clients begin..end-1: part of the fold, or their models."""
    return fold.part(begin, end) if _merges(fold) and isinstance(fold, MergingFold) else Rows()


def _trained(request: Train, answers: Sequence[tuple[Any, ...]]) -> tuple[object, ...]:
    results: list[object] = []
    for place, fold in enumerate(request.folds):
        gathered = [answer[place] for answer in answers]
        if _merges(fold) and isinstance(fold, MergingFold):
            results.append(fold.finish(reduce(fold.merge, gathered)))
        else:
            results.append(_folded(fold, request, gathered))
    if request.reports:
        pieces = [answer[len(results)] for answer in answers]
        names = request.reports
        results.append({name: np.concatenate([piece[name] for piece in pieces]) for name in names})
    if request.states is not None:
        results.append(tuple(state for answer in answers for state in answer[-1]))
    return tuple(results)


def _folded(fold: AnyFold, request: Train, gathered: Sequence[Sequence[Any]]) -> object:
    """The result of a fold that cannot be merged, from all models in the clients' order."""
    accumulator, done = fold.start(), 0
    for block in (block for blocks in gathered for block in blocks):
        clients = request.clients[done : done + len(block)]
        accumulator = fold.add(accumulator, clients, block)
        done += len(block)
    return fold.finish(accumulator)


def _failure(answers: Sequence[object]) -> Failure | None:
    """The failure that ends the request: of a client that raised, or the first one."""
    failures = [answer for answer in answers if isinstance(answer, Failure)]
    raised = [one for one in failures if isinstance(one.exception, ClientError)]
    return next(iter([*raised, *failures]), None)
