"""A crew of worker processes: each drives its share of the runs with its share of the threads.

A worker is a program of its own (`start_worker`) that never imports the main module of the study.
`transfer` says how runs reach it; federations are written once and mapped into memory.
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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path

from fedgs.data import Federation
from fedgs.experiments import start_worker
from fedgs.experiments.arrivals import give_record, taken
from fedgs.experiments.channel import Channel
from fedgs.experiments.crew import Message, Share
from fedgs.experiments.lifeline import SAVE_SECONDS
from fedgs.experiments.listening import Listener
from fedgs.experiments.prepared import PreparedRun
from fedgs.experiments.transfer import TransferError, pack_runs, pack_variants, write_federation
from fedgs.experiments.worker import NewRecord, Order
from fedgs.machine import physical_cores
from fedgs.registry import loaded_plugins

__all__ = ["WorkerProcesses"]

_log = logging.getLogger("fedgs")
REACT_SECONDS = 3.0  # for a worker to begin saving; one that does not is inside compiled code
EXIT_SECONDS = 10.0  # for a worker to exit after its last message


@dataclass(eq=False)
class _Worker:
    """A process and the connection to it; `listening` until it sends no more."""

    process: subprocess.Popen[bytes]
    channel: Channel
    listening: bool = True


class WorkerProcesses:
    """A crew with one process for each share.

    Args:
        runs: the runs that shares name by their numbers.
        shares: those that will be started.
        listener: takes the new records in this process, or None.

    Raises:
        TransferError: there are no worker processes on this system, or a run cannot be sent to
            another process; nothing was done.
    """

    def __init__(
        self,
        runs: Sequence[PreparedRun],
        shares: Sequence[Share],
        listener: Listener | None = None,
    ) -> None:
        _check_system()
        self._listener = listener
        self.size = len(shares)
        self._runs = runs
        self._workers: dict[Share, _Worker] = {}
        self._federations = list({id(r.plan.federation): r.plan.federation for r in runs}.values())
        self._packed = {share: self._pack(share) for share in shares}
        self._variants = pack_variants()
        self._scratch = tempfile.TemporaryDirectory(prefix="fedgs-", ignore_cleanup_errors=True)
        try:
            self._folders = _written(self._federations, Path(self._scratch.name))
        except BaseException:
            self._scratch.cleanup()
            raise

    def start(self, share: Share) -> None:
        """Start a process for the share.

        Raises:
            TransferError: the system starts no more processes.
        """
        order = Order(
            runs=self._packed.pop(share) if share in self._packed else self._pack(share),
            variants=self._variants,
            federations=self._folders,
            plugins=list(loaded_plugins().values()),
            threads=max(1, physical_cores() // self.size),
            log_level=_log.getEffectiveLevel(),
            tells_records=self._listener is not None,
        )
        name = f"{share.runs[0]}-{share.starts}"
        self._workers[share] = _started(order, Path(self._scratch.name), name)

    def messages(self) -> Iterable[tuple[Share, Message]]:
        """What the workers have sent; waits at most a second.

        Raises:
            TransferError: a worker cannot load its runs.
        """
        working = {share: worker for share, worker in self._workers.items() if worker.listening}
        ready = wait([worker.channel.socket for worker in working.values()], timeout=1.0)
        for share, worker in working.items():
            if worker.channel.socket in ready:
                message = _received(worker)
                if isinstance(message, NewRecord):
                    assert self._listener is not None
                    give_record(self._listener, share, message, worker.channel.send)
                elif message is not None:
                    yield share, message

    def how_it_ended(self, share: Share) -> str | None:
        """How the process ended, once it sends no more; it is given a while to exit."""
        worker = self._workers[share]
        if worker.listening:
            return None
        try:
            worker.process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:  # such as a thread of the user's that does not end
            worker.process.kill()
            worker.process.wait()
        worker.channel.close()  # not before: it would interrupt what the process does when it exits
        return _how_it_ended(worker.process)

    def end(self) -> None:
        """Leave no process behind: workers that still run save their last whole rounds first."""
        try:
            _end_all(list(self._workers.values()))
        finally:
            self._scratch.cleanup()

    def _pack(self, share: Share) -> bytes:
        return pack_runs([self._runs[number] for number in share.runs], self._federations)


def _received(worker: _Worker) -> Message | NewRecord | None:
    """One message for the supervision or the listener, if the worker sent one."""
    try:
        message = worker.channel.receive()
    except EOFError:
        worker.listening = False
        return None
    arrived = taken(message)
    assert arrived is None or isinstance(arrived, Message | NewRecord)
    return arrived


def _written(federations: Sequence[Federation], scratch: Path) -> list[Path]:
    """A folder for each federation, which workers map into memory.

    Raises:
        TransferError: the disk is full.
    """
    try:
        return [
            write_federation(federation, scratch / str(number))
            for number, federation in enumerate(federations)
        ]
    except OSError as error:
        reason = error.strerror or "the disk may be full"
        raise TransferError(
            f"the data cannot be written to the temporary folder {str(scratch.parent)!r} "
            f"({reason}); "
            "the environment variable TMPDIR names another one"
        ) from None


def _check_system() -> None:
    if os.name != "posix":
        raise TransferError("worker processes need Linux, macOS or another POSIX system")
    if not sys.executable or getattr(sys, "frozen", False):
        raise TransferError(
            "this program has no Python interpreter that could carry out worker processes"
        )


def _started(order: Order, scratch: Path, name: str) -> _Worker:
    order_file, start_file = scratch / f"order-{name}", scratch / f"start-{name}"
    order_file.write_bytes(pickle.dumps(order))
    start = {
        "path": [entry for entry in sys.path if isinstance(entry, str)],
        "argv": sys.argv,
        "scratch": str(scratch),
        "order": str(order_file),
    }
    start_file.write_text(json.dumps(start))
    own_end, worker_end = socket.socketpair()
    program = [sys.executable, *_interpreter_flags(), "-P", start_worker.__file__]
    try:
        with _interrupts_blocked():
            process = subprocess.Popen(
                [*program, str(worker_end.fileno()), str(start_file)],
                pass_fds=(worker_end.fileno(),),
                stdin=subprocess.DEVNULL,
            )
        return _Worker(process, Channel(own_end))
    except OSError as error:
        own_end.close()
        raise TransferError(f"no worker process can be started: {error}") from None
    except BaseException:
        own_end.close()  # a process that was started all the same ends with it
        raise
    finally:
        worker_end.close()


def _interpreter_flags() -> list[str]:
    """The options of this interpreter that change what code does; `sys.path` is sent separately."""
    flags = ["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []
    flags += ["-E"] if sys.flags.ignore_environment else []
    flags += ["-s"] if sys.flags.no_user_site else []
    flags += ["-B"] if sys.flags.dont_write_bytecode else []
    return flags + [f"-W{option}" for option in sys.warnoptions]


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """A process started meanwhile gets no SIGINT until it unblocks the signal.

    Ctrl-C reaches all processes of a terminal.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _how_it_ended(process: subprocess.Popen[bytes]) -> str:
    code = process.returncode
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    memory = ", as the system does where memory runs out" if name == "SIGKILL" else ""
    return f"was ended by {name}{memory}"


def _end_all(workers: Sequence[_Worker]) -> None:
    left = [worker for worker in workers if worker.process.poll() is None]
    try:
        for worker in left:
            if worker.listening:
                worker.process.terminate()
        deadline = time.monotonic() + REACT_SECONDS
        for worker in left:
            patience = SAVE_SECONDS if _reacts(worker, deadline) else 0.0
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.process.wait(patience)
    finally:
        for worker in left:
            worker.process.kill()
            worker.process.wait()
        for worker in workers:
            worker.channel.close()


def _reacts(worker: _Worker, deadline: float) -> bool:
    """Whether the worker reports in time that it saves its runs: it ends its messages."""
    if not worker.listening:
        return True
    while wait([worker.channel.socket], timeout=max(0.0, deadline - time.monotonic())):
        if not worker.channel.discard():
            return True
    return False
