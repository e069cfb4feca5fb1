"""`fedgs export`: what is written where, and what is refused with exit code 2."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.report import folders

from fedgs.cli.export import Tool
from fedgs.cli.main import main
from fedgs.export import TARGETS


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return folders.write_study(tmp_path / "runs", methods=("uniform",), seeds=2, rounds=3)


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["fedgs", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_the_command_knows_every_tool() -> None:
    assert list(TARGETS) == [tool.value for tool in Tool]


def test_csv_is_written_into_the_folder_of_the_runs(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):  # the first export is no problem for the second
        assert run(monkeypatch, "export", study, "--to", "csv") == 0
        out, err = capsys.readouterr()
        assert (out, err) == (f"{study / 'records.csv'}: 2 runs, 8 records\n", "")
    assert len((study / "records.csv").read_text().splitlines()) == 9


def test_out_names_another_file_and_problems_are_told(
    study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (study / "holiday").mkdir()
    target = study.parent / "elsewhere" / "all.csv"
    assert run(monkeypatch, "export", study, "--to", "csv", "--out", target) == 0
    assert target.is_file()
    assert capsys.readouterr().err == "holiday: not a run's folder (no config.toml)\n"


@pytest.mark.parametrize("to", [name for name, target in TARGETS.items() if target.needs])
def test_a_missing_library_is_exit_code_2(
    to: str, study: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needs = TARGETS[to].needs
    monkeypatch.setitem(sys.modules, needs, None)
    before = sorted(study.iterdir())
    assert run(monkeypatch, "export", study, "--to", to) == 2
    message = f"fedgs: --to {to} needs '{needs}', which is not installed: pip install {needs}\n"
    assert capsys.readouterr() == ("", message)
    assert sorted(study.iterdir()) == before


def test_a_folder_without_runs_is_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "export", tmp_path, "--to", "csv") == 2
    assert "holds no run that can be read" in capsys.readouterr().err


def test_the_command_needs_no_torch(study: Path) -> None:
    statement = (
        "import sys; sys.modules['torch'] = None; from fedgs.cli.main import main; "
        f"sys.argv = ['fedgs', 'export', {str(study)!r}, '--to', 'csv']; main()"
    )
    done = subprocess.run([sys.executable, "-c", statement], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("to", [name for name, target in TARGETS.items() if not target.is_file])
def test_the_other_tools_write_a_folder_and_name_the_next_command(to: str, study: Path) -> None:
    pytest.importorskip(TARGETS[to].needs, exc_type=ImportError)
    command = [sys.executable, "-m", "fedgs", "export", str(study), "--to", to]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == f"{study / to}: 2 runs, 8 records"
    assert second.startswith("Next: ") and str(study / to) in second
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 2 and "is not an empty folder" in again.stderr
    table = subprocess.run(
        [sys.executable, "-m", "fedgs", "table", str(study)], capture_output=True, text=True
    )
    assert table.stderr == ""
