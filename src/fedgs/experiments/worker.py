"""A worker process's work: load what the study sent, drive the runs, send what they gave."""

import contextlib
import logging
import logging.handlers
import pickle
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedgs.data import open_folder
from fedgs.experiments.channel import Channel
from fedgs.experiments.lifeline import Lifeline
from fedgs.experiments.prepared import PreparedRun
from fedgs.experiments.this_process import Progress, RunResult, run_here
from fedgs.experiments.transfer import register_variants, unpack_runs
from fedgs.registry import load_plugin

__all__ = ["Order", "carry_out"]

TELL_SECONDS = 0.2


@dataclass(frozen=True)
class Order:
    """What a worker is told.

    Attributes:
        runs: from `pack_runs`.
        variants: from `pack_variants`.
        federations: the folders of the runs' federations.
        plugins: files to load before anything else.
        out: the folder of the records, or None.
        threads: of torch in this process.
        log_level: of the study's logger "fedgs".
    """

    runs: bytes
    variants: list[tuple[str, str, bytes]]
    federations: list[Path]
    plugins: list[Path]
    out: Path | None
    threads: int
    log_level: int


def carry_out(channel: Channel, lifeline: Lifeline, file: Path) -> None:
    """Carry out the order in `file`. Messages are pairs of a kind and a content:

    ("unloadable", reason): the runs cannot be loaded here, nothing was done. ("loaded", None).
    ("log", record). ("rounds", (done, total)). ("finished", fields): one a run. ("error",
    (exception, traceback)): what `run_here` raised. ("end", None): all runs were sent.
    """
    try:
        order: Order = pickle.loads(file.read_bytes())
        _forward_logs(channel, order.log_level)
        prepared = _load(order)
    except Exception as error:
        channel.send(("unloadable", f"{type(error).__name__}: {error}"))
        return
    try:
        lifeline.loaded()
        channel.send(("loaded", None))
        _drive(channel, prepared, order.out)
    except KeyboardInterrupt:  # SIGTERM, see `Lifeline`; the runs are saved
        sys.exit(128 + signal.SIGTERM)
    except (BrokenPipeError, ConnectionResetError):
        sys.exit(1)  # the study is gone
    except Exception as error:
        channel.send(("error", (_portable(error), traceback.format_exc())))


def _load(order: Order) -> list[PreparedRun]:
    import torch

    torch.set_num_threads(order.threads)
    for path in order.plugins:
        load_plugin(path)
    register_variants(order.variants)
    return unpack_runs(order.runs, [open_folder(folder) for folder in order.federations])


def _drive(channel: Channel, prepared: list[PreparedRun], out: Path | None) -> None:
    told = time.monotonic()
    done = (0, 0)

    def on_progress(progress: Progress) -> None:
        nonlocal told, done
        done = (progress.rounds, progress.total)
        if time.monotonic() - told > TELL_SECONDS:
            told = time.monotonic()
            with contextlib.suppress(
                OSError
            ):  # the study is gone: the lifeline ends this process, once its runs are saved
                channel.send(("rounds", done))

    for position, finished in enumerate(run_here(prepared, out, on_progress)):
        channel.send(("finished", _message(position, finished)))
    channel.send(("rounds", done))
    channel.send(("end", None))


def _message(position: int, one: RunResult) -> dict[str, Any]:
    return {
        "position": position,
        "tables": one.tables,
        "failure": one.failure,
        "folder": one.folder,
        "reused": one.reused,
        "at_hand": one.at_hand if one.folder is None else None,
    }


def _portable(error: Exception) -> Exception | None:
    """The exception, or None where another process could not load it."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return None
    return error


class _Sender:
    """Looks like a queue to `QueueHandler`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def put_nowait(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError):
            self._channel.send(("log", record))


def _forward_logs(channel: Channel, level: int) -> None:
    """Let the study's handlers treat what this package logs here."""
    logger = logging.getLogger("fedgs")
    logger.setLevel(level)
    logger.addHandler(logging.handlers.QueueHandler(_Sender(channel)))  # type: ignore[arg-type]
    logger.propagate = False
