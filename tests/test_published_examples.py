"""The examples that repeat published experiments run at a small size, and their parts are right."""

import importlib.util
import itertools
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from fedgs.experiments.grid import expand, parse_override, read_config
from fedgs.experiments.study import prepare_study
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


def test_the_study_of_two_quadratics_has_the_size_that_the_documentation_gives() -> None:
    load_plugin(EXAMPLES / "fedawe_bias" / "quadratics.py")
    grid = expand(read_config(EXAMPLES / "fedawe_bias" / "study.toml"))
    assert len(grid.configs) == 15 * 3 * 4
