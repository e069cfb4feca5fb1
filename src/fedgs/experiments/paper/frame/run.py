"""Carry out an experiment: run or compute what is missing, then show what is stored."""

import contextlib
import importlib.util
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from fedgs.data.federation import Federation
from fedgs.errors import ConfigError, OutputError, require_extra
from fedgs.experiments.earlier import renewed
from fedgs.experiments.output import claim
from fedgs.experiments.paper.catalogue import find
from fedgs.experiments.paper.frame.experiment import Experiment, Material, PlannedRun, Presented, Unit, units_of
from fedgs.experiments.paper.frame.request import Asked
from fedgs.experiments.paper.frame.store import (
    Manifest,
    Place,
    computed_name,
    machine,
    read_computed,
    read_manifests,
    read_material,
    write_computed,
)
from fedgs.experiments.preparing import Prepared, load_federation, prepare
from fedgs.experiments.runner import Progress, run_all
from fedgs.report.files import write_file

__all__ = ["Outcome", "checked", "present", "reproduce", "write_presented"]

ProgressDisplay = Callable[[int, int], AbstractContextManager[Callable[[Progress], None]]]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of an experiment.

    Attributes:
        presented: tables, verdict and figures.
        material: the records that they are made of.
        reused: runs or computations that were finished before; total: all of them.
        files: what was written. problems: one line for each record that could not be read.
    """

    presented: Presented
    material: Material
    reused: int
    total: int
    files: Sequence[Path]
    problems: Sequence[str]


def checked(asked: Asked, given: Sequence[str] = ()) -> Asked:
    """The request with the experiment's defaults, or an error for what means nothing to it.

    Args:
        asked: from the command line.
        given: the options that were given, such as "modes".

    Raises:
        ConfigError: an unknown name, or an option that the experiment does not take.

    >>> checked(Asked("gamma")).data[0].key
    'synthetic'
    >>> checked(Asked("theorem1", rounds=5), ["rounds"])
    Traceback (most recent call last):
    fedgs.errors.ConfigError: --rounds means nothing for theorem1; it takes --seeds
    """
    experiment = find(asked.name)
    for option in given:
        if option not in experiment.takes:
            known = ", ".join(f"--{one}" for one in sorted(experiment.takes)) or "no further options"
            raise ConfigError(f"--{option} means nothing for {asked.name}; it takes {known}")
    if asked.scale not in ("cohort", "paper"):
        raise ConfigError(f"--scale must be cohort or paper; got {asked.scale!r}")
    seeds = asked.seeds
    if experiment.one_seed and len(seeds) > 1:
        if "seeds" in given:
            raise ConfigError(f"--seeds must be one seed for {asked.name}, such as 4, with its comma; got {len(seeds)} seeds")
        seeds = seeds[:1]
    return replace(asked, data=asked.data or experiment.data, seeds=seeds)


def reproduce(
    asked: Asked,
    *,
    out: Path,
    data_dir: Path | None = None,
    workers: int | None = None,
    command: str = "",
    display: ProgressDisplay = lambda runs, rounds: contextlib.nullcontext(lambda progress: None),
) -> Outcome:
    """Run or compute what is missing in `out`, write the tables and figures there, and give them.

    Everything is checked before anything is written. What is finished is reused; what was interrupted goes on.

    Args:
        asked: from `checked`.
        out: a new folder, or one of an earlier call.
        data_dir: where data files are searched first.
        workers: processes that share the runs; None: a fixed rule.
        command: the command line, for the page.
        display: number of runs, rounds -> a context whose value is called after every round.

    Raises:
        UserError: anything that cannot be done.
    """
    experiment = find(asked.name)
    if experiment.draws and importlib.util.find_spec("matplotlib") is None:
        raise require_extra("matplotlib", "report")
    if experiment.plan is not None:
        manifest, reused, total = _run(experiment.plan(asked), asked, out, data_dir, workers, command, display)
    else:
        manifest, reused, total = _compute(experiment, asked, out, data_dir, command, display)
    with claim(out):
        manifest.write(out)
        material, problems = read_material(out, manifest)
        presented = present(asked, material)
        files = write_presented(out, asked.stem, presented)
    return Outcome(presented, material, reused, total, files, problems)


def present(asked: Asked, material: Material) -> Presented:
    """Tables, verdict and figures of stored records."""
    return find(asked.name).present(asked, material)


def _run(
    plan: Sequence[PlannedRun],
    asked: Asked,
    out: Path,
    data_dir: Path | None,
    workers: int | None,
    command: str,
    display: ProgressDisplay,
) -> tuple[Manifest, int, int]:
    if not plan:
        raise ConfigError(f"{asked.name} needs at least one row, mode and seed; got --methods {','.join(asked.methods)}")
    execution = {} if workers is None else {"workers": workers}
    configs = [one.config.model_copy(update={"execution": one.config.execution.model_copy(update=execution)}) for one in plan]
    prepared = [renewed(one, out / "runs") for one in prepare(configs, data_dir=data_dir)]
    distinct = list({one.folder_name: one for one in prepared}.values())
    _check_marker(out)
    with claim(out):
        earlier = _earlier(out, asked)
        begun = any((out / "runs" / one.folder_name).is_dir() for one in distinct)
        manifest = Manifest(
            asked,
            command,
            earlier.seconds if earlier is not None and begun else 0.0,
            machine(configs[0].execution.device),
            _places(plan, prepared),
            {},
        )
        manifest.write(out)
    started = time.monotonic()
    try:
        with display(len(distinct), max(one.plan.rounds for one in distinct)) as on_progress:
            finished = run_all(distinct, out=out / "runs", on_progress=on_progress)
    except BaseException:
        _with_time(manifest, started).write(out)
        raise
    reused = sum(one.reused for one in finished)
    if reused == len(finished):
        return replace(earlier or manifest, places=manifest.places), reused, len(finished)
    return _with_time(manifest, started), reused, len(finished)


def _with_time(manifest: Manifest, started: float) -> Manifest:
    return replace(manifest, seconds=manifest.seconds + time.monotonic() - started)


def _places(plan: Sequence[PlannedRun], prepared: Sequence[Prepared]) -> list[Place]:
    return [
        Place(one.data, one.mode, one.row, ready.folder_name, ready.plan.rounds)
        for one, ready in zip(plan, prepared, strict=True)
    ]


def _check_marker(out: Path) -> None:
    """Refuse the output folder of `fedgs run`: runs of an experiment lie one level deeper."""
    if any(out.glob("*/config.toml")):
        raise OutputError(f"--out {str(out)!r} holds runs of fedgs run; choose a folder of its own for fedgs reproduce")


def _compute(
    experiment: Experiment, asked: Asked, out: Path, data_dir: Path | None, command: str, display: ProgressDisplay
) -> tuple[Manifest, int, int]:
    assert experiment.compute is not None
    units = units_of(asked) if experiment.units is None else experiment.units(asked)
    loaded = _Federations(data_dir)
    for unit in units:
        loaded.check(unit)
    _check_marker(out)
    named: dict[str, str] = {}
    reused = 0
    started = time.monotonic()
    with claim(out), display(len(units), 1) as on_progress:
        earlier = _earlier(out, asked)
        for done, unit in enumerate(units, start=1):
            federation = loaded.of(unit)
            settings = {**unit.settings, **({} if federation is None else {"data_fingerprint": federation.fingerprint})}
            name = named[unit.key] = computed_name(asked.name, settings)
            path = out / "computed" / name
            if _is_kept(path):
                reused += 1
                continue
            about = {**settings, "versions": machine()["versions"]}
            if federation is not None:
                about |= {"data_title": federation.name, "num_clients": len(federation)}
            write_computed(path, experiment.compute(asked, unit, federation), about)
            on_progress(Progress(done, len(units), 0))
    manifest = Manifest(asked, command, time.monotonic() - started, machine(), (), named)
    if earlier is not None and reused == len(units):
        manifest = replace(earlier, computed=named)
    elif earlier is not None and reused:
        manifest = replace(manifest, seconds=manifest.seconds + earlier.seconds)
    return manifest, reused, len(units)


class _Federations:
    """The units' federations; a check loads the first of every data set, so that missing files are found early."""

    def __init__(self, data_dir: Path | None) -> None:
        self._data_dir = data_dir
        self._loaded: dict[str, Federation] = {}
        self._checked: set[str] = set()

    def check(self, unit: Unit) -> None:
        files = None if unit.config is None else f"{unit.config.data.name} {getattr(unit.config.data, 'path', '')}"
        if files is not None and files not in self._checked:
            self._checked.add(files)
            self.of(unit)

    def of(self, unit: Unit) -> Federation | None:
        if unit.config is None:
            return None
        key = repr(unit.config.data)
        if key not in self._loaded:
            self._loaded = {key: load_federation(unit.config, self._data_dir)}  # one at a time: images are large
        return self._loaded[key]


def _is_kept(path: Path) -> bool:
    try:
        read_computed(path)
    except OutputError:
        return False  # missing or damaged: computed anew
    return True


def _earlier(out: Path, asked: Asked) -> Manifest | None:
    """The manifest of an earlier call for the same."""
    wanted = replace(asked, overrides=asked.changes)
    same = (one for one in read_manifests(out)[0] if replace(one.asked, overrides=one.asked.changes) == wanted)
    return next(same, None)


def write_presented(out: Path, stem: str, presented: Presented) -> list[Path]:
    """STEM.txt and STEM.md with all tables and the verdict, a CSV and a LaTeX file a table, and the figures."""
    shown = [one.table for one in presented.tables if one.printed]
    verdict = "\n".join(presented.verdict)
    files = {f"{stem}.txt": "\n\n".join([*(f"{t.title}\n\n{t.text()}" for t in shown), verdict]).rstrip("\n") + "\n"}
    files[f"{stem}.md"] = "\n".join([*(f"### {t.title}\n\n{t.markdown()}" for t in shown), verdict]).rstrip("\n") + "\n"
    for one in presented.tables:
        name = f"{stem}-{one.suffix}" if one.suffix else stem
        files[f"{name}.csv"] = one.table.csv()
        if one.printed:
            files[f"{name}.tex"] = one.table.latex()
    written = []
    for name, text in files.items():
        write_file(out / name, text.encode())
        written.append(out / name)
    if presented.draw is not None:
        from fedgs.report.canvas import save_figure

        for suffix, figure in presented.draw().items():
            written += save_figure(figure, out / "-".join(part for part in (stem, suffix) if part))
    return written
