"""Carry out the runs of an experiment that are not finished yet."""

import time
from collections.abc import Sequence
from dataclasses import replace

from fedgs.config import Config
from fedgs.errors import ConfigError
from fedgs.experiments.earlier import renewed
from fedgs.experiments.output import claim
from fedgs.experiments.paper.frame.experiment import PlannedRun, StoredRun
from fedgs.experiments.paper.frame.job import ExperimentJob, StoredExperiment, refuse_folder_of_runs
from fedgs.experiments.paper.frame.machine import machine
from fedgs.experiments.paper.frame.store import Manifest
from fedgs.experiments.preparing import prepare
from fedgs.experiments.runner import run_all

__all__ = ["train_missing"]


def train_missing(
    job: ExperimentJob, plan: Sequence[PlannedRun], *, workers: int | None
) -> StoredExperiment:
    """Carry out every planned run that is not finished; runs with equal configurations are one run.

    The manifest is written before the first round, and again with the time if the runs are
    interrupted.

    Args:
        job: the experiment.
        plan: its runs.
        workers: processes that share the runs; None: a fixed rule.

    Raises:
        ConfigError: there is nothing to run, or a configuration is not valid.
        OutputError: the folder belongs to something else.
    """
    request, out = job.request, job.out
    if not plan:
        methods = ",".join(request.methods)
        raise ConfigError(
            f"{request.name} needs at least one row, mode and seed; got --methods {methods}"
        )
    configs = [_with_workers(planned.config, workers) for planned in plan]
    prepared = [renewed(run, out / "runs") for run in prepare(configs, data_dir=job.data_dir)]
    distinct = list({run.folder_name: run for run in prepared}.values())
    refuse_folder_of_runs(out)
    stored = [
        StoredRun(planned.data, planned.mode, planned.row, run.folder_name, run.plan.rounds)
        for planned, run in zip(plan, prepared, strict=True)
    ]
    with claim(out):
        earlier = job.earlier()
        begun = any((out / "runs" / run.folder_name).is_dir() for run in distinct)
        seconds = earlier.seconds if earlier is not None and begun else 0.0
        device = configs[0].execution.device
        manifest = Manifest(request, job.command, seconds, machine(device), stored)
        if earlier is not None:
            manifest = replace(manifest, round_seconds=earlier.round_seconds)
        manifest.write(out)
    started = time.monotonic()
    try:
        with job.display(len(distinct), max(run.plan.rounds for run in distinct)) as on_progress:
            finished = run_all(distinct, out=out / "runs", on_progress=on_progress)
    except BaseException:
        _with_time(manifest, started).write(out)
        raise
    reused = sum(result.reused for result in finished)
    if reused == len(finished):
        manifest = replace(earlier or manifest, runs=manifest.runs)
    else:  # the time of all rounds is known where all runs have timings
        manifest = replace(_with_time(manifest, started), round_seconds=None)
    return StoredExperiment(manifest, reused, len(finished))


def _with_workers(config: Config, workers: int | None) -> Config:
    if workers is None:
        return config
    execution = config.execution.model_copy(update={"workers": workers})
    return config.model_copy(update={"execution": execution})


def _with_time(manifest: Manifest, started: float) -> Manifest:
    return replace(manifest, seconds=manifest.seconds + time.monotonic() - started)
