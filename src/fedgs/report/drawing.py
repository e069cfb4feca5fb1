"""The client graph as a figure: clients as pies of their labels, joined by the edges of the graph."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedgs.arrays import BoolArray, IntArray
from fedgs.errors import ConfigError, OutputError
from fedgs.palette import label_colours
from fedgs.report.canvas import figure_style, legend_patches, single_axes
from fedgs.report.history import participation
from fedgs.report.network import Network, network_of_run
from fedgs.report.run_view import Run
from fedgs.report.subjects import as_matrix, as_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["client_graph"]


def client_graph(
    drawn: Run | Iterable[Run] | Network,
    label_counts: IntArray | None = None,
    *,
    round: int | None = None,
    available: BoolArray | None = None,
    cohort: BoolArray | None = None,
    title: str = "",
) -> "Figure":
    """The client graph (3DG), each client a pie of its labels.

    Args:
        drawn: one run that kept its distances, as FedGS does; or a drawing of
            `fedgs.report.network.network`.
        label_counts: (N, C); None: those of the run, else plain dots.
        round: of the run: who was available and who was selected in it; None: neither is shown.
        available, cohort: (N,) of one round, or None; who is away is pale, who is selected has a
            ring.
        title: above the drawing.

    Raises:
        ConfigError: neither a run nor a drawing, a round that the run does not have, or arrays of
            another length.
        OutputError: the run kept no distances.
    """
    if isinstance(drawn, Network):
        if round is not None:
            raise ConfigError(
                "client_graph takes a round only with a run; give available and cohort with a drawing"
            )
        network = drawn
    else:
        run = as_run(
            drawn,
            "client_graph",
            what="one run of fedgs, or a drawing of fedgs.report.network.network",
        )
        network, label_counts = _network(run), _counts(run, label_counts)
        if round is not None:
            available, cohort = _members(run, round)
    number = len(network.positions)
    counts = np.ones((number, 1), dtype=np.int64)
    if label_counts is not None:
        counts = as_matrix(label_counts, "client_graph", "(N, C) label counts", low=0)
    for name, rows in (("label_counts", counts), ("available", available), ("cohort", cohort)):
        if rows is not None and len(rows) != number:
            raise ConfigError(
                f"{name} must have {number} rows, one a client of the graph; got {len(rows)}"
            )
    return _drawing(network, counts, label_counts is not None, available, cohort, title)


def _network(run: Run) -> Network:
    found = network_of_run(run)
    if found is None:
        raise OutputError(
            f"{run.name} kept no distances between its clients, so there is no graph to draw; give a run of fedgs"
        )
    return found


def _counts(run: Run, given: IntArray | None) -> IntArray | None:
    return given if given is not None or run.clients is None else run.clients.label_counts


def _members(run: Run, round: int) -> tuple[BoolArray, BoolArray]:
    """(N,) who was available and (N,) who was selected in a round."""
    history = participation(run)
    rounds = 0 if history is None else history.available.shape[1]
    if history is None or not 0 <= round < rounds:
        raise ConfigError(f"round must be in 0 to {rounds - 1} for {run.name}; got {round}")
    return history.available[:, round], history.selected[:, round]


def _drawing(
    drawn: Network,
    counts: IntArray,
    with_labels: bool,
    available: BoolArray | None,
    cohort: BoolArray | None,
    title: str,
) -> "Figure":
    from matplotlib.collections import LineCollection

    with figure_style():
        drawing, axes = single_axes(3.3)
        ends: list[Any] = list(drawn.positions[drawn.edges])
        lines = LineCollection(ends, colors="#8A94A0", linewidths=0.4, alpha=_edge_alpha(len(ends)))
        axes.add_collection(lines)
        radius = 0.32 / np.sqrt(len(counts)) if len(counts) > 40 else 0.05
        colours = label_colours(counts.shape[1])
        for k, position in enumerate(drawn.positions):
            pale = 0.25 if available is not None and not available[k] else 1.0
            _pie(axes, position, radius, counts[k], colours, pale)
            if cohort is not None and cohort[k]:
                _ring(axes, position, radius * 1.35)
        axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal", title=title)
        axes.axis("off")
        if with_labels and counts.shape[1] <= 20:
            legend_patches(
                drawing, {str(label): colour for label, colour in enumerate(colours)}, title="label"
            )
        return drawing


def _edge_alpha(edges: int) -> float:
    return float(np.clip(60 / max(edges, 1), 0.15, 0.9))


def _pie(
    axes: "Axes",
    centre: np.ndarray,
    radius: float,
    counts: np.ndarray,
    colours: Sequence[str],
    alpha: float,
) -> None:
    from matplotlib.patches import Wedge

    if counts.sum() == 0:  # labels that are not known, or no example yet
        counts, colours = np.ones(1), ["#BBBBBB"]
    ends = 90 - 360 * np.concatenate([[0], np.cumsum(counts) / counts.sum()])
    for label in np.flatnonzero(counts).tolist():
        wedge = Wedge(
            (centre[0], centre[1]),
            radius,
            ends[label + 1],
            ends[label],
            facecolor=colours[label],
            alpha=alpha,
            linewidth=0,
        )
        wedge.set_zorder(3)
        axes.add_patch(wedge)


def _ring(axes: "Axes", centre: np.ndarray, radius: float) -> None:
    from matplotlib.patches import Circle

    ring = Circle((centre[0], centre[1]), radius, fill=False, edgecolor="black", linewidth=1.2)
    ring.set_zorder(4)
    axes.add_patch(ring)
