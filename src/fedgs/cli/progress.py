"""Progress of many runs: a bar on a terminal, and elsewhere a plain line every ten seconds."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from fedgs.plurals import counted

if TYPE_CHECKING:
    from fedgs.experiments.crew import Progress

__all__ = ["progress_display"]

REFRESH_SECONDS = 0.1
PLAIN_SECONDS = 10.0
LONG_SECONDS = 600.0


@contextlib.contextmanager
def progress_display(
    screen: Console, *, runs: int, rounds: int
) -> "Iterator[Callable[[Progress], None]]":
    """A callback for `run_all`: rounds, speed and the time left.

    Where the runs will take long, one line after two rounds says how long, and how many
    rounds take a few minutes. After the last round the models are evaluated: then the line says so,
    and at the end of the block how long everything took. Nothing is shown for a start in which no
    round was left to do.
    """
    heading = counted(runs, "run")
    if screen.is_terminal:
        columns = (TextColumn(heading), BarColumn(bar_width=20), TextColumn("{task.description}"))
        with Bar(*columns, console=screen, auto_refresh=False) as bar:
            task = bar.add_task("", total=None)

            def show(progress: "Progress", text: str) -> None:
                bar.update(
                    task,
                    completed=progress.earlier + progress.rounds,
                    total=progress.earlier + progress.total,
                    description=text,
                    refresh=True,
                )

            throttled = _Throttled(show, rounds, REFRESH_SECONDS)
            with _messages(screen):
                yield _with_expected_time(throttled, screen, runs=runs, rounds=rounds)
            throttled.end()
    else:
        throttled = _Throttled(
            lambda progress, text: screen.print(f"{heading}  {text}"), rounds, PLAIN_SECONDS
        )
        with _messages(screen):
            yield _with_expected_time(throttled, screen, runs=runs, rounds=rounds)
        throttled.end()


class _PrintedMessages(logging.Handler):
    """Prints the messages of a logger."""

    def __init__(self, screen: Console) -> None:
        super().__init__(logging.INFO)
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        self._screen.print(record.getMessage())


@contextlib.contextmanager
def _messages(screen: Console) -> Iterator[None]:
    """Print what the runs report to the logger "fedgs.runs", such as which of them resume."""
    logger, handler = logging.getLogger("fedgs.runs"), _PrintedMessages(screen)
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


class _Throttled:
    """Shows progress at most every so many seconds.

    The end of the rounds and the end of everything are shown once each.
    """

    def __init__(self, show: "Callable[[Progress, str], None]", rounds: int, every: float) -> None:
        self._show, self._rounds, self._every = show, rounds, every
        self._started = self._shown = time.monotonic()
        self._last: Progress | None = None
        self._evaluating = False

    def __call__(self, progress: "Progress") -> None:
        now = time.monotonic()
        self._last = progress
        evaluating = progress.rounds >= progress.total
        # The end of the rounds is not shown where the runs took less than this time.
        soon = now - (self._started if evaluating else self._shown) < self._every
        if soon or (evaluating and self._evaluating):
            return
        self._shown, self._evaluating = now, evaluating
        self._show(progress, progress_text(progress, self._rounds, now - self._started))

    def end(self) -> None:
        """The last line, where anything was done."""
        if self._last is not None:
            seconds = time.monotonic() - self._started
            self._show(self._last, progress_text(self._last, self._rounds, seconds, ended=True))


def _with_expected_time(
    on_progress: "Callable[[Progress], None]", screen: Console, *, runs: int, rounds: int
) -> "Callable[[Progress], None]":
    """The callback, which also prints once how long the runs will take, see `expected_time`."""
    started = time.monotonic()
    first: list[tuple[float, float]] = []  # seconds and rounds when the first round was done
    said: list[str | None] = []

    def show(progress: "Progress") -> None:
        seconds, done = time.monotonic() - started, rounds * progress.rounds / (progress.total or 1)
        if not first and done >= 1:
            first.append((seconds, done))
        if not first or said:
            on_progress(progress)
            return
        before, at = first[0]
        # The time of the first round includes compiling, unless it is longer than any compiling.
        if done >= at + 1 or before >= _NO_COMPILING:
            a_round = (seconds - before) / (done - at) if done > at else seconds / done
            expected = seconds + a_round * (rounds - done)
            all_are_new = progress.total == runs * rounds
            said.append(expected_time(expected, a_round=a_round if all_are_new else None))
            if said[0] is not None:
                screen.print(said[0])
        on_progress(progress)

    return show


_NO_COMPILING = 600.0  # seconds, since compiling can take over a minute on a busy machine


def expected_time(seconds: float, *, a_round: float | None) -> str | None:
    """One line about runs that will take more than ten minutes; None about others.

    Args:
        seconds: that all runs will take.
        a_round: seconds of one round of all runs, to say how many rounds take a few minutes; None:
            not said, since some of the runs are resumed or reused.

    >>> print(expected_time(31500.0, a_round=63.0))
    The runs will take about 8 h 45 min, and 4 rounds of them about 4 min:
    --set training.rounds=4. A later command with more rounds continues them.
    >>> expected_time(300.0, a_round=1.0)
    """
    if seconds <= LONG_SECONDS:
        return None
    text = f"The runs will take about {_words(seconds)}"
    few = 0 if a_round is None else int(LONG_SECONDS / 2 / a_round)
    if a_round is None or few < 2:
        return f"{text}."
    return (
        f"{text}, and {few} rounds of them about {_words(few * a_round)}: "
        f"--set training.rounds={few}. A later command with more rounds continues them."
    )


def _words(seconds: float) -> str:
    """A time in minutes, or hours and minutes.

    >>> _words(250.0), _words(31440.0)
    ('4 min', '8 h 44 min')
    """
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def progress_text(progress: "Progress", rounds: int, seconds: float, *, ended: bool = False) -> str:
    """The text behind the bar.

    No speed is shown before the first round, since its time includes compiling.

    Args:
        progress: of all runs.
        rounds: T, of the longest run.
        seconds: since the start.
        ended: whether everything is done, the last evaluation too.

    >>> from fedgs.experiments.crew import Progress
    >>> progress_text(Progress(rounds=1500, total=3000, failed=0), 200, 2.0)
    '100/200   750 run-rounds/s   0:00:02 left'
    >>> progress_text(Progress(rounds=30, total=40, failed=1), 40, 120.0)
    '30/40   4.0 s a run-round   0:00:40 left   1 failed'
    >>> progress_text(Progress(rounds=1, total=3000, failed=0), 200, 9.0)
    '0/200   the first round'
    >>> progress_text(Progress(rounds=600, total=2000, failed=0, earlier=1000), 300, 2.0)
    '160/300   300 run-rounds/s   0:00:05 left'
    >>> progress_text(Progress(rounds=3000, total=3000, failed=0), 200, 4.0)
    '200/200   evaluating the last models'
    >>> progress_text(Progress(rounds=3000, total=3000, failed=0), 200, 4.0, ended=True)
    '200/200   750 run-rounds/s   0:00:04 in all'
    >>> progress_text(Progress(rounds=1500, total=3000, failed=0, nodes=3), 200, 2.0)
    '100/200   750 run-rounds/s   0:00:02 left   3 nodes'
    """
    done, total = progress.earlier + progress.rounds, progress.earlier + progress.total
    shown = round(rounds * done / total) if total else 0
    failed = f"   {progress.failed} failed" if progress.failed else ""
    if progress.nodes and not ended:
        failed += f"   {counted(progress.nodes, 'node')}"
    if ended:
        speed = _speed(progress.rounds, seconds)
        return f"{shown}/{rounds}   {speed}{_clock(seconds)} in all{failed}"
    if progress.rounds >= progress.total:
        return f"{shown}/{rounds}   evaluating the last models{failed}"
    if round(rounds * progress.rounds / progress.total) == 0:
        return f"{shown}/{rounds}   the first round{failed}"
    left = seconds * (progress.total - progress.rounds) / progress.rounds
    return f"{shown}/{rounds}   {_speed(progress.rounds, seconds)}{_clock(left)} left{failed}"


def _speed(rounds: int, seconds: float) -> str:
    """Run-rounds per second, or seconds per run-round where that is the larger number.

    It is "" where there is no speed.
    """
    if rounds <= 0 or seconds <= 0:
        return ""
    rate = rounds / seconds
    if rate < 1:
        return f"{seconds / rounds:,.1f} s a run-round   "
    return f"{rate:,.0f} run-rounds/s   " if rate >= 9.95 else f"{rate:.1f} run-rounds/s   "


def _clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
