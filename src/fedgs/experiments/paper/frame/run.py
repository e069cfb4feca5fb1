"""Carry out an experiment: run or compute what is missing, then render the stored records."""

import contextlib
import importlib.util
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from fedgs.data.federation import Federation
from fedgs.errors import ConfigError, OutputError, require_extra
from fedgs.experiments.earlier import renewed
from fedgs.experiments.output import claim
from fedgs.experiments.paper.catalogue import find
from fedgs.experiments.paper.frame.experiment import (
    Computation,
    ExperimentRecords,
    PlannedRun,
    Rendering,
    StoredRun,
    computations_of,
)
from fedgs.experiments.paper.frame.request import ExperimentRequest, Options
from fedgs.experiments.paper.frame.store import (
    Manifest,
    computed_name,
    machine,
    read_computed,
    read_manifests,
    read_records,
    write_computed,
)
from fedgs.experiments.preparing import load_federation, prepare
from fedgs.experiments.runner import run_all
from fedgs.experiments.this_process import Progress
from fedgs.report.files import write_file

__all__ = ["Outcome", "checked", "render", "reproduce", "requested", "write_rendering"]

ProgressDisplay = Callable[[int, int], AbstractContextManager[Callable[[Progress], None]]]


@dataclass(frozen=True, eq=False)
class Outcome:
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
) -> Outcome:
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
    job = _Job(request, out, data_dir, command, display)
    done = (
        _compute(job) if experiment.plan is None else _run(job, experiment.plan(request), workers)
    )
    with claim(out):
        done.manifest.write(out)
        records, problems = read_records(out, done.manifest)
        rendering = render(request, records)
        files = write_rendering(out, request.stem, rendering)
    return Outcome(rendering, records, done.reused, done.total, files, problems)


def render(request: ExperimentRequest, records: ExperimentRecords) -> Rendering:
    """Tables, verdict and figures of stored records."""
    return find(request.name).render(request, records)


@dataclass(frozen=True, eq=False)
class _Job:
    """The arguments of `reproduce`."""

    request: ExperimentRequest
    out: Path
    data_dir: Path | None
    command: str
    display: ProgressDisplay

    def earlier(self) -> Manifest | None:
        """The manifest of an earlier call with the same request."""
        wanted = _without_execution(self.request)
        manifests, _ = read_manifests(self.out)
        return next(
            (manifest for manifest in manifests if _without_execution(manifest.request) == wanted),
            None,
        )


def _without_execution(request: ExperimentRequest) -> ExperimentRequest:
    return replace(request, overrides=request.changes)


@dataclass(frozen=True, eq=False)
class _Done:
    """Everything is stored: the manifest, and how many of the runs or computations were reused."""

    manifest: Manifest
    reused: int
    total: int


def _run(job: _Job, plan: Sequence[PlannedRun], workers: int | None) -> _Done:
    request, out = job.request, job.out
    if not plan:
        methods = ",".join(request.methods)
        raise ConfigError(
            f"{request.name} needs at least one row, mode and seed; got --methods {methods}"
        )
    execution = {} if workers is None else {"workers": workers}
    configs = [
        planned.config.model_copy(
            update={"execution": planned.config.execution.model_copy(update=execution)}
        )
        for planned in plan
    ]
    prepared = [renewed(run, out / "runs") for run in prepare(configs, data_dir=job.data_dir)]
    distinct = list({run.folder_name: run for run in prepared}.values())
    _check_marker(out)
    stored = [
        StoredRun(planned.data, planned.mode, planned.row, run.folder_name, run.plan.rounds)
        for planned, run in zip(plan, prepared, strict=True)
    ]
    with claim(out):
        earlier = job.earlier()
        begun = any((out / "runs" / run.folder_name).is_dir() for run in distinct)
        seconds = earlier.seconds if earlier is not None and begun else 0.0
        manifest = Manifest(
            request, job.command, seconds, machine(configs[0].execution.device), stored
        )
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
        return _Done(replace(earlier or manifest, runs=manifest.runs), reused, len(finished))
    return _Done(_with_time(manifest, started), reused, len(finished))


def _with_time(manifest: Manifest, started: float) -> Manifest:
    return replace(manifest, seconds=manifest.seconds + time.monotonic() - started)


def _check_marker(out: Path) -> None:
    """Refuse the output folder of `fedgs run`: runs of an experiment lie one level deeper."""
    if any(out.glob("*/config.toml")):
        raise OutputError(
            f"--out {str(out)!r} holds runs of fedgs run; choose a folder of its own for "
            "fedgs reproduce"
        )


def _compute(job: _Job) -> _Done:
    experiment = find(job.request.name)
    computations = (experiment.computations or computations_of)(job.request)
    federations = _Federations(job.data_dir)
    for computation in computations:
        federations.check(computation)
    _check_marker(job.out)
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
            _compute_one(job.request, computation, federation, settings=settings, path=path)
            on_progress(Progress(number, len(computations), 0))
    seconds = time.monotonic() - started
    manifest = Manifest(job.request, job.command, seconds, machine(), (), files)
    if earlier is not None and reused == len(computations):
        manifest = replace(earlier, computed=files)
    elif earlier is not None and reused:
        manifest = replace(manifest, seconds=seconds + earlier.seconds)
    return _Done(manifest, reused, len(computations))


def _compute_one(
    request: ExperimentRequest,
    computation: Computation,
    federation: Federation | None,
    *,
    settings: Mapping[str, object],
    path: Path,
) -> None:
    """Compute and store the arrays of one computation."""
    compute = find(request.name).compute
    assert compute is not None
    about = {**settings, "versions": machine()["versions"]}
    if federation is not None:
        about |= {"data_title": federation.name, "num_clients": len(federation)}
    write_computed(path, compute(request, computation, federation), about)


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


def write_rendering(out: Path, stem: str, rendering: Rendering) -> list[Path]:
    """Write the tables and figures.

    STEM.txt and STEM.md hold all tables and the verdict. Each table has a CSV and a LaTeX file, and
    each figure its files.
    """
    tables, verdict = rendering.tables.values(), "\n".join(rendering.verdict)
    texts = [f"{table.title}\n\n{table.text()}" for table in tables]
    files = {f"{stem}.txt": "\n\n".join([*texts, verdict]).rstrip("\n") + "\n"}
    pages = [f"### {table.title}\n\n{table.markdown()}" for table in tables]
    files[f"{stem}.md"] = "\n".join([*pages, verdict]).rstrip("\n") + "\n"
    for suffix, table in (*rendering.tables.items(), *rendering.csv_only.items()):
        files[f"{_file(stem, suffix)}.csv"] = table.csv()
        if suffix in rendering.tables:
            files[f"{_file(stem, suffix)}.tex"] = table.latex()
    written = []
    for name, text in files.items():
        write_file(out / name, text.encode())
        written.append(out / name)
    if rendering.draw is not None:
        from fedgs.report.canvas import save_figure

        for suffix, figure in rendering.draw().items():
            written += save_figure(figure, out / _file(stem, suffix))
    return written


def _file(stem: str, suffix: str) -> str:
    return f"{stem}-{suffix}" if suffix else stem
