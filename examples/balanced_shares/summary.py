"""Tables and figure of the study of balanced shares, from the rows that study.py wrote.

Usage: python summary.py [ROWS.csv] [FIGURE.png]

Without ROWS.csv, the stored rows are read.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from scipy import stats
from study import (
    DESIGN_MODES,
    DESIGN_RATE,
    MODES,
    PARTS,
    RATES,
    TUNING_MODES,
    Row,
    chosen_rates,
    learning_rates,
    read_rows,
    server_grid,
)

OURS, ORACLE = "balanced_shares", "known"
PLANNED = ("fedgs", "inverse_participation", "md")
PAPER = "synthetic_seed0"
LIMIT = 0.003
STORED = Path(__file__).resolve().parents[2] / "docs" / "records" / "balanced-shares" / "rows.csv"
# Methods whose tuning runs are those of a setting.
TUNED = {
    "fedgs": "fedgs",
    "inverse_participation": "fedgs, inverse participation",
    "balanced_shares": "shares, shrunk",
}


class Cells:
    """The confirming runs with the chosen learning rates, by federation, mode and method."""

    def __init__(self, rows: Sequence[Row], part: str = "confirm", ours: str = OURS) -> None:
        rates = chosen_rates(rows, part.replace("confirm", "tune"))
        self._rows = {
            (r.data, r.mode, r.method, r.seed): r
            for r in rows
            if r.part == part and r.rates == rates.get(r.method, r.rates)
        }
        seeds: dict[str, set[int]] = {}
        for data, _, _, seed in self._rows:
            seeds.setdefault(data, set()).add(seed)
        # Federations on which the runs of ours are complete, and the methods complete on these.
        self.seeds = {
            data: sorted(of_data)
            for data, of_data in seeds.items()
            if self._is_complete(ours, {data: of_data})
        }
        found = dict.fromkeys(key[2] for key in self._rows)
        order = {method: n for n, method in enumerate(PARTS[part][0])}
        self.methods = sorted(
            (m for m in found if self._is_complete(m, self.seeds)), key=order.__getitem__
        )

    def _is_complete(self, method: str, seeds: Mapping[str, Iterable[int]]) -> bool:
        return all(
            (data, mode, method, seed) in self._rows
            for data, of_data in seeds.items()
            for mode in MODES
            for seed in of_data
        )

    @property
    def others(self) -> list[str]:
        """The federations besides the paper's."""
        return [data for data in self.seeds if data != PAPER]

    def values(self, data: str, mode: str, method: str, column: str = "lowest") -> np.ndarray:
        """A column of the runs of a cell, one value a seed."""
        return np.array(
            [getattr(self._rows[data, mode, method, seed], column) for seed in self.seeds[data]]
        )

    def loss(self, data: str, mode: str, method: str) -> float:
        """The mean over seeds of the lowest test loss."""
        return float(self.values(data, mode, method).mean())

    def best(self, data: str, mode: str) -> tuple[float, str]:
        """The lowest loss of a cell and its method, known rates left out."""
        return min((self.loss(data, mode, m), m) for m in self.methods if m != ORACLE)


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table whose first column is text."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, rule, *lines])


def interval(differences: np.ndarray, digits: int = 3) -> str:
    """Mean and 95 % interval of paired differences."""
    middle = float(differences.mean())
    if len(differences) < 2:
        return f"{middle:+.{digits}f}"
    half = float(stats.t.ppf(0.975, len(differences) - 1) * stats.sem(differences))
    return f"{middle:+.{digits}f} [{middle - half:+.{digits}f}, {middle + half:+.{digits}f}]"


def loss_table(cells: Cells, federations: Sequence[str], digits: int = 3) -> str:
    """Mean lowest test loss over federations and seeds, a row for each method."""

    def line(method: str) -> list[str]:
        means = [np.mean([cells.loss(d, mode, method) for d in federations]) for mode in MODES]
        return [f"`{method}`", *(f"{mean:.{digits}f}" for mean in means)]

    return markdown(["method", *MODES], map(line, cells.methods))


def planned_table(cells: Cells, federations: Sequence[str]) -> str:
    """Paired differences of ours and the planned competitors, a row for each mode.

    Pairs are seeds if there is one federation, else federations.
    """

    def differences(mode: str, other: str) -> np.ndarray:
        of_federation = [
            cells.values(d, mode, OURS) - cells.values(d, mode, other) for d in federations
        ]
        return (
            of_federation[0]
            if len(federations) == 1
            else np.array([x.mean() for x in of_federation])
        )

    lines = [[mode, *(interval(differences(mode, m)) for m in PLANNED)] for mode in MODES]
    return markdown(["mode", *(f"minus `{m}`" for m in PLANNED)], lines)


def excess_table(cells: Cells) -> str:
    """By how much each method exceeds the best one of a cell, known rates left out."""

    def line(method: str) -> list[str]:
        excess = np.array(
            [
                cells.loss(data, mode, method) - cells.best(data, mode)[0]
                for data in cells.seeds
                for mode in MODES
            ]
        )
        above = int(np.sum(excess > LIMIT))
        return [
            f"`{method}`",
            f"{excess.mean():.4f}",
            f"{excess.max():.3f}",
            f"{above} of {excess.size}",
        ]

    methods = [m for m in cells.methods if m != ORACLE]
    return markdown(["method", "mean", "largest", f"above {LIMIT}"], map(line, methods))


def missed_table(cells: Cells) -> str:
    """The cells in which ours exceeds the best method by more than the limit."""
    lines = []
    for data in cells.seeds:
        for mode in MODES:
            best, method = cells.best(data, mode)
            ours = cells.loss(data, mode, OURS)
            if ours - best > LIMIT:
                bias = float(cells.values(data, mode, OURS, "bias").mean())
                other = float(cells.values(data, mode, method, "bias").mean())
                figures = (f"{value:.3f}" for value in (bias, other))
                row = [f"{data}, {mode}", f"{ours:.3f}", f"{best:.3f}", f"`{method}`", *figures]
                lines.append(row)
    lines = lines or [["none", *[""] * 5]]
    return markdown(["cell", "ours", "best", "method", "bias of ours", "its bias"], lines)


def above_ideal(cells: Cells, data: str, method: str) -> dict[str, float]:
    """Mode -> percent above the lowest IDL loss of any method."""
    ideal = min(cells.loss(data, "IDL", m) for m in cells.methods)
    return {mode: 100 * (cells.loss(data, mode, method) / ideal - 1) for mode in MODES}


def ideal_table(cells: Cells, data: str) -> str:
    """Percent above the lowest IDL loss of any method, and the worst mode."""

    def line(method: str) -> list[str]:
        percent = above_ideal(cells, data, method)
        return [
            f"`{method}`",
            *(f"{percent[m]:.1f}" for m in MODES),
            f"{max(percent.values()):.1f}",
        ]

    return markdown(["method", *MODES, "worst"], map(line, cells.methods))


def column_table(cells: Cells, column: str, digits: int = 3) -> str:
    """Means of another column over all federations."""

    def line(method: str) -> list[str]:
        means = [
            np.mean([cells.values(d, mode, method, column).mean() for d in cells.seeds])
            for mode in MODES
        ]
        return [f"`{method}`", *(f"{mean:.{digits}f}" for mean in means)]

    return markdown(["method", *MODES], map(line, cells.methods))


def tuning_table(rows: Sequence[Row], part: str = "tune") -> str:
    """Mean lowest loss over the tuning cells by learning rate; the chosen one in bold.

    The last column takes the best rate of each mode in place of one rate for all modes.
    """
    of_part = [row for row in rows if row.part == part]
    chosen = learning_rates(rows, part)
    rates = sorted({row.rate for row in of_part} | set(RATES))
    cells = {method: set[tuple[str, str]]() for method in chosen}
    for row in of_part:
        cells[row.method].add((row.data, row.mode))

    def mean(method: str, rate: float, mode: str | None = None) -> float:
        losses = [
            r.lowest
            for r in of_part
            if (r.method, r.rate) == (method, rate) and mode in (None, r.mode)
        ]
        needed = sum(mode in (None, of_cell) for _, of_cell in cells[method])
        return float(np.mean(losses)) if len(losses) == needed else np.nan

    def cell(method: str, rate: float) -> str:
        text = "" if np.isnan(mean(method, rate)) else f"{mean(method, rate):.3f}"
        return f"**{text}**" if rate == chosen[method] else text

    def of_best_rates(method: str) -> str:
        modes = {mode for _, mode in cells[method]}
        best = [np.nanmin([mean(method, rate, mode) for rate in rates]) for mode in modes]
        return f"{np.mean(best):.3f}"

    lines = [
        [f"`{m}`", *(cell(m, rate) for rate in rates), of_best_rates(m)]
        for m in PARTS[part][0]
        if m in chosen
    ]
    return markdown(["method", *(f"{rate:g}" for rate in rates), "best of each mode"], lines)


def server_table(rows: Sequence[Row], part: str = "tune") -> str:
    """Mean lowest loss of the pairs of a learning rate and a server rate, lowest in bold.

    One row for each method and server rate, over the cells of the server grid.
    """
    grids = {method: server_grid(rows, part, method) for method in PARTS[part][0]}
    locals_ = sorted({rates.local for grid in grids.values() for rates in grid})

    def line(method: str, server: float) -> list[str]:
        grid = grids[method]
        chosen = min(grid, key=grid.__getitem__)
        texts = {
            rates.local: f"{loss:.3f}" for rates, loss in grid.items() if rates.server == server
        }
        if chosen.server == server:
            texts[chosen.local] = f"**{texts[chosen.local]}**"
        return [f"`{method}`", f"{server:g}", *(texts.get(rate, "") for rate in locals_)]

    lines = [
        line(method, server)
        for method, grid in grids.items()
        for server in sorted({rates.server for rates in grid})
    ]
    return markdown(["method", "η_g", *(f"{rate:g}" for rate in locals_)], lines)


def design_table(rows: Sequence[Row], modes: Sequence[str], federations: Sequence[str]) -> str:
    """Mean lowest loss of the settings that were run on all these federations."""
    losses = {
        (r.method if r.part == "design" else TUNED.get(r.method, ""), r.mode, r.data): r.lowest
        for r in rows
        if (r.part == "design" or (r.part, r.rate) == ("tune", DESIGN_RATE))
    }
    lines = []
    for setting in PARTS["design"][0]:
        if all((setting, mode, data) in losses for mode in modes for data in federations):
            means = [
                float(np.mean([losses[setting, mode, data] for data in federations]))
                for mode in modes
            ]
            lines.append([setting, *(f"{x:.4f}" for x in means), f"{np.mean(means):.4f}"])
    return markdown(["setting", *modes, "mean"], lines)


def designs(rows: Sequence[Row]) -> list[tuple[Sequence[str], list[str]]]:
    """(modes, federations) of each table of settings: the first two, and all if there are more."""
    federations = sorted({row.data for row in rows if row.part == "design"})
    tables: list[tuple[Sequence[str], list[str]]] = []
    if federations:
        tables.append((DESIGN_MODES, federations[:2]))
    if len(federations) > 2:
        tables.append((TUNING_MODES, federations))
    return tables


def draw(cells: Cells, picture: Path, highest: float = 45.0) -> None:
    """Loss above IDL by mode: the paper's federation and the mean over the others."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    panels: list[tuple[str, list[str]]] = [("the paper's federation", [PAPER])]
    if cells.others:
        panels.append((f"mean of {len(cells.others)} federations", cells.others))
    figure, axes = plt.subplots(1, len(panels), figsize=(9, 3.6), sharey=True, squeeze=False)
    for axis, (title, federations) in zip(axes[0], panels, strict=True):
        for i, method in enumerate(cells.methods):
            percent = [above_ideal(cells, data, method) for data in federations]
            heights = [np.mean([p[mode] for p in percent]) for mode in MODES]
            style = {"lw": 1.1, "ls": "-" if i < 10 else ":"}  # there are ten colours
            if method == OURS:
                style = {"color": "black", "lw": 2.4}
            if method == ORACLE:
                style = {"color": "0.6", "lw": 1.1, "ls": "--"}
            marker, style = "os^DvPXh<>*dp"[i % 13], {"color": f"C{i % 10}", **style}
            axis.plot(MODES, heights, marker=marker, markersize=4, label=method, **style)
        axis.set_title(title)
        axis.set_ylim(-3, highest)
    axes[0][0].set_ylabel("lowest test loss above IDL, %")
    axes[0][-1].legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1))
    figure.tight_layout()
    figure.savefig(picture, dpi=120)


def report(rows: Sequence[Row]) -> str:
    """All tables, as Markdown."""
    cells = Cells(rows)
    parts: list[tuple[str, Callable[[], str]]] = [
        ("Learning rates", lambda: tuning_table(rows)),
        ("The paper's federation", lambda: loss_table(cells, [PAPER])),
        ("Above the lowest IDL loss, %", lambda: ideal_table(cells, PAPER)),
        ("Planned comparisons on the paper's federation", lambda: planned_table(cells, [PAPER])),
        (
            f"Mean over data.seed {', '.join(cells.others)}",
            lambda: loss_table(cells, cells.others),
        ),
        ("Planned comparisons over these", lambda: planned_table(cells, cells.others)),
        ("Above the best method of a cell", lambda: excess_table(cells)),
        (f"Cells more than {LIMIT} above the best", lambda: missed_table(cells)),
        ("Bias", lambda: column_table(cells, "bias")),
        ("Variance of the weights of a round", lambda: column_table(cells, "weight_variance", 2)),
    ]
    tuned = {row.part for row in rows}
    if "tune_server" in tuned:
        parts.append(("Server rates", lambda: server_table(rows)))
    if "tune_all" in tuned:
        parts.append(("Learning rates, M = N", lambda: tuning_table(rows, "tune_all")))
    if "tune_all_server" in tuned:
        parts.append(("Server rates, M = N", lambda: server_table(rows, "tune_all")))
    unlimited = Cells(rows, "confirm_all", "deficit")
    if unlimited.seeds:
        federations = list(unlimited.seeds)
        parts += [
            ("All available clients train", lambda: loss_table(unlimited, federations)),
            (
                "Variance of the weights, M = N",
                lambda: column_table(unlimited, "weight_variance", 2),
            ),
            ("Bias, M = N", lambda: column_table(unlimited, "bias")),
        ]
    parts += [
        (f"Settings on data.seed {', '.join(of)}", partial(design_table, rows, modes, of))
        for modes, of in designs(rows)
    ]
    return "\n\n".join(f"**{title}**\n\n{table()}" for title, table in parts)


if __name__ == "__main__":
    given = {Path(argument).suffix: Path(argument) for argument in sys.argv[1:]}
    stored = read_rows(given.get(".csv", STORED))
    print(report(stored))
    if ".png" in given:
        draw(Cells(stored), given[".png"])
