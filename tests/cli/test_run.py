"""The command line as a user meets it: in an empty folder, in a process of its own."""

import shlex
from pathlib import Path

import numpy as np
import pytest
from tests.commands import fedgs

SMALL = [
    "--set",
    "data.clients=6",
    "--set",
    "training.rounds=4",
    "--set",
    "training.proportion=0.5",
]


def test_run_trains_prints_a_table_and_leaves_records(tmp_path: Path) -> None:
    done = fedgs(tmp_path, "run", *SMALL)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "Synthetic(0.5, 0.5), 6 clients, LDF 0.7: 5 methods x 3 seeds x 4 rounds"
    assert any(
        line.startswith("method") and "test loss" in line and "vs uniform [95 %]" in line
        for line in lines
    )
    for method in ("fedgs", "uniform", "md", "fedprox", "power_of_choice"):
        assert any(line.split()[:1] == [method] for line in lines), method
    assert "Records: fedgs-runs/" in done.stdout
    assert len(list((tmp_path / "fedgs-runs").glob("*/rounds.jsonl"))) == 15
    again = fedgs(tmp_path, "run", *SMALL)
    assert "all runs were already complete and were reused" in again.stdout
    table = fedgs(tmp_path, "table", "fedgs-runs")
    assert table.returncode == 0 and "power_of_choice" in table.stdout


@pytest.mark.long
def test_parts_give_the_records_of_the_whole(tmp_path: Path) -> None:
    few = [*SMALL, "--set", "seed=[0, 1]", "--set", "method=['md', 'uniform']"]
    parts = [fedgs(tmp_path, "run", *few, "--part", f"{i}/3", "--out", "parts") for i in (3, 1, 2)]
    assert [done.returncode for done in parts] == [0, 0, 0], parts[0].stderr
    assert "part 1 of 3: 2 of 4 runs" in parts[1].stdout
    assert "Next: fedgs table parts, after the other parts" in parts[1].stdout
    assert "paired" not in parts[1].stdout
    assert fedgs(tmp_path, "run", *few, "--out", "whole").returncode == 0
    stored = [
        {path.parent.name: path.read_bytes() for path in (tmp_path / out).glob("*/rounds.jsonl")}
        for out in ("parts", "whole")
    ]
    assert len(stored[0]) == 4 and stored[0] == stored[1]
    again = fedgs(tmp_path, "run", *few, "--out", "parts")
    assert "all runs were already complete and were reused" in again.stdout
    # Runs that differ in their rounds alone are the same run and count once.
    rounds = ["--set", "training.rounds=[2, 4]"]
    empty = fedgs(tmp_path, "run", *few, *rounds, "--part", "9/9", "--out", "parts")
    assert empty.returncode == 0 and "part 9 of 9: 0 of 4 runs" in empty.stdout


@pytest.mark.parametrize("part", ["0/4", "5/4", "1", "a/b", "1/0", "-1/2", "1/2/3"])
def test_what_is_no_part_is_refused(part: str, tmp_path: Path) -> None:
    done = fedgs(tmp_path, "run", *SMALL, f"--part={part}")
    assert done.returncode == 2 and list(tmp_path.iterdir()) == []
    assert done.stderr == (
        f"fedgs: --part must be I/N with whole numbers 1 <= I <= N, such as 3/16; got {part!r}\n"
    )


PLUGIN = (
    "import fedgs\n"
    "@fedgs.sampler('mine')\n"
    "def mine(view, rng):\n"
    "    return fedgs.Selection(view.available[:1])\n"
)


def next_command(output: str) -> list[str]:
    return shlex.split(output.partition("Next: ")[2].strip())


def test_the_next_command_runs_as_it_is_printed(tmp_path: Path) -> None:
    (tmp_path / "my plug.py").write_text(PLUGIN)
    given = [
        "--plugin",
        "my plug.py",
        "--set",
        'method=["mine", "uniform"]',
        "--set",
        "seed=0",
        "--out",
        "my runs",
    ]
    done = fedgs(tmp_path, "run", *SMALL, *given)
    words = next_command(done.stdout)
    assert words[:2] == ["fedgs", "run"] and words[-2:] == ["--out", "my runs"]
    assert words[words.index("--plugin") + 1] == "my plug.py" and "availability=MDF" in words
    again = fedgs(tmp_path, *words[1:])
    assert again.returncode == 0, again.stderr
    assert "6 clients, MDF 0.7: 2 methods x 1 seed x 4 rounds" in again.stdout
    last = again.stdout.partition("Next: ")[2].strip()
    assert last == "fedgs report 'my runs', or fedgs table 'my runs'"
    shown = fedgs(tmp_path, *shlex.split(last.partition(", or ")[2])[1:])
    assert shown.returncode == 0 and "mine" in shown.stdout


def test_the_command_after_a_graph_has_its_federation(tmp_path: Path) -> None:
    done = fedgs(
        tmp_path, "graph", *SMALL, "--set", "method=fedgs", "--set", "seed=0", "--out", "G.npz"
    )
    assert done.returncode == 0, done.stderr
    again = fedgs(tmp_path, *next_command(done.stdout)[1:])
    assert again.returncode == 0, again.stderr
    assert "6 clients" in again.stdout


def test_one_is_singular(tmp_path: Path) -> None:
    one = [
        "--set",
        "method=uniform",
        "--set",
        "seed=0",
        *SMALL,
        "--set",
        "training.rounds=1",
        "--set",
        "data.clients=2",
    ]
    done = fedgs(tmp_path, "run", *one)
    assert done.stdout.splitlines()[0].endswith("2 clients, LDF 0.7: 1 method x 1 seed x 1 round")
    assert "\n1 run  1/1 " in done.stdout
    assert "the run was already complete and was reused" in fedgs(tmp_path, "run", *one).stdout


def test_a_plugin_can_be_named_and_its_failure_shows_its_own_code(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import fedgs\n"
        "@fedgs.sampler('mine')\n"
        "def mine(view, rng):\n"
        "    if view.round == 3:\n"
        "        raise LookupError('round three')\n"
        "    return fedgs.Selection(view.available[:1])\n"
    )
    done = fedgs(
        tmp_path,
        "run",
        *SMALL,
        "--plugin",
        "mine.py",
        "--set",
        'method=["mine", "uniform"]',
        "--set",
        "seed=0",
    )
    assert done.returncode == 1
    assert "mine, seed 0 failed in round 3: LookupError: round three" in done.stderr
    assert (
        "mine.py" in done.stderr
        and "raise LookupError" in done.stderr
        and "simulation.py" not in done.stderr
    )
    assert any(line.split()[:1] == ["uniform"] for line in done.stdout.splitlines())


def bad_npz(folder: Path) -> None:
    np.savez(
        folder / "nan.npz",
        x=np.full((4, 2), np.nan),
        y=np.zeros(4, int),
        client=np.array([0, 0, 1, -1]),
    )
    whole = folder / "whole.npz"
    np.savez(whole, x=np.zeros((4, 2)), y=np.zeros(4, int), client=np.array([0, 0, 1, -1]))
    (folder / "cut.npz").write_bytes(whole.read_bytes()[:200])
    rows = {"x": np.zeros((4, 2)), "y": np.zeros(4, int), "client": np.array([0, 0, 1, -1])}
    np.savez(folder / "empty.npz", **rows, split=np.array([0, 0, 1, 2]))
    np.save(folder / "short.npy", np.ones((6, 2), bool))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "availability=LFD"], "availability.name must be one of"),
        (["--set", "availability.beta=1.5"], "availability.beta"),
        (
            ["--set", "availability=LN", "--set", "availability.beta=1.0"],
            "availability.beta must be in [0, 1) for 'LN', got 1.0",
        ),
        (["--set", "training.round=5"], "training.round is not a setting; known are"),
        (
            ["--set", "training.rounds=many"],
            "training.rounds should be a valid integer, got 'many'",
        ),
        (["--set", "training.cohort_limit=31"], "training.cohort_limit must be at most 30"),
        (["--set", "training.proportion=0"], "training.proportion should be greater than 0, got 0"),
        (
            ["--set", "training.cohort_limit=3", "--set", "training.proportion=0.5"],
            "contradict each other",
        ),
        (["--set", "nonsense"], "--set takes KEY=VALUE"),
        (["--set", "method.alhpa=2"], "did you mean 'alpha'?"),
        (["missing.toml"], "cannot be read"),
        (["--plugin", "missing.py"], "--plugin must be a Python file"),
        (["--set", "data=file", "--set", "data.path=missing.npz"], "missing.npz"),
        (["--set", "data=file", "--set", "data.path=cut.npz"], "cut.npz"),
        (
            ["--set", "data=file", "--set", "data.path=nan.npz"],
            "nan.npz: x must be finite, got nan",
        ),
        (["--set", "data=file", "--set", "data.path=empty.npz"], "client"),
        (["--set", "data=fashion_mnist", "--data-dir", "here"], "here"),
        (
            [
                "--set",
                "availability=file",
                "--set",
                "availability.path=short.npy",
                "--set",
                "data.clients=6",
            ],
            "columns",
        ),
        (["--set", "execution.device=cuda:7"], "execution.device"),
        (["--out", "taken"], "holds something else"),
        (["--against", "nobody"], "nobody"),
    ],
)
def test_bad_input_is_one_sentence_exit_code_2_and_nothing_written(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    bad_npz(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.tex").write_text("mine")
    (tmp_path / "here").mkdir()
    for part in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (tmp_path / "here" / f"{part}-ubyte.gz").write_bytes(b"not gzip")
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    done = fedgs(tmp_path, "run", *arguments)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before
