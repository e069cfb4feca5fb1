"""Every weighting and aggregation with a sampler that goes with it, and runs of all of them."""

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.commands import forked
from tests.driving import RecordedRun

from fedgs.aggregation import Aggregation
from fedgs.arrays import FloatArray
from fedgs.availability import Availability
from fedgs.checkpoint import State, load_checkpoint, save_checkpoint
from fedgs.clients import Clients
from fedgs.config import Config
from fedgs.driver import drive
from fedgs.errors import ConfigError
from fedgs.experiments.grid import build_config
from fedgs.experiments.preparing import prepare
from fedgs.experiments.runner import run_all
from fedgs.local import LoopEngine
from fedgs.plan import Plan
from fedgs.records import RunFolder
from fedgs.registry import build, variant_class, variant_names
from fedgs.sampling import Sampler
from fedgs.weighting import Weighting

# Settings beside the defaults that every variant has in the tests of its family.
FURTHER: dict[str, list[dict[str, Any]]] = {
    "weighting": [
        {"name": "deficit", "correction": "full", "horizon": 8},
        {"name": "deficit", "correction": "full", "normalise": False},
        {"name": "fedau", "cutoff": 0},
        {"name": "fedau", "cutoff": 2},
        {"name": "f3ast", "beta": 0.25, "normalise": True},
        {"name": "inverse_participation", "normalise": False},
        {"name": "inverse_participation", "normalise": False, "cutoff": 2},
        {"name": "fedau", "counts": "selected"},
        {"name": "f3ast", "counts": "selected"},
    ],
    "aggregation": [
        *(
            {"name": "mean", "server": server}
            for server in (
                {"name": "momentum", "rate": 0.5},
                {"name": "adagrad", "rate": 0.1},
                {"name": "adam", "rate": 0.1},
                {"name": "yogi", "rate": 0.1},
                {"name": "amplified", "period": 4, "factor": 2.0},
            )
        ),
        {"name": "stale", "unit": "gradient", "server": "momentum"},
        {"name": "stale", "beta": 0.5, "move_when_empty": False},
        {"name": "gossip", "echo": False},
    ],
}
CLIENTS = Clients(tuple("abcdef"), np.array([9, 4, 7, 12, 5, 8]), np.eye(6, 3, dtype=np.int64) + 1)


def built_in(family: str) -> list[str]:
    """The names of the package's own variants."""
    return [
        name
        for name in variant_names(family)
        if variant_class(family, name).__module__.startswith("fedgs.")
    ]


def settings_of(family: str) -> list[dict[str, Any]]:
    """Tables of all variants of a family, with their defaults and with further settings."""
    return [*({"name": name} for name in built_in(family)), *FURTHER[family]]


def title(settings: Any) -> str:
    """The settings as the name of a test."""
    if not isinstance(settings, dict):
        return str(settings)
    return "-".join(title(value) for value in settings.values())


def fitting(
    weighting: Any, aggregation: Any = "mean", samplers: list[str] | None = None
) -> Iterator[Sampler]:
    """The samplers with this weighting that every check accepts, `uniform` first."""
    for name in samplers or ["uniform", *built_in("method")]:
        try:
            sampler = build("method", {"name": name, "weighting": weighting})
            rule, combined = build("weighting", weighting), build("aggregation", aggregation)
            assert isinstance(sampler, Sampler) and isinstance(rule, Weighting)
            assert isinstance(combined, Aggregation)
            sampler.check(CLIENTS, 3)
            rule.check(CLIENTS, 3, sampler)
            combined.check(CLIENTS, 3, rule)
        except ConfigError:
            continue
        yield sampler


def sampler_for(weighting: Any) -> Sampler:
    """The first sampler that goes with the weighting."""
    return next(fitting(weighting))


def sampler_of(aggregation: Any) -> Sampler:
    """A sampler whose weighting goes with the aggregation."""
    rules = ["data_size", *built_in("weighting")]
    return next(sampler for rule in rules for sampler in fitting(rule, aggregation))


class Absences(Availability):
    """Client 0 is absent in rounds 2 to 6, client 5 always, and all of them in round 4.

    The environment may ask for the end of the process in a round, once.
    """

    empty_round: Any = "skip"

    def rates(self, round: int, clients: Clients) -> FloatArray:
        marker = Path(os.environ.get("KILL_MARKER", ""))
        if os.environ.get("KILL_ROUND") == str(round) and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        rates = np.full(len(clients), 0.6)
        rates[0] = 0.0 if 2 <= round <= 6 else 1.0
        rates[5] = 0.0
        return np.zeros(len(clients)) if round == 4 else rates


def configurations(**execution: Any) -> list[Config]:
    """A run of nine rounds for each weighting and aggregation, labelled by its settings."""
    configs = []
    every = [(family, one) for family in FURTHER for one in settings_of(family)]
    for family, settings in every:
        tables: dict[str, Any] = (
            {"method": sampler_for(settings)}
            if family == "weighting"
            else {"method": sampler_of(settings), "aggregation": settings}
        )
        training = {"rounds": 9, "cohort_limit": 3, "local_steps": 2}
        if family == "aggregation":
            combined = build(family, settings)
            assert isinstance(combined, Aggregation)
            training |= {"objective": combined.objective or "data_size"}
            training |= {"mu": combined.proximal or 0.0}
        data = {"name": "synthetic", "clients": 6}
        tables |= {"data": data, "availability": Absences(), "training": training}
        tables |= {
            "execution": {"engine": "loop", "checkpoint_every": 1, **execution},
            "label": title(settings),
        }
        configs.append(build_config(tables))
    return configs


def carried_out(out: Path | None, **execution: Any) -> dict[str, list[Any]]:
    """Label -> records of a run of each weighting and aggregation."""
    configs = configurations(**execution)
    runs = run_all(prepare(configs), out=out)
    assert all(run.failure is None for run in runs)
    return {str(config.label): list(run.records) for config, run in zip(configs, runs, strict=True)}


def killed_once(folder: Path, *, round: int) -> int:
    """Carry out the runs in a process that kills itself in a round, once; its return code."""
    environment = {"KILL_ROUND": str(round), "KILL_MARKER": str(folder / "killed")}
    done = forked(folder, carried_out, folder / "out", **environment)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def stored(out: Path) -> dict[str, bytes]:
    """Folder of a run -> the bytes of its records."""
    return {file.parent.name: file.read_bytes() for file in sorted(out.rglob("rounds.jsonl"))}


def assert_resumes(plan: Plan, path: Path, *, every: int = 1) -> RecordedRun:
    """Go on from the checkpoint of every so-manieth round, to the same bits; the unbroken run."""
    states: list[State] = []

    class Keeping(RecordedRun):
        def on_round(self, state: State, record: Any, seconds: Mapping[str, float]) -> None:
            states.append(state)
            super().on_round(state, record, seconds)

    whole, clients = Keeping(plan), plan.federation.clients
    drive([whole.live], LoopEngine())
    assert whole.final is not None and any(r.selection_status == "skipped" for r in whole.records)
    folder = RunFolder(path)
    folder.create({"seed": 0}, clients, {})
    for state in states[::every]:
        save_checkpoint(folder, state, engine="loop", start_memory={})
        checkpoint = load_checkpoint(folder, {})
        assert checkpoint is not None
        for name, array in state.weighting.items():
            kept = checkpoint.state.weighting[name]
            assert kept.dtype == array.dtype and kept.tobytes() == array.tobytes()
        rest = RecordedRun(plan, checkpoint.state)
        drive([rest.live], LoopEngine())
        assert rest.records == whole.records[state.round :]
        assert rest.final is not None
        assert torch.equal(rest.final.parameters, whole.final.parameters)
    return whole
