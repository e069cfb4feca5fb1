"""Runs under a trace: equal availability for all methods, and equal records however they run."""

import json
from pathlib import Path
from typing import Any

import pytest

import fedgs
from fedgs.availability import Trace, activity
from fedgs.traces import DAY, Traces, write_traces

pytest.importorskip("torch")

HOUR = 3600
METHODS = ["uniform", "fedgs", {"name": "power_of_choice"}]


@pytest.fixture
def mode(tmp_path: Path) -> Trace:
    """Ten devices, each there in its own hours of the day; nobody is there from 20 h on."""
    on = [h * HOUR for d in range(10) for h in (d, 10 + d)]
    off = [second + HOUR + 900 * (d % 3) for d, second in zip(range(20), on, strict=True)]
    names = [f"phone-{d}" for d in range(10)]
    traces = Traces(on, off, range(0, 21, 2), [0] * 10, [DAY] * 10, names)
    path = write_traces(traces, tmp_path / "phones.npz")
    return Trace(path=path, round_seconds=1800, start_hour=17, couple="data_size", coupling=0.8)


def compared(mode: Trace, out: Path, *, rounds: int = 12, **execution: Any) -> list[list[Any]]:
    """The records of all runs, without their times."""
    results = fedgs.compare(
        fedgs.Synthetic(clients=10),
        methods=METHODS,
        availability=mode,
        training={"rounds": rounds, "cohort_limit": 2},
        execution=execution,
        out=out,
    )
    return [
        [json.loads(json.dumps(record, default=vars)) for record in run.records]
        for run in results.runs
    ]


def test_all_methods_have_the_available_clients_of_the_trace(mode: Trace, tmp_path: Path) -> None:
    runs = compared(mode, tmp_path / "out")
    clients = fedgs.Synthetic(clients=10).load().clients
    seeded = mode.model_copy(update={"seed": 0})
    expected = [column.nonzero()[0].tolist() for column in activity(seeded, clients, 12).T]
    assert [] in expected and any(expected)
    for records in runs:
        assert [record["available"] for record in records[:12]] == expected
        skipped = [record["selection_status"] == "skipped" for record in records[:12]]
        assert skipped == [not available for available in expected]


@pytest.mark.long
def test_workers_engines_and_resumed_runs_have_equal_records(mode: Trace, tmp_path: Path) -> None:
    alone = compared(mode, tmp_path / "alone", workers=1, engine="stacked")
    assert compared(mode, tmp_path / "workers", workers=2, engine="stacked") == alone
    compared(mode, tmp_path / "resumed", rounds=5, workers=1, engine="stacked")
    assert compared(mode, tmp_path / "resumed", workers=1, engine="stacked") == alone
    looped = compared(mode, tmp_path / "loop", workers=1, engine="loop")
    for records, others in zip(alone, looped, strict=True):
        assert [r["available"] for r in records] == [r["available"] for r in others]
