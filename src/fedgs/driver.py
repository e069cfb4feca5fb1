"""The driver: it answers the requests of many runs together, until each run has ended."""

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fedgs.aggregation import is_finite
from fedgs.checkpoint import State
from fedgs.errors import RunError, UpdateError
from fedgs.plan import Plan
from fedgs.record import Record
from fedgs.requests import Engine, Failure, Request, Train
from fedgs.simulation import Requesting, Shared, final_record, run_round, start_run

__all__ = ["Failed", "LiveRun", "Sink", "drive", "steps"]


@dataclass(frozen=True)
class Failed:
    """Why a run ended early.

    Attributes:
        round: the round that failed.
        client: index of the client whose work failed, or None.
        exception: what was raised.
    """

    round: int
    client: int | None
    exception: Exception


class Sink(Protocol):
    """Takes what a run gives, in the order of its rounds."""

    def on_start(self, state: State) -> State:
        """Take the state before round 0, where the run begins without one.

        Returns:
            An equal state, which the run begins with; tables may be in other places.
        """

    def on_round(self, state: State, record: Record, seconds: Mapping[str, float]) -> None:
        """Take a round: the state after it, its record, and its seconds by phase."""

    def on_end(self, state: State, record: Record, seconds: Mapping[str, float]) -> None:
        """Take the final state and record T; called once."""

    def on_failure(self, failed: Failed) -> None:
        """Take the reason why the run failed; called once, instead of `on_end`."""


@dataclass(eq=False)
class LiveRun:
    """A run that is being driven.

    Attributes:
        plan: the run.
        state: the state after the last round; None: the run begins, and its memory is still to be
            made.
        sink: takes its rounds.
        shared: where the memory before round 0 comes from if other runs begin with the same one,
            see `fedgs.simulation.start_run`.
        on_record: called with each record before the sink takes it; a `RunError` ends the run.
        requesting: the current round, or the start.
        request: the request that waits for a reply; None: the run has ended.
        seconds: of the current round, by phase.
        stopped: whether the run has ended before its last round.
    """

    plan: Plan
    state: State | None
    sink: Sink
    shared: Shared | None = None
    on_record: Callable[[Record], None] | None = None
    requesting: Requesting | None = None
    request: Request | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    stopped: bool = False

    @property
    def round(self) -> int:
        """The round to come."""
        return 0 if self.state is None else self.state.round

    @property
    def finished(self) -> bool:
        """Whether no request is left."""
        return self.request is None


def drive(runs: Sequence[LiveRun], engine: Engine) -> None:
    """Drive all runs to their end, see `steps`."""
    for _ in steps(runs, engine):
        pass


def steps(runs: Sequence[LiveRun], engine: Engine) -> Iterator[LiveRun]:
    """Drive all runs to their end.

    Yields a run after each of its rounds, when it has failed, and when it has stopped early.

    Each call of the engine holds the requests of every run that waits for the same kind.
    Evaluations and losses are answered before any training, so that the training requests of all
    runs meet in one call. The failure of a run is given to its sink, and the others continue.

    Args:
        runs: none of them was driven before.
        engine: answers the requests.
    """
    for run in runs:
        _begin(run)
        yield from _step(run, None)
    while live := [run for run in runs if not run.finished]:
        waiting = [run for run in live if not isinstance(run.request, Train)] or live
        started = time.perf_counter()
        requests = [run.request for run in waiting if run.request is not None]
        replies = list(engine.answer(requests))
        share = (time.perf_counter() - started) / len(waiting)
        for position, reply in replies:
            run = waiting[position]
            phase = "train" if isinstance(run.request, Train) else "evaluate"
            run.seconds[phase] = run.seconds.get(phase, 0.0) + share
            yield from _step(run, reply)


def _begin(run: LiveRun) -> None:
    """Begin what follows from the run's state: the start, a round or record T."""
    if run.state is None:
        run.requesting = start_run(run.plan, run.shared)
    elif run.state.round >= run.plan.rounds:
        run.requesting = final_record(run.plan, run.state)
    else:
        run.requesting = run_round(run.plan, run.state)
    run.seconds = {}


def _step(run: LiveRun, reply: object) -> Iterator[LiveRun]:
    """Give a reply to the run and take its next request.

    Yields:
        The run, after each round that ends.
    """
    blamed = reply.client if isinstance(reply, Failure) else None
    while True:
        trained = isinstance(run.request, Train)
        started = time.perf_counter()
        run.request = None
        try:
            assert run.requesting is not None
            if isinstance(reply, Failure):
                run.request = run.requesting.throw(reply.exception)
            else:
                run.request = run.requesting.send(reply)
        except StopIteration as stop:
            _add_seconds(run, "aggregate" if trained else "select", started)
            if not (yield from _finish(run, stop.value)):
                return
            reply = blamed = None
            continue
        except SystemExit as exit:  # sys.exit in a sampler ends its run and no other
            error = RunError(f"the code of this run called sys.exit({exit.code!r})").with_traceback(
                exit.__traceback__
            )
            run.sink.on_failure(Failed(run.round, blamed, error))
            yield run
            return
        except Exception as exception:
            run.sink.on_failure(Failed(run.round, blamed, exception))
            yield run
            return
        _add_seconds(run, "select", started)
        return


def _finish(
    run: LiveRun, result: State | Record | tuple[State, Record]
) -> Generator[LiveRun, None, bool]:
    """Report the result of a start, a round or record T; returns whether the run continues."""
    if isinstance(result, Record):
        assert run.state is not None
        if not (yield from _announce(run, result)):
            return False
        run.sink.on_end(run.state, result, run.seconds)
        run.stopped = result.round < run.plan.rounds
        if run.stopped:
            yield run
        return False
    if isinstance(result, State):
        run.state = run.sink.on_start(result)
        _begin(run)
        return True
    state, record = result
    if not is_finite(state.parameters):
        error = UpdateError("the average of the updates is not finite")
        run.sink.on_failure(Failed(run.round, None, error))
        yield run
        return False
    if not (yield from _announce(run, record)):
        return False
    run.sink.on_round(state, record, run.seconds)
    run.state = state
    _begin(run)
    yield run
    return True


def _announce(run: LiveRun, record: Record) -> Generator[LiveRun, None, bool]:
    """Give the record to `on_record`; returns whether the run continues."""
    if run.on_record is not None:
        try:
            run.on_record(record)
        except RunError as exception:
            run.sink.on_failure(Failed(record.round, None, exception))
            yield run
            return False
    return True


def _add_seconds(run: LiveRun, phase: str, started: float) -> None:
    run.seconds[phase] = run.seconds.get(phase, 0.0) + time.perf_counter() - started
