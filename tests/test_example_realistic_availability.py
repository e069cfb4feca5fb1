"""The study of realistic availability writes rows and resumes; its summary makes the page's tables.

Times and losses of the stored rows are compared with the page, not computed again.
"""

import importlib
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import fedgs
from fedgs.traces import DAY, Traces, write_traces

pytest.importorskip("torch")

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "realistic_availability"
STORED = ROOT / "docs" / "records" / "realistic-availability" / "rows.csv"


@pytest.fixture(scope="module")
def modules() -> Iterator[tuple[ModuleType, ModuleType]]:
    """The two programs, the second of which imports the first."""
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module("study"), importlib.import_module("summary")
    sys.path.remove(str(FOLDER))
    for name in ("study", "summary"):
        sys.modules.pop(name)


@pytest.fixture
def study(modules: tuple[ModuleType, ModuleType], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The study at a small size."""
    study = modules[0]
    small = {"ROUNDS": 2, "EVERY": 1, "CLIENTS": 6, "LIMIT": 2, "RATES": (0.05, 0.1)}
    for name, value in small.items():
        monkeypatch.setattr(study, name, value)
    monkeypatch.setattr(study, "TUNING_FEDERATIONS", (7,))
    monkeypatch.setattr(study, "PAPER", {"IDL": study.PAPER["IDL"]})
    monkeypatch.setattr(
        study, "REALISTIC", {name: study.REALISTIC[name] for name in ("trace", "diurnal")}
    )
    methods = {"uniform": "uniform", "mifa": "mifa"}
    monkeypatch.setattr(study, "METHODS", methods)
    monkeypatch.setattr(study, "TIMED", {"uniform": "uniform", "oort": "oort"})
    return study


@pytest.mark.long
def test_a_study_resumes_and_needs_no_trace(study: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    study.main([str(path), "tune"])
    rows = study.read_rows(path)
    assert [(r.condition, r.method, r.rate) for r in rows] == [
        ("IDL", method, rate) for rate in (0.05, 0.1) for method in ("uniform", "mifa")
    ]
    before = path.read_bytes()
    study.main([str(path), "tune"])
    assert path.read_bytes() == before
    rates = study.chosen_rates(rows)
    study.main([str(path), "rounds", "3"])
    confirmed = [row for row in study.read_rows(path) if row.part == "rounds"]
    assert list(dict.fromkeys(row.condition for row in confirmed)) == ["IDL", "diurnal"]
    assert {row.method: row.rate for row in confirmed} == rates
    assert all(row.federation == 3 and 0 <= row.bias <= 1 for row in confirmed)


def test_runs_with_a_clock_store_the_hours_of_their_losses(
    study: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on, off = [0, 7200], [7200, DAY - 3600]
    phones = Traces(on, off, [0, 1, 2], [0, 0], [DAY, DAY], ["a", "b"])
    traces = write_traces(phones, tmp_path / "phones.npz")
    path = tmp_path / "rows.csv"
    monkeypatch.setattr(study, "TUNING_CONDITIONS", ("trace",))
    monkeypatch.setattr(study, "conditions", lambda part, traces: ["trace"])
    study.main([str(path), "tune", "--traces", str(traces)])
    study.main([str(path), "time", "--traces", str(traces), "1"])
    timed = [row for row in study.read_rows(path) if row.part == "time"]
    assert [row.method for row in timed] == ["uniform", "oort"]
    for row in timed:
        assert len(row.hours) == len(row.losses) == 3
        assert 0 == row.hours[0] < row.hours[1] < row.hours[2]
        assert 0 <= row.answered <= 1 and 0 <= row.lost <= 1
        assert row.lowest == pytest.approx(min(row.losses), rel=1e-3)


def test_tables_hold_pairs_and_the_first_of_two_evaluations_at_the_target(
    modules: tuple[ModuleType, ModuleType], tmp_path: Path
) -> None:
    study, summary = modules
    rest = {"last": 1.0, "tail": 1.0, "bias": 0.1, "count_variance": 2.0, "available": 9.0}
    losses = {"uniform": (4.0, 3.0, 2.0, 2.5, 1.0), "fedgs": (4.0, 2.0, 2.5, 2.0, 2.0)}
    rows = [
        study.Row(
            *("time", federation, "trace", method, 0.1),
            lowest=min(curve) + 0.1 * federation * (method == "fedgs"),
            **rest,
            answered=0.75,
            lost=0.2,
            hours=tuple(float(hour) for hour in range(len(curve))),
            losses=curve,
        )
        for federation in (1, 2)
        for method, curve in losses.items()
    ]
    cells = summary.Cells(rows, "time")
    assert cells.target("trace", 1) == 3.0  # the first two of five evaluations
    assert cells.reached("trace", "uniform") == {1: (1.0, 1.0), 2: (1.0, 1.0)}
    assert cells.reached("trace", "fedgs") == {1: (1.0, 1.0), 2: (1.0, 1.0)}
    # 2 + .1 f - 1: 1.1 and 1.2; t(1) = 12.706, standard error .05
    np.testing.assert_allclose(cells.differences("trace", "fedgs"), [1.1, 1.2])
    assert summary.interval(np.array([1.1, 1.2])) == "+1.150 [+0.515, +1.785]"
    assert summary.interval(np.array([0.25])) == "+0.250"
    never = [row for row in rows if row.method == "uniform"] + [
        study.Row(**{**vars(row), "losses": (4.0,) * 5}) for row in rows if row.method == "fedgs"
    ]
    cells = summary.Cells(never, "time")
    assert cells.reached("trace", "fedgs") == {1: (math.inf, math.inf), 2: (math.inf, math.inf)}
    assert "| `fedgs` | not reached |  | not reached | 0/2 |" in summary.time_table(cells, "trace")
    summary.draw(rows, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


def test_the_page_shows_the_tables_of_the_stored_rows(
    modules: tuple[ModuleType, ModuleType],
) -> None:
    study, summary = modules
    page = (ROOT / "docs" / "explanation" / "realistic-availability.md").read_text(encoding="utf-8")
    blocks = summary.report(study.read_rows(STORED)).split("\n\n")
    tables = [block for block in blocks if block.startswith("|")]
    assert len(tables) > 6
    for block in tables:
        assert block in page


def test_every_condition_and_method_is_one_that_runs(
    modules: tuple[ModuleType, ModuleType],
) -> None:
    study, _ = modules
    assert set(study.conditions("rounds", "x")) == {*study.PAPER, *study.REALISTIC}
    assert not any("trace" in name for name in study.conditions("time", None))
    for part in ("rounds", "time", "images"):
        for name in study.conditions(part, "phones.npz"):
            given = study.settings_of((part, 1, name, "uniform", 0.1), "phones.npz")
            assert fedgs.registry.build("availability", given["availability"]).name
    assert set(study.RATE_OF.values()) <= set(study.METHODS)
