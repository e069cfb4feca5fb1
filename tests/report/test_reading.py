from collections.abc import Callable
from pathlib import Path

import pytest
from tests.report import folders

from fedgs.errors import OutputError
from fedgs.report.reading import read_runs
from fedgs.report.tables import comparison


def test_every_run_of_a_folder_is_read(tmp_path: Path) -> None:
    folders.write_study(tmp_path, methods=("uniform", "fedprox"), seeds=2)
    runs, problems = read_runs(tmp_path)
    assert sorted((run.label, run.seed, run.finished, run.rounds_done) for run in runs) == [
        ("fedprox", 0, True, 40),
        ("fedprox", 1, True, 40),
        ("uniform", 0, True, 40),
        ("uniform", 1, True, 40),
    ]
    assert {run.group for run in runs} == {("Synthetic(0.5, 0.5), 30 clients", "LDF 0.7")}
    assert problems == []


def test_the_folder_of_one_run_is_read(tmp_path: Path) -> None:
    folder = folders.write_run(tmp_path, "uniform", 0)
    assert [run.label for run in read_runs(folder.path)[0]] == ["uniform"]


def test_a_killed_run_is_read_up_to_its_last_record(tmp_path: Path) -> None:
    folder = folders.write_run(tmp_path, "uniform", 0, done=12)
    with (folder.path / "rounds.jsonl").open("a") as file:
        file.write('{"round":12,"avail')  # cut off by the kill
    (run,), problems = read_runs(tmp_path)
    assert (run.rounds_done, run.finished, problems) == (12, False, [])


def test_a_run_that_has_only_begun_is_read(tmp_path: Path) -> None:
    folders.write_run(tmp_path, "uniform", 0, done=0)
    (run,), problems = read_runs(tmp_path)
    assert (run.rounds_done, run.finished, problems) == (0, False, [])
    assert "0 of 40 rounds" in str(comparison([run]))


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        (
            "rounds.jsonl",
            b'{"round":0}\nnonsense\n',
            "left out, not a record of a round: 'nonsense'",
        ),
        ("rounds.jsonl", b'{"round":0}\n{"round":2}\n', "line 2 is round 2, not 1"),
        (
            "rounds.jsonl",
            b'{"round":0,"test_loss":"low"}\n',
            "left out, round 0 holds a figure that is not a number",
        ),
        (
            "rounds.jsonl",
            b'{"round":0,"cohort":7}\n',
            "left out, round 0 holds a list of clients that is not a list",
        ),
        *(
            ("rounds.jsonl", b'{"round":0,"cohort":[],"clock":0,%s}\n' % field, "round 0 holds a")
            for field in (b'"seconds":"x"', b'"worked":["x"]', b'"worked":3', b'"fates":"late"')
        ),
        ("rounds.jsonl", b"\x00\xff\xfe\n", "left out, not a record"),
        ("config.toml", b"seed = = 3", "config.toml is not readable"),
        ("config.toml", b'seed = "x"\n[method]\nname = "md"\n', "left out, invalid literal"),
        ("config.toml", b"seed = 3\n", "names no method"),
        ("clients.npz", b"PK\x03\x04 cut off", "without its clients"),
        ("failure.json", b"{", "without its failure"),
    ],
)
def test_a_corrupt_file_is_one_line_and_the_rest_is_read(
    tmp_path: Path, name: str, content: bytes, line: str
) -> None:
    good = folders.write_run(tmp_path, "uniform", 0)
    bad = folders.write_run(tmp_path, "md", 0)
    (bad.path / name).write_bytes(content)
    runs, problems = read_runs(tmp_path)
    assert good.path in [run.path for run in runs]
    assert len(problems) == 1
    assert problems[0].startswith(bad.path.name)
    assert line in problems[0]
    assert str(comparison(runs))


def test_entries_that_are_not_runs_are_one_line_each(tmp_path: Path) -> None:
    folders.write_run(tmp_path, "uniform", 0)
    (tmp_path / "holiday").mkdir()
    (tmp_path / "model.pt").write_bytes(b"x")
    (tmp_path / "report.html").write_text("made by the report")
    _, problems = read_runs(tmp_path)
    assert problems == [
        "holiday: not a run's folder (no config.toml)",
        "model.pt: not part of a run",
    ]


def test_a_copy_of_a_run_counts_once(tmp_path: Path) -> None:
    folder = folders.write_run(tmp_path, "uniform", 0)
    copy = folders.RunFolder(tmp_path / "copy")
    copy.create(folder.config(), folder.clients(), {})
    runs, problems = read_runs(tmp_path)
    assert [run.path for run in runs] == [folder.path]
    assert problems == [f"copy: left out, the same run as {folder.path.name}"]


def test_a_folder_is_given_as_text_or_path(tmp_path: Path) -> None:
    folders.write_run(tmp_path, "uniform", 0)
    assert [run.label for run in read_runs(str(tmp_path))[0]] == ["uniform"]
    with pytest.raises(
        OutputError, match="read_runs takes a folder such as 'fedgs-runs'; got None"
    ):
        read_runs(None)


@pytest.mark.parametrize("make", [lambda path: path / "absent", lambda path: path])
def test_a_folder_without_runs_is_refused(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    with pytest.raises(OutputError, match=r"is not a folder|holds no run that can be read"):
        read_runs(make(tmp_path))
