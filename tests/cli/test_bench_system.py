import pytest

from fedgs.bench import system as bench
from fedgs.cli.bench_system import system


def test_the_command_prints_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def measured(**how: int) -> list[bench.Measured]:
        asked.append(how)
        return [bench.Measured("clock", 0.2, 1.2, 0.192, 1.041)]

    monkeypatch.setattr(bench, "measure_system", measured)
    system(devices=70, repeats=2)
    assert asked == [{"devices": 70, "repeats": 2}]
    assert "| clock | .20 ms | .19 ms | 1.04 | 1.2 |" in capsys.readouterr().out
