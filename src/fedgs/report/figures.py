"""Figures for papers, from stored runs and arrays: one column wide, vector and pixel, colour-blind safe.

Every function returns a matplotlib `Figure` and touches no global state; `save_figure` writes it as PDF and PNG.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedgs.arrays import BoolArray, FloatMatrix, IntArray
from fedgs.errors import OutputError
from fedgs.report.canvas import canvas, legend_below, legend_patches, save_figure, single_axes, style
from fedgs.report.history import curve, participation
from fedgs.report.network import Network
from fedgs.report.run import Run
from fedgs.report.style import AVAILABLE, AWAY, Look, label_colours, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "active_states",
    "client_graph",
    "loss_curves",
    "participation_map",
    "partition",
    "rates_map",
    "sampling_counts",
    "save_figure",
]

_SELECTED = "#D55E00"
_LINES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}


def loss_curves(
    runs: Sequence[Run], *, figure: str = "test_loss", title: str = "", styles: Mapping[str, Look] | None = None
) -> "Figure":
    """A figure of merit over rounds: mean over seeds, the band is one standard deviation.

    Args:
        runs: of one group, labelled.
        figure: "test_loss", "valid_loss" or "test_accuracy".
        title: above the axes.
        styles: looks by label; None: those of these runs.
    """
    styles = styles or looks(runs)
    with style():
        drawing, axes = single_axes(2.3)
        curves = {label: curve([run for run in runs if run.label == label], figure) for label in sorted({r.label for r in runs})}
        for label, one in curves.items():
            look = styles[label]
            axes.plot(one.rounds, one.mean, color=look.colour, linestyle=_LINES[look.dash], linewidth=1.2, label=label)
            if one.seeds > 1:
                band = (one.mean - one.spread, one.mean + one.spread)
                axes.fill_between(one.rounds, *band, color=look.colour, alpha=0.18, linewidth=0)
        if figure != "test_accuracy":
            _loss_limits(axes, [one.mean for one in curves.values()])
        axes.set(xlabel="round", ylabel=figure.replace("_", " ").replace("valid", "validation"), title=title)
        axes.margins(x=0)
        legend_below(drawing, axes)
        return drawing


def _loss_limits(axes: "Axes", means: Sequence[np.ndarray]) -> None:
    """Leave the first steep rounds out of the range, so that the methods can be told apart."""
    parts = [mean[len(mean) // 4 :] for mean in means if len(mean)]
    if parts:
        low, high = min(part.min() for part in parts), max(part.max() for part in parts)
        room = 0.08 * (high - low) or 0.1 * abs(high) or 0.1
        axes.set_ylim(low - room, high + room)


def sampling_counts(runs: Sequence[Run], *, title: str = "", styles: Mapping[str, Look] | None = None) -> "Figure":
    """In how many rounds each client was selected, most selected first, mean over seeds; a level line is balance."""
    styles = styles or looks(runs)
    with style():
        drawing, axes = single_axes(2.2)
        for label in sorted({run.label for run in runs}):
            histories = [history for run in runs if run.label == label and (history := participation(run)) is not None]
            if histories:
                ranked = np.mean([np.sort(history.counts)[::-1] for history in histories], axis=0)
                look = styles[label]
                edges = np.arange(len(ranked) + 1) + 0.5
                axes.stairs(
                    ranked, edges, color=look.colour, linestyle=_LINES[look.dash], linewidth=1.2, label=label, baseline=None
                )
        axes.set(xlabel="clients, most selected first", ylabel="rounds selected", title=title)
        axes.set_ylim(bottom=0)
        axes.margins(x=0)
        legend_below(drawing, axes)
        return drawing


def participation_map(run: Run, *, title: str = "") -> "Figure":
    """Clients by rounds: away, available, selected; clients with the most data on top.

    Raises:
        OutputError: the run's clients are not known.
    """
    history = participation(run)
    if history is None or run.clients is None:
        raise OutputError(f"{run.name} has no readable clients.npz, so its clients cannot be drawn")
    order = np.argsort(-run.clients.data_sizes, kind="stable")
    states = history.available.astype(np.int64) + history.selected
    with style():
        drawing, axes = single_axes(2.4)
        _draw_states(axes, states[order], (AWAY, AVAILABLE, _SELECTED))
        axes.set(xlabel="round", ylabel="clients, most data on top", title=title)
        legend_patches(drawing, {"available": AVAILABLE, "selected": _SELECTED})
        return drawing


def active_states(panels: Sequence[tuple[str, BoolArray]], *, columns: int = 2) -> "Figure":
    """Who was available, clients by rounds, one panel a mode.

    Args:
        panels: (title, (N, T) activity).
        columns: panels beside each other.
    """
    rows = -(-len(panels) // columns)
    with style():
        drawing = canvas(1.35 * rows + 0.2)
        grid = drawing.subplots(rows, columns, squeeze=False)
        for axes, (title, active) in zip(grid.flat, panels, strict=False):
            _draw_states(axes, active.astype(np.int64), (AWAY, "#2B5C8A"))
            axes.set_title(title)
        for axes in list(grid.flat)[len(panels) :]:
            axes.set_visible(False)
        for axes in grid[-1]:
            axes.set_xlabel("round")
        for axes in grid[:, 0]:
            axes.set_ylabel("client")
        return drawing


def rates_map(rates: FloatMatrix, *, title: str = "") -> "Figure":
    """Rates of availability, clients by rounds.

    Args:
        rates: (N, T) in [0, 1].
        title: above the axes.
    """
    with style():
        drawing, axes = single_axes(2.2)
        image = axes.imshow(rates, aspect="auto", interpolation="nearest", cmap="cividis", vmin=0, vmax=1, rasterized=True)
        drawing.colorbar(image, ax=axes, label="probability of being available")
        axes.set(xlabel="round", ylabel="client", title=title)
        return drawing


def partition(label_counts: IntArray, *, title: str = "", label_names: Sequence[str] = ()) -> "Figure":
    """Who holds what: one horizontal bar a client, training examples stacked by label, clients with the most data on top."""
    counts = np.asarray(label_counts)
    order = np.argsort(counts.sum(axis=1), kind="stable")
    names = list(label_names) or [str(label) for label in range(counts.shape[1])]
    with style():
        drawing, axes = single_axes(2.9)
        left = np.zeros(len(counts))
        for label, colour in enumerate(label_colours(counts.shape[1])):
            width = counts[order, label]
            axes.barh(np.arange(len(counts)), width, left=left, height=1.0, color=colour, label=names[label], linewidth=0)
            left += width
        axes.set(xlabel="training examples", ylabel="clients, most data on top", title=title, yticks=[])
        axes.margins(x=0, y=0)
        if counts.shape[1] <= 20:
            legend_below(drawing, axes, title="label")
        return drawing


def client_graph(
    drawn: Network,
    label_counts: IntArray | None,
    *,
    available: BoolArray | None = None,
    cohort: BoolArray | None = None,
    title: str = "",
) -> "Figure":
    """The client graph (3DG), each client a pie of its labels.

    Args:
        drawn: positions and edges.
        label_counts: (N, C), or None: plain dots.
        available, cohort: (N,) of one round, or None; who is away is pale, who is selected has a ring.
        title: above the drawing.
    """
    from matplotlib.collections import LineCollection

    counts = np.ones((len(drawn.positions), 1), dtype=np.int64) if label_counts is None else label_counts
    with style():
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
        if label_counts is not None and counts.shape[1] <= 20:
            legend_patches(drawing, {str(label): colour for label, colour in enumerate(colours)}, title="label")
        return drawing


def _edge_alpha(edges: int) -> float:
    return float(np.clip(60 / max(edges, 1), 0.15, 0.9))


def _pie(axes: "Axes", centre: np.ndarray, radius: float, counts: np.ndarray, colours: Sequence[str], alpha: float) -> None:
    from matplotlib.patches import Wedge

    ends = 90 - 360 * np.concatenate([[0], np.cumsum(counts) / counts.sum()])
    for label in np.flatnonzero(counts).tolist():
        wedge = Wedge(
            (centre[0], centre[1]), radius, ends[label + 1], ends[label], facecolor=colours[label], alpha=alpha, linewidth=0
        )
        wedge.set_zorder(3)
        axes.add_patch(wedge)


def _ring(axes: "Axes", centre: np.ndarray, radius: float) -> None:
    from matplotlib.patches import Circle

    ring = Circle((centre[0], centre[1]), radius, fill=False, edgecolor="black", linewidth=1.2)
    ring.set_zorder(4)
    axes.add_patch(ring)


def _draw_states(axes: "Axes", states: IntArray, colours: Sequence[str]) -> None:
    from matplotlib.colors import ListedColormap

    look: dict[str, Any] = {"aspect": "auto", "interpolation": "nearest", "vmin": 0, "vmax": len(colours) - 1, "rasterized": True}
    axes.imshow(states, cmap=ListedColormap(list(colours)), **look)
    for side in ("top", "right"):
        axes.spines[side].set_visible(True)
