"""A grid over processes: each worker drives its share of the runs with its share of the threads.

A worker is a program of its own (`start_worker`) that never imports the main module of the study;
`transfer` says how runs reach it, and federations are laid out once and mapped into memory. A
worker that crashes is started again with the runs it had not finished; with an output folder they
resume from their checkpoints.
"""

import contextlib
import json
import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from fedgs.data import Federation, to_folder
from fedgs.errors import OutputError, WorkerError
from fedgs.experiments import start_worker
from fedgs.experiments.channel import Channel
from fedgs.experiments.lifeline import SAVE_SECONDS
from fedgs.experiments.prepared import PreparedRun
from fedgs.experiments.this_process import Progress, RunResult, is_finished, run_here
from fedgs.experiments.transfer import CannotTravelError, pack_runs, pack_variants
from fedgs.experiments.worker import Order
from fedgs.machine import physical_cores
from fedgs.plurals import counted
from fedgs.records import RunFolder
from fedgs.registry import loaded_plugins

__all__ = ["run_in_workers", "worker_count"]

_log = logging.getLogger("fedgs")
STARTS = 3  # how often a worker's runs are started before they count as failed
REACT_SECONDS = 3.0  # what a worker is given to begin saving; one that does not is inside compiled code, and is killed
EXIT_SECONDS = 10.0  # what a worker is given to exit after its last message
SMALL_GRID = (
    20_000  # run-rounds below which stacked runs share one tensor program rather than two processes
)


def worker_count(prepared: Sequence[PreparedRun]) -> int:
    """How many processes carry out these runs: `execution.workers`, or a fixed rule.

    The rule: one a physical core for images; for vectors, where runs share tensor programs, one a
    core for grids of at least 20,000 run-rounds and one in all below. Never more than there are
    runs. Where `execution.threads` says how many threads each process has, so many cores count as
    one.
    """
    asked = max((one.config.execution.workers or 0 for one in prepared), default=0)
    if asked:
        return max(1, min(asked, len(prepared)))
    images = any(len(one.plan.federation.example_shape) > 1 for one in prepared)
    several = images or sum(one.plan.rounds for one in prepared) >= SMALL_GRID
    threads = max((one.config.execution.threads or 1 for one in prepared), default=1)
    return max(1, min(physical_cores() // threads, len(prepared))) if several else 1


@dataclass(eq=False)
class _Worker:
    """A process and the runs it has not finished yet."""

    runs: list[int]
    starts: int = 0
    process: subprocess.Popen[bytes] | None = None
    channel: Channel | None = None
    rounds: int = 0  # of this start
    total: int = 0  # what this start has to do, as far as it is known
    error: Exception | None = None  # what it raised, other than for one run
    results: dict[int, Any] = field(default_factory=dict)


def run_in_workers(
    prepared: Sequence[PreparedRun],
    *,
    workers: int,
    out: Path | None,
    on_progress: Callable[[Progress], None] | None,
) -> list[RunResult]:
    """Carry out runs in `workers` processes; the records are those of one process.

    Raises:
        CannotTravelError: worker processes cannot be had on this system, or cannot load the runs;
            nothing was done.
        WorkerError: a worker crashed again and again; the others ended before.
        Exception: what a worker raised, as in one process; the others ended before.
    """
    _check_system()
    federations = list({id(one.plan.federation): one.plan.federation for one in prepared}.values())
    crew = [_Worker(list(range(first, len(prepared), workers))) for first in range(workers)]
    packed = {}
    for worker in crew:
        packed[tuple(worker.runs)] = pack_runs([prepared[run] for run in worker.runs], federations)
        worker.total = sum(prepared[run].plan.rounds for run in worker.runs)
    variants = pack_variants()
    with tempfile.TemporaryDirectory(prefix="fedgs-", ignore_cleanup_errors=True) as name:
        scratch = Path(name)
        shared = _laid_out(federations, scratch)
        threads = max(1, physical_cores() // workers)

        def start(worker: _Worker) -> None:
            runs = packed.pop(tuple(worker.runs), None) or pack_runs(
                [prepared[run] for run in worker.runs], federations
            )
            plugins = list(loaded_plugins().values())
            _start(
                worker,
                scratch,
                Order(runs, variants, shared, plugins, out, threads, _log.getEffectiveLevel()),
            )

        try:
            _supervise(crew, start, on_progress)
        finally:
            _end_all(crew)
        return _results(crew, prepared, out)


def _laid_out(federations: Sequence[Federation], scratch: Path) -> list[Path]:
    """A folder for each federation, which workers map into memory."""
    try:
        return [
            to_folder(federation, scratch / str(number))
            for number, federation in enumerate(federations)
        ]
    except OSError as error:
        reason = error.strerror or "the disk may be full"
        raise CannotTravelError(
            f"the data cannot be written to the temporary folder {str(scratch.parent)!r} ({reason}); "
            "the environment variable TMPDIR names another one"
        ) from None


def _check_system() -> None:
    if os.name != "posix":
        raise CannotTravelError("worker processes need Linux, macOS or another POSIX system")
    if not sys.executable or getattr(sys, "frozen", False):
        raise CannotTravelError(
            "this program has no Python interpreter that could carry out worker processes"
        )


def _supervise(
    crew: list[_Worker],
    start: Callable[[_Worker], None],
    on_progress: Callable[[Progress], None] | None,
) -> None:
    for worker in crew:
        start(worker)
    while working := [worker for worker in crew if worker.channel is not None]:
        ready = wait(
            [worker.channel.socket for worker in working if worker.channel is not None], timeout=1.0
        )
        for worker in working:
            if (
                worker.channel is not None
                and worker.channel.socket in ready
                and not _listen(worker)
            ):
                _after_end(worker, start)
        if on_progress is not None:
            failed = sum(
                message["failure"] is not None
                for worker in crew
                for message in worker.results.values()
            )
            on_progress(
                Progress(
                    sum(worker.rounds for worker in crew),
                    sum(worker.total for worker in crew),
                    failed,
                )
            )


def _start(worker: _Worker, scratch: Path, order: Order) -> None:
    worker.starts += 1
    worker.rounds = 0
    order_file, start_file = (
        scratch / f"{kind}-{worker.runs[0]}-{worker.starts}" for kind in ("order", "start")
    )
    order_file.write_bytes(pickle.dumps(order))
    path = [entry for entry in sys.path if isinstance(entry, str)]
    start_file.write_text(
        json.dumps(
            {"path": path, "argv": sys.argv, "scratch": str(scratch), "order": str(order_file)}
        )
    )
    here, there = socket.socketpair()
    try:
        command = [
            sys.executable,
            *_interpreter_flags(),
            "-P",
            start_worker.__file__,
            str(there.fileno()),
            str(start_file),
        ]
        with _interrupts_blocked():
            worker.process = subprocess.Popen(
                command, pass_fds=(there.fileno(),), stdin=subprocess.DEVNULL
            )
        worker.channel = Channel(here)
    except OSError as error:
        here.close()
        raise CannotTravelError(f"no worker process can be started: {error}") from None
    except BaseException:
        here.close()  # a process that was started all the same ends with it
        raise
    finally:
        there.close()


def _interpreter_flags() -> list[str]:
    """The options of this interpreter that change what code does; `sys.path` travels by itself."""
    flags = ["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []
    flags += ["-E"] if sys.flags.ignore_environment else []
    flags += ["-s"] if sys.flags.no_user_site else []
    flags += ["-B"] if sys.flags.dont_write_bytecode else []
    return flags + [f"-W{option}" for option in sys.warnoptions]


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """A process started meanwhile gets no SIGINT until it asks for it: Ctrl-C reaches all processes of a terminal."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _listen(worker: _Worker) -> bool:
    """Take one message; False at the end of the process."""
    assert worker.channel is not None
    try:
        kind, content = worker.channel.receive()
    except EOFError:
        return False
    if kind == "unloadable":
        raise CannotTravelError(f"a worker process cannot load the runs ({content})")
    if kind == "rounds":
        worker.rounds, worker.total = content
    elif kind == "finished":
        worker.results[worker.runs[content["position"]]] = content
    elif kind == "log":
        logging.getLogger(content.name).handle(content)
    elif kind == "error":
        error, text = content
        worker.error = (
            error
            if error is not None
            else WorkerError(f"a worker process raised an error:\n{text.rstrip()}")
        )
        if error is not None:
            worker.error.add_note(f"raised in a worker process:\n{text.rstrip()}")
    elif kind == "end":
        worker.runs = []
    return True


def _after_end(worker: _Worker, start: Callable[[_Worker], None]) -> None:
    """A process has ended: start what it left undone again, unless it raised an error, which it would do again."""
    assert worker.channel is not None and worker.process is not None
    try:
        worker.process.wait(EXIT_SECONDS)
    except subprocess.TimeoutExpired:  # such as a thread of the user's that does not end
        worker.process.kill()
        worker.process.wait()
    worker.channel.close()  # not before: it would interrupt what the process does when it exits
    worker.channel = None
    worker.runs = [run for run in worker.runs if run not in worker.results]
    if worker.runs and worker.error is None:
        again = worker.starts < STARTS
        text = "; they start again" if again else ""
        _log.warning(
            "a worker with %d runs crashed%s: it %s", len(worker.runs), text, _how_it_ended(worker)
        )
        if again:
            start(worker)


def _how_it_ended(worker: _Worker) -> str:
    code = None if worker.process is None else worker.process.poll()
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    memory = ", as the system does where memory runs out" if name == "SIGKILL" else ""
    return f"was ended by {name}{memory}"


def _end_all(crew: Sequence[_Worker]) -> None:
    """Leave no process behind: workers that still run save their last whole rounds first."""
    left = [
        worker for worker in crew if worker.process is not None and worker.process.poll() is None
    ]
    try:
        for worker in left:
            if worker.channel is not None:
                worker.process.terminate()  # type: ignore[union-attr]
        deadline = time.monotonic() + REACT_SECONDS
        for worker in left:
            patience = SAVE_SECONDS if _reacts(worker, deadline) else 0.0
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.process.wait(patience)  # type: ignore[union-attr]
    finally:
        for worker in left:
            worker.process.kill()  # type: ignore[union-attr]
            worker.process.wait()  # type: ignore[union-attr]
        for worker in crew:
            if worker.channel is not None:
                worker.channel.close()
                worker.channel = None


def _reacts(worker: _Worker, deadline: float) -> bool:
    """Whether the worker says in time that it saves its runs: it ends its messages."""
    if worker.channel is None:
        return True
    while wait([worker.channel.socket], timeout=max(0.0, deadline - time.monotonic())):
        if not worker.channel.discard():
            return True
    return False


def _results(
    crew: Sequence[_Worker], prepared: Sequence[PreparedRun], out: Path | None
) -> list[RunResult]:
    """What the workers sent, in the order of the runs.

    A run that was finished before its worker crashed with others counts as finished; the folders of
    the rest say why they ended.
    """
    results: dict[int, RunResult] = {}
    lost = 0
    crashed = ""
    for worker in crew:
        for run, message in worker.results.items():
            results[run] = RunResult(
                prepared[run], **{key: value for key, value in message.items() if key != "position"}
            )
        for run in worker.runs:
            if out is not None and is_finished(prepared[run], out):
                results[run] = run_here([prepared[run]], out)[0]
            elif worker.error is None:
                lost, crashed = lost + 1, _how_it_ended(worker)
                _note_crash(prepared[run], crashed, out)
    errors = [worker.error for worker in crew if worker.error is not None]
    if errors:
        raise errors[0]
    if lost:
        times = counted(STARTS, "time")
        kept = "" if out is None else f"; what the others gave is in {str(out)!r}"
        raise WorkerError(
            f"{lost} of {len(prepared)} runs could not be carried out: their worker process crashed {times}, "
            f"the last one {crashed}{kept}; execution.workers = 1 carries out all runs in this process"
        )
    return [results[number] for number in range(len(prepared))]


def _note_crash(prepared: PreparedRun, how: str, out: Path | None) -> None:
    folder = None if out is None else RunFolder(out / prepared.folder_name)
    if folder is not None and folder.exists():
        rounds = 0
        with contextlib.suppress(OutputError):
            rounds = len(folder.records())
        error = "the worker process crashed"
        folder.write_failure(
            {
                "round": rounds,
                "client": None,
                "error": error,
                "traceback": f"the worker process {how}",
            }
        )
