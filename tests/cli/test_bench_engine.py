import pytest

from fedgs.bench.engines import SETTINGS, Setting
from fedgs.cli.bench_engine import engine
from fedgs.models import LogisticRegression


def test_command_prints_a_line_for_each_setting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(
        SETTINGS,
        "tiny",
        Setting(LogisticRegression(), (12, 20), (6,), 2, 4, 0.1, 20, 3, local_steps=2),
    )
    engine(["tiny"], name="auto", device="cpu", precision="float32", repeats=1)
    lines = capsys.readouterr().out.splitlines()
    columns = "setting engine round ms eval ms floor ms ratio run-rounds/s MB"
    assert " ".join(lines[0].split()) == columns
    assert lines[1].split()[:2] == ["tiny", "stacked"]
    assert "Medians of 1" in lines[2]
