#!/usr/bin/env python3
"""The records of `docs/reproduction.md`, and the page made from them.

    python scripts/reproduction_page.py keep fedgs-paper
    python scripts/reproduction_page.py keep fedgs-paper --losses
    python scripts/reproduction_page.py write

`keep` copies the records of a folder of `fedgs reproduce` to `docs/records/reproduction`, without
models. `--losses` is for many runs: of their records, the losses alone are kept, rounded to seven
significant digits (those of float32), in one archive. `write` makes the page and its figures from
what is kept, without data and without training.
"""

import argparse
import json
import lzma
import shutil
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np

from fedgs.experiments.paper.frame.experiment import ExperimentRecords
from fedgs.experiments.paper.frame.facts import round_seconds
from fedgs.experiments.paper.frame.page import write_page
from fedgs.experiments.paper.frame.store import Manifest, read_manifests, read_records
from fedgs.records import save_arrays

__all__ = ["keep", "kept", "write"]

DOCS = Path(__file__).parents[1] / "docs"
RECORDS = DOCS / "records" / "reproduction"
ARCHIVE = "synthetic.tar.xz"
_WHOLE = ("config.toml", "clients.npz", "rounds.jsonl")
_LOSSES = ("test_loss", "valid_loss")
_AND = " and "


def keep(source: Path, target: Path, *, losses: bool = False) -> None:
    """Copy what the page needs of a folder of `fedgs reproduce`.

    Args:
        source: the folder.
        target: the folder of the kept records. Its other files stay.
        losses: whether the losses alone are kept, in an archive.

    Raises:
        SystemExit: a record cannot be read.
    """
    if losses:
        with tempfile.TemporaryDirectory() as folder:
            _copy(source, Path(folder), losses=True)
            _pack(Path(folder), target / ARCHIVE)
    else:
        _copy(source, target, losses=False)


def _copy(source: Path, target: Path, *, losses: bool) -> None:
    manifests, problems = read_manifests(source)
    for folder in (target / "runs", target / "computed"):
        folder.mkdir(parents=True, exist_ok=True)
    (target / "fedgs.json").write_text('{"format": 1}')
    (target / "runs" / "fedgs.json").write_text('{"format": 1}')
    earlier = read_manifests(target)[0]
    for manifest in manifests:
        records, unread = read_records(source, manifest)
        problems += unread
        if not unread:
            seconds = _seconds(manifest, records, earlier)
            machine = _machine(manifest, earlier)
            manifest = replace(manifest, machine=machine, round_seconds=seconds)
        manifest.write(target)
        for name in manifest.computed.values():
            with np.load(source / "computed" / name) as stored:
                np.savez_compressed(target / "computed" / name, **stored)
        for name in {stored.folder for stored in manifest.runs}:
            _copy_run(source / "runs" / name, target / "runs" / name, losses=losses)
    if problems:
        raise SystemExit("\n".join(problems))


def _machine(manifest: Manifest, earlier: Sequence[Manifest]) -> Mapping[str, object]:
    """The machine of the runs, with the processors of those that are kept already.

    Args:
        manifest: of the experiment.
        earlier: of all experiments that are kept already.
    """
    sharing = [one for one in earlier if _folders(manifest) & _folders(one)]
    if not sharing:
        return manifest.machine
    names: dict[str, None] = {}  # in their order
    for one in sharing:
        names |= dict.fromkeys(str(one.machine["processor"]).split(_AND))
    if _folders(manifest) <= set().union(*map(_folders, sharing)):
        machine = dict(sharing[0].machine)
    else:
        machine = dict(manifest.machine)
        names[str(machine["processor"])] = None
    return {**machine, "processor": _AND.join(names)}


def _seconds(
    manifest: Manifest, records: ExperimentRecords, earlier: Sequence[Manifest]
) -> float | None:
    """The time of the rounds of all runs; timings of runs that are kept already may be missing.

    Args:
        manifest: of the experiment.
        records: of the experiment.
        earlier: of all experiments that are kept already.
    """
    seconds = round_seconds([loaded.run for loaded in records.runs])
    folders = _folders(manifest)
    parts = [one for one in earlier if one.round_seconds is not None and _folders(one) <= folders]
    if seconds is not None or not parts:
        return manifest.round_seconds if seconds is None else seconds
    part = max(parts, key=lambda one: len(one.runs))
    pairs = zip(manifest.runs, records.runs, strict=True)
    others = [loaded.run for stored, loaded in pairs if stored.folder not in _folders(part)]
    added = round_seconds(others) if others else 0.0
    if added is None or part.round_seconds is None:
        return manifest.round_seconds
    return part.round_seconds + added


def _folders(manifest: Manifest) -> set[str]:
    return {stored.folder for stored in manifest.runs}


def _copy_run(source: Path, target: Path, *, losses: bool) -> None:
    target.mkdir(exist_ok=True)
    for name in _WHOLE:
        shutil.copyfile(source / name, target / name)
    if losses:
        with np.load(target / "clients.npz") as stored:
            clients = {key: stored[key] for key in stored.files if key != "features"}
        save_arrays(target / "clients.npz", clients)
        lines = (source / "rounds.jsonl").read_text(encoding="utf-8").splitlines()
        (target / "rounds.jsonl").write_text("".join(map(_losses_of, lines)), encoding="utf-8")


def _losses_of(line: str) -> str:
    record = json.loads(line)
    figures = {key: float(f"{record[key]:.7g}") for key in _LOSSES if record[key] is not None}
    return json.dumps({"round": record["round"], **figures}, separators=(",", ":")) + "\n"


def _pack(folder: Path, archive: Path) -> None:
    """Pack a folder into a .tar.xz file, which is equal for equal files."""
    content = BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(folder.rglob("*"), key=lambda path: (path.name, path)):
            if path.is_file():
                entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
                entry.size, entry.mode = path.stat().st_size, 0o644
                tar.addfile(entry, BytesIO(path.read_bytes()))
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.write_bytes(lzma.compress(content.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def kept(records: Path, folder: Path) -> Path:
    """Copy the kept records to a new folder, and unpack the archive there.

    Returns:
        The new folder.
    """
    shutil.copytree(records, folder)
    if (folder / ARCHIVE).is_file():
        with tarfile.open(folder / ARCHIVE) as tar:
            tar.extractall(folder, filter="data")
        (folder / ARCHIVE).unlink()
    return folder


def write(records: Path = RECORDS, docs: Path = DOCS) -> str:
    """Write `reproduction.md` and the figures that it shows.

    Returns:
        The text of the page.

    Raises:
        SystemExit: a record cannot be read, or the page would lose a section, whose records are not
            kept.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = kept(records, Path(temporary) / "records")
        written = write_page(folder)
        if written.problems:
            raise SystemExit("\n".join(written.problems))
        pictures = [path for path in written.files if path.suffix == ".png"]
        text = written.path.read_text(encoding="utf-8")
        page = docs / "reproduction.md"
        shown = sections(page.read_text(encoding="utf-8")) if page.is_file() else set()
        if lost := shown - sections(text):
            names = "; ".join(sorted(f"{part}, {data}" for part, data in lost))
            raise SystemExit(f"the page has sections whose records are not kept: {names}")
        (docs / "figures").mkdir(exist_ok=True)
        for path in pictures:
            text = text.replace(f"]({path.name})", f"](figures/{path.name})")
            shutil.copyfile(path, docs / "figures" / path.name)
    page.write_text(text, encoding="utf-8")
    return text


def sections(text: str) -> set[tuple[str, str]]:
    r"""The parts of a page and their data, as the headings have them.

    >>> sections("# Page\n## Table 2\n### CIFAR10\n## Table 3\n")
    {('Table 2', 'CIFAR10')}
    """
    found = set()
    part = ""
    for line in text.splitlines():
        if line.startswith("## "):
            part = line.removeprefix("## ")
        elif line.startswith("### "):
            found.add((part, line.removeprefix("### ")))
    return found


def main() -> None:
    """Carry out the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    keeping = commands.add_parser("keep", help="copy the records of a folder")
    keeping.add_argument("folder", type=Path)
    keeping.add_argument("--losses", action="store_true", help="the losses alone, in an archive")
    commands.add_parser("write", help="make the page and its figures")
    options = parser.parse_args()
    if options.command == "keep":
        keep(options.folder, RECORDS, losses=options.losses)
    else:
        write()


if __name__ == "__main__":
    main()
