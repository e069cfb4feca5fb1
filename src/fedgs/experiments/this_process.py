"""Runs carried out in this process: prepared runs become live runs and are driven together.

A run that an earlier start began resumes from its checkpoint.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fedgs.checkpoint import State, load_checkpoint, with_table_files
from fedgs.clients import Memory
from fedgs.driver import LiveRun, steps
from fedgs.errors import OutputError
from fedgs.experiments.crew import Message, Progress, RunEnded, Share, ShareEnded
from fedgs.experiments.listening import Listener
from fedgs.experiments.memories import StartMemories
from fedgs.experiments.prepared import PreparedRun
from fedgs.experiments.sinks import FolderSink, MemorySink, RunSink
from fedgs.experiments.snapshots import BestModel, best_figure, load_best, tensors_of
from fedgs.local.engines import choose_engine, new_engine, numerics_with
from fedgs.local.on_demand import OnDemandEngine
from fedgs.local.threads import threads_of, usable_threads
from fedgs.plan import Plan
from fedgs.records import Record
from fedgs.requests import Engine
from fedgs.sampling.base import DescribesMemory, Remembers
from fedgs.simulation import initial_state, memory_key

__all__ = ["MakeEngine", "ThisProcess", "carry_out", "own_engine"]

MakeEngine = Callable[[str, str], Engine]  # of a name and a device


def own_engine(name: str, device: str) -> Engine:
    """An engine in this process, also for examples that are made on demand."""
    return OnDemandEngine(partial(new_engine, name, device))


class ThisProcess:
    """A crew of one: the process that asks. It carries out one share after the other.

    Args:
        runs: that shares name by their numbers.
        listener: takes the new records, or None.
        make_engine: makes the engines by which the runs' requests are answered.
    """

    size = 1

    def __init__(
        self,
        runs: Sequence[PreparedRun],
        listener: Listener | None = None,
        make_engine: MakeEngine = own_engine,
    ) -> None:
        self._runs = runs
        self._listener = listener
        self._make_engine = make_engine
        self._working: dict[Share, Generator[Message, None, None]] = {}

    def start(self, share: Share) -> None:
        """Begin the runs; they are driven while `messages` is read."""
        numbers, listener = list(share.runs), self._listener
        on_record = (
            None
            if listener is None
            else lambda position, record: listener.give(numbers[position], record)
        )
        runs = [self._runs[number] for number in numbers]
        self._working[share] = carry_out(runs, on_record, make_engine=self._make_engine)

    def messages(self) -> Iterable[tuple[Share, Message]]:
        """All messages of the share, each as soon as its round has passed. Errors are raised."""
        for share, messages in self._working.items():
            for message in messages:
                yield share, message
        self._working.clear()

    def how_it_ended(self, share: Share) -> str | None:
        """A share has ended when its messages were read."""
        return None if share in self._working else "ended"

    def end(self) -> None:
        """Save the last whole round of runs that are being driven."""
        for messages in self._working.values():
            messages.close()


def carry_out(
    runs: Sequence[PreparedRun],
    on_record: Callable[[int, Record], None] | None = None,
    on_write: Callable[[int], None] | None = None,
    *,
    make_engine: MakeEngine = own_engine,
) -> Generator[Message, None, None]:
    """Drive runs together in this process.

    Args:
        runs: each at its beginning, or where its folder says that it stopped.
        on_record: called with the position of the run and each of its records, before the record is
            stored; a `ListenerError` ends that run.
        on_write: called with the position of a run after files of its folder have changed.
        make_engine: makes the engines by which the runs' requests are answered.

    Yields:
        `Progress` after each round of each run and each failure, then one `RunEnded` for each run,
        then `ShareEnded`. Where the iteration ends early, the last whole round of every run is
        saved.

    Raises:
        OutputError: what an earlier start left is damaged.
    """
    memories = StartMemories(next((run.folder.path.parent for run in runs if run.folder), None))
    begun: list[_Begun] = []
    try:
        for position, run in enumerate(runs):
            written = None if on_write is None else partial(on_write, position)
            begun.append(_begin(run, memories, written))
            if on_record is not None:
                begun[-1].live.on_record = partial(on_record, position)
        yield from _driven(begun, make_engine)
    except BaseException:
        for run_begun in begun:
            run_begun.sink.interrupt()
        raise
    for position, run_begun in enumerate(begun):
        sink = run_begun.sink
        yield RunEnded(position, run_begun.tables, sink.failure, sink.records, sink.snapshots)
    yield ShareEnded()


@dataclass(frozen=True)
class _Begun:
    """A live run and how it is carried out.

    Attributes:
        live: the run.
        sink: takes its rounds.
        tables: what `config.toml` holds.
        engine: name, device and number of threads; runs with equal ones are driven together.
    """

    live: LiveRun
    sink: RunSink
    tables: dict[str, Any]
    engine: tuple[str, str, int]

    @property
    def rounds_left(self) -> int:
        return max(0, self.live.plan.rounds - self.live.round)


def _driven(begun: Sequence[_Begun], make_engine: MakeEngine) -> Iterable[Progress]:
    rounds, failed = 0, 0
    total, earlier = sum(run.rounds_left for run in begun), sum(run.live.round for run in begun)
    engines: dict[tuple[str, str], Engine] = {}
    groups: dict[tuple[str, str, int], dict[LiveRun, _Begun]] = {}
    for run in begun:
        groups.setdefault(run.engine, {})[run.live] = run
    for (name, device, threads), group in groups.items():
        if (name, device) not in engines:
            engines[name, device] = make_engine(name, device)
        with threads_of(threads):
            for live in steps(list(group), engines[name, device]):
                if group[live].sink.failure is not None:
                    failed, total = failed + 1, total - group[live].rounds_left
                elif live.stopped:
                    total -= group[live].rounds_left
                else:
                    rounds += 1
                yield Progress(rounds, total, failed, earlier)


def _begin(
    run: PreparedRun, memories: StartMemories, on_write: Callable[[], None] | None
) -> _Begun:
    plan, execution = run.plan, run.config.execution
    earlier = _earlier_start(run, memories)
    name, reason = run.engine
    if earlier.engine and earlier.engine != name:
        name, reason = choose_engine(earlier.engine, device=execution.device, work=plan.work)
    threads = execution.threads or earlier.threads or usable_threads()
    numerics = numerics_with(name, device=execution.device, work=plan.work)
    tables = run.tables(name, reason)
    tables["run"] |= {"threads": threads, "numerics": numerics, **earlier.about}
    describe = partial(_described, plan, tables)
    describe(earlier.memory)
    clients, figure, tensors = plan.federation.clients, best_figure(plan), tensors_of(plan.work)
    if run.folder is None:
        sink: RunSink = MemorySink(clients, BestModel(*figure), tensors, describe)
    else:
        if earlier.engine:
            run.folder.write_config(tables)
        else:
            run.folder.create(tables, clients, {})  # the memory follows when it is made
        run.folder.write_failure(None)
        key = memory_key(plan)
        sink = FolderSink(
            run.folder,
            clients,
            engine=name,
            start_memory=earlier.memory,
            checkpoint_every=execution.checkpoint_every,
            shared=None if key is None else memories.file(key),
            best=load_best(run.folder, figure, earlier.state),
            tensors=tensors,
            begins=earlier.state,
            describe=describe,
            on_write=on_write,
        )
        if on_write is not None:
            on_write()
    live = LiveRun(plan, earlier.state, sink, memories.start)
    return _Begun(live, sink, tables, (name, execution.device, threads))


def _described(plan: Plan, tables: dict[str, Any], memory: Memory) -> dict[str, Any] | None:
    """The tables with the sampler's words about its memory at the start; None without words."""
    words = plan.sampler.describe(memory) if isinstance(plan.sampler, DescribesMemory) else {}
    tables["run"] |= words
    return tables if words else None


@dataclass(frozen=True)
class _EarlierStart:
    """What an earlier start left.

    Attributes:
        state: where it got to, or the beginning; None: the sampler's memory is still to be made.
        memory: the memory at the beginning, once it is made.
        engine: which engine it began with, "" for a new run.
        about: what was stored about that.
        threads: that the loop engine began with, on which the last bits of a large model depend; 0
            where it does not matter.
    """

    state: State | None = None
    memory: Memory = field(default_factory=dict)
    engine: str = ""
    about: Mapping[str, object] = field(default_factory=dict)
    threads: int = 0


def _earlier_start(run: PreparedRun, memories: StartMemories) -> _EarlierStart:
    """Where an earlier start got to, its records cut to its checkpoint; otherwise the beginning."""
    folder, plan = run.folder, run.plan
    if folder is None or not folder.exists():
        return _EarlierStart()
    stored = folder.config().get("run", {})
    about = {key: stored[key] for key in ("engine_reason", "started") if key in stored}
    began_with = stored.get("threads", 0) if stored.get("engine") == "loop" else 0
    threads = began_with if type(began_with) is int and began_with > 0 else 0
    memory = memories.of_run(folder)
    checkpoint = load_checkpoint(folder, memory)
    # Records that are shorter than the checkpoint says were lost: from the start, the same lines
    # are written again.
    if checkpoint is None or checkpoint.records_bytes > folder.size("rounds.jsonl"):
        folder.truncate("rounds.jsonl", 0)
        folder.truncate("timings.jsonl", 0)
        made = bool(memory) or not isinstance(plan.sampler, Remembers)
        state = with_table_files(folder, initial_state(plan, memory)) if made else None
        return _EarlierStart(state, memory, stored.get("engine", ""), about, threads)
    if checkpoint.state.parameters.shape != initial_state(plan, {}).parameters.shape:
        raise OutputError(
            f"{folder.path / 'checkpoint.npz'} holds another model; "
            "remove the run's folder to restart it"
        )
    folder.truncate("rounds.jsonl", checkpoint.records_bytes)
    folder.truncate("timings.jsonl", checkpoint.timings_bytes)
    return _EarlierStart(checkpoint.state, memory, checkpoint.engine, about, threads)
