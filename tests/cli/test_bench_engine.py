import pytest

from fedgs.bench import methods
from fedgs.bench.engines import SETTINGS, Setting
from fedgs.cli.bench_engine import engine
from fedgs.errors import ConfigError
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


def test_methods_have_a_line_each_relative_to_uniform(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [methods.MeasuredMethod(methods.REFERENCE, 0.25, 1.0, 0)]
    rows += [methods.MeasuredMethod(row, 0.5, 2.0, 30) for row in methods.ROWS[:1]]
    monkeypatch.setattr(methods, "measure_methods", lambda **how: iter(rows))
    engine(["synthetic"], name="auto", device="cpu", precision="float32", repeats=3, methods=True)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["part", "method", "ms", "ratio", "target", "losses"]
    assert lines[1] == ["sampler", "uniform", "0.250", "1.00", "1.3", "0"]
    assert lines[2] == ["sampler", "md", "0.500", "2.00*", "1.3", "30"]


def test_methods_are_timed_on_synthetic_alone() -> None:
    message = r"^SETTING must be synthetic with --methods, got 'cifar10'$"
    with pytest.raises(ConfigError, match=message):
        engine(["cifar10"], methods=True)
    message = "^--methods goes with --engine auto, .* got auto, cuda and float32$"
    with pytest.raises(ConfigError, match=message):
        engine([], device="cuda", methods=True)
