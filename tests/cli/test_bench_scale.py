import pytest

from fedgs.bench import scale as bench
from fedgs.cli.bench_scale import scale


def test_the_command_prints_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def measured(clients: tuple[int, ...], **how: int) -> list[bench.ScaleRow]:
        asked.append((clients, how))
        return [bench.ScaleRow(30, 3, None, 0.5, 0.001, 7.0, None)]

    monkeypatch.setattr(bench, "measure_scale", measured)
    scale(None, rounds=2, seed=1)
    assert asked == [(bench.CLIENTS, {"rounds": 2, "seed": 1})]
    assert "| 30, 3 | dense | 0.50 s | 1 ms | 7 MB | - |" in capsys.readouterr().out
