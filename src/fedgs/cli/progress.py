"""Progress of many runs: a bar on a terminal, a plain line now and then elsewhere."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

if TYPE_CHECKING:
    from fedgs.experiments.runner import Progress

__all__ = ["progress_display"]

REFRESH_SECONDS = 0.1
PLAIN_SECONDS = 10.0


@contextlib.contextmanager
def progress_display(screen: Console, *, runs: int, rounds: int) -> "Iterator[Callable[[Progress], None]]":
    """A callback for `run_all`: rounds, run-rounds a second and the time left."""
    if screen.is_terminal:
        columns = (TextColumn(f"{runs} runs"), BarColumn(bar_width=20), TextColumn("{task.description}"))
        with Bar(*columns, console=screen, auto_refresh=False) as bar:
            task = bar.add_task("", total=None)

            def show(progress: "Progress", text: str) -> None:
                bar.update(task, completed=progress.rounds, total=progress.total, description=text, refresh=True)

            yield _throttled(show, rounds, REFRESH_SECONDS)
    else:
        yield _throttled(lambda progress, text: screen.print(f"{runs} runs  {text}"), rounds, PLAIN_SECONDS)


def _throttled(show: "Callable[[Progress, str], None]", rounds: int, every: float) -> "Callable[[Progress], None]":
    started = time.monotonic()
    shown = [started]

    def on_progress(progress: "Progress") -> None:
        now = time.monotonic()
        if now - shown[0] < every and progress.rounds < progress.total:
            return
        shown[0] = now
        show(progress, describe(progress, rounds, now - started))

    return on_progress


def describe(progress: "Progress", rounds: int, seconds: float) -> str:
    """The figures behind the bar; no speed before the first round, since compiling says nothing about the others.

    >>> from fedgs.experiments.runner import Progress
    >>> describe(Progress(rounds=1500, total=3000, failed=0), 200, 2.0)
    '100/200   750 run-rounds/s   0:00:02 left'
    >>> describe(Progress(rounds=1, total=3000, failed=0), 200, 9.0)
    '0/200   the first round'
    """
    rate = progress.rounds / seconds if seconds > 0 else 0.0
    left = round((progress.total - progress.rounds) / rate) if rate > 0 else 0
    shown = round(rounds * progress.rounds / progress.total) if progress.total else rounds
    failed = f"   {progress.failed} failed" if progress.failed else ""
    if progress.rounds < progress.total and shown == 0:
        return f"0/{rounds}   the first round{failed}"
    clock = f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d}"
    return f"{shown}/{rounds}   {rate:,.0f} run-rounds/s   {clock} left{failed}"
