"""An experiment on disk: a manifest, runs in `runs/`, and results in `computed/`."""

import hashlib
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from fedgs.arrays import AnyArray, open_npz
from fedgs.errors import OutputError
from fedgs.experiments.paper.frame.experiment import (
    Computed,
    ExperimentRecords,
    LoadedRun,
    StoredRun,
)
from fedgs.experiments.paper.frame.request import ExperimentRequest
from fedgs.records import first_rounds, save_arrays, write_atomically
from fedgs.report.reading import read_runs
from fedgs.report.run_view import Run

__all__ = [
    "Manifest",
    "computed_name",
    "read_computed",
    "read_manifests",
    "read_records",
    "shortened",
    "write_computed",
]

COMPUTED_FORMAT = 1  # to be raised when the same settings give other results than before


@dataclass(frozen=True)
class Manifest:
    """Which records an experiment consists of, and how it was carried out.

    Attributes:
        request: the experiment.
        command: the command line.
        seconds: wall time of all starts together.
        machine: see `fedgs.experiments.paper.frame.machine`.
        runs: its runs.
        computed: key of a computation -> file in `computed/`.
        round_seconds: wall time of the rounds of all runs, added up. It stays where the timings of
            the runs are not kept, until one of them is trained. None: not known.
    """

    request: ExperimentRequest
    command: str
    seconds: float
    machine: Mapping[str, object]
    runs: Sequence[StoredRun] = ()
    computed: Mapping[str, str] = field(default_factory=dict)
    round_seconds: float | None = None

    def write(self, out: Path) -> None:
        """Write STEM.json into the folder."""
        tables = {
            "asked": self.request.as_json(),
            "command": self.command,
            "seconds": round(self.seconds, 1),
            "machine": dict(self.machine),
            "places": [asdict(stored) for stored in self.runs],
            "computed": dict(self.computed),
        }
        if self.round_seconds is not None:
            tables["round_seconds"] = round(self.round_seconds, 1)
        write_atomically(
            out / f"{self.request.stem}.json", (json.dumps(tables, indent=1) + "\n").encode()
        )

    @staticmethod
    def read(path: Path) -> "Manifest":
        """Read what `write` wrote.

        Raises:
            OutputError: the file is not a manifest.
        """
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            return Manifest(
                ExperimentRequest.from_json(stored["asked"]),
                stored["command"],
                stored["seconds"],
                stored["machine"],
                [StoredRun(**run) for run in stored["places"]],
                stored["computed"] or {},
                stored.get("round_seconds"),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            reason = " ".join(str(error).split())[:120]
            raise OutputError(
                f"{path.name}: not the manifest of an experiment ({reason})"
            ) from None


def read_manifests(out: Path) -> tuple[list[Manifest], list[str]]:
    """The manifests in a folder, by name, and one line for each other JSON file.

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


def read_records(out: Path, manifest: Manifest) -> tuple[ExperimentRecords, list[str]]:
    """The records that a manifest names, and one line for each that cannot be read."""
    runs: list[LoadedRun] = []
    problems: list[str] = []
    read: dict[str, Run | None] = {}
    for stored in manifest.runs:
        if stored.folder not in read:
            read[stored.folder] = _read_run(out / "runs" / stored.folder, problems)
        run = read[stored.folder]
        if run is not None:
            runs.append(
                LoadedRun(stored.data, stored.mode, stored.row, shortened(run, stored.rounds))
            )
    computed: dict[str, Computed] = {}
    for key, name in manifest.computed.items():
        try:
            computed[key] = read_computed(out / "computed" / name)
        except OutputError as error:
            problems.append(str(error))
    return ExperimentRecords(runs, computed), problems


def shortened(run: Run, rounds: int) -> Run:
    """The first `rounds` rounds of a longer run; a run of no more rounds is returned unchanged.

    >>> from fedgs.records import Record
    >>> records = [Record(0, cohort=[1]), Record(1, cohort=[2], test_loss=0.5), Record(2)]
    >>> shorter = shortened(Run({"training": {"rounds": 2}}, records), 1)
    >>> shorter.rounds_done, shorter.finished, shorter.records[-1].test_loss
    (1, True, 0.5)
    """
    if run.rounds <= rounds:
        return run
    training = {**run.table("training"), "rounds": rounds}
    return replace(
        run, records=first_rounds(run.records, rounds), config={**run.config, "training": training}
    )


def _read_run(path: Path, problems: list[str]) -> Run | None:
    try:
        runs, lines = read_runs(path)
    except OutputError as error:
        problems.append(
            f"{path.name}: left out, {error}" if path.is_dir() else f"{path.name}: missing"
        )
        return None
    problems.extend(lines)
    return runs[0]


def computed_name(name: str, settings: Mapping[str, object]) -> str:
    """The file name of a result: the experiment and a hash of everything that it depends on."""
    text = json.dumps({"format": COMPUTED_FORMAT, "experiment": name, **settings}, sort_keys=True)
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.npz"


def write_computed(path: Path, arrays: Mapping[str, AnyArray], about: Mapping[str, object]) -> None:
    """Store the result of a computation."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save_arrays(path, {**arrays, "about": np.array(json.dumps(about))})


def read_computed(path: Path) -> Computed:
    """Read what `write_computed` wrote.

    Raises:
        OutputError: there is no such file, or it is damaged.
    """
    try:
        with open_npz(path) as stored:
            arrays = {key: stored[key] for key in stored.files}
        about = json.loads(str(arrays.pop("about")))
        return Computed(arrays, about)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise OutputError(
            f"{path.name}: computed figures that cannot be read ({error}); remove the file to "
            "compute them again"
        ) from None
