import numpy as np
import pytest
from tests.report import folders

from fedgs.errors import OutputError
from fedgs.records import Record
from fedgs.report.labels import labelled
from fedgs.report.reading import read_runs
from fedgs.report.run_view import Run
from fedgs.report.summary import count_variance, sampling_counts, summarize
from fedgs.report.tables import comparison


def labels(*configs):
    return [run.label for run in labelled(Run(config, ()) for config in configs)]


def test_a_label_is_the_method_and_the_settings_that_differ():
    fedgs = {"name": "fedgs", "scale": "paper"}
    assert labels(
        {"method": {**fedgs, "alpha": 0.5}},
        {"method": {**fedgs, "alpha": 2.0}},
        {"method": {"name": "md"}},
    ) == [
        "fedgs alpha=0.5",
        "fedgs alpha=2",
        "md",
    ]


def test_md_with_a_proximal_term_is_fedprox():
    assert labels(
        {"method": "md", "training": {"mu": 0.01}}, {"method": "md", "training": {"mu": 0.0}}
    ) == ["fedprox", "md"]


def test_a_label_of_ones_own_wins():
    assert labels({"method": "md", "label": "ours"}, {"method": "md"}) == ["ours", "md"]


def test_rounds_and_seeds_are_no_difference_but_the_cohort_limit_is():
    run = {"method": "md", "training": {"rounds": 5, "proportion": 0.2}, "run": {"cohort_limit": 6}}
    same = {
        "method": "md",
        "seed": 3,
        "training": {"rounds": 9, "cohort_limit": 6},
        "run": {"cohort_limit": 6},
    }
    other = {
        "method": "md",
        "training": {"rounds": 5, "proportion": 0.1},
        "run": {"cohort_limit": 3},
    }
    assert labels(run, same) == ["md", "md"]
    assert labels(run, other) == ["md cohort_limit=6", "md cohort_limit=3"]


def test_a_preset_stands_for_the_values_it_gives():
    paper = {"name": "fedgs", "graph": {"preset": "paper", "epsilon": 0.1, "power": 1}}
    authors = {"name": "fedgs", "graph": {"preset": "authors", "epsilon": 0.01, "power": 2}}
    assert labels({"method": paper}, {"method": authors}) == [
        "fedgs preset=paper",
        "fedgs preset=authors",
    ]
    changed = {"name": "fedgs", "graph": {"preset": "authors", "epsilon": 0.5, "power": 2}}
    assert labels({"method": authors}, {"method": changed}) == [
        "fedgs epsilon=0.01",
        "fedgs epsilon=0.5",
    ]


def test_differences_across_groups_are_no_part_of_a_label():
    one = {
        "method": "md",
        "data": "synthetic",
        "training": {"learning_rate": 0.1},
        "run": {"data_title": "A"},
    }
    two = {
        "method": "md",
        "data": "images",
        "training": {"learning_rate": 0.03},
        "run": {"data_title": "B"},
    }
    assert labels(one, two) == ["md", "md"]


def test_federations_and_modes_with_one_title_are_told_apart():
    def config(seed, period, fingerprint):
        return {
            "method": "md",
            "data": {"name": "synthetic", "seed": seed},
            "availability": {"name": "YC", "beta": 0.9, "period": period, "seed": 5 + seed},
            "run": {"data_title": "Syn", "data_fingerprint": fingerprint},
        }

    groups = [
        run.group for run in labelled([Run(config(0, 10, "a"), ()), Run(config(1, 20, "b"), ())])
    ]
    assert groups == [("Syn seed=0", "YC 0.9 period=10"), ("Syn seed=1", "YC 0.9 period=20")]


def test_federations_that_only_their_content_tells_apart_carry_it():
    runs = [
        Run({"method": "md", "run": {"data_title": "Mine", "data_fingerprint": f"{n}" * 16}}, ())
        for n in (1, 2)
    ]
    assert [run.group[0] for run in labelled(runs)] == ["Mine [11111111]", "Mine [22222222]"]


def test_summary_follows_the_records():
    records = [
        Record(0, cohort=["a", "b"], test_loss=0.9, test_accuracy=0.5, valid_loss=0.8),
        Record(1, cohort=["a"]),
        Record(2, cohort=["a"], test_loss=0.3, test_accuracy=0.9, valid_loss=0.7),
        Record(3, cohort=[], test_loss=float("nan"), test_accuracy=0.2, valid_loss=0.1),
        Record(4, test_loss=0.5, test_accuracy=0.8, valid_loss=0.6),
    ]
    figures = summarize(Run({"training": {"rounds": 4}, "run": {"num_clients": 4}}, records))
    assert (figures.test_loss, figures.loss_at_best_valid) == (
        0.3,
        0.5,
    )  # .6 is the lowest validation loss with a finite test loss
    assert (figures.best_accuracy, figures.final_accuracy) == (0.9, 0.8)
    assert figures.count_variance == pytest.approx(np.var([3, 1, 0, 0], ddof=1))
    assert (figures.rounds_done, figures.finished) == (4, True)


def test_counts_need_the_clients_and_are_in_their_order(tmp_path):
    folders.write_run(tmp_path, "fedgs", 0)
    (run,), _ = read_runs(tmp_path)
    counts = sampling_counts(run)
    slow = [
        sum(name in record.cohort for record in run.records if record.cohort)
        for name in run.clients.names
    ]
    assert counts.tolist() == slow
    assert count_variance(run) == pytest.approx(counts.var(ddof=1))


def test_every_run_of_a_folder_is_read(tmp_path):
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


def test_the_folder_of_one_run_will_do(tmp_path):
    folder = folders.write_run(tmp_path, "uniform", 0)
    assert [run.label for run in read_runs(folder.path)[0]] == ["uniform"]


def test_a_killed_run_is_read_as_far_as_it_went(tmp_path):
    folder = folders.write_run(tmp_path, "uniform", 0, done=12)
    with (folder.path / "rounds.jsonl").open("a") as file:
        file.write('{"round":12,"avail')  # cut off by the kill
    (run,), problems = read_runs(tmp_path)
    assert (run.rounds_done, run.finished, problems) == (12, False, [])


def test_a_run_that_has_only_begun_is_read(tmp_path):
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
        ("rounds.jsonl", b"\x00\xff\xfe\n", "left out, not a record"),
        ("config.toml", b"seed = = 3", "config.toml is not readable"),
        ("config.toml", b'seed = "x"\n[method]\nname = "md"\n', "left out, invalid literal"),
        ("config.toml", b"seed = 3\n", "names no method"),
        ("clients.npz", b"PK\x03\x04 cut off", "without its clients"),
        ("failure.json", b"{", "without its failure"),
    ],
)
def test_what_is_corrupt_is_one_line_and_the_rest_is_read(tmp_path, name, content, line):
    good = folders.write_run(tmp_path, "uniform", 0)
    bad = folders.write_run(tmp_path, "md", 0)
    (bad.path / name).write_bytes(content)
    runs, problems = read_runs(tmp_path)
    assert good.path in [run.path for run in runs]
    assert len(problems) == 1
    assert problems[0].startswith(bad.path.name)
    assert line in problems[0]
    assert str(comparison(runs))


def test_what_is_foreign_is_one_line(tmp_path):
    folders.write_run(tmp_path, "uniform", 0)
    (tmp_path / "holiday").mkdir()
    (tmp_path / "model.pt").write_bytes(b"x")
    (tmp_path / "report.html").write_text("made by the report")
    _, problems = read_runs(tmp_path)
    assert problems == [
        "holiday: not a run's folder (no config.toml)",
        "model.pt: not part of a run",
    ]


def test_a_copy_of_a_run_counts_once(tmp_path):
    folder = folders.write_run(tmp_path, "uniform", 0)
    copy = folders.RunFolder(tmp_path / "copy")
    copy.create(folder.config(), folder.clients(), {})
    runs, problems = read_runs(tmp_path)
    assert [run.path for run in runs] == [folder.path]
    assert problems == [f"copy: left out, the same run as {folder.path.name}"]


def test_a_folder_may_be_named_by_a_text_and_nothing_else(tmp_path):
    folders.write_run(tmp_path, "uniform", 0)
    assert [run.label for run in read_runs(str(tmp_path))[0]] == ["uniform"]
    with pytest.raises(
        OutputError, match="read_runs takes a folder such as 'fedgs-runs'; got None"
    ):
        read_runs(None)


@pytest.mark.parametrize("make", [lambda path: path / "absent", lambda path: path])
def test_a_folder_without_runs_is_refused(tmp_path, make):
    with pytest.raises(OutputError, match=r"is not a folder|holds no run that can be read"):
        read_runs(make(tmp_path))
