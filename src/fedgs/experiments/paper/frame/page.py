"""`reproduction.md` from a folder of records: every part of the paper, and what was not run.

A section states claim, data, model, hyper-parameters, hardware, time, command, figures (ours and
the paper's) and verdict.
"""

import glob
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedgs.experiments.output import claim
from fedgs.experiments.paper.catalogue import NAMES, find
from fedgs.experiments.paper.frame.conditions import Source
from fedgs.experiments.paper.frame.experiment import Experiment, ExperimentRecords
from fedgs.experiments.paper.frame.facts import facts_of
from fedgs.experiments.paper.frame.published import MODES
from fedgs.experiments.paper.frame.request import ExperimentRequest
from fedgs.experiments.paper.frame.store import Manifest, read_manifests, read_records
from fedgs.experiments.paper.frame.wrapping import wrapped
from fedgs.report.files import write_file

__all__ = ["page", "write_page"]

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


def write_page(out: Path) -> tuple[Path, list[str]]:
    """Write `reproduction.md` into the folder.

    Returns:
        The file, and one line for each record that cannot be read.

    Raises:
        OutputError: there is no such folder, or another process is writing to it.
    """
    text, problems = page(out)
    with claim(out):
        write_file(out / "reproduction.md", text.encode())
    return out / "reproduction.md", problems


def page(out: Path) -> tuple[str, list[str]]:
    """The text of the page, and one line for each record that cannot be read.

    Equal records give the same page.

    Raises:
        OutputError: there is no such folder.
    """
    manifests, problems = read_manifests(out)
    sections = [_HEAD, _overview(manifests)]
    for name in NAMES:
        experiment = find(name)
        carried_out = []
        sections.append(f"## {experiment.title}\n\n**Claim.** {experiment.claim}\n")
        for manifest in (each for each in manifests if each.request.name == name):
            records, unread = read_records(out, manifest)
            carried_out.append((manifest, records))
            problems += unread
            pictures = sorted(
                path.name for path in out.glob(f"{glob.escape(manifest.request.stem)}*.png")
            )
            sections.append(_section(experiment, manifest, records, pictures))
        sections.append(_missing(name, carried_out))
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(sections)).rstrip("\n") + "\n"
    return wrapped(text), problems


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


def _section(
    experiment: Experiment, manifest: Manifest, records: ExperimentRecords, pictures: Sequence[str]
) -> str:
    rendering = experiment.render(manifest.request, records)
    facts = facts_of(experiment, manifest, records)
    lines = [f"### {_where(manifest.request)}", ""]
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


def _missing(name: str, carried_out: Sequence[tuple[Manifest, ExperimentRecords]]) -> str:
    """The paper's federations without records, and the missing modes and rows of the others."""
    if not _PARTS[name]:
        return "" if carried_out else "Not run.\n"
    done = {block for manifest, records in carried_out for block in _blocks(manifest, records)}
    absent = [Source(key).title for key in _PARTS[name] if key not in done]
    lines = [f"Not run: {', '.join(absent)}.\n"] if absent else []
    for manifest, _ in carried_out:
        request = manifest.request
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
