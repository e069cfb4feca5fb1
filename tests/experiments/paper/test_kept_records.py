"""The records kept in `docs/records/reproduction`, and the reproduction page made from them."""

import importlib.util
import re
import shutil
import tarfile
import zlib
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from tests.experiments.paper.helpers import FAST, LDF, CarriedOut, carry_out, request_of

from fedgs.data import export
from fedgs.data.federation import Federation
from fedgs.experiments.paper.frame.page import page
from fedgs.experiments.paper.frame.store import read_manifests

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGE = (DOCS / "reproduction.md").read_text(encoding="utf-8")
LIMIT = 3_000_000  # bytes, compressed
Sections = dict[tuple[str, str], str]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


records = script("reproduction_page")


def sections(text: str) -> Sections:
    """(part, data) -> the text below the two headings, without what was not run."""
    found: Sections = {}
    part = ""
    for block in re.split(r"^(?=###? )", text, flags=re.MULTILINE):
        heading = block.partition("\n")[0]
        if heading.startswith("### "):
            found[part, heading] = re.split(r"^Not run", block, flags=re.MULTILINE)[0].strip()
        part = heading if heading.startswith("## ") else part
    return found


def linked(text: str, folder: Path) -> str:
    """The page with its figures where the documentation has them."""
    for path in folder.glob("*.png"):
        text = text.replace(f"]({path.name})", f"](figures/{path.name})")
    return text


def test_the_tables_of_the_page_are_made_from_the_kept_records(tmp_path: Path) -> None:
    folder = shutil.copytree(records.RECORDS, tmp_path / "records")
    for picture in (DOCS / "figures").glob("fig*.png"):
        (folder / picture.name).touch()
    text, problems = page(folder)
    assert problems == []
    made, shown = sections(linked(text, folder)), sections(PAGE)
    assert len(made) >= 7
    for key in made:
        assert made[key] == shown[key], key


@pytest.mark.long
def test_all_tables_and_figures_of_the_page_are_made_from_the_kept_records(tmp_path: Path) -> None:
    folder = records.kept(records.RECORDS, tmp_path / "records")
    written = records.write_page(folder)
    assert written.problems == []
    text = linked(written.path.read_text(encoding="utf-8"), folder)
    assert text == PAGE
    for name in re.findall(r"\]\(figures/([^)]+)\)", text):
        assert (folder / name).stat().st_size > 1000, name
        assert (folder / name).with_suffix(".pdf").is_file(), name


def test_the_figures_of_the_page_are_in_the_documentation() -> None:
    names = re.findall(r"\]\(figures/([^)]+)\)", PAGE)
    assert names
    for name in names:
        assert (DOCS / "figures" / name).is_file(), name


def test_the_kept_records_are_small() -> None:
    files = [path for path in records.RECORDS.rglob("*") if path.is_file()]
    assert 0 < sum(len(zlib.compress(path.read_bytes())) for path in files) < LIMIT
    assert not [path for path in files if path.name in ("best.npz", "checkpoint.npz")]


def test_the_losses_alone_give_the_same_page(table2: CarriedOut, tmp_path: Path) -> None:
    source, target = table2[1], tmp_path / "kept"
    records.keep(source, target, losses=True)
    assert [path.name for path in target.iterdir()] == [records.ARCHIVE]
    folder = records.kept(target, tmp_path / "copy")
    assert page(folder) == page(source)
    with tarfile.open(target / records.ARCHIVE) as tar:
        names = {Path(name).name for name in tar.getnames()}
    (manifest,) = (path.name for path in source.glob("table2-*.json"))
    assert names == {manifest, "fedgs.json", "config.toml", "clients.npz", "rounds.jsonl"}
    first = (target / records.ARCHIVE).read_bytes()
    records.keep(source, target, losses=True)
    assert (target / records.ARCHIVE).read_bytes() == first


@pytest.mark.long
def test_finished_runs_added_one_by_one_give_the_rows_and_panels_of_the_page(
    toy_federation: Federation, tmp_path: Path
) -> None:
    """Stands for the runs of an image data set, whose whole records are kept."""
    file = export(toy_federation, tmp_path / "toy.npz")
    docs, target = tmp_path / "docs", tmp_path / "records"
    docs.mkdir()
    for methods in (("uniform", "fedgs-1"), ("uniform", "fedgs-1", "md")):
        for kept in (target / "runs").glob("*/config.toml"):  # their time is in the manifest alone
            (tmp_path / "out" / "runs" / kept.parent.name / "timings.jsonl").unlink()
        for name in ("table2", "fig4", "fig5"):
            options = {"methods": methods, "modes": LDF, "seeds": (0,), "overrides": FAST}
            carry_out(request_of(name, file, **options), tmp_path / "out")
        for timings in (tmp_path / "out" / "runs").glob("*/timings.jsonl"):
            timings.write_text('{"round": 0, "train": 60.0}\n')
        records.keep(tmp_path / "out", target)
        seconds = {manifest.round_seconds for manifest in read_manifests(target)[0]}
        assert seconds == {60.0 * len(methods)}
        assert len(list((target / "runs").glob("*/config.toml"))) == len(methods)
        assert not list((target / "runs").glob("*/checkpoint.npz"))
        text = records.write(target, docs)
        for row in ("uniform", "fedgs 1", "md")[: len(methods)]:
            assert text.count(f"\n| {row} | ") == 3, (row, text)
        pictures = re.findall(r"\]\((figures/fig[45]-toy[^)]*-LDF\.png)\)", text)
        assert len(pictures) == 2 and all((docs / picture).is_file() for picture in pictures)
    assert len(read_manifests(target)[0]) == 3


def test_kept_runs_keep_their_processor_and_their_time(table2: CarriedOut, tmp_path: Path) -> None:
    source, target = shutil.copytree(table2[1], tmp_path / "source"), tmp_path / "kept"
    records.keep(source, target)
    ((kept,), _) = read_manifests(target)
    last = kept.runs[-1].folder
    first = [stored for stored in kept.runs if stored.folder != last]
    machine = {**kept.machine, "processor": "Other"}
    for timings in (source / "runs").glob("*/timings.jsonl"):
        timings.unlink()
    (source / "runs" / last / "timings.jsonl").write_text('{"round": 0, "train": 5.0}\n')
    replace(kept, runs=first, machine=machine, round_seconds=60.0).write(target)
    both = f"Other and {kept.machine['processor']}"
    for _ in range(2):  # of the last run, neither is known elsewhere; then both are known
        records.keep(source, target)
        ((found,), _) = read_manifests(target)
        assert (found.machine["processor"], found.round_seconds) == (both, 65.0)
        assert found.runs == kept.runs


def test_records_that_cannot_be_read_are_named(table2: CarriedOut, tmp_path: Path) -> None:
    copy = shutil.copytree(table2[1], tmp_path / "copy")
    run = next(path.parent for path in (copy / "runs").glob("*/rounds.jsonl"))
    (run / "rounds.jsonl").write_text("rubbish\n")
    with pytest.raises(SystemExit, match=run.name):
        records.keep(copy, tmp_path / "kept")


def test_the_page_does_not_lose_a_section_whose_records_are_not_kept(
    table2: CarriedOut, tmp_path: Path
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    records.keep(table2[1], tmp_path / "kept", losses=True)
    text = records.write(tmp_path / "kept", docs)
    (part, data) = next(iter(sections(text)))
    before = text.replace(f"{data}\n", f"{data}\n\nOurs.\n\n### Another federation\n\nNumbers.\n")
    (docs / "reproduction.md").write_text(before, encoding="utf-8")
    with pytest.raises(SystemExit, match=f"not kept: {part[3:]}, Another federation"):
        records.write(tmp_path / "kept", docs)
    assert (docs / "reproduction.md").read_text(encoding="utf-8") == before
