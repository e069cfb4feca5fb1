"""All figures of a set of runs, each as PDF and PNG."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedgs.errors import OutputError
from fedgs.report.by_client import client_losses
from fedgs.report.canvas import save_figure
from fedgs.report.doubles import latest
from fedgs.report.figures import (
    client_graph,
    loss_curves,
    losses_by_client,
    participation_map,
    partition,
    sampling_counts,
)
from fedgs.report.files import file_name
from fedgs.report.history import participation
from fedgs.report.hours import has_clock
from fedgs.report.network import network_of_run
from fedgs.report.run_view import Run
from fedgs.report.subjects import group_titles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["write_figures"]

_Drawings = Iterator[tuple[str, Callable[[], "Figure"]]]  # (name without ending, draw)


def write_figures(runs: Sequence[Run], out: Path) -> tuple[list[Path], list[str]]:
    """Write the figures that the records of the runs allow.

    `loss` has the loss curves, `loss-by-hours` those over time where runs have a clock, and
    `counts` the sampling counts of all runs. Each method has a `participation` map of its first
    seed, each federation a `partition`, and each client graph a `graph`; their names end with what
    they show, where there are several. `clients` has the losses of the clients, where a model was
    evaluated by client.

    Args:
        runs: labelled, as `read_runs` returns them.
        out: the folder; files of the same name are replaced.

    Returns:
        The files, and one sentence for each kind of figure that the records do not allow.

    Raises:
        OutputError: the records allow no figure; nothing was written.
        MissingExtraError: matplotlib is not installed.
    """
    shown, _ = latest(runs)
    paths: list[Path] = []
    missing: list[str] = []
    for kind, drawings, lacking in (
        ("loss", _losses(shown), "no run has a test or validation loss"),
        ("counts", _counts(shown), "no run has a whole round and readable clients"),
        ("participation", _maps(shown), "no run has a whole round and readable clients"),
        ("partition", _partitions(shown), "the labels of no run's clients are known"),
        ("clients", _clients(shown), ""),
        ("graph", _graphs(shown), "no run kept distances between clients, as those of fedgs do"),
    ):
        written = [
            path for name, draw in drawings for path in save_figure(draw(), out / file_name(name))
        ]
        paths += written
        if not written and lacking:
            missing.append(f"no figure {kind!r}: {lacking}")
    if not paths:
        raise OutputError(f"the records allow no figure: {'; '.join(missing)}")
    return paths, missing


def _losses(runs: Sequence[Run]) -> _Drawings:
    for figure in ("test_loss", "valid_loss"):
        if any(getattr(record, figure) is not None for run in runs for record in run.records):
            yield "loss", partial(loss_curves, runs, figure=figure)
            clocked = [run for run in runs if has_clock(run)]
            if any(getattr(record, figure) is not None for r in clocked for record in r.records):
                yield "loss-by-hours", partial(loss_curves, clocked, figure=figure, over="hours")
            return


def _counts(runs: Sequence[Run]) -> _Drawings:
    having = _with_rounds(runs)
    if having:
        yield "counts", partial(sampling_counts, having)


def _maps(runs: Sequence[Run]) -> _Drawings:
    """One map for each method and group, of its first seed."""
    first: dict[tuple[object, str], Run] = {}
    for run in sorted(_with_rounds(runs), key=lambda run: (run.group, run.label, run.seed)):
        first.setdefault((run.group, run.label), run)
    groups = sorted({run.group for run in first.values()})
    words = dict(zip(groups, group_titles(groups), strict=True))
    for run in first.values():
        title = f"{run.label}, seed {run.seed}"
        name = f"participation-{run.label}"
        if len(groups) > 1:
            title, name = f"{words[run.group]}, {title}", f"{name}-{words[run.group]}"
        yield name, partial(participation_map, run, title=title)


def _partitions(runs: Sequence[Run]) -> _Drawings:
    having = [
        run for run in runs if run.clients is not None and run.clients.label_counts is not None
    ]
    yield from _of_distinct("partition", having, _counts_digest, partition)


def _clients(runs: Sequence[Run]) -> _Drawings:
    having = [run for run in runs if client_losses(run) is not None and run.clients is not None]
    if having:
        yield "clients", partial(losses_by_client, having)


def _graphs(runs: Sequence[Run]) -> _Drawings:
    having = [run for run in runs if network_of_run(run) is not None]
    yield from _of_distinct("graph", having, _distance_digest, client_graph)


def _of_distinct(
    kind: str,
    runs: Sequence[Run],
    content: Callable[[Run], str],
    draw: "Callable[..., Figure]",
) -> _Drawings:
    """One figure for each content; the names end with numbers where a data title has several."""
    distinct: dict[str, Run] = {}
    for run in runs:
        distinct.setdefault(content(run), run)
    titles = [run.group[0] for run in distinct.values()]
    for number, run in enumerate(distinct.values(), 1):
        title = run.group[0]
        name = kind if len(distinct) == 1 else f"{kind}-{title}"
        name += f"-{number}" if titles.count(title) > 1 else ""
        yield name, partial(draw, run, title=title)


def _with_rounds(runs: Sequence[Run]) -> list[Run]:
    return [
        run for run in runs if (history := participation(run)) is not None and history.rounds > 0
    ]


def _counts_digest(run: Run) -> str:
    assert run.clients is not None and run.clients.label_counts is not None
    return hashlib.sha256(np.ascontiguousarray(run.clients.label_counts).tobytes()).hexdigest()


def _distance_digest(run: Run) -> str:
    return hashlib.sha256(np.ascontiguousarray(run.memory()["distance"]).tobytes()).hexdigest()
