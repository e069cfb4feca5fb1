"""Compute the results of an experiment that are not stored yet."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fedgs.data.federation import Federation
from fedgs.errors import OutputError
from fedgs.experiments.crew import Progress
from fedgs.experiments.output import claim
from fedgs.experiments.paper.frame.experiment import Computation, Compute
from fedgs.experiments.paper.frame.job import ExperimentJob, StoredExperiment, refuse_folder_of_runs
from fedgs.experiments.paper.frame.machine import machine
from fedgs.experiments.paper.frame.store import (
    Manifest,
    computed_name,
    read_computed,
    write_computed,
)
from fedgs.experiments.preparing import load_federation

__all__ = ["compute_missing"]


def compute_missing(
    job: ExperimentJob, computations: Sequence[Computation], *, compute: Compute
) -> StoredExperiment:
    """Compute and store every result that is missing or cannot be read.

    Args:
        job: the experiment.
        computations: what it computes.
        compute: the arrays of one computation.

    Raises:
        OutputError: the folder belongs to something else.
        UserError: a federation that cannot be loaded, or what `compute` raises.
    """
    federations = _Federations(job.data_dir)
    for computation in computations:
        federations.check(computation)
    refuse_folder_of_runs(job.out)
    files: dict[str, str] = {}
    reused = 0
    started = time.monotonic()
    with claim(job.out), job.display(len(computations), 1) as on_progress:
        earlier = job.earlier()
        for number, computation in enumerate(computations, start=1):
            federation = federations.of(computation)
            settings = dict(computation.settings)
            if federation is not None:
                settings["data_fingerprint"] = federation.fingerprint
            name = files[computation.key] = computed_name(job.request.name, settings)
            path = job.out / "computed" / name
            if _is_readable(path):
                reused += 1
                continue
            arrays = compute(job.request, computation, federation)
            write_computed(path, arrays, _about(settings, federation))
            on_progress(Progress(number, len(computations), 0))
    seconds = time.monotonic() - started
    manifest = Manifest(job.request, job.command, seconds, machine(), (), files)
    if earlier is not None and reused == len(computations):
        manifest = replace(earlier, computed=files)
    elif earlier is not None and reused:
        manifest = replace(manifest, seconds=seconds + earlier.seconds)
    return StoredExperiment(manifest, reused, len(computations))


def _about(settings: Mapping[str, object], federation: Federation | None) -> dict[str, object]:
    """What is stored with a result: its settings, the versions and the federation."""
    about = {**settings, "versions": machine()["versions"]}
    if federation is not None:
        about |= {"data_title": federation.name, "num_clients": len(federation)}
    return about


class _Federations:
    """The federations of the computations.

    A check loads the first of every data set, so that missing files are found early.
    """

    def __init__(self, data_dir: Path | None) -> None:
        self._data_dir = data_dir
        self._loaded: dict[str, Federation] = {}
        self._checked: set[str] = set()

    def check(self, computation: Computation) -> None:
        if computation.config is None:
            return
        data = computation.config.data
        files = f"{data.name} {getattr(data, 'path', '')}"
        if files not in self._checked:
            self._checked.add(files)
            self.of(computation)

    def of(self, computation: Computation) -> Federation | None:
        if computation.config is None:
            return None
        key = repr(computation.config.data)
        if key not in self._loaded:  # one at a time: images are large
            self._loaded = {key: load_federation(computation.config, self._data_dir)}
        return self._loaded[key]


def _is_readable(path: Path) -> bool:
    """Whether the result is stored; one that is missing or damaged is computed again."""
    try:
        read_computed(path)
    except OutputError:
        return False
    return True
