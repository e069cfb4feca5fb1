import io
import logging

import pytest
from rich.console import Console

from fedgs.cli import progress as module
from fedgs.cli.progress import progress_display, progress_text
from fedgs.experiments.crew import Progress


class Clock:
    """A clock that a test moves by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def lines(output: io.StringIO) -> list[str]:
    return output.getvalue().splitlines()


def test_the_end_is_shown_once_however_often_it_is_reported(clock: Clock) -> None:
    output = io.StringIO()
    with progress_display(Console(file=output, soft_wrap=True), runs=2, rounds=10) as on_progress:
        for done in range(1, 20):
            clock.now += 2.0
            on_progress(Progress(done, 20, 0))
        for _ in range(48):
            clock.now += 1.0
            on_progress(Progress(20, 20, 0))
    assert lines(output) == [
        "2 runs  2/10   2.0 s a run-round   0:00:30 left",  # 5 of 20 run-rounds in 10 s
        "2 runs  5/10   2.0 s a run-round   0:00:20 left",
        "2 runs  8/10   2.0 s a run-round   0:00:10 left",
        "2 runs  10/10   evaluating the last models",
        "2 runs  10/10   4.3 s a run-round   0:01:26 in all",  # 19 * 2 + 48 s
    ]


def test_a_short_start_has_one_line(clock: Clock) -> None:
    output = io.StringIO()
    with progress_display(Console(file=output, soft_wrap=True), runs=1, rounds=4) as on_progress:
        for done in range(1, 5):
            clock.now += 0.01
            on_progress(Progress(done, 4, 0))
    assert lines(output) == ["1 run  4/4   100 run-rounds/s   0:00:00 in all"]


def test_a_start_without_rounds_to_do_has_no_line() -> None:
    output = io.StringIO()
    with progress_display(Console(file=output, soft_wrap=True), runs=3, rounds=4):
        pass
    assert lines(output) == []


def interrupted(output: io.StringIO) -> None:
    with progress_display(Console(file=output, soft_wrap=True), runs=3, rounds=4) as on_progress:
        on_progress(Progress(1, 12, 0))
        raise KeyboardInterrupt


def test_an_error_ends_the_display_without_a_last_line() -> None:
    output = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        interrupted(output)
    assert lines(output) == []


@pytest.mark.parametrize(
    ("rounds", "seconds", "speed"),
    [
        (1, 8.0, "8.0 s a run-round"),
        (3, 4.0, "1.3 s a run-round"),
        (2, 1.0, "2.0 run-rounds/s"),
        (90, 0.1, "900 run-rounds/s"),
    ],
)
def test_speed_is_never_shown_as_zero(rounds: int, seconds: float, speed: str) -> None:
    assert progress_text(Progress(rounds, 100, 0), 100, seconds).split("   ")[1] == speed


def test_resumed_runs_are_shown_at_their_round_and_timed_by_this_start() -> None:
    # 1200 of 4000 run-rounds are done, 100 of them in the 2 s of this start: 2800 / 50 = 56 s
    assert (
        progress_text(Progress(100, 2900, 0, earlier=1100), 400, 2.0)
        == "120/400   50 run-rounds/s   0:00:56 left"
    )
    # before the first round of this start
    text = progress_text(Progress(1, 2900, 0, earlier=1100), 400, 2.0)
    assert text == "110/400   the first round"


def test_runs_that_all_failed_are_not_shown_as_done() -> None:
    text = progress_text(Progress(0, 0, 2), 200, 1.0, ended=True)
    assert text == "0/200   0:00:01 in all   2 failed"


def test_a_terminal_has_a_bar_and_the_messages_of_the_runs(clock: Clock) -> None:
    output = io.StringIO()
    screen = Console(file=output, force_terminal=True, width=100, highlight=False)
    logger = logging.getLogger("fedgs.runs")
    before = list(logger.handlers), logger.propagate
    with progress_display(screen, runs=2, rounds=10) as on_progress:
        logger.info("1 run is resumed")
        clock.now += 1.0
        on_progress(Progress(10, 20, 0))
    text = output.getvalue()
    assert "1 run is resumed" in text
    assert "5/10   10 run-rounds/s   0:00:01 left" in text
    assert (list(logger.handlers), logger.propagate) == before


def about_time(
    clock: Clock, first: float, others: float, *, rounds: int, resumed: bool = False
) -> list[str]:
    """What is said about two runs whose rounds take these seconds, in lines about their time."""
    output, runs = io.StringIO(), 2
    screen = Console(file=output, soft_wrap=True)
    stored = 1 if resumed else 0
    with progress_display(screen, runs=runs, rounds=rounds) as on_progress:
        for done in range(1, 4 * runs + 1):
            clock.now += (first if done <= runs else others) / runs
            on_progress(Progress(done, (rounds - stored) * runs, 0))
    return [line for line in lines(output) if line.startswith("The runs")]


def test_long_runs_say_after_two_rounds_how_long_they_will_take(clock: Clock) -> None:
    # 500 rounds of 63 s are 525 min; 4 rounds of 63 s fit into five minutes.
    assert about_time(clock, 63, 63, rounds=500) == [
        "The runs will take about 8 h 45 min, and 4 rounds of them about 4 min: --set "
        "training.rounds=4. A later command with more rounds continues them."
    ]


def test_the_time_of_compiling_is_not_multiplied(clock: Clock) -> None:
    # 30 s of compiling and 500 rounds of 1 s: under ten minutes.
    assert about_time(clock, 31, 1, rounds=500) == []
    # On a busy machine compiling takes 90 s: with 1000 rounds of .1 s, 190 s in all.
    assert about_time(clock, 90.1, 0.1, rounds=1000) == []
    # 30 s of compiling and 1000 rounds of 2 s are 34 min.
    (said,) = about_time(clock, 32, 2, rounds=1000)
    assert said.startswith("The runs will take about 34 min, and 150 rounds of them about 5 min: ")


def test_no_number_of_rounds_is_proposed_where_none_is_short_or_runs_are_resumed(
    clock: Clock,
) -> None:
    assert about_time(clock, 900, 900, rounds=10) == ["The runs will take about 2 h 30 min."]
    assert about_time(clock, 63, 63, rounds=501, resumed=True) == [
        "The runs will take about 8 h 45 min."
    ]
