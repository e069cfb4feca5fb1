"""`on_record`: which records it is given, in which order and process, and what its errors end."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedgs
from fedgs import listeners
from fedgs.cli.main import main
from fedgs.data import Federation
from fedgs.errors import ConfigError
from fedgs.experiments.compare import compare
from fedgs.experiments.listening import Listener, ListenerError
from fedgs.experiments.study import Results
from fedgs.records import Record
from fedgs.report import Run

ROUNDS = 5


def study(federation: Federation, **settings: Any) -> Results:
    values: dict[str, Any] = {
        "methods": ["uniform", "md"],
        "training": {"rounds": ROUNDS, "proportion": 0.4, "local_steps": 1, "batch_size": 4},
        "execution": {"engine": "loop"},
    }
    return compare(federation, **{**values, **settings})


def in_workers(count: int) -> dict[str, Any]:
    return {"engine": "loop", "workers": count}


class Seen:
    """Keeps what it is given; raises at a round of one method."""

    def __init__(self, error: BaseException | None = None, at: int = 3, label: str = "md") -> None:
        self.records: dict[str, list[Record]] = {}
        self.processes: set[int] = set()
        self.error, self.at, self.label = error, at, label

    def __call__(self, run: Run, record: Record) -> None:
        self.processes.add(os.getpid())
        if self.error is not None and (run.label, record.round) == (self.label, self.at):
            raise self.error
        self.records.setdefault(run.label, []).append(record)

    def rounds(self, label: str = "md") -> list[int]:
        return [record.round for record in self.records.get(label, [])]


def stored(out: Path, method: str) -> bytes:
    (file,) = out.glob(f"*-{method}-seed0-*/rounds.jsonl")
    return file.read_bytes()


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_it_is_given_every_record_in_this_process_in_the_order_of_rounds(
    toy_federation: Federation, workers: int
) -> None:
    seen = Seen()
    results = study(toy_federation, on_record=seen, execution=in_workers(workers))
    assert {run.label for run in results.runs} == set(seen.records)
    for run in results.runs:
        assert [r.to_json() for r in seen.records[run.label]] == [r.to_json() for r in run.records]
        assert seen.rounds(run.label) == list(range(ROUNDS + 1))
    assert seen.processes == {os.getpid()}


def test_it_is_called_as_training_proceeds_before_a_record_is_stored(
    toy_federation: Federation, tmp_path: Path
) -> None:
    events: list[tuple[str, int]] = []

    @fedgs.sampler("listening-test")
    def first(view: fedgs.View, rng: np.random.Generator) -> fedgs.Selection:
        events.append(("select", view.round))
        return fedgs.Selection(view.available[:1])

    def note(run: Run, record: Record) -> None:
        events.append(("record", record.round))
        assert run.path is not None and len(run.records) == 0 and run.clients is not None
        lines = run.path / "rounds.jsonl"
        assert not lines.exists() or len(lines.read_text().splitlines()) <= record.round

    execution = {"engine": "loop", "checkpoint_every": 1}
    study(toy_federation, methods=[first], on_record=note, out=tmp_path, execution=execution)
    expected = [(kind, t) for t in range(ROUNDS) for kind in ("select", "record")]
    assert events == [*expected, ("record", ROUNDS)]


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_its_exception_ends_that_run_alone_at_that_round(
    toy_federation: Federation, tmp_path: Path, workers: int
) -> None:
    seen = Seen(ValueError("disk full"))
    execution = in_workers(workers)
    results = study(toy_federation, on_record=seen, execution=execution, out=tmp_path)
    other, failed = results.runs
    assert other.finished and failed.failure is not None
    assert failed.failure["round"] == 3 and failed.failure["client"] is None
    assert failed.failure["error"] == "on_record raised ValueError: disk full"
    assert "test_listening.py" in str(failed.failure["traceback"])
    assert [record.round for record in failed.records] == seen.rounds() == [0, 1, 2]
    assert seen.rounds("uniform") == list(range(ROUNDS + 1))


def test_sys_exit_ends_that_run_alone_too(toy_federation: Federation) -> None:
    other, failed = study(toy_federation, on_record=Seen(SystemExit(3))).runs
    assert other.finished and failed.failure is not None
    assert failed.failure["error"] == "on_record raised SystemExit: 3"


@pytest.mark.parametrize("at", [0, 3, ROUNDS])
def test_after_its_exception_the_run_resumes_at_that_round(
    toy_federation: Federation, tmp_path: Path, at: int
) -> None:
    study(toy_federation, on_record=Seen(ValueError(), at), out=tmp_path / "failed")
    again = Seen()
    results = study(toy_federation, on_record=again, out=tmp_path / "failed")
    assert again.rounds() == list(range(at, ROUNDS + 1)) and again.rounds("uniform") == []
    assert all(run.failure is None and run.finished for run in results.runs)
    study(toy_federation, out=tmp_path / "plain")
    for method in ("uniform", "md"):
        assert stored(tmp_path / "failed", method) == stored(tmp_path / "plain", method)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_after_an_interrupt_no_record_is_given_twice(
    toy_federation: Federation, tmp_path: Path, workers: int
) -> None:
    first, again = Seen(KeyboardInterrupt()), Seen()
    with pytest.raises(KeyboardInterrupt):
        study(toy_federation, on_record=first, out=tmp_path, execution=in_workers(workers))
    study(toy_federation, on_record=again, out=tmp_path)
    assert first.rounds() == [0, 1, 2] and again.rounds() == [3, 4, 5]
    assert first.rounds("uniform") + again.rounds("uniform") == list(range(ROUNDS + 1))


def test_rounds_that_are_played_again_from_a_checkpoint_are_not_new(
    toy_federation: Federation, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        study(toy_federation, on_record=Seen(KeyboardInterrupt()), out=tmp_path)
    (checkpoint,) = tmp_path.glob("*-md-seed0-*/checkpoint.npz")
    checkpoint.unlink()  # as if the process had been killed before the first one
    again = Seen()
    study(toy_federation, on_record=again, out=tmp_path)
    assert again.rounds() == [3, 4, 5]


def test_more_rounds_give_the_records_that_are_new(
    toy_federation: Federation, tmp_path: Path
) -> None:
    study(toy_federation, out=tmp_path)
    finished = Seen()
    study(toy_federation, on_record=finished, out=tmp_path)
    assert finished.records == {}
    longer = Seen()
    training = {"rounds": ROUNDS + 2, "proportion": 0.4, "local_steps": 1, "batch_size": 4}
    study(toy_federation, on_record=longer, out=tmp_path, training=training)
    assert longer.rounds() == [5, 6, 7]  # record 5 has a cohort now
    assert longer.records["md"][0].cohort is not None


def test_it_is_no_part_of_the_identity(toy_federation: Federation, tmp_path: Path) -> None:
    study(toy_federation, out=tmp_path / "without")
    study(toy_federation, on_record=lambda run, record: None, out=tmp_path / "with")
    names = [
        sorted(path.name for path in (tmp_path / out).iterdir()) for out in ("without", "with")
    ]
    assert names[0] == names[1]


@pytest.mark.parametrize("value", [3, "print", lambda run: None])
def test_what_takes_no_run_and_record_is_refused(
    toy_federation: Federation, tmp_path: Path, value: Any
) -> None:
    message = "^on_record must be a function of a run and a record, got "
    with pytest.raises(ConfigError, match=message):
        study(toy_federation, on_record=value, out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_record_that_is_made_again_is_given_once() -> None:
    given: list[int] = []
    listener = Listener(lambda run, record: given.append(record.round), {7: Run({}, ())}, {7: 1})
    for t in (0, 1, 2, 0, 1, 2, 3):  # a worker crashed after round 2 and started at round 0
        listener.give(7, Record(t))
    assert given == [1, 2, 3]


def test_a_record_that_was_refused_is_given_again() -> None:
    def refuse(run: Run, record: Record) -> None:
        raise ValueError(record.round)

    listener = Listener(refuse, {0: Run({}, ())})
    for _ in range(2):
        with pytest.raises(ListenerError, match="on_record raised ValueError: 0"):
            listener.give(0, Record(0))


PLUGIN = """
from pathlib import Path

import fedgs


@fedgs.on_record
def append(run, record):
    with Path({file!r}).open("a") as file:
        print(run.label, run.seed, record.round, file=file)
    if record.round == {fails}:
        raise RuntimeError("full")
"""


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """No function is registered but those of the test."""
    monkeypatch.setattr(listeners, "_listeners", {})


def command(monkeypatch: pytest.MonkeyPatch, plugin: Path, out: Path, workers: int) -> int:
    settings = {
        "data": '{name="synthetic",clients=5}',
        "method": '["uniform","md"]',
        "seed": 0,
        "training.rounds": 3,
        "training.local_steps": 1,
        "execution.workers": workers,
        "execution.engine": "loop",
    }
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    arguments = ["fedgs", "run", *words, "--plugin", str(plugin), "--out", str(out)]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_the_command_calls_the_functions_of_plugins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registered: None, workers: int
) -> None:
    (tmp_path / "p.py").write_text(PLUGIN.format(file=str(tmp_path / "lines"), fails=None))
    assert command(monkeypatch, tmp_path / "p.py", tmp_path / "out", workers) == 0
    lines = (tmp_path / "lines").read_text().splitlines()
    assert sorted(lines) == [f"{label} 0 {t}" for label in ("md", "uniform") for t in range(4)]


def test_a_failing_function_of_a_plugin_is_reported_like_a_failing_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    registered: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "p.py").write_text(PLUGIN.format(file=str(tmp_path / "lines"), fails=2))
    assert command(monkeypatch, tmp_path / "p.py", tmp_path / "out", 1) == 1
    error = capsys.readouterr().err
    for label in ("uniform", "md"):
        where = f"fedgs: {label}, seed 0 failed in round 2: on_record raised RuntimeError: full"
        assert where in error
    assert error.count("Traceback") == 1 and 'raise RuntimeError("full")' in error


def test_a_function_of_the_same_name_replaces_the_earlier_one(registered: None) -> None:
    def made(value: int) -> Callable[[Run, Record], int]:
        @fedgs.on_record
        def same(run: Run, record: Record) -> int:
            return value

        return same

    made(1)
    second = made(2)
    assert listeners.registered_listeners() == (second,)


def test_the_decorator_refuses_a_name() -> None:
    message = "^fedgs.on_record must be a function of a run and a record, got 'mine'$"
    with pytest.raises(ConfigError, match=message):
        fedgs.on_record("mine")  # type: ignore[type-var]
