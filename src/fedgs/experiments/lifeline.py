"""How a worker process ends with its study, however the study ends.

Standard library only: the study is watched before torch is imported.
"""

import contextlib
import os
import queue
import selectors
import shutil
import signal
import threading
import time
from pathlib import Path
from types import FrameType

from fedgs.experiments.channel import Channel

__all__ = ["SAVE_SECONDS", "Lifeline"]

LOOK_SECONDS = 1.0
SAVE_SECONDS = 30.0  # what a worker is given to save its runs


class Lifeline:
    """Ends this process when the study closes its end of the channel, disappears, or sends SIGTERM.

    While the process loads there is nothing to save, and it ends at once. Afterwards
    `KeyboardInterrupt` is raised in the main thread, so that runs save their last whole round.
    """

    def __init__(self, channel: Channel, scratch: Path, *, study: int) -> None:
        self._channel = channel
        self._scratch = scratch
        self._study = study
        self._loaded = False
        self._alone = False
        self._replies: queue.SimpleQueue[object] = queue.SimpleQueue()

    def watch(self) -> None:
        """Look after the study in a thread of its own."""
        threading.Thread(target=self._watch, name="fedgs-lifeline", daemon=True).start()

    def loaded(self) -> None:
        """From now on there is something to save."""
        signal.signal(signal.SIGTERM, self._interrupt)
        self._loaded = True

    def reply(self) -> object:
        """Wait for what the study replies to a message."""
        return self._replies.get()

    def clean(self) -> None:
        """Remove the temporary files of a study that was killed and could not do it."""
        for _ in range(20 if self._alone else 0):
            if os.getppid() != self._study:
                shutil.rmtree(self._scratch, ignore_errors=True)
                return
            time.sleep(0.05)  # it closes its files a moment before it is gone

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        # A second signal does not interrupt the saving.
        signal.signal(signal.SIGTERM, lambda number, frame: None)
        with contextlib.suppress(OSError):
            self._channel.end_sending()  # tells the study that saving began
        raise KeyboardInterrupt

    def _watch(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel, selectors.EVENT_READ)
            with contextlib.suppress(EOFError):  # the study has closed its end
                while os.getppid() == self._study:
                    if selector.select(LOOK_SECONDS):
                        self._replies.put(self._channel.receive())
        self._alone = True
        if self._loaded:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(SAVE_SECONDS)
        self.clean()
        os._exit(1)
