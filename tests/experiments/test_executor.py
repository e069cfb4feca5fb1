"""Supervision of a crew: the queue, the three starts, and what becomes of runs and errors."""

import logging
from collections.abc import Iterable, Sequence

import pytest

from fedgs.errors import WorkerError
from fedgs.experiments.crew import Crew, Message, Progress, RunEnded, Share, ShareEnded, ShareRaised
from fedgs.experiments.executor import Executor, shares_of
from fedgs.experiments.grid import build_config
from fedgs.experiments.prepared import PreparedRun
from fedgs.experiments.preparing import prepare
from fedgs.experiments.this_process import ThisProcess
from fedgs.experiments.workers import WorkerProcesses
from fedgs.records import Record

ROUNDS = 4


@pytest.fixture(scope="module")
def runs() -> list[PreparedRun]:
    settings = {"data": {"name": "synthetic", "clients": 6}, "availability": "IDL", "method": "md"}
    training = {"rounds": ROUNDS, "local_steps": 1}
    execution = {"engine": "loop", "checkpoint_every": 1}
    tables = {**settings, "training": training, "execution": execution}
    return prepare([build_config({**tables, "seed": seed}) for seed in range(5)])


def ended(position: int) -> RunEnded:
    return RunEnded(position, {"training": {}}, None, [Record(0)])


class ScriptedCrew:
    """Sends what a script holds for each start of a share, and notes what was asked of it."""

    def __init__(self, size: int, script: Sequence[tuple[list[Message], str]]) -> None:
        self.size = size
        self.script = list(script)
        self.started: list[list[int]] = []
        self.at_once = 0
        self.was_ended = False
        self._sending: dict[Share, list[Message]] = {}
        self._endings: dict[Share, str] = {}

    def start(self, share: Share) -> None:
        messages, ending = self.script[len(self.started)]
        self.started.append(list(share.runs))
        self._sending[share], self._endings[share] = list(messages), ending
        self.at_once = max(self.at_once, len(self._sending))

    def messages(self) -> Iterable[tuple[Share, Message]]:
        for share in list(self._sending):
            if self._sending[share]:
                yield share, self._sending[share].pop(0)
            else:
                del self._sending[share]

    def how_it_ended(self, share: Share) -> str | None:
        return None if share in self._sending else self._endings[share]

    def end(self) -> None:
        self.was_ended = True


def whole(count: int) -> tuple[list[Message], str]:
    return [*(ended(position) for position in range(count)), ShareEnded()], "ended"


def test_runs_are_dealt_into_shares_that_differ_by_one_at_most(runs: list[PreparedRun]) -> None:
    shares = shares_of(runs, [0, 1, 3, 4], 3)
    assert [share.runs for share in shares] == [[0, 4], [1], [3]]
    assert [share.progress.total for share in shares] == [2 * ROUNDS, ROUNDS, ROUNDS]


def test_shares_wait_for_a_free_member(runs: list[PreparedRun]) -> None:
    crew = ScriptedCrew(2, [whole(1)] * 5)
    ended_runs = Executor(crew, runs).carry_out(shares_of(runs, range(5), 5))
    assert crew.at_once == 2 and crew.started == [[0], [1], [2], [3], [4]]
    assert sorted(ended_runs) == [0, 1, 2, 3, 4] and crew.was_ended


def test_a_crashed_share_starts_again_with_the_runs_that_had_not_ended(
    runs: list[PreparedRun], caplog: pytest.LogCaptureFixture
) -> None:
    script = [([Progress(9, 12, 0), ended(1)], "fell over"), whole(2)]
    crew = ScriptedCrew(1, script)
    seen: list[Progress] = []
    with caplog.at_level(logging.WARNING, logger="fedgs"):
        ended_runs = Executor(crew, runs, seen.append).carry_out(shares_of(runs, [0, 2, 4], 1))
    assert crew.started == [[0, 2, 4], [0, 4]] and sorted(ended_runs) == [0, 2, 4]
    assert caplog.messages == ["a worker with 2 runs crashed; they start again: it fell over"]
    assert seen == [Progress(9, 12, 0)]


def test_after_three_crashes_runs_are_lost_and_other_shares_go_to_their_end(
    runs: list[PreparedRun],
) -> None:
    crew = ScriptedCrew(1, [([], "fell over"), whole(1), ([], "fell over"), ([], "burned down")])
    with pytest.raises(
        WorkerError,
        match=r"^1 of 5 runs could not be carried out: their worker process crashed 3 times, "
        r"the last one burned down; execution.workers = 1 carries out all runs in this process$",
    ):
        Executor(crew, runs).carry_out(shares_of(runs, [0, 1], 2))
    assert crew.started == [[0], [1], [0], [0]] and crew.was_ended


def test_an_error_of_a_share_is_raised_after_the_others_ended(runs: list[PreparedRun]) -> None:
    error = OSError("damaged")
    crew = ScriptedCrew(
        2, [([ShareRaised(error)], "ended"), ([Progress(1, 4, 0), *whole(1)[0]], "")]
    )
    seen: list[Progress] = []
    with pytest.raises(OSError, match="damaged") as raised:
        Executor(crew, runs, seen.append).carry_out(shares_of(runs, [0, 1], 2))
    assert raised.value is error and crew.started == [[0], [1]]  # it is not started again
    assert seen == [Progress(1, 8, 0)] and crew.was_ended


def test_the_crew_is_ended_whatever_is_raised(runs: list[PreparedRun]) -> None:
    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    crew = ScriptedCrew(1, [([Progress(1, 4, 0)], "ended")])
    with pytest.raises(KeyboardInterrupt):
        Executor(crew, runs, interrupt).carry_out(shares_of(runs, [0], 1))
    assert crew.was_ended


@pytest.mark.parametrize("kind", [ThisProcess, WorkerProcesses])
def test_every_crew_sends_progress_then_each_runs_end_then_its_own(
    kind: type[ThisProcess | WorkerProcesses], runs: list[PreparedRun]
) -> None:
    (share,) = shares_of(runs, [1, 3], 1)
    crew: Crew = ThisProcess(runs) if kind is ThisProcess else WorkerProcesses(runs, [share])
    messages: list[Message] = []
    try:
        crew.start(share)
        while crew.how_it_ended(share) is None:
            messages += [message for _, message in crew.messages()]
    finally:
        crew.end()
    progress = [message for message in messages if isinstance(message, Progress)]
    assert messages == [*progress, *messages[-3:]]
    assert progress[-1] == Progress(2 * ROUNDS, 2 * ROUNDS, 0)
    first, second, last = messages[-3:]
    assert isinstance(first, RunEnded) and isinstance(second, RunEnded)
    assert (first.position, second.position, last) == (0, 1, ShareEnded())
    assert first.records is not None and len(first.records) == ROUNDS + 1
