"""A grid over processes: each worker drives its share of the runs with its share of the threads.

Runs travel as configuration tables and are built again by name in the worker; federations are laid out once and mapped into
memory. A worker that crashes is started again with the runs it had not finished; with an output folder they go on from their
checkpoints.
"""

import contextlib
import inspect
import logging
import multiprocessing
import os
import pickle
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict

from fedgs.collector import work_rarely_collecting
from fedgs.config import Config
from fedgs.data import Data, open_folder, to_folder
from fedgs.errors import ConfigError, OutputError
from fedgs.experiments.preparing import Attendances, Prepared, prepare_one, run_tables
from fedgs.experiments.runner import Finished, Progress, is_finished, run_here
from fedgs.records import Record, RunFolder
from fedgs.registry import load_plugin, loaded_plugins, variant_class, variant_names

__all__ = ["run_in_workers", "worker_count"]

_log = logging.getLogger("fedgs")
STARTS = 3  # how often a worker's runs are started before they count as failed
TELL_SECONDS = 0.2
SMALL_GRID = 20_000  # run-rounds below which stacked runs share one tensor program rather than two processes


def worker_count(prepared: Sequence[Prepared]) -> int:
    """How many processes carry out these runs: `execution.workers`, or a fixed rule.

    The rule: one a physical core for images; for vectors, where runs share tensor programs, one a core for grids of at least
    20,000 run-rounds and one in all below. Never more than there are runs, and one where a part of a run is an object that
    another process could not build by name.

    Raises:
        ConfigError: `execution.workers` asks for several and a part is not registered.
    """
    asked = max((one.config.execution.workers or 0 for one in prepared), default=0)
    obstacle = next((reason for one in prepared if (reason := _why_not_elsewhere(one.config)) is not None), None)
    if asked > 1 and obstacle is not None and len(prepared) > 1:
        raise ConfigError(f"execution.workers = {asked} needs parts that are registered by name; {obstacle}")
    if asked or obstacle is not None:
        return min(max(asked, 1), max(1, len(prepared)))
    images = any(len(one.plan.federation.example_shape) > 1 for one in prepared)
    several = images or sum(one.plan.rounds for one in prepared) >= SMALL_GRID
    return max(1, min(physical_cores(), len(prepared))) if several else 1


def _why_not_elsewhere(config: Config) -> str | None:
    for family in ("availability", "method", "model"):
        part = getattr(config, family)
        registered = part.name in variant_names(family) and variant_class(family, part.name) is type(part)
        if not registered or type(part).__module__ == "__main__":
            return f"{family} is {type(part).__name__}, which is not"
        origin = type(part).__module__
        if not origin.startswith("fedgs.") and origin not in loaded_plugins() and getattr(part, "defined_in", None) is not None:
            return f"{family} {part.name!r} was registered by this process only; put it into a plug-in file"
    return None


@dataclass(frozen=True)
class _Order:
    """What a worker is told."""

    tables: list[dict[str, Any]]
    federations: list[Path]
    of_run: list[int]
    data_sources: list[str | None]
    fingerprints: list[str]
    plugins: list[Path]
    out: Path | None
    threads: int


@dataclass(eq=False)
class _Worker:
    """A process and the runs it has not finished yet."""

    runs: list[int]
    starts: int = 0
    process: BaseProcess | None = None
    pipe: Connection | None = None
    rounds: int = 0  # of this start
    total: int = 0  # what this start has to do, as far as it is known
    error: str = ""
    results: dict[int, Any] = field(default_factory=dict)


def run_in_workers(
    prepared: Sequence[Prepared], *, workers: int, out: Path | None, on_progress: Callable[[Progress], None] | None
) -> list[Finished]:
    """Carry out runs in `workers` processes; the records are those of one process."""
    with tempfile.TemporaryDirectory(prefix="fedgs-") as scratch:
        federations = list({id(one.plan.federation): one.plan.federation for one in prepared}.values())
        shared = [to_folder(federation, Path(scratch) / str(number)) for number, federation in enumerate(federations)]
        position = {id(federation): number for number, federation in enumerate(federations)}
        crew = [_Worker(list(range(first, len(prepared), workers))) for first in range(workers)]
        threads = max(1, physical_cores() // workers)

        def order(runs: list[int]) -> _Order:
            return _Order(
                [prepared[run].config.tables() for run in runs],
                shared,
                [position[id(prepared[run].plan.federation)] for run in runs],
                [_source(prepared[run].config.data) for run in runs],
                [prepared[run].fingerprint for run in runs],
                list(loaded_plugins().values()),
                out,
                threads,
            )

        try:
            results = _supervise(crew, order, prepared, out, on_progress)
        finally:
            for worker in crew:
                _end(worker)
    return [results[number] for number in range(len(prepared))]


def _supervise(
    crew: list[_Worker],
    order: Callable[[list[int]], _Order],
    prepared: Sequence[Prepared],
    out: Path | None,
    on_progress: Callable[[Progress], None] | None,
) -> dict[int, Finished]:
    for worker in crew:
        worker.total = sum(prepared[run].plan.rounds for run in worker.runs)
        _start(worker, order)
    while working := [worker for worker in crew if worker.pipe is not None]:
        for pipe in wait([worker.pipe for worker in working if worker.pipe is not None], timeout=1.0):
            worker = next(worker for worker in working if worker.pipe is pipe)
            _listen(worker, order)
        if on_progress is not None:
            failed = sum(message["failure"] is not None for worker in crew for message in worker.results.values())
            on_progress(Progress(sum(worker.rounds for worker in crew), sum(worker.total for worker in crew), failed))
    results: dict[int, Finished] = {}
    for worker in crew:
        for run, message in worker.results.items():
            results[run] = _finished(prepared[run], message)
        results |= {run: _lost(prepared[run], worker.error, out) for run in worker.runs}
    return results


def _lost(prepared: Prepared, error: str, out: Path | None) -> Finished:
    """A run whose worker crashed each time: what it had written is kept, and its folder says why it ended.

    Where the run itself was finished before its worker crashed with others, it counts as finished.
    """
    if out is not None and is_finished(prepared, out):
        return run_here([prepared], out)[0]
    folder = None if out is None else RunFolder(out / prepared.folder_name)
    if folder is not None and not folder.exists():
        folder = None
    records: list[Record] = []
    if folder is not None:
        with contextlib.suppress(OutputError):
            records = folder.records()
    failure = {"round": len(records), "client": None, "error": "the worker process crashed", "traceback": error}
    if folder is not None:
        folder.write_failure(failure)
    return Finished(prepared, run_tables(prepared, engine="", reason=""), failure, folder, reused=False, at_hand=records)


def _finished(prepared: Prepared, message: Mapping[str, Any]) -> Finished:
    return Finished(prepared, **{key: value for key, value in message.items() if key != "position"})


def _start(worker: _Worker, order: Callable[[list[int]], _Order]) -> None:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    worker.starts += 1
    worker.rounds = 0
    work = pickle.dumps((_work, order(worker.runs)))
    worker.process = context.Process(target=work_rarely_collecting, args=(there, work), daemon=True)
    worker.process.start()
    there.close()
    worker.pipe = here


def _listen(worker: _Worker, order: Callable[[list[int]], _Order]) -> None:
    """Take one message; a closed pipe is the end of the process."""
    assert worker.pipe is not None
    try:
        kind, content = worker.pipe.recv()
    except (EOFError, ConnectionResetError):
        _close(worker)
        if worker.runs:
            _after_crash(worker, order)
        return
    if kind == "rounds":
        worker.rounds, worker.total = content
    elif kind == "finished":
        run = worker.runs[content["position"]]
        worker.results[run] = content
    elif kind == "error":
        worker.error = content
    elif kind == "end":
        worker.runs = [run for run in worker.runs if run not in worker.results]


def _after_crash(worker: _Worker, order: Callable[[list[int]], _Order]) -> None:
    code = None if worker.process is None else worker.process.exitcode
    worker.runs = [run for run in worker.runs if run not in worker.results]
    text = worker.error or f"it ended with exit code {code}"
    again = worker.starts < STARTS
    _log.warning("a worker with %d runs crashed%s: %s", len(worker.runs), "; they start again" if again else "", text)
    if again and worker.runs:
        _start(worker, order)
    elif not worker.error:
        worker.error = text


def _close(worker: _Worker) -> None:
    assert worker.pipe is not None
    worker.pipe.close()
    worker.pipe = None
    if worker.process is not None:
        worker.process.join(10)


def _end(worker: _Worker) -> None:
    """Leave no process behind: an interrupted worker saves its runs first."""
    if worker.process is not None and worker.process.is_alive():
        worker.process.join(10)
        if worker.process.is_alive():
            worker.process.terminate()
            worker.process.join(5)
    if worker.pipe is not None:
        worker.pipe.close()
        worker.pipe = None


def _work(pipe: Connection, order: _Order) -> None:
    """A worker's whole life: build the runs, drive them, send what they gave."""
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        try:
            _carry_out(pipe, order)
        except Exception:
            pipe.send(("error", traceback.format_exc()))
    pipe.close()


def _carry_out(pipe: Connection, order: _Order) -> None:
    import torch

    torch.set_num_threads(order.threads)
    for path in order.plugins:
        load_plugin(path)
    federations = [open_folder(folder) for folder in order.federations]
    shared: Attendances = {}
    prepared = [
        prepare_one(_rebuilt(tables, source), federations[number], shared)
        for tables, source, number in zip(order.tables, order.data_sources, order.of_run, strict=True)
    ]
    for one, expected in zip(prepared, order.fingerprints, strict=True):
        if one.fingerprint != expected:
            raise ConfigError(f"a worker built another run than it was told: {one.fingerprint} instead of {expected}")
    told = time.monotonic()
    done = (0, 0)

    def on_progress(progress: Progress) -> None:
        nonlocal told, done
        done = (progress.rounds, progress.total)
        if time.monotonic() - told > TELL_SECONDS:
            told = time.monotonic()
            pipe.send(("rounds", done))

    for position, finished in enumerate(run_here(prepared, order.out, on_progress)):
        pipe.send(("finished", _message(position, finished)))
    pipe.send(("rounds", done))
    pipe.send(("end", None))


def _message(position: int, one: Finished) -> dict[str, Any]:
    return {
        "position": position,
        "tables": one.tables,
        "failure": one.failure,
        "folder": one.folder,
        "reused": one.reused,
        "at_hand": one.at_hand if one.folder is None else None,
    }


class _Elsewhere(Data):
    """Stands for a data set whose federation is already there; keeps its settings for the records."""

    model_config = ConfigDict(extra="allow")
    defined_in: ClassVar[str | None] = None


def _source(data: Any) -> str | None:
    """The file that defines a data set of the user's own, part of a run's identity."""
    return None if type(data).__module__.startswith("fedgs.") else inspect.getsourcefile(type(data))


def _rebuilt(tables: Mapping[str, Any], source: str | None) -> Config:
    """The configuration in this process, its variants found by name."""
    settings = {key: value for key, value in tables["data"].items() if key != "name"}
    stand_in = type(
        "_Elsewhere", (_Elsewhere,), {"name": tables["data"].get("name", ""), "__module__": __name__, "defined_in": source}
    )
    return Config(**{**tables, "data": stand_in(**settings)})


def physical_cores() -> int:
    """Cores that this process may use, two threads of one core counted once."""
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    siblings = set()
    for cpu in usable:
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        siblings.add(path.read_text().strip() if path.is_file() else str(cpu))
    return max(1, len(siblings))
