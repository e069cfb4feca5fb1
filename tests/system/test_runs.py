"""Runs with a clock from configurations: equal records however they run, and titles of groups."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fedgs
from fedgs.cli.config import resolved_toml
from fedgs.config import Config
from fedgs.errors import ConfigError
from fedgs.experiments.grid import expand
from fedgs.fingerprint import identity_of
from fedgs.report.labels import labelled
from fedgs.report.run_view import Run
from fedgs.system_settings import System
from fedgs.traces import DAY, Traces, write_traces

pytest.importorskip("torch")

HOUR = 3600
SYSTEM = {
    "example_seconds": 6.0,
    "over_selection": 1.5,
    "deadline": 1500,
    "drop_out": 0.1,
    "noise": 0.3,
}


@pytest.fixture
def mode(tmp_path: Path) -> fedgs.Availability:
    """Ten devices, each there in its own hours of the day; nobody is there from 20 h on."""
    on = [h * HOUR for d in range(10) for h in (d, 10 + d)]
    off = [second + 2 * HOUR + 900 * (d % 3) for d, second in zip(range(20), on, strict=True)]
    names = [f"phone-{d}" for d in range(10)]
    traces = Traces(on, off, range(0, 21, 2), [0] * 10, [DAY] * 10, names)
    path = write_traces(traces, tmp_path / "phones.npz")
    from fedgs.availability import Trace

    return Trace(path=path, round_seconds=1800, start_hour=17)


def compared(
    mode: Any, out: Path, *, rounds: int = 10, system: Any = None, methods: Any = None, **how: Any
) -> list[list[dict[str, Any]]]:
    """The records of all runs as plain values."""
    results = fedgs.compare(
        fedgs.Synthetic(clients=10),
        methods=methods or ["uniform", "fedgs"],
        availability=mode,
        training={"rounds": rounds, "cohort_limit": 2, "local_steps": 4},
        execution=how,
        system={**SYSTEM, **(system or {})},
        out=out,
    )
    assert not any(run.failure for run in results.runs)
    return [[json.loads(record.to_json()) for record in run.records] for run in results.runs]


@pytest.mark.parametrize("clock", ["rounds", "simulated"])
def test_workers_engines_and_resumed_runs_have_equal_records(
    mode: Any, tmp_path: Path, clock: str
) -> None:
    system = {"clock": clock}
    alone = compared(mode, tmp_path / "alone", system=system, workers=1, engine="stacked")
    assert {fate for run in alone for r in run[:-1] for fate in r["fates"]} >= {"answered", "late"}
    compared(mode, tmp_path / "resumed", rounds=4, system=system, workers=1, engine="stacked")
    resumed = compared(mode, tmp_path / "resumed", system=system, workers=1, engine="stacked")
    assert resumed == alone
    looped = compared(mode, tmp_path / "loop", system=system, workers=1, engine="loop")
    timed = ("available", "cohort", "clock", "seconds", "fates", "worked", "traffic", "ended")
    for records, others in zip(alone, looped, strict=True):
        assert [[r[key] for key in timed] for r in records] == [
            [r[key] for key in timed] for r in others
        ]


@pytest.mark.long
def test_worker_processes_give_the_records_of_one_process(mode: Any, tmp_path: Path) -> None:
    system = {"clock": "simulated"}
    alone = compared(mode, tmp_path / "alone", system=system, workers=1, engine="stacked")
    assert compared(mode, tmp_path / "two", system=system, workers=2, engine="stacked") == alone


@pytest.mark.parametrize("clock", ["rounds", "simulated"])
def test_methods_share_all_durations_and_the_available_clients_of_rounds(
    mode: Any, clock: str, tmp_path: Path
) -> None:
    system = {"drop_out": 0.0, "deadline": None, "clock": clock, "over_selection": 1.0}
    methods = ["uniform", "fedgs", "md"]
    where = "LDF" if clock == "rounds" else mode
    runs = compared(where, tmp_path / "runs", system=system, methods=methods, rounds=8)
    worked: dict[tuple[int, Any], list[float]] = {}
    for records in runs:
        if clock == "rounds":
            assert [r["available"] for r in records] == [r["available"] for r in runs[0]]
        for record in records[:-1]:
            for k, name in enumerate(record["cohort"]):
                if record["fates"][k] == "answered":
                    worked.setdefault((record["round"], name), []).append(record["worked"][k])
    assert all(len(set(seconds)) == 1 for seconds in worked.values())
    assert any(len(seconds) > 1 for seconds in worked.values())  # several methods had a client
    cohorts = [[r["cohort"] for r in records] for records in runs]
    assert cohorts[0] != cohorts[1] != cohorts[2]


KILLER = """
import os, signal
from pathlib import Path

marker = Path(os.environ["KILL_MARKER"])
if os.environ["KILL_CALL"] != "never":
    {setup}
    calls = []
    def wrapped(*arguments, **named):
        calls.append(1)
        if len(calls) == int(os.environ["KILL_CALL"]) and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **named)
    {install}
"""
PHASES = {
    "answers": (
        "from fedgs.system import SystemTime; original = SystemTime.play",
        "SystemTime.play = wrapped",
    ),
    "waiting": (
        "from fedgs.system import SystemTime; original = SystemTime.begun",
        "SystemTime.begun = wrapped",
    ),
    "available": (
        "from fedgs.availability import Trace; original = Trace.available",
        "Trace.available = wrapped",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("phase", ["answers", "waiting", "available"])
def test_a_run_that_was_killed_has_the_records_of_an_unbroken_one(
    mode: Any, tmp_path: Path, phase: str
) -> None:
    """Killed between selection and answers, while it waits for a client, or at A_t of a trace."""
    setup, install = PHASES[phase]
    (tmp_path / "killer.py").write_text(KILLER.format(setup=setup, install=install))
    settings = {
        "availability.name": "trace",
        "availability.path": mode.path,
        "availability.start_hour": 17,
        "availability.round_seconds": 1800,
        "method": "uniform",
        "seed": 0,
        "data.clients": 10,
        "training.rounds": 9,
        "training.cohort_limit": 2,
        "execution.checkpoint_every": 2,
        "execution.engine": "loop",
    }
    if phase != "available":
        settings |= {f"system.{key}": value for key, value in SYSTEM.items()}
        settings["system.clock"] = "simulated"
    command = [sys.executable, "-m", "fedgs", "run", "--plugin", "killer.py"]
    for key, value in settings.items():
        command += ["--set", f"{key}={json.dumps(value)}"]

    def run(out: str, call: str) -> int:
        environment = {
            **os.environ,
            "KILL_MARKER": str(tmp_path / "killed"),
            "KILL_CALL": call,
            "OMP_NUM_THREADS": "1",
        }
        done = subprocess.run(
            [*command, "--out", out],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        return done.returncode

    def lines(out: str) -> list[bytes]:
        return [file.read_bytes() for file in (tmp_path / out).rglob("rounds.jsonl")]

    assert run("whole", "never") == 0
    assert run("broken", "6") == -signal.SIGKILL
    assert len(lines("broken")[0].splitlines()) < 9
    assert run("broken", "6") == 0
    assert lines("broken") == lines("whole") and len(lines("whole")[0].splitlines()) == 10


def config(**system: Any) -> Config:
    given = {"data": "synthetic", "availability": "IDL", "method": "uniform"}
    return Config(**given, system=system or None)


def test_a_configuration_without_the_table_is_that_of_before() -> None:
    assert "system" not in config().tables()
    assert config(deadline=3.0).tables()["system"]["deadline"] == 3.0
    assert Config(data="synthetic", availability="IDL", method="md", seed=4, system={}).system == (
        System(seed=4)
    )
    assert config(seed=7).system == System(seed=7)


def test_the_table_is_part_of_a_runs_identity() -> None:
    def fingerprint(content: str | None = None, **system: Any) -> str:
        return identity_of(
            config(**system), data_fingerprint="d", limit=3, system_content=content
        ).fingerprint

    prints = [
        fingerprint(),
        fingerprint(deadline=3.0),
        fingerprint(deadline=4.0),
        fingerprint("a", deadline=4.0),
        fingerprint("b", deadline=4.0),
    ]
    assert len(set(prints)) == 5


def test_an_empty_table_turns_time_on_and_is_printed() -> None:
    grid = expand({"system": {}, "method": "uniform"})
    assert grid.configs[0].system == System(seed=0)
    printed = resolved_toml(grid, full=False)
    assert "[system]" in printed
    full = resolved_toml(grid, full=True)
    assert "over_selection = 1.3  # default" in full and "seed = 0  # seed" in full
    several = expand({"system": {"work": 2}}, [("system.deadline", [10, 20])])
    assert [c.system and (c.system.deadline, c.system.work) for c in several.configs] == [
        (10, 2),
        (20, 2),
    ]
    with pytest.raises(ConfigError, match=r"system\.dead is not a setting"):
        expand({}, [("system.dead", 3)])
    with pytest.raises(ConfigError, match="system"):
        expand({"system": 3})


def test_runs_with_other_systems_are_in_groups_of_their_own() -> None:
    tables = [config(deadline=value).tables() for value in (3.0, 60.0)]
    runs = labelled(Run(one, ()) for one in tables)
    assert [run.group[1] for run in runs] == ["IDL deadline=3", "IDL deadline=60"]
    assert {run.label for run in runs} == {"uniform"}
    mixed = labelled(Run(one, ()) for one in (config().tables(), config(work=2.0).tables()))
    assert len({run.group for run in mixed}) == 2
