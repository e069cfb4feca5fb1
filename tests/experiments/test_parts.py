"""Runs of every weighting and aggregation, and of a user's own, in workers and on resume."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_run import fedgs as command
from tests.parts import carried_out, killed_once, stored

from fedgs.experiments.grid import build_config
from fedgs.experiments.preparing import prepare
from fedgs.experiments.runner import run_all
from fedgs.registry import load_plugin


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, list[Any]], Path]:
    """Records of the unbroken runs in this process, and their folder."""
    out = tmp_path_factory.mktemp("whole")
    return carried_out(out), out


@pytest.mark.long
def test_two_workers_give_the_records_of_this_process(
    whole: tuple[dict[str, list[Any]], Path],
) -> None:
    assert carried_out(None, workers=2) == whole[0]


@pytest.mark.long
def test_killed_in_an_absence_the_runs_go_on_to_the_same_records(
    whole: tuple[dict[str, list[Any]], Path], tmp_path: Path
) -> None:
    # Round 5: client 0 is absent from round 2 to round 6, and nobody was available in round 4.
    assert killed_once(tmp_path, round=5) == -signal.SIGKILL
    broken = stored(tmp_path / "out")
    assert broken and broken != stored(whole[1])
    assert killed_once(tmp_path, round=5) == 0
    assert stored(tmp_path / "out") == stored(whole[1])


# A weighting with a memory, an aggregation with vectors and a server step.
PLUGIN = '''
import numpy as np
import torch
from fedgs import Uniform
from fedgs.aggregation import Aggregation, ServerStep, WeightedSum
from fedgs.registry import register
from fedgs.weighting import Weighting


@register("weighting", "absence-test")
class Absence(Weighting):
    """p_k times the rounds since the last participation, to some power."""

    power: float = 1.0

    @property
    def is_normalised(self):
        return False

    def start(self, clients, cohort_limit):
        return {"last": np.full(len(clients), -1)}

    def weights(self, view, selection, memory):
        since = view.round - memory["last"][selection.clients]
        return view.shares[selection.clients] * since**self.power

    def observe(self, memory, view, outcome):
        if outcome is None:
            return memory
        last = memory["last"].copy()
        last[outcome.clients] = view.round
        return {"last": last}


@register("server", "damped-test")
class Damped(ServerStep):
    def moved(self, parameters, update, moments):
        return parameters + self.rate * update, moments


@register("aggregation", "fading-test")
class Fading(Aggregation):
    """Adds a share of the update before."""

    share: float = 0.5

    def start(self, parameters, clients):
        return {**super().start(parameters, clients), "before": torch.zeros_like(parameters)}

    def folds(self, round):
        return (WeightedSum(round.weights, round.parameters),)

    def step(self, round, results):
        if not results:
            return self.server_step.step(round.round, round.parameters, None, round.vectors)
        target = results[0] + self.share * round.vectors["before"]
        vectors = {**round.vectors, "before": results[0] - round.parameters}
        return self.server_step.step(round.round, round.parameters, target, vectors)
'''


def records(rounds: int, workers: int, out: Path | None = None) -> list[list[Any]]:
    """Of runs with the parts of the plug-in, with two settings each."""
    tables = {
        "data": {"name": "synthetic", "clients": 6},
        "availability": {"name": "LDF", "beta": 0.9, "empty_round": "skip"},
        "training": {"rounds": rounds, "local_steps": 1},
        "execution": {"engine": "loop", "workers": workers, "checkpoint_every": 1},
    }
    configs = [
        build_config(
            {
                **tables,
                "method": {
                    "name": "uniform",
                    "weighting": {"name": "absence-test", "power": power},
                },
                "aggregation": {"name": "fading-test", "share": share, "server": "damped-test"},
            }
        )
        for power, share in ((1.0, 0.5), (0.5, 0.5), (1.0, 0.25))
    ]
    return [list(finished.records) for finished in run_all(prepare(configs), out=out)]


@pytest.mark.long
def test_parts_of_a_plug_in_work_in_workers_and_on_resume(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text(PLUGIN)
    load_plugin(tmp_path / "parts.py")
    whole = records(6, 1)
    assert whole[0] != whole[1] and whole[0] != whole[2]
    assert records(6, 2) == whole
    records(3, 1, tmp_path / "out")
    assert records(6, 1, tmp_path / "out") == whole


@pytest.mark.long
def test_the_command_takes_parts_of_a_plug_in(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text(PLUGIN)

    def run(out: str, rounds: int, *more: str) -> None:
        settings = ["data.clients=6", "method=uniform", "seed=[0,1]", f"training.rounds={rounds}"]
        settings += ["method.weighting=absence-test", "aggregation=fading-test"]
        settings += ["aggregation.server=damped-test", "execution.checkpoint_every=1", *more]
        options = [option for one in settings for option in ("--set", one)]
        done = command(tmp_path, "run", "--plugin", "parts.py", "--out", out, *options)
        assert done.returncode == 0, done.stderr

    run("whole", 6)
    run("workers", 6, "execution.workers=2")
    run("resumed", 3)
    run("resumed", 6)
    expected = stored(tmp_path / "whole")
    assert len(expected) == 2
    assert stored(tmp_path / "workers") == stored(tmp_path / "resumed") == expected
    (tmp_path / "parts.py").write_text(PLUGIN.replace("since**self.power", "(since + 1)"))
    run("resumed", 6)
    assert len(stored(tmp_path / "resumed")) == 4  # other code, other runs


SCRIPT = (
    PLUGIN.replace('@register("weighting", "absence-test")\n', "")
    .replace('@register("server", "damped-test")\n', "")
    .replace('@register("aggregation", "fading-test")\n', "")
    + """

def losses(workers, out=None):
    results = fedgs.compare(
        fedgs.Synthetic(clients=6),
        methods={"one": Uniform(weighting=Absence()), "two": Uniform(weighting=Absence(power=2.0))},
        aggregation=Fading(server=Damped(rate=0.5)),
        training={"rounds": 5, "local_steps": 1},
        execution={"engine": "loop", "workers": workers},
        out=out,
    )
    assert all(run.failure is None for run in results.runs)
    return [[record.test_loss for record in run.records] for run in results.runs], results.reused


import fedgs
whole, _ = losses(1, "out")
assert whole[0] != whole[1]
assert losses(1, "out") == (whole, 2)
assert losses(2) == (whole, 0)
"""
)


@pytest.mark.long
def test_compare_takes_objects_of_classes_of_a_script(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
