"""Runs of the samplers that compare last updates: resume, empty rounds, workers, plug-ins."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.driving import Gaps, Keeping, RecordedRun, make_plan, resumes_everywhere

from fedgs.data import Federation
from fedgs.driver import drive
from fedgs.errors import ConfigError
from fedgs.experiments.grid import build_config
from fedgs.experiments.preparing import prepare
from fedgs.experiments.runner import run_all
from fedgs.local import LoopEngine, StackedEngine
from fedgs.registry import load_plugin
from fedgs.sampling import Clustered, ClusteredSizes, DivFL, Sampler

SAMPLERS: list[Sampler] = [
    ClusteredSizes(),
    Clustered(),
    Clustered(measure="l1"),
    Clustered(measure="l2", sketch=8),
    DivFL(),
    DivFL(first_updates="everyone", weighting="coverage"),
    DivFL(first_updates="first_contact", cover="available", weighting="coverage"),
    DivFL(distance="cosine", sketch=8),
]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_a_run_resumes_from_any_checkpoint_with_the_same_bits(
    sampler: Sampler, toy_federation: Federation, tmp_path: Path
) -> None:
    resumes_everywhere(toy_federation, sampler, tmp_path / "run")


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_the_memory_holds_the_last_update_of_every_client(
    sampler: Sampler, toy_federation: Federation
) -> None:
    run = Keeping(make_plan(toy_federation, sampler, availability=Gaps(seed=1), rounds=9))
    drive([run.live], LoopEngine())
    before = run.states[0].memory
    for state, record in zip(run.states[1:], run.records[1:], strict=False):
        memory = state.memory
        if isinstance(sampler, ClusteredSizes):
            assert not memory
            continue
        cohort = np.isin(toy_federation.clients.names, record.cohort)
        np.testing.assert_array_equal(memory["features"][~cohort], before["features"][~cohort])
        changed = memory["features"][cohort] != before["features"][cohort]
        assert changed.any(axis=1).all()
        before = memory


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_engines_agree(sampler: Sampler, toy_federation: Federation) -> None:
    runs = []
    for engine in (LoopEngine(), StackedEngine()):
        run = RecordedRun(make_plan(toy_federation, sampler))
        drive([run.live], engine)
        runs.append(run)
    one, other = runs
    assert [record.cohort for record in one.records] == [record.cohort for record in other.records]
    assert one.final is not None and other.final is not None
    torch.testing.assert_close(one.final.parameters, other.final.parameters, rtol=1e-4, atol=1e-5)


PLUGIN = '''
import numpy as np
from fedgs.clients import Selection
from fedgs.registry import register
from fedgs.sampling import Clustered, DivFL

@register("method", "clustered-test")
class Mine(Clustered):
    """Clustered sampling that counts everyone once."""

    def select(self, view, rng):
        return Selection(super().select(view, rng).clients)

@register("method", "divfl-test")
class Few(DivFL):
    """DivFL without one client."""

    def select(self, view, rng):
        return Selection(super().select(view, rng).clients[1:])
'''


@pytest.mark.parametrize(
    "methods",
    [
        ["clustered", {"name": "divfl", "first_updates": "everyone", "weighting": "coverage"}],
        ["clustered-test", {"name": "divfl-test", "first_updates": "first_contact"}],
    ],
    ids=["built in", "plug-ins"],
)
@pytest.mark.long
def test_workers_and_later_starts_give_the_same_records(methods: list[Any], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN)
    load_plugin(tmp_path / "mine.py")

    def records(rounds: int, workers: int, out: Path | None = None) -> list[list[Any]]:
        settings = {
            "data": {"name": "synthetic", "clients": 8},
            "availability": "LDF",
            "training": {"rounds": rounds, "local_steps": 1, "cohort_limit": 3},
            "execution": {"engine": "loop", "workers": workers, "checkpoint_every": 1},
        }
        configs = [build_config({**settings, "method": method}) for method in methods]
        return [list(finished.records) for finished in run_all(prepare(configs), out=out)]

    whole = records(6, 1)
    assert records(6, 2) == whole
    records(3, 2, tmp_path / "out")
    assert records(6, 2, tmp_path / "out") == whole


def test_a_mistake_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    config = build_config(
        {
            "data": {"name": "synthetic", "clients": 4},
            "availability": "IDL",
            "method": {"name": "clustered", "measure": "l1", "sketch": 16},
        }
    )
    with pytest.raises(ConfigError, match=r"^method\.sketch must be 0 for measure 'l1'"):
        list(run_all(prepare([config]), out=tmp_path / "out"))
    assert not (tmp_path / "out").exists()
