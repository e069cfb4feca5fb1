from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedgs.bench.system as system
from fedgs.bench.system import ROWS, Measured, Row, generated_traces, markdown, measure_system
from fedgs.record import Record
from fedgs.traces import write_traces

pytest.importorskip("torch")


def test_generated_devices_are_available_for_several_intervals() -> None:
    traces = generated_traces(50)
    assert len(traces) == 50 and len(traces.on) > 50 * 20
    assert (np.diff(traces.offsets) > 0).all()
    # 40 intervals of 1500 s in four days, .17 of the time, less where they overlap.
    assert 0.1 < traces.shares.mean() < 0.2


def test_each_part_has_a_time_and_rounds_have_a_ratio() -> None:
    hard = {**ROWS[-1].system, "deadline": 0.0}  # no client trains
    rows = (ROWS[0], Row("hard", hard, traced=True))
    first, second, *others = measure_system(rows, devices=60, runs=2, rounds=2, repeats=1)
    assert (first.name, first.ratio, first.plain) == ("A_t, 60 devices", None, None)
    assert (second.name, second.ratio, second.plain) == ("convert, 60 devices", None, None)
    assert 0 < second.milliseconds < second.target == 60_000
    assert [row.name for row in others] == ["clock", "hard"]
    for row in others:
        assert row.milliseconds > 0 and row.plain is not None and row.plain > 0
        assert row.ratio == row.milliseconds / row.plain  # of one pair
        assert row.alone is not None and row.alone > 0 and row.alone != row.ratio


def test_runs_are_evaluated_and_rounds_alone_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[int] = []

    class Sink(system._Noting):
        def on_round(self, state: Any, record: Record, seconds: Any) -> None:
            if record.test_loss is not None:
                evaluated.append(record.round)
            super().on_round(state, record, seconds)

    monkeypatch.setattr(system, "_Noting", Sink)
    list(measure_system(ROWS[:1], devices=60, runs=1, rounds=5, repeats=1))
    # With the table in 3 + 20 rounds before the measured 5, without it in 3 of them.
    runs_of_both = [*range(0, 28, 5), *range(0, 8, 5)]
    assert sorted(evaluated) == sorted([*runs_of_both, 0, 0])  # the first round always


def test_rounds_without_the_table_have_the_same_available_clients(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A_t of the second set of runs is that of the first, and as many clients train."""
    records: list[list[Record]] = []

    class Sink(system._Noting):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.records: list[Record] = []
            records.append(self.records)

        def on_round(self, state: Any, record: Record, seconds: Any) -> None:
            self.records.append(record)
            super().on_round(state, record, seconds)

    monkeypatch.setattr(system, "_Noting", Sink)
    path = write_traces(generated_traces(60), tmp_path / "few.npz")
    system._pairs(ROWS[-1], path, runs=2, rounds=3, repeats=2, every=5)
    for run in range(2):
        pairs = list(zip(records[run], records[2 + run], strict=False))
        assert len(pairs) > 5
        for timed, plain in pairs:
            assert timed.available == plain.available
            trained = sum(weight > 0 for weight in timed.weights or ())
            assert trained == len(plain.cohort or ())


def test_the_table_has_a_line_for_each_part() -> None:
    rows = [Measured("A_t, 9 devices", 14.2, 20), Measured("clock", 0.2, 1.2, 0.19, 1.041, 1.1)]
    assert markdown(rows).splitlines()[2:] == [
        "| A_t, 9 devices | 14.20 ms | - | - | 20 ms | - |",
        "| clock | .20 ms | .19 ms | 1.04 | 1.2 | 1.10 |",
    ]
