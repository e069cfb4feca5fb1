"""The program of a worker process, started by path.

It knows nothing of the program that started the study.

Arguments: the descriptor of a socket to the study, and a JSON file with its `sys.path`, `sys.argv`
and the folder of its order. Only the standard library is imported before `sys.path` is that of the
study.
"""

import contextlib
import faulthandler
import json
import os
import signal
import socket
import sys
from pathlib import Path

__all__ = ["main"]


def main() -> None:
    """Become what the study needs, then carry out its order."""
    # An interrupt of the terminal reaches the whole process group: the study decides what follows
    # from it, and until this line the signal is blocked. A handler that does nothing, unlike
    # SIG_IGN, is not inherited by programs that user code starts.
    signal.signal(signal.SIGINT, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    faulthandler.enable()  # a crash in compiled code shows where Python was
    connection = socket.socket(fileno=int(sys.argv[1]))
    start = json.loads(Path(sys.argv[2]).read_text())
    sys.path[:], sys.argv[:] = start["path"], start["argv"]

    from fedgs.collector import collect_rarely
    from fedgs.experiments.channel import Channel
    from fedgs.experiments.lifeline import Lifeline

    collect_rarely()  # before anything large is imported
    channel = Channel(connection)
    lifeline = Lifeline(channel, Path(start["scratch"]), study=os.getppid())
    lifeline.watch()

    from fedgs.experiments.worker import work

    try:
        work(channel, lifeline, Path(start["order"]))
    finally:
        # The study must not wait for threads that user code started and that do not end.
        with contextlib.suppress(OSError):
            channel.end_sending()
        lifeline.clean()


if __name__ == "__main__":
    main()
