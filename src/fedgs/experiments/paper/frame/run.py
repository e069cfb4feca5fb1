"""Carry out an experiment: run or compute what is missing, then render the stored records."""

import contextlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedgs.errors import ConfigError, require_extra
from fedgs.experiments.output import claim
from fedgs.experiments.paper.catalogue import find
from fedgs.experiments.paper.frame.computing import compute_missing
from fedgs.experiments.paper.frame.experiment import ExperimentRecords, Rendering
from fedgs.experiments.paper.frame.facts import round_seconds
from fedgs.experiments.paper.frame.job import ExperimentJob, ProgressDisplay
from fedgs.experiments.paper.frame.planning import computations_of
from fedgs.experiments.paper.frame.published import PAPER_BETA
from fedgs.experiments.paper.frame.request import ExperimentRequest, Options
from fedgs.experiments.paper.frame.store import Manifest, read_records
from fedgs.experiments.paper.frame.training import train_missing
from fedgs.experiments.paper.frame.writing import write_rendering

__all__ = ["Reproduction", "checked", "reproduce", "requested"]


@dataclass(frozen=True, eq=False)
class Reproduction:
    """The result of carrying out an experiment.

    Attributes:
        rendering: tables, verdict and figures.
        records: the records that the rendering is made from.
        reused: runs or computations that were finished before.
        total: all runs or computations.
        files: what was written.
        problems: one line for each record that could not be read.
    """

    rendering: Rendering
    records: ExperimentRecords
    reused: int
    total: int
    files: Sequence[Path]
    problems: Sequence[str]


def requested(name: str, options: Options, *, data_dir: Path | None = None) -> ExperimentRequest:
    """The checked request that the options of a command line make.

    Args:
        name: of the experiment.
        options: as typed.
        data_dir: where data files are searched, besides the working folder.

    Raises:
        ConfigError: an unknown name, a value that cannot be parsed, or an option that the
            experiment does not accept.

    >>> requested("theorem1", Options(rounds=5))
    Traceback (most recent call last):
    fedgs.errors.ConfigError: --rounds means nothing for theorem1; it takes --seeds
    """
    return checked(ExperimentRequest.of(name, options, data_dir=data_dir), options.given)


def checked(request: ExperimentRequest, given: Sequence[str] = ()) -> ExperimentRequest:
    """The request with the experiment's defaults.

    Args:
        request: any.
        given: the options that the user gave, such as "modes".

    Raises:
        ConfigError: an unknown name, or an option that the experiment does not accept.

    >>> checked(ExperimentRequest("gamma")).data[0].key
    'synthetic'
    """
    experiment = find(request.name)
    for option in given:
        if option not in experiment.takes:
            known = (
                ", ".join(f"--{name}" for name in sorted(experiment.takes)) or "no further options"
            )
            raise ConfigError(f"--{option} means nothing for {request.name}; it takes {known}")
    others = [mode.name for mode in request.modes if mode.name not in PAPER_BETA]
    if others and not experiment.other_modes:
        raise ConfigError(
            f"--modes must be of {', '.join(PAPER_BETA)} for {request.name}, whose figures are "
            f"the paper's; got {others[0]!r}"
        )
    if request.scale not in ("cohort", "paper"):
        raise ConfigError(f"--scale must be cohort or paper; got {request.scale!r}")
    seeds = request.seeds
    if experiment.one_seed and len(seeds) > 1:
        if "seeds" in given:
            raise ConfigError(
                f"--seeds must be one seed for {request.name}, such as 4, with its comma; got "
                f"{len(seeds)} seeds"
            )
        seeds = seeds[:1]
    return replace(request, data=request.data or experiment.data, seeds=seeds)


def reproduce(
    request: ExperimentRequest,
    *,
    out: Path,
    data_dir: Path | None = None,
    workers: int | None = None,
    command: str = "",
    display: ProgressDisplay = lambda runs, rounds: contextlib.nullcontext(lambda progress: None),
) -> Reproduction:
    """Run or compute what is missing in `out`, and write the tables and figures there.

    Everything is checked before anything is written. Finished runs are reused, and interrupted runs
    are resumed.

    Args:
        request: from `checked`.
        out: a new folder, or one of an earlier call.
        data_dir: where data files are searched first.
        workers: processes that share the runs; None: a fixed rule.
        command: the command line, for the page.
        display: number of runs, rounds -> a context whose value is called after every round.

    Raises:
        UserError: anything that cannot be done.
    """
    experiment = find(request.name)
    if experiment.draws and importlib.util.find_spec("matplotlib") is None:
        raise require_extra("matplotlib", "report")
    job = ExperimentJob(request, out, data_dir, command, display)
    if experiment.plan is not None:
        stored = train_missing(job, experiment.plan(request), workers=workers)
    else:
        assert experiment.compute is not None
        computations = (experiment.computations or computations_of)(request)
        stored = compute_missing(job, computations, compute=experiment.compute)
    with claim(out):
        records, problems = read_records(out, stored.manifest)
        _with_round_seconds(stored.manifest, records).write(out)
        rendering = experiment.render(request, records)
        files = write_rendering(out, request.stem, rendering)
    return Reproduction(rendering, records, stored.reused, stored.total, files, problems)


def _with_round_seconds(manifest: Manifest, records: ExperimentRecords) -> Manifest:
    """The manifest with the time of the rounds, as far as the timings of all runs are there."""
    seconds = round_seconds([loaded.run for loaded in records.runs])
    return manifest if seconds is None else replace(manifest, round_seconds=seconds)
