import numpy as np
import pytest

from fedgs.bench.system import ROWS, Measured, Row, generated_traces, markdown, measure_system

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
    first, *others = measure_system(rows, devices=60, runs=2, rounds=2, repeats=1)
    assert (first.name, first.ratio, first.target) == ("A_t, 60 devices", None, 20.0)
    assert [row.name for row in others] == ["clock", "hard"]
    assert all(row.milliseconds > 0 and row.ratio is not None and row.ratio > 0 for row in others)


def test_the_table_has_a_line_for_each_part() -> None:
    rows = [Measured("A_t, 9 devices", 14.2, None, 20), Measured("clock", 0.2, 1.041, 1.2)]
    assert markdown(rows).splitlines()[2:] == [
        "| A_t, 9 devices | 14.20 ms | - | 20 ms |",
        "| clock | .20 ms | 1.04 | 1.2 |",
    ]
