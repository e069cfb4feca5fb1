"""The client graph as a figure: each client a pie of its labels, joined by the graph's edges."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

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
    from matplotlib.patches import Circle, Wedge

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
        drawn: one run that stored its distances, as FedGS does; or a drawing of
            `fedgs.report.network.network`.
        label_counts: (N, C); None: those of the run, else plain dots.
        round: a round of the run, whose available and selected clients are shown; None: neither.
        available: (N,) of one round, or None; unavailable clients are pale.
        cohort: (N,) of one round, or None; selected clients have a ring.
        title: above the drawing.

    Raises:
        ConfigError: neither a run nor a drawing, a round that the run does not have, or arrays of
            another length.
        OutputError: the run stored no distances.
    """
    if isinstance(drawn, Network):
        if round is not None:
            raise ConfigError(
                "client_graph takes a round only with a run; "
                "give available and cohort with a drawing"
            )
        network = drawn
    else:
        what = "one run of fedgs, or a drawing of fedgs.report.network.network"
        run = as_run(drawn, "client_graph", what=what)
        network = _network(run)
        if label_counts is None and run.clients is not None:
            label_counts = run.clients.label_counts
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
    with figure_style():
        drawing, axes = single_axes(3.3)
        _draw_edges(axes, network)
        _draw_clients(axes, network, counts=counts, available=available, cohort=cohort)
        axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal", title=title)
        axes.axis("off")
        labels = counts.shape[1]
        if label_counts is not None and labels <= 20:
            colours = {str(label): colour for label, colour in enumerate(label_colours(labels))}
            legend_patches(drawing, colours, title="label")
        return drawing


def _network(run: Run) -> Network:
    network = network_of_run(run)
    if network is None:
        raise OutputError(
            f"{run.name} kept no distances between its clients, so there is no graph to draw; "
            "give a run of fedgs"
        )
    return network


def _members(run: Run, round: int) -> tuple[BoolArray, BoolArray]:
    """(N,) available and (N,) selected clients of a round."""
    history = participation(run)
    rounds = 0 if history is None else history.rounds
    if history is None or not 0 <= round < rounds:
        raise ConfigError(f"round must be in 0 to {rounds - 1} for {run.name}; got {round}")
    selected = np.zeros(history.number, dtype=np.bool_)
    selected[history.cohorts[round]] = True
    return history.inside(round), selected


def _draw_edges(axes: "Axes", network: Network) -> None:
    """The edges as lines, paler the more there are."""
    from matplotlib.collections import LineCollection

    ends = list(network.positions[network.edges])
    alpha = float(np.clip(60 / max(len(ends), 1), 0.15, 0.9))
    axes.add_collection(LineCollection(ends, colors="#8A94A0", linewidths=0.4, alpha=alpha))


def _draw_clients(
    axes: "Axes",
    network: Network,
    *,
    counts: IntArray,
    available: BoolArray | None,
    cohort: BoolArray | None,
) -> None:
    """A pie for each client, pale if it is unavailable, with a ring if it is selected."""
    radius = float(0.32 / np.sqrt(len(counts)) if len(counts) > 40 else 0.05)
    colours = label_colours(counts.shape[1])
    for k, (x, y) in enumerate(network.positions.tolist()):
        alpha = 0.25 if available is not None and not available[k] else 1.0
        for wedge in _pie((x, y), radius, counts=counts[k], colours=colours):
            wedge.set(alpha=alpha, linewidth=0, zorder=3)
            axes.add_patch(wedge)
        if cohort is not None and cohort[k]:
            axes.add_patch(_ring((x, y), radius * 1.35))


def _pie(
    centre: tuple[float, float], radius: float, *, counts: IntArray, colours: Sequence[str]
) -> "list[Wedge]":
    """A client's labels as parts of a disc, clockwise from the top; grey without any example."""
    from matplotlib.patches import Wedge

    if counts.sum() == 0:
        return [Wedge(centre, radius, -270, 90, facecolor="#BBBBBB")]
    ends = 90 - 360 * np.concatenate([[0], np.cumsum(counts) / counts.sum()])
    return [
        Wedge(centre, radius, ends[label + 1], ends[label], facecolor=colours[label])
        for label in np.flatnonzero(counts).tolist()
    ]


def _ring(centre: tuple[float, float], radius: float) -> "Circle":
    from matplotlib.patches import Circle

    return Circle(centre, radius, fill=False, edgecolor="black", linewidth=1.2, zorder=4)
