"""`fedgs figures`: where the figures go, and what is refused with exit code 2."""

import sys
from pathlib import Path

import pytest
from tests.report import folders

from fedgs.cli.main import main


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["fedgs", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_the_figures_are_written_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = folders.write_study(tmp_path / "runs", methods=("uniform",), seeds=1, rounds=4)
    (study / "holiday").mkdir()
    assert run(monkeypatch, "figures", study) == 0
    out, err = capsys.readouterr()
    names = "loss, counts, participation-uniform, partition"
    lines = [
        f"{study / 'figures'}: 4 figures as PDF and PNG: {names}",
        "no figure 'graph': no run kept distances between clients, as those of fedgs do",
    ]
    assert out.splitlines() == lines
    assert err == "holiday: not a run's folder (no config.toml)\n"
    assert len(list((study / "figures").iterdir())) == 8
    assert run(monkeypatch, "figures", study, "--out", tmp_path / "other") == 0
    files = [sorted(path.name for path in folder.iterdir()) for folder in
             (study / "figures", tmp_path / "other")]  # fmt: skip
    assert files[0] == files[1]


def test_without_matplotlib_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = folders.write_study(tmp_path / "runs", methods=("uniform",), seeds=1, rounds=4)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run(monkeypatch, "figures", study) == 2
    assert "pip install 'fedgs[report]'" in capsys.readouterr().err
    assert not (study / "figures").exists()


def test_a_folder_without_runs_is_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "figures", tmp_path) == 2
    assert "holds no run that can be read" in capsys.readouterr().err
