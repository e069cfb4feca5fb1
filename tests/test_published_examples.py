"""The examples that repeat published experiments run at a small size, and their parts are right."""

import importlib.util
import itertools
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from fedgs import Clients
from fedgs.experiments.grid import expand, parse_override, read_config
from fedgs.experiments.study import prepare_study
from fedgs.records import Record
from fedgs.registry import build, load_plugin
from fedgs.report.run_view import Run

EXAMPLES = Path(__file__).parents[1] / "examples"


def summary(folder: str) -> ModuleType:
    """The script `summary.py` of an example, as a module."""
    spec = importlib.util.spec_from_file_location(
        f"{folder}_summary", EXAMPLES / folder / "summary.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def runs_of(study: str, plugin: str, *settings: str) -> list[Run]:
    """The runs of an example's study with these settings in place of its own."""
    path = EXAMPLES / study
    load_plugin(path.parent / plugin)
    grid = expand(read_config(path), [parse_override(one) for one in settings])
    runs = prepare_study(grid.configs).run().runs
    assert all(run.finished for run in runs)
    return runs


@pytest.fixture
def images(tmp_path: Path) -> str:
    """The setting of a data set of 28x28 images of three labels, in place of FashionMNIST."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % 3
    x = rng.normal(size=(240, 1, 28, 28)).astype(np.float32)
    x[np.arange(240), 0, y, 0] += 4  # so that the labels can be learnt
    split = np.where(np.arange(240) < 200, 0, 2)
    path = tmp_path / "images.npz"
    np.savez(path, x=x, y=y, split=split)
    return (
        f'data={{name="file", path="{path}", classes=10, clients=6, validation_fraction=0.2, '
        'partition={name="labels_per_client", labels=1}}'
    )


# FedAWE's example of two quadratics


@pytest.mark.parametrize(("first", "second"), [(0.1, 0.9), (0.5, 0.3), (1.0, 0.2), (0.4, 0.4)])
def test_the_closed_form_is_the_mean_weight_over_all_sets_of_clients(
    first: float, second: float
) -> None:
    mean = somebody = 0.0
    for one, two in itertools.product([0, 1], repeat=2):
        probability = (first if one else 1 - first) * (second if two else 1 - second)
        if one + two:
            somebody += probability
            mean += probability * two / (one + two)
    closed = summary("fedawe_bias").closed_form(first, second)
    assert closed == pytest.approx(mean / somebody - 0.5)


def test_the_cross_entropy_of_the_quadratic_model_is_a_quadratic() -> None:
    load_plugin(EXAMPLES / "fedawe_bias" / "quadratics.py")
    module = build("model", "quadratic").build((1,), 2)
    (theta,) = module.parameters()
    x = torch.tensor([[0.0], [1.0], [-1.0], [4.0]])
    with torch.no_grad():
        theta.fill_(0.2)
    losses = torch.nn.functional.cross_entropy(
        module(x), torch.zeros(4, dtype=torch.int64), reduction="none"
    )
    expected = 0.5 * (0.2 - x[:, 0]) ** 2 + 1
    torch.testing.assert_close(losses, expected)
    for k, loss in enumerate(losses):
        (gradient,) = torch.autograd.grad(loss, theta, retain_graph=True)
        assert float(gradient.sum()) == pytest.approx(0.2 - float(x[k, 0]), abs=1e-5)


def test_the_runs_of_two_quadratics_follow_the_recursion_by_hand() -> None:
    script = summary("fedawe_bias")
    (run,) = runs_of(
        "fedawe_bias/study.toml",
        "quadratics.py",
        "training.rounds=12",
        "evaluation.every=1",
        'method={name="fedavg", weighting="equal"}',
        "availability.first=0.4",
        "availability.second=0.7",
        "seed=1",
    )
    theta, optimum = 0.5, {1: 0.0, 2: 1.0}  # client -> b_k
    seen = set()
    for record in run.records:
        assert script.parameter(record.test_loss) == pytest.approx(theta, abs=1e-5)
        cohort = tuple(record.cohort or ())
        seen.add(cohort)
        if cohort:
            theta += 0.02 * (np.mean([optimum[int(client)] for client in cohort]) - theta)
    assert len(seen) >= 3
    assert script.long_run_bias(run) == pytest.approx(
        np.mean([script.parameter(record.test_loss) for record in run.records[3:]]) - 0.5
    )


def test_the_study_of_two_quadratics_gives_a_row_for_each_pair_of_rates() -> None:
    script = summary("fedawe_bias")
    runs = runs_of(
        "fedawe_bias/study.toml",
        "quadratics.py",
        "training.rounds=8",
        "availability.second=[1.0]",
        "availability.first=[0.2, 1.0]",
        "seed=[0, 1]",
    )
    lines = script.table(runs).splitlines()
    assert [line.split(" | ")[:3] for line in lines[2:]] == [
        ["| 0.2", "1", "+0.400"],
        ["| 1", "1", "+0.000"],
    ]
    # Where both are always available, theta stays at the minimiser with every method.
    assert lines[3] == "| 1 | 1 | +0.000 |" + " +0.000 ± 0.000 |" * 3
    assert script.figure(runs).axes[0].get_legend() is not None


# MIFA's logistic regression


def test_waiting_draws_a_set_and_moves_when_all_of_it_has_answered(images: str) -> None:
    (run,) = runs_of(
        "mifa_logistic/waiting.toml",
        "waiting.py",
        images,
        "training.rounds=30",
        "training.batch_size=4",
        "evaluation.every=1",
        'method={name="waiting", wait_for=4}',
        'availability={name="YMF", beta=0.7}',
        "seed=0",
    )
    answered: set[object] = set()
    steps = waits = 0
    for record, after in itertools.pairwise(run.records):
        cohort = set(record.cohort or ())
        assert not cohort & answered  # nobody trains twice for one step
        answered |= cohort
        moved = record.test_loss != after.test_loss
        assert moved == (len(answered) == 4)
        if moved:
            steps, answered = steps + 1, set()
        else:
            waits += 1
    assert steps > 2 and waits > 2


def test_waiting_for_all_clients_is_fedavg_where_all_are_available(images: str) -> None:
    settings = ("training.rounds=4", "training.batch_size=4", "evaluation.every=1", "seed=0")
    always = 'availability="IDL"'
    waits, averages = (
        runs_of(f"mifa_logistic/{study}.toml", "waiting.py", images, always, *settings, method)[0]
        for study, method in (
            ("waiting", 'method={name="waiting", wait_for=6}'),
            ("study", 'method={name="fedavg", weighting="equal"}'),
        )
    )
    losses = [[record.test_loss for record in run.records] for run in (waits, averages)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0][-1] < losses[0][0]


def test_more_clients_to_wait_for_than_there_are_is_refused(images: str) -> None:
    with pytest.raises(Exception, match=r"method\.wait_for must be at most 6"):
        runs_of("mifa_logistic/waiting.toml", "waiting.py", images, "seed=0")


@pytest.mark.long
def test_the_studies_of_mifa_run_and_the_summary_pairs_the_seeds(images: str) -> None:
    script = summary("mifa_logistic")
    small = (images, "training.rounds=3", "training.batch_size=4", "seed=[0, 1]")
    runs = runs_of("mifa_logistic/study.toml", "waiting.py", *small)
    runs += runs_of(
        "mifa_logistic/waiting.toml", "waiting.py", *small, 'method={name="waiting", wait_for=2}'
    )
    lines = script.table(runs).splitlines()
    methods = ["MIFA", "FedAvg, S = 2", "FedAvg, biased", "FedAvg, known rates"]
    assert [line.split(" | ")[:2] for line in lines[2:]] == [
        [f"| {rate}", name] for rate in ("0.2", "0.1") for name in methods
    ]
    assert script.paired([1.0, 3.0], [0.0, 2.0]) == "+1.000 [+1.000, +1.000]"
    drawn = [axes.get_title() for axes in script.figure(runs).axes]
    assert drawn == ["p_min = 0.1", "p_min = 0.2"]


def test_the_summary_of_mifa_averages_the_last_50_rounds() -> None:
    records = [
        Record(0, cohort=["a"], test_loss=9.0),
        *(Record(t, cohort=["a"], test_loss=2.0 if t == 10 else None) for t in range(1, 60)),
        Record(60, test_loss=1.0),
    ]
    run = Run({"training": {"rounds": 60}}, records)
    assert summary("mifa_logistic").late(run, "test_loss") == 1.5  # rounds 10 and 60


# Clustered sampling's shards


@pytest.mark.long
def test_the_study_of_shards_runs_and_the_summary_counts_labels(images: str) -> None:
    script = summary("clustered_shards")
    runs = runs_of(
        "clustered_shards/study.toml",
        "shards.py",
        images,
        "training.rounds=6",
        "training.cohort_limit=3",
        "training.batch_size=4",
        "evaluation.every=1",
        "seed=[0, 1]",
    )
    rows = {
        cells[1]: cells
        for line in script.table(runs).splitlines()[2:]
        if (cells := [cell.strip() for cell in line.split("|")])
    }
    assert list(rows) == list(script.NAMES.values())
    # Two of six clients hold each label: the true clusters give three labels and three clients.
    assert rows["one client of each label"][2:4] == ["3.00", "3.00"]
    # Three distributions of two clients of equal size each: never a client twice.
    assert rows["Algorithm 1"][2] == "3.00"
    assert float(rows["MD"][3]) <= 3
    labels = [line.get_label() for line in script.figure(runs).axes[0].lines]
    assert labels == list(script.NAMES.values())


def test_the_summary_of_shards_counts_draws_and_labels_by_hand() -> None:
    script = summary("clustered_shards")
    clients = Clients(
        ("a", "b", "c"), np.array([4, 4, 4]), label_counts=np.array([[4, 0], [4, 0], [0, 4]])
    )
    records = [
        Record(0, cohort=["a", "c"], draws=[1, 2], test_loss=9.0),
        Record(1, cohort=["a", "b"], draws=[2, 1], test_loss=2.0),
        Record(2, test_loss=1.5),
    ]
    run = Run({"method": {"name": "md"}, "training": {"rounds": 2}}, records, clients)
    assert script.draws(run).tolist() == [[1, 0, 2], [2, 1, 0]]
    assert script.labels_in_a_cohort(run) == 1.5
    assert script.change(run) == pytest.approx(0.5)  # rounds 1 and 2
    assert script.late(run, "test_loss") == 1.5


def test_the_studies_have_the_sizes_that_the_documentation_gives() -> None:
    sizes = {
        "fedawe_bias/study.toml": 15 * 3 * 4,
        "mifa_logistic/study.toml": 2 * 3 * 3,
        "mifa_logistic/waiting.toml": 2 * 2 * 3,
        "clustered_shards/study.toml": 4 * 3,
    }
    for plugin in (
        "fedawe_bias/quadratics.py",
        "mifa_logistic/waiting.py",
        "clustered_shards/shards.py",
    ):
        load_plugin(EXAMPLES / plugin)
    for study, size in sizes.items():
        assert len(expand(read_config(EXAMPLES / study)).configs) == size, study
