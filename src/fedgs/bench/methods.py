"""The time of a run-round of each method on Synthetic, relative to that of `uniform`."""

import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fedgs.checkpoint import State
from fedgs.driver import Failed, LiveRun, steps
from fedgs.experiments.grid import build_config
from fedgs.experiments.preparing import prepare
from fedgs.local.engines import make_engine
from fedgs.local.threads import threads_of
from fedgs.plan import Plan
from fedgs.records import Record
from fedgs.requests import Engine, Losses, Reply, Request

__all__ = ["REFERENCE", "ROWS", "MeasuredMethod", "Row", "measure_methods"]

WARM_UP = 3  # rounds before the measured ones
_NEVER = 1_000_000  # rounds of a run, of which the measured ones are the first


@dataclass(frozen=True)
class Row:
    """A method whose rounds are timed.

    Attributes:
        kind: the part in which it differs from the reference: "sampler", "weighting", "server
            step", "aggregation" or "system".
        name: of this part.
        method: the table of the method.
        aggregation: the table of the aggregation.
        target: the largest ratio to the reference that is aimed at; None: it does more work.
        training: settings of the training that the method needs.
        system: the table `[system]`; None: no clock.
    """

    kind: str
    name: str
    method: Mapping[str, object]
    aggregation: Mapping[str, object] | None = None
    target: float | None = 1.3
    training: Mapping[str, object] = field(default_factory=dict)
    system: Mapping[str, object] | None = None


def _weighting(name: str, sampler: str = "uniform") -> Row:
    return Row("weighting", name, {"name": sampler, "weighting": name})


def _server(name: str, **settings: object) -> Row:
    step = {"name": name, **settings}
    return Row("server step", name, {"name": "uniform"}, {"name": "mean", "server": step})


REFERENCE = Row("sampler", "uniform", {"name": "uniform"})
ROWS = (
    *(
        Row("sampler", name, {"name": name})
        for name in (
            "md",
            "least_recent",
            "permutation",
            "rbcs_f",
            "f3ast",
            "clustered_sizes",
            "fedgs",
        )
    ),
    *map(_weighting, ("draws", "equal", "inverse_participation", "all", "known", "fedau")),
    _weighting("deficit"),
    _weighting("f3ast", "f3ast"),
    _server("sgd", rate=0.5),
    _server("momentum"),
    _server("adagrad", rate=0.1),
    _server("adam", rate=0.1),
    _server("yogi", rate=0.1),
    _server("amplified", period=5, factor=1.5),
    Row("aggregation", "stale", {"name": "uniform"}, {"name": "stale"}, target=2.0),
    Row("aggregation", "scaffold", {"name": "uniform"}, {"name": "scaffold"}, target=2.0),
    Row(
        "aggregation",
        "feddyn",
        {"name": "uniform"},
        {"name": "feddyn"},
        target=2.0,
        training={"mu": 0.1},
    ),
    Row(
        "aggregation",
        "gossip",
        {"name": "uniform", "weighting": "equal"},
        {"name": "gossip"},
        target=None,
    ),
    Row(
        "aggregation",
        "postponed",
        {"name": "uniform", "weighting": "equal"},
        {"name": "postponed"},
        target=None,
    ),
    *(
        Row("sampler", name, {"name": name}, target=None)
        for name in (
            "clustered",
            "divfl",
            "active_fl",
            "oort",
            "power_of_choice",
            "cpow_d",
            "rpow_d",
        )
    ),
    Row("weighting", "coverage", {"name": "divfl", "weighting": "coverage"}, target=None),
    Row("sampler", "ca_fed", {"name": "ca_fed"}, target=None),
    # The same clients train as in the reference.
    Row(
        "system",
        "clock",
        {"name": "uniform"},
        target=1.2,
        system={"over_selection": 1.0},
    ),
)


@dataclass(frozen=True)
class MeasuredMethod:
    """What was measured of a method.

    Attributes:
        row: the method.
        milliseconds: of processor time for a run-round, the median.
        ratio: to a run-round of the reference that was timed just before, the median.
        losses: clients whose local loss is computed in a round, besides the training.
    """

    row: Row
    milliseconds: float
    ratio: float
    losses: float

    @property
    def misses(self) -> bool:
        """Whether the ratio is above the target."""
        return self.row.target is not None and self.ratio > self.row.target


class _Discarding:  # a sink that keeps nothing and raises the failure of a run
    def on_start(self, state: State) -> State:
        return state

    def on_round(self, state: State, record: Record, seconds: Mapping[str, float]) -> None:
        pass

    def on_end(self, state: State, record: Record, seconds: Mapping[str, float]) -> None:
        pass

    def on_failure(self, failed: Failed) -> None:
        raise failed.exception


class _Counting:  # an engine that counts the clients whose losses are asked for
    def __init__(self, engine: Engine) -> None:
        self.name, self._engine, self.counts = engine.name, engine, Counter[str]()

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        for request in requests:
            if isinstance(request, Losses):
                self.counts["losses"] += len(request.clients)
        return self._engine.answer(requests)


class _Timed:
    """Runs of one method, of different seeds, that were driven through their first rounds."""

    def __init__(self, row: Row, runs: int) -> None:
        plans = _plans(row, runs)
        self._engine = _Counting(make_engine("auto", "cpu", plans[0].work)[0])
        self._live = [LiveRun(plan, None, _Discarding()) for plan in plans]
        self._rounds = 0
        self._steps = steps(self._live, self._engine)
        self.seconds(WARM_UP)

    def seconds(self, rounds: int) -> float:
        """Processor time of the next rounds of all runs, for one round of one run."""
        started = time.process_time()
        for _ in range(rounds * len(self._live)):
            next(self._steps)
        self._rounds += rounds
        return (time.process_time() - started) / (rounds * len(self._live))

    @property
    def losses(self) -> float:
        """Clients whose losses were computed in a round, on average."""
        return self._engine.counts["losses"] / (self._rounds * len(self._live))


def _plans(row: Row, runs: int) -> list[Plan]:
    tables: dict[str, object] = {
        "data": "synthetic",
        "availability": {"name": "IDL"},
        "method": dict(row.method),
        # The objective is the one that all methods have.
        "training": {"rounds": _NEVER, "objective": "equal", **row.training},
        "evaluation": {"every": _NEVER},
    }
    if row.aggregation is not None:
        tables["aggregation"] = dict(row.aggregation)
    if row.system is not None:
        tables["system"] = dict(row.system)
    configs = [build_config({**tables, "seed": seed}) for seed in range(runs)]
    return [prepared.plan for prepared in prepare(configs)]


def measure_methods(
    rows: Sequence[Row] = ROWS, *, runs: int = 10, rounds: int = 20, repeats: int = 5
) -> Iterator[MeasuredMethod]:
    """Time rounds of each method and of the reference in turns.

    The runs are on Synthetic with 30 clients, all available, of which 6 train; evaluations are left
    out, and so are the first rounds. What is measured is the processor time of one thread, since
    other programs hardly change it.

    Args:
        rows: the methods.
        runs: that are driven together.
        rounds: that are timed at once.
        repeats: how many times, >= 1.

    Yields:
        The reference, then the methods in their order.
    """
    with threads_of(1):
        reference = _Timed(REFERENCE, runs)
        first = statistics.median(reference.seconds(rounds) for _ in range(repeats))
        yield MeasuredMethod(REFERENCE, 1e3 * first, 1.0, 0.0)
        for row in rows:
            timed = _Timed(row, runs)
            pairs = [(reference.seconds(rounds), timed.seconds(rounds)) for _ in range(repeats)]
            median = statistics.median(seconds for _, seconds in pairs)
            ratio = statistics.median(seconds / base for base, seconds in pairs)
            yield MeasuredMethod(row, 1e3 * median, ratio, timed.losses)
