from pathlib import Path

import pytest

from fedgs.bench import scale_rounds
from fedgs.bench.scale_rounds import RoundsRow, make_folder, measure_run, rounds_markdown
from fedgs.data import open_folder


def test_the_federation_has_the_clients_and_sizes(tmp_path: Path) -> None:
    make_folder(tmp_path, 30)
    federation = open_folder(tmp_path)
    assert len(federation) == 30
    assert set(federation.clients.data_sizes.tolist()) == {scale_rounds.EXAMPLES}
    assert federation.clients.label_counts is not None
    assert (federation.clients.label_counts > 0).sum(axis=1).max() <= 2


def test_a_run_is_measured_and_its_disk_extrapolated(tmp_path: Path) -> None:
    make_folder(tmp_path, 1500)
    row = measure_run(tmp_path, "uniform", rounds=4, first=0.5, ready=True)
    assert (row.clients, row.rounds, row.target_seconds) == (1500, 4, 0.77)
    assert 0 < row.round_seconds < 60 and row.start_seconds > 0
    # 188 bytes of bits a round, and lines of 400 to 2000 bytes
    assert 996 * (188 + 400) < 1e6 * (row.of_thousand - row.disk_megabytes) < 996 * (188 + 2500)


def test_memory_that_a_run_gives_back_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sizes = iter([100.0, 140.0])  # before the run, and when the thread begins
    monkeypatch.setattr(scale_rounds, "_private_megabytes", lambda: next(sizes, 90.0))
    make_folder(tmp_path, 30)
    row = measure_run(tmp_path, "uniform", rounds=3, ready=True)
    assert row.memory_megabytes == 40.0


def test_measured_and_extrapolated_figures_have_columns_of_their_own() -> None:
    row = RoundsRow(10**6, "fedgs", 30, 0.123, 0.2, 9.1, None, 66.61, 118.2)
    head, _, line = rounds_markdown([row]).splitlines()
    assert "disk, 30 rounds | disk, 1000 rounds (extrapolated)" in head
    assert line == ("| 1000000 | fedgs | 123.0 ms | 200.0 ms | 9.1 s | - | 66.6 MB | 118.2 MB |")
    assert rounds_markdown([]).count("\n") == 1


@pytest.mark.long
def test_numbers_of_clients_are_measured_in_processes() -> None:
    rows = list(scale_rounds.measure_rounds((100, 2000), methods=("uniform",), rounds=3))
    assert [row.clients for row in rows] == [100, 2000]
    assert rows[0].target_seconds is None
    assert rows[1].target_seconds == 1.5 * rows[0].round_seconds + 0.02
