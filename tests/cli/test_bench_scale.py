import pytest

from fedgs.bench import scale as bench
from fedgs.bench import scale_rounds, scale_workers
from fedgs.cli.bench_scale import scale
from fedgs.errors import ConfigError


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


def test_workers_are_measured_in_place_of_selections(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def measured(*which: object, **how: int) -> list[scale_workers.WorkersRow]:
        asked.append((*which, how))
        return [scale_workers.WorkersRow(50, 1, 0.004, 0.004)]

    monkeypatch.setattr(scale_workers, "measure_workers", measured)
    scale([50], rounds=2, workers=[1, 2])
    assert asked == [((50,), [1, 2], {"rounds": 3})]
    assert "| 50 | 1 | 4.0 ms | 250 | 250 |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("chosen", "measured"),
    [(None, ("uniform", "fedgs")), (["fedgs"], ("fedgs",)), (["uniform"] * 2, ("uniform",))],
)
def test_whole_rounds_are_measured_by_method(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    chosen: list[str] | None,
    measured: tuple[str, ...],
) -> None:
    asked = []

    def measure(clients: tuple[int, ...], **how: object) -> list[scale_rounds.RoundsRow]:
        asked.append((clients, how))
        return []

    monkeypatch.setattr(scale_rounds, "measure_rounds", measure)
    scale([50], rounds=2, whole=True, method=chosen)
    assert asked == [((50,), {"methods": measured, "rounds": 3})]
    assert "| N | method | a round |" in capsys.readouterr().out


def test_other_methods_and_methods_without_whole_rounds_are_refused() -> None:
    with pytest.raises(ConfigError, match="--method must be uniform or fedgs, got 'md'"):
        scale([50], whole=True, method=["uniform", "md"])
    with pytest.raises(ConfigError, match="--method needs --whole-rounds"):
        scale([50], method=["uniform"])


def test_two_kinds_of_rounds_at_once_are_refused() -> None:
    with pytest.raises(ConfigError, match="either --whole-rounds or --workers, not both"):
        scale([50], whole=True, workers=[1])
