"""Records with a clock have one form, whoever writes them, and tables and pages read it."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.report import folders
from tests.time_fields import check_time_fields

import fedgs
from fedgs.records import Record
from fedgs.report import Run, read_runs
from fedgs.report.page_data import page_data
from fedgs.report.tables import comparison

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def simulated() -> Run:
    """A run with every fate but "gone", rounds without answers, and one without a cohort."""
    (run,) = fedgs.compare(
        fedgs.Synthetic(clients=6),
        methods=["uniform"],
        availability={"name": "groups", "groups": 2, "period": 4},
        training={"rounds": 8, "cohort_limit": 2, "local_steps": 1},
        system={
            "drop_out": 0.5,
            "over_selection": 1.5,
            "noise": 1.0,
            "deadline": 0.6,
            "example_seconds": 0.1,
        },
    ).runs
    return run


def test_simulated_records_have_the_fields_of_time(simulated: Run) -> None:
    check_time_fields(simulated.records)
    fates = {fate for record in simulated.records for fate in record.fates or ()}
    assert fates >= {"answered", "late", "failed"}


def broken(record: Record) -> list[Record]:
    """The record with one field of time wrong."""
    assert record.fates is not None and record.worked is not None and record.seconds is not None
    return [
        replace(record, clock=None),
        replace(record, seconds=-1.0),
        replace(record, fates=record.fates[1:]),
        replace(record, fates=["silent", *record.fates[1:]]),
        replace(record, worked=[record.seconds + 1, *record.worked[1:]]),
        replace(record, traffic=None),
        replace(record, ended=None),
        replace(record, weights=[1.0] * len(record.fates), fates=["late"] * len(record.fates)),
    ]


@pytest.mark.parametrize("number", range(8))
def test_the_check_finds_every_wrong_field(simulated: Run, number: int) -> None:
    records = list(simulated.records)
    records[0] = broken(records[0])[number]
    with pytest.raises(AssertionError):
        check_time_fields(records)


def test_a_deployment_with_fields_of_time_has_hours_in_tables_and_on_the_page(
    tmp_path: Path,
) -> None:
    stored = folders.write_deployment(tmp_path, "aaaa1111")
    *rounds, last = stored.records()
    timed = [
        replace(
            record,
            clock=1800.0 * t,
            seconds=1800.0,
            fates=["answered" if w > 0 else "late" for w in record.weights or ()],
            worked=[600.0] * len(record.cohort or ()),
            traffic=10**9,
            ended="deadline" if record.cohort else None,
        )
        for t, record in enumerate(rounds)
    ]
    lines = [record.to_json() for record in [*timed, replace(last, clock=1800.0 * len(timed))]]
    (stored.path / "rounds.jsonl").write_text("\n".join(lines) + "\n")
    runs, problems = read_runs(tmp_path)
    assert problems == []
    check_time_fields(list(runs[0].records))
    titles = [column.title for column in comparison(runs).columns]
    assert any("hours" in title for title in titles) and any("answered" in t for t in titles)
    (group,) = page_data(runs, [])["groups"]  # type: ignore[misc]
    assert group["by_hours"]
