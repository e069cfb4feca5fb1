"""Figures for papers, from stored runs and arrays: one column wide, safe for colour-blind readers.

Every function returns a matplotlib `Figure` and changes no global state; `save_figure` writes it as
PDF and PNG. Runs are given as `read_runs` returns them, one or several, or as the results of
`fedgs.compare`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from fedgs.arrays import AnyArray, BoolArray, FloatArray, FloatMatrix, IntArray
from fedgs.clients import Clients
from fedgs.errors import ConfigError, OutputError
from fedgs.palette import label_colours
from fedgs.report.canvas import (
    canvas,
    figure_style,
    legend_below,
    legend_patches,
    line_widths,
    panels,
    save_figure,
    single_axes,
    whole_numbers,
)
from fedgs.report.client_groups import (
    MOST_ROWS,
    TENTHS,
    group_activity,
    mean_rows,
    picked,
    tenths,
)
from fedgs.report.client_plots import losses_by_client
from fedgs.report.drawing import client_graph
from fedgs.report.history import Curve, Participation, curve, participation, runs_to_average
from fedgs.report.hours import time_curve
from fedgs.report.metric_columns import further_figures
from fedgs.report.run_view import Run
from fedgs.report.style import AVAILABLE, UNAVAILABLE, Look, looks
from fedgs.report.subjects import (
    as_label_counts,
    as_matrix,
    as_run,
    as_runs,
    description,
    group_titles,
    rates_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "active_states",
    "client_graph",
    "loss_curves",
    "losses_by_client",
    "participation_map",
    "partition",
    "rates_map",
    "sampling_counts",
    "save_figure",
]

_MOST_STEPS = 20_000  # of a curve over clients
_SELECTED, _ACTIVE = "#D55E00", "#2B5C8A"
_LINES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
_LOSSES = ("test_loss", "valid_loss")
_FIGURES = {
    "test_loss": "test loss",
    "valid_loss": "validation loss",
    "test_accuracy": "test accuracy",
}


def loss_curves(
    runs: Run | Iterable[Run],
    *,
    figure: str = "test_loss",
    title: str = "",
    styles: Mapping[str, Look] | None = None,
    over: Literal["rounds", "hours"] = "rounds",
) -> "Figure":
    """A figure of merit over rounds: mean over seeds, the band is one standard deviation.

    Each data set and mode has a panel of its own. Failed runs are left out of the mean; a method
    whose runs all failed is drawn up to the failure and marked, if it lies in the range of the
    others. A method that was never evaluated is not in the legend. Of equal curves, the first has a
    wide line, on which the others are drawn.

    Args:
        runs: finished or not.
        figure: "test_loss", "valid_loss", "test_accuracy", or "test_" or "valid_" and the name of a
            metric.
        title: above the axes, if there is one panel.
        styles: looks by label; None: those of these runs.
        over: "rounds", or "hours" of runs with a clock, as far as all seeds of a method go.

    Raises:
        ConfigError: no runs, or no such figure or axis.
        OutputError: no run has the figure, or a clock.
    """
    runs = as_runs(runs, "loss_curves")
    if over not in ("rounds", "hours"):
        raise ConfigError(f"over must be 'rounds' or 'hours'; got {over!r}")
    names = _FIGURES | further_figures(runs)
    if figure not in names:
        raise ConfigError(f"figure must be one of {', '.join(map(repr, names))}; got {figure!r}")
    curves = {
        group: _curves([run for run in runs if run.group == group], figure, over)
        for group in _groups(runs)
    }
    curves = {group: of_group for group, of_group in curves.items() if of_group}
    if not curves and over == "hours":
        raise OutputError(f"no run has a clock and a {names[figure]} to draw")
    if not curves:
        others = [name for name in names if any(_curves(runs, name))]
        instead = f"; there is figure={others[0]!r}" if others else ""
        raise OutputError(f"no run has a {names[figure]} to draw{instead}")
    styles = {**looks(runs), **(styles or {})}
    with figure_style():
        drawing, every = panels(_titles(list(curves), title), 2.3)
        for axes, of_group in zip(every, curves.values(), strict=True):
            _draw_curves(axes, of_group, styles, is_loss=figure in _LOSSES)
            axes.set(xlabel="round" if over == "rounds" else "hours", ylabel=names[figure])
            if over == "rounds":
                whole_numbers(axes.xaxis)
        legend_below(drawing, every)
        return drawing


def _groups(runs: Sequence[Run]) -> list[tuple[str, str]]:
    return sorted({run.group for run in runs})


def _titles(groups: Sequence[tuple[str, str]], title: str) -> list[str]:
    return [title] if len(groups) == 1 else group_titles(groups)


def _curves(
    runs: Sequence[Run], figure: str, over: str = "rounds"
) -> dict[str, tuple[Curve, bool]]:
    """Label -> mean curve, and whether all its runs failed; only labels with a value."""
    curves = {}
    for label in sorted({run.label for run in runs}):
        averaged, all_failed = runs_to_average([run for run in runs if run.label == label])
        mean_curve = (curve if over == "rounds" else time_curve)(averaged, figure)
        if len(mean_curve.rounds):
            curves[label] = (mean_curve, all_failed)
    return curves


def _draw_curves(
    axes: "Axes",
    curves: Mapping[str, tuple[Curve, bool]],
    styles: Mapping[str, Look],
    *,
    is_loss: bool,
) -> None:
    """The curves of one panel; for losses, in a range in which the methods differ visibly."""
    limits = None
    if is_loss:
        limits = _loss_limits([drawn for drawn, failed in curves.values() if not failed])
    visible = {
        label: (drawn, failed)
        for label, (drawn, failed) in curves.items()
        if not failed or limits is None or _is_visible(drawn, limits)
    }
    widths = line_widths([(drawn.rounds, drawn.mean) for drawn, _ in visible.values()])
    for (label, (drawn, failed)), width in zip(visible.items(), widths, strict=True):
        entry = _legend_entry(label, failed)
        _draw_curve(axes, drawn, styles[label], label=entry, width=width)
    if limits is not None:
        axes.set_ylim(limits)
    axes.margins(x=0 if any(len(drawn.rounds) > 1 for drawn, _ in curves.values()) else 0.05)


def _legend_entry(label: str, failed: bool) -> str:
    return f"{label} (failed)" if failed else label


def _draw_curve(axes: "Axes", drawn: Curve, look: Look, *, label: str, width: float) -> None:
    axes.plot(
        drawn.rounds,
        drawn.mean,
        color=look.colour,
        linestyle=_LINES[look.dash],
        linewidth=width,
        marker=look.marker if len(drawn.rounds) == 1 else "",  # a line of one point is invisible
        label=label,
    )
    if drawn.seeds > 1:
        low, high = drawn.mean - drawn.spread, drawn.mean + drawn.spread
        axes.fill_between(drawn.rounds, low, high, color=look.colour, alpha=0.18, linewidth=0)


def _loss_limits(curves: Sequence[Curve]) -> tuple[float, float] | None:
    """A range without the first, steep quarter of the rounds, so that methods differ visibly.

    The bands of later rounds lie inside it.
    """
    if not curves:
        return None
    begin = max(drawn.rounds[-1] for drawn in curves) / 4
    late = [(drawn, drawn.rounds >= begin) for drawn in curves]
    low = min((drawn.mean - drawn.spread)[shown].min() for drawn, shown in late if shown.any())
    high = max((drawn.mean + drawn.spread)[shown].max() for drawn, shown in late if shown.any())
    room = 0.08 * (high - low) or 0.1 * abs(high) or 0.1
    return float(low - room), float(high + room)


def _is_visible(drawn: Curve, limits: tuple[float, float]) -> bool:
    return bool(((drawn.mean >= limits[0]) & (drawn.mean <= limits[1])).any())


def sampling_counts(
    runs: Run | Iterable[Run], *, title: str = "", styles: Mapping[str, Look] | None = None
) -> "Figure":
    """The number of rounds that selected each client, most selected first, mean over seeds.

    A horizontal line means that all clients were selected equally often. Each data set and mode has
    a panel of its own.

    Args:
        runs: finished or not.
        title: above the axes, if there is one panel.
        styles: looks by label; None: those of these runs.

    Raises:
        ConfigError: no runs.
        OutputError: no run has readable clients.
    """
    runs = [run for run in as_runs(runs, "sampling_counts") if run.clients is not None]
    if not runs:
        raise OutputError("no run has a readable clients.npz, so no counts can be drawn")
    styles = {**looks(runs), **(styles or {})}
    groups = _groups(runs)
    with figure_style():
        drawing, every = panels(_titles(groups, title), 2.2)
        for axes, group in zip(every, groups, strict=True):
            _draw_counts(axes, [run for run in runs if run.group == group], styles)
        legend_below(drawing, every)
        return drawing


def _draw_counts(axes: "Axes", runs: Sequence[Run], styles: Mapping[str, Look]) -> None:
    ranks: dict[str, tuple[FloatArray, bool]] = {}
    for label in sorted({run.label for run in runs}):
        averaged, all_failed = runs_to_average([run for run in runs if run.label == label])
        counts = [history.counts for run in averaged if (history := participation(run)) is not None]
        ranks[label] = _mean_ranked(counts), all_failed
    widths = line_widths([(ranked,) for ranked, _ in ranks.values()])
    for (label, (ranked, all_failed)), width in zip(ranks.items(), widths, strict=True):
        look = styles[label]
        steps = np.linspace(0, len(ranked), min(len(ranked), _MOST_STEPS) + 1).astype(np.int64)
        axes.stairs(
            ranked[steps[:-1]],
            steps + 0.5,
            label=_legend_entry(label, all_failed),
            color=look.colour,
            linestyle=_LINES[look.dash],
            linewidth=width,
            baseline=None,
        )
    axes.set(xlabel="clients, most selected first", ylabel="rounds selected")
    axes.set_ylim(bottom=0)
    axes.margins(x=0)
    whole_numbers(axes.xaxis)


def _mean_ranked(counts: Sequence[IntArray]) -> FloatArray:
    """(N,) means of the counts at each rank; runs with fewer clients count 0 at the last ranks."""
    most = max(map(len, counts))
    ranked = [np.pad(np.sort(of_run)[::-1], (0, most - len(of_run))) for of_run in counts]
    return np.asarray(np.mean(ranked, axis=0))


def participation_map(run: Run | Iterable[Run], *, title: str = "") -> "Figure":
    """Clients by rounds: unavailable, available or selected; clients with the most data on top.

    Of more than 100,000 clients, tenths by data size are drawn: the share that is available.

    Args:
        run: one run.
        title: above the axes.

    Raises:
        ConfigError: not one run.
        OutputError: the run's clients are not known.
    """
    run = as_run(run, "participation_map")
    clients, history = _participation(run)
    if len(clients) > MOST_ROWS:
        shares = group_activity(tenths(clients)[::-1], history)
        return _rates_drawing(shares, "share available", TENTHS, title)
    order = np.argsort(-clients.data_sizes, kind="stable")
    available, selected = history.rows(order)
    states = available.astype(np.int64) + selected
    with figure_style():
        drawing, axes = single_axes(2.4)
        _draw_states(axes, states, (UNAVAILABLE, AVAILABLE, _SELECTED))
        axes.set(xlabel="round", ylabel=_clients_by_size(clients.data_sizes), title=title)
        legend_patches(drawing, {"available": AVAILABLE, "selected": _SELECTED})
        return drawing


def _clients_by_size(sizes: IntArray) -> str:
    """The name of an axis with the clients by their data sizes."""
    return "clients" if len(np.unique(sizes)) <= 1 else "clients, most data on top"


def _participation(run: Run) -> tuple[Clients, Participation]:
    """The run's clients and their participation; an `OutputError` if there is nothing to draw."""
    history = participation(run)
    if run.clients is None or history is None:
        raise OutputError(f"{run.name} has no readable clients.npz, so its clients cannot be drawn")
    if history.rounds == 0 or history.number == 0:
        raise OutputError(f"{run.name} has no round yet that could be drawn")
    return run.clients, history


def active_states(
    subject: Run | Iterable[Run] | Sequence[tuple[str, BoolArray]], *, columns: int = 2
) -> "Figure":
    """Available clients by round, one panel for each mode.

    The clients that are available in the most rounds are on top of each panel. Where the last row
    has fewer panels than the others, its last panel is wider.

    Args:
        subject: runs, of which one of each data set and mode is drawn; or panels (title, (N, T)
            activity).
        columns: the number of panels in a row.

    Raises:
        ConfigError: neither runs nor panels.
        OutputError: a run's clients are not known.
    """
    shown = _availability_panels(subject)
    if not isinstance(columns, int) or columns < 1:
        raise ConfigError(f"columns must be an integer of at least 1; got {columns!r}")
    rows = -(-len(shown) // columns)
    with figure_style():
        drawing = canvas(1.35 * rows + 0.5)
        grid = drawing.add_gridspec(rows, columns)
        for number, (title, available) in enumerate(shown):
            row, column = divmod(number, columns)
            is_last = number == len(shown) - 1
            axes = drawing.add_subplot(grid[row, column:] if is_last else grid[row, column])
            order = np.argsort(-available.sum(axis=1), kind="stable")
            _draw_states(axes, available[order].astype(np.int64), (UNAVAILABLE, _ACTIVE))
            axes.set_title(title)
            axes.set_xlabel("round" if row == rows - 1 else "")
        drawing.supylabel("clients, most available on top", fontsize="medium")
        legend_patches(drawing, {"available": _ACTIVE, "not available": UNAVAILABLE})
        return drawing


def _availability_panels(subject: object) -> list[tuple[str, AnyArray]]:
    """(title, (N, T) available clients) of each panel."""
    parts = list(subject) if isinstance(subject, Iterable) else []
    if parts and all(isinstance(part, tuple) and len(part) == 2 for part in parts):
        what = "(N, T) activity in each panel (title, activity)"
        return [
            (str(title), as_matrix(available, "active_states", what, low=0, high=1))
            for title, available in parts
        ]
    if not all(isinstance(part, Run) for part in parts):
        raise ConfigError(
            "active_states takes runs, or panels (title, (N, T) activity); "
            f"got {description(parts)}"
        )
    runs = as_runs(parts if isinstance(subject, Iterable) else subject, "active_states")
    groups = _groups(runs)
    first = [next(run for run in runs if run.group == group) for group in groups]
    titles = group_titles(groups)
    return [(title, _picked_rows(run)) for title, run in zip(titles, first, strict=True)]


def _picked_rows(run: Run) -> BoolArray:
    """(n, T) available clients; of more than 100,000, the rows of 1500 picked by data size."""
    clients, history = _participation(run)
    rows = picked(clients) if len(clients) > MOST_ROWS else slice(None)
    return history.rows(rows)[0]


def rates_map(rates: Run | Iterable[Run] | FloatMatrix, *, title: str = "") -> "Figure":
    """Rates of availability, clients by rounds.

    Args:
        rates: (N, T) in [0, 1]; or one run, whose mode gives its rates in all rounds.
        title: above the axes.

    Raises:
        ConfigError: not a matrix of rates and not one run.
        OutputError: the run's mode is not registered here, or its clients are not known.
    """
    is_run = isinstance(rates, Run) or (
        isinstance(rates, Sequence) and any(isinstance(item, Run) for item in rates)
    )
    if is_run or hasattr(rates, "runs"):
        shown = rates_of(as_run(rates, "rates_map"), "rates_map")
    else:
        what = "a run, or (N, T) rates in [0, 1], clients by rounds"
        shown = as_matrix(rates, "rates_map", what, low=0, high=1)
    return _rates_drawing(shown, "probability of being available", "client", title)


def _rates_drawing(rates: FloatMatrix, what: str, rows: str, title: str) -> "Figure":
    with figure_style():
        drawing, axes = single_axes(2.2)
        image = axes.imshow(
            rates,
            aspect="auto",
            interpolation="nearest",
            cmap="cividis",
            vmin=0,
            vmax=1,
            rasterized=True,
        )
        drawing.colorbar(image, ax=axes, label=what)
        axes.set(xlabel="round", ylabel=rows, title=title)
        whole_numbers(axes.xaxis, axes.yaxis)
        return drawing


def partition(
    subject: Run | Iterable[Run] | Clients | IntArray,
    *,
    title: str = "",
    label_names: Sequence[str] = (),
) -> "Figure":
    """Labels of the clients: a horizontal bar for each client, training examples stacked by label.

    Clients with the most data are on top. Of more than 100,000 clients, tenths by data size are
    drawn: a bar is the mean of its clients.

    Args:
        subject: (N, C) label counts, `Clients` that have them, or runs that share their clients.
        title: above the axes.
        label_names: C names; empty: the labels' numbers.

    Raises:
        ConfigError: none of these, runs of different clients, or another number of names.
        OutputError: the clients of a run, or their labels, are not known.
    """
    counts: AnyArray = as_label_counts(subject, "partition")
    ylabel = _clients_by_size(counts.sum(axis=1))
    if len(counts) > MOST_ROWS:
        counts, ylabel = mean_rows(counts), TENTHS
    order = np.argsort(counts.sum(axis=1), kind="stable")
    names = list(label_names) or [str(label) for label in range(counts.shape[1])]
    if len(names) != counts.shape[1]:
        raise ConfigError(
            f"label_names must be {counts.shape[1]} names, one a label; got {len(names)}"
        )
    with figure_style():
        drawing, axes = single_axes(2.9)
        left = np.zeros(len(counts))
        for label, colour in enumerate(label_colours(counts.shape[1])):
            width = counts[order, label]
            axes.barh(
                np.arange(len(counts)),
                width,
                left=left,
                height=1.0,
                color=colour,
                label=names[label],
                linewidth=0,
            )
            left += width
        axes.set(xlabel="training examples", ylabel=ylabel, title=title, yticks=[])
        axes.set(xlim=(0, 1.03 * max(left.max(), 1)), ylim=(-0.5, len(counts) - 0.5))
        if counts.shape[1] <= 20:
            legend_below(drawing, axes, title="label")
        return drawing


def _draw_states(axes: "Axes", states: IntArray, colours: Sequence[str]) -> None:
    from matplotlib.colors import ListedColormap

    axes.imshow(
        states,
        cmap=ListedColormap(list(colours)),
        aspect="auto",
        interpolation="nearest",
        vmin=0,
        vmax=len(colours) - 1,
        rasterized=True,
    )
    whole_numbers(axes.xaxis, axes.yaxis)
    for side in ("top", "right"):
        axes.spines[side].set_visible(True)
