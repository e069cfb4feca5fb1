"""Rows of methods: which there are, what is counted, and what a pair of timings gives."""

import pytest
from tests.parts import built_in

from fedgs.bench import methods
from fedgs.bench.methods import REFERENCE, ROWS, MeasuredMethod, Row, measure_methods

BY_NAME = {(row.kind, row.name): row for row in ROWS}


@pytest.mark.parametrize(
    ("family", "kind", "left_out"),
    [
        ("method", "sampler", {"uniform"}),
        ("weighting", "weighting", {"data_size", "ca_fed"}),  # those of samplers that have a row
        ("server", "server step", set()),
        ("aggregation", "aggregation", {"mean"}),
    ],
)
def test_every_built_in_part_has_a_row(family: str, kind: str, left_out: set[str]) -> None:
    named = {row.name for row in ROWS if row.kind == kind}
    assert named == set(built_in(family)) - left_out


def test_methods_without_more_work_have_the_targets() -> None:
    for row in ROWS:
        if row.kind in ("weighting", "server step") and row.name != "coverage":
            assert row.target == 1.3
    assert BY_NAME["aggregation", "stale"].target == 2.0
    assert BY_NAME["aggregation", "scaffold"].target == 2.0
    assert BY_NAME["aggregation", "feddyn"].target == 2.0
    assert BY_NAME["sampler", "power_of_choice"].target is None


def test_losses_are_counted() -> None:
    rows = [BY_NAME["sampler", "power_of_choice"], BY_NAME["sampler", "md"]]
    found = list(measure_methods(rows, runs=2, rounds=2, repeats=1))
    assert [one.row for one in found] == [REFERENCE, *rows]
    assert [one.losses for one in found] == [0, 30, 0]
    assert all(one.milliseconds > 0 and one.ratio > 0 for one in found)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.kind}-{row.name}")
def test_every_row_runs(row: Row) -> None:
    assert len(list(measure_methods([row], runs=1, rounds=1, repeats=1))) == 2


def test_a_ratio_is_the_median_of_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each pair: a reference and a method that takes twice as long, on a machine that slows down.
    timings = {"uniform": iter([9.0, 9.0, 9.0, 1.0, 2.0, 30.0]), "md": iter([2.0, 4.0, 30.0])}

    class Scripted:
        losses = 0.0

        def __init__(self, row: Row, runs: int) -> None:
            self.row = row

        def seconds(self, rounds: int) -> float:
            return next(timings[self.row.name])

    monkeypatch.setattr(methods, "_Timed", Scripted)
    first, second = measure_methods([BY_NAME["sampler", "md"]], repeats=3)
    assert (first.milliseconds, first.ratio) == (9000, 1)
    assert (second.milliseconds, second.ratio) == (4000, 2)


def test_a_ratio_above_the_target_misses_it() -> None:
    row = BY_NAME["sampler", "md"]
    assert MeasuredMethod(row, 1.0, 1.31, 0).misses
    assert not MeasuredMethod(row, 1.0, 1.3, 0).misses
    assert not MeasuredMethod(BY_NAME["sampler", "divfl"], 1.0, 9.0, 0).misses
