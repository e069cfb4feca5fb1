"""What is kept of an experiment: a manifest that names its records, runs in `runs/`, computed figures in `computed/`."""

import hashlib
import json
import os
import platform
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import fedgs
from fedgs.arrays import AnyArray
from fedgs.errors import OutputError
from fedgs.experiments.paper.frame.experiment import CellRun, Computed, Material
from fedgs.experiments.paper.frame.request import Asked
from fedgs.records import Record, save_arrays, write_atomically
from fedgs.report.run import Run
from fedgs.report.runs import read_runs

__all__ = ["Manifest", "Place", "computed_name", "machine", "read_computed", "read_manifests", "read_material", "write_computed"]

COMPUTED_FORMAT = 1  # raise it when the same settings start to give other figures


@dataclass(frozen=True)
class Place:
    """A run's folder in `runs/`, its place in the table, and how many of its rounds count."""

    data: str
    mode: str
    row: str
    folder: str
    rounds: int


@dataclass(frozen=True)
class Manifest:
    """Which records an experiment is made of, and how it was carried out.

    Attributes:
        asked: the experiment.
        command: the command line. seconds: of wall time, all starts together. machine: see `machine`.
        places: its runs. computed: federation -> file in `computed/`.
    """

    asked: Asked
    command: str
    seconds: float
    machine: Mapping[str, Any]
    places: Sequence[Place] = ()
    computed: Mapping[str, str] | None = None

    def write(self, out: Path) -> None:
        """Write STEM.json into the folder."""
        tables = {**asdict(self), "asked": self.asked.as_json(), "seconds": round(self.seconds, 1)}
        write_atomically(out / f"{self.asked.stem}.json", (json.dumps(tables, indent=1) + "\n").encode())

    @staticmethod
    def read(path: Path) -> "Manifest":
        """A manifest that was written.

        Raises:
            OutputError: it is not one.
        """
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            places = [Place(**place) for place in stored["places"]]
            asked = Asked.from_json(stored["asked"])
            return Manifest(asked, stored["command"], stored["seconds"], stored["machine"], places, stored["computed"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise OutputError(f"{path.name}: not the manifest of an experiment ({' '.join(str(error).split())[:120]})") from None


def read_manifests(out: Path) -> tuple[list[Manifest], list[str]]:
    """The manifests in a folder, by name, and one line for each file that looks like one and is not.

    Raises:
        OutputError: there is no such folder.
    """
    if not out.is_dir():
        raise OutputError(f"{str(out)!r} is not a folder; give the --out of fedgs reproduce")
    manifests, problems = [], []
    for path in sorted(out.glob("*.json")):
        if path.name != "fedgs.json":
            try:
                manifests.append(Manifest.read(path))
            except OutputError as error:
                problems.append(str(error))
    return manifests, problems


def read_material(out: Path, manifest: Manifest) -> tuple[Material, list[str]]:
    """The records that a manifest names, as far as they can be read, and one line for each that cannot."""
    runs: list[CellRun] = []
    problems: list[str] = []
    read: dict[str, Run | None] = {}
    for place in manifest.places:
        if place.folder not in read:
            read[place.folder] = _read_run(out / "runs" / place.folder, problems)
        run = read[place.folder]
        if run is not None:
            runs.append(CellRun(place.data, place.mode, place.row, first_rounds(run, place.rounds)))
    computed: dict[str, Computed] = {}
    for key, name in (manifest.computed or {}).items():
        try:
            computed[key] = read_computed(out / "computed" / name)
        except OutputError as error:
            problems.append(str(error))
    return Material(runs, computed), problems


def first_rounds(run: Run, rounds: int) -> Run:
    """The first `rounds` rounds of a run that was asked for more elsewhere; a run of no more rounds as it is.

    >>> longer = Run({"training": {"rounds": 2}}, [Record(0, cohort=[1]), Record(1, cohort=[2], test_loss=0.5), Record(2)])
    >>> shorter = first_rounds(longer, 1)
    >>> shorter.rounds_done, shorter.finished, shorter.records[-1].test_loss
    (1, True, 0.5)
    """
    if run.rounds <= rounds:
        return run
    records = [record for record in run.records if record.round <= rounds]
    if records and records[-1].round == rounds:
        last = records[-1]
        figures = {key: getattr(last, key) for key in ("test_loss", "test_accuracy", "valid_loss")}
        records[-1] = Record(rounds, **figures)
    return replace(run, records=records, config={**run.config, "training": {**run.table("training"), "rounds": rounds}})


def _read_run(path: Path, problems: list[str]) -> Run | None:
    try:
        runs, lines = read_runs(path)
    except OutputError as error:
        problems.append(f"{path.name}: left out, {error}" if path.is_dir() else f"{path.name}: not there")
        return None
    problems.extend(lines)
    return runs[0]


def computed_name(name: str, settings: Mapping[str, Any]) -> str:
    """The file of computed figures: the experiment and a hash of everything that they follow from."""
    text = json.dumps({"format": COMPUTED_FORMAT, "experiment": name, **settings}, sort_keys=True)
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.npz"


def write_computed(path: Path, arrays: Mapping[str, AnyArray], about: Mapping[str, Any]) -> None:
    """Keep computed figures."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save_arrays(path, {**arrays, "about": np.array(json.dumps(about))})


def read_computed(path: Path) -> Computed:
    """Figures that were kept.

    Raises:
        OutputError: no such file, or a damaged one.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {key: stored[key] for key in stored.files}
        about = json.loads(str(arrays.pop("about")))
        return Computed(arrays, about, path.name)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise OutputError(
            f"{path.name}: computed figures that cannot be read ({error}); remove the file to compute anew"
        ) from None


def machine(device: str = "cpu") -> dict[str, Any]:
    """The hardware and the versions, for the page."""
    gpu = None
    if device.startswith("cuda"):
        import torch

        gpu = torch.cuda.get_device_name(device) if torch.cuda.is_available() else None
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": _memory(),
        "gpu": gpu,
        "system": platform.system(),
        "versions": {"fedgs": fedgs.__version__, "python": platform.python_version(), **_versions("numpy", "torch")},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _memory() -> int | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    except (ValueError, OSError, AttributeError):
        return None


def _versions(*names: str) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
