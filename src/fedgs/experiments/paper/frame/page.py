"""`reproduction.md` from a folder of records: every part of the paper, and what was not run.

A section states claim, data, model, hyper-parameters, hardware, time, command, figures (ours and
the paper's) and verdict. Neither data nor training is needed.
"""

import glob
import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedgs.errors import require_extra
from fedgs.experiments.output import claim
from fedgs.experiments.paper.catalogue import NAMES, find
from fedgs.experiments.paper.frame.conditions import Source
from fedgs.experiments.paper.frame.experiment import Experiment, ExperimentRecords, Rendering
from fedgs.experiments.paper.frame.facts import facts_of
from fedgs.experiments.paper.frame.published import MODES
from fedgs.experiments.paper.frame.request import ExperimentRequest
from fedgs.experiments.paper.frame.store import Manifest, read_manifests, read_records
from fedgs.experiments.paper.frame.wrapping import wrapped
from fedgs.experiments.paper.frame.writing import write_rendering
from fedgs.report.files import write_file

__all__ = ["WrittenPage", "page", "write_page"]

_HEAD = """# Reproduction of the paper

This page has every table and figure of the paper (Wang et al., *FedGS: Federated Graph-based \
Sampling with Arbitrary Client Availability*, AAAI 2023). Each is made by one command: \
`fedgs reproduce NAME`. The page is made from the stored records by `fedgs reproduce document`. \
Figures in brackets are the paper's. [Reproduce the paper](how-to/reproduce.md) describes the \
commands. Figures 1, 2 and 6 of the paper are illustrations.

In the paper's own figures, FedGS is not best in two cases on Synthetic: under IDL, where all \
clients are always available (uniform .302, FedGS .306 to .328), and under MDF, where power of \
choice is lowest (.301 against .310). The verdict of Table 2 states where it is not best here.
"""
# Name -> the federations of the paper; none if no data is needed.
_PARTS: Mapping[str, tuple[str, ...]] = {
    "table1": ("synthetic",),
    "table2": tuple(MODES),
    "table3": ("cifar10", "fashion_mnist"),
    "table4": tuple(MODES),
    "fig3": ("cifar10",),
    "fig4": ("fashion_mnist", "cifar10"),
    "fig5": ("fashion_mnist", "cifar10"),
    "fig7": ("cifar10", "fashion_mnist"),
    "fig8": tuple(MODES),
    "tuning": tuple(MODES),
    "gamma": ("synthetic",),
    "theorem1": (),
}


@dataclass(frozen=True, eq=False)
class _Part:
    """One part of the paper as a folder holds it.

    Attributes:
        manifest: its request, records and time.
        records: those that could be read.
        rendering: tables, verdict and figures of these records.
        whole: whether all records could be read.
    """

    manifest: Manifest
    records: ExperimentRecords
    rendering: Rendering
    whole: bool

    @property
    def experiment(self) -> Experiment:
        return find(self.manifest.request.name)


@dataclass(frozen=True)
class WrittenPage:
    """What `write_page` has done.

    Attributes:
        path: of `reproduction.md`.
        files: tables and figures.
        problems: one line for each record that cannot be read.
    """

    path: Path
    files: Sequence[Path]
    problems: Sequence[str]


def write_page(out: Path) -> WrittenPage:
    """Write `reproduction.md` and the tables and figures of every part into the folder.

    A part whose records cannot all be read keeps the tables and figures that the folder holds.
    Figures need matplotlib; without it, a line says that they are left out.

    Raises:
        OutputError: there is no such folder, or another process is writing to it.
    """
    parts, problems = _read(out)
    complete = [part for part in parts if part.whole]
    if importlib.util.find_spec("matplotlib") is None:
        if any(part.rendering.draw is not None for part in complete):
            problems.append(f"figures are left out: {require_extra('matplotlib', 'report')}")
        complete = [
            replace(part, rendering=replace(part.rendering, draw=None)) for part in complete
        ]
    with claim(out):
        files = [
            path
            for part in complete
            for path in write_rendering(out, part.manifest.request.stem, part.rendering)
        ]
        write_file(out / "reproduction.md", _text(out, parts).encode())
    return WrittenPage(out / "reproduction.md", files, problems)


def page(out: Path) -> tuple[str, list[str]]:
    """The text of the page, and one line for each record that cannot be read.

    Equal records give the same page.

    Raises:
        OutputError: there is no such folder.
    """
    parts, problems = _read(out)
    return _text(out, parts), problems


def _read(out: Path) -> tuple[list[_Part], list[str]]:
    """The parts that a folder holds, and one line for each record that cannot be read."""
    manifests, problems = read_manifests(out)
    parts = []
    for manifest in manifests:
        records, unread = read_records(out, manifest)
        rendering = find(manifest.request.name).render(manifest.request, records)
        parts.append(_Part(manifest, records, rendering, whole=not unread))
        problems += unread
    return parts, problems


def _text(out: Path, parts: Sequence[_Part]) -> str:
    sections = [_HEAD, _overview([part.manifest for part in parts])]
    for name in NAMES:
        experiment = find(name)
        carried_out = [part for part in parts if part.manifest.request.name == name]
        sections.append(f"## {experiment.title}\n\n**Claim.** {experiment.claim}\n")
        for part in carried_out:
            stem = glob.escape(part.manifest.request.stem)
            sections.append(_section(part, sorted(path.name for path in out.glob(f"{stem}*.png"))))
        sections.append(_missing(name, carried_out))
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(sections)).rstrip("\n") + "\n"
    return wrapped(text)


def _overview(manifests: Sequence[Manifest]) -> str:
    lines = ["| part | carried out on |", "|---|---|"]
    for name in NAMES:
        places = [
            _where(manifest.request) for manifest in manifests if manifest.request.name == name
        ]
        lines.append(
            f"| [{name}](#{_anchor(find(name).title)}) | {'; '.join(places) or 'not run'} |"
        )
    return "\n".join(lines) + "\n"


def _anchor(title: str) -> str:
    """The link target that Markdown makes of a heading.

    >>> _anchor("Table 3: edges of the graph")
    'table-3-edges-of-the-graph'
    """
    letters = (letter for letter in title.lower() if letter.isalnum() or letter in " -_")
    return "".join(letters).replace(" ", "-")


def _where(request: ExperimentRequest) -> str:
    changed = [f"{key} = {value}" for key, value in request.changes]
    return ", ".join([*(source.title for source in request.data), *changed]) or "no data needed"


def _section(part: _Part, pictures: Sequence[str]) -> str:
    experiment, rendering = part.experiment, part.rendering
    facts = facts_of(experiment, part.manifest, part.records)
    lines = [f"### {_where(part.manifest.request)}", ""]
    lines += [f"* **{name}.** {text}" for name, text in facts.items() if text]
    for table in rendering.tables.values():
        lines += ["", f"**{table.title}**", "", table.markdown().rstrip("\n")]
    for picture in pictures if experiment.draws else ():
        lines += ["", f"![{experiment.title}]({picture})"]
    if rendering.verdict:
        lines += ["", "**Verdict.**", ""]
        lines += [
            sentence if sentence.startswith("- ") else f"{sentence}\n"
            for sentence in rendering.verdict
        ]
    return "\n".join(lines) + "\n"


def _missing(name: str, carried_out: Sequence[_Part]) -> str:
    """The paper's federations without records, and the missing modes and rows of the others."""
    if not _PARTS[name]:
        return "" if carried_out else "Not run.\n"
    done = {block for part in carried_out for block in _blocks(part.manifest, part.records)}
    absent = [Source(key).title for key in _PARTS[name] if key not in done]
    lines = [f"Not run: {', '.join(absent)}.\n"] if absent else []
    for part in carried_out:
        request = part.manifest.request
        requested_modes = {mode.name for mode in request.modes}
        missing_modes = [
            mode
            for source in request.data
            for mode in source.modes
            if requested_modes and mode not in requested_modes
        ]
        parts = []
        if name in ("table2", "table4") and missing_modes:
            parts.append(f"the modes {', '.join(missing_modes)}")
        if request.methods:
            parts.append(f"the rows other than {', '.join(request.methods)}")
        if parts:
            lines.append(f"Not run on {_where(request)}: {'; '.join(parts)}.\n")
    return "\n".join(lines)


def _blocks(manifest: Manifest, records: ExperimentRecords) -> list[str | None]:
    """The federations of the paper that the records correspond to."""
    sizes = {loaded.data: loaded.run.num_clients for loaded in records.runs}
    sizes |= {key.split("/")[0]: result.num_clients for key, result in records.computed.items()}
    return [
        source.paper_block(sizes[source.key])
        for source in manifest.request.data
        if source.key in sizes
    ]
