"""Tables and figure of the study of balanced shares, from the rows that study.py wrote.

Usage: python summary.py ROWS.csv [FIGURE.png]
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from scipy import stats
from study import MODES, RATES, Row, chosen_rates, read_rows

OURS, ORACLE = "balanced_shares", "known"
PLANNED = ("fedgs", "inverse_participation", "md")
PAPER = "synthetic_seed0"
LIMIT = 0.003


class Cells:
    """The confirming runs by federation, mode and method."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = {(r.data, r.mode, r.method, r.seed): r for r in rows if r.part == "confirm"}
        self.methods = list(dict.fromkeys(key[2] for key in self._rows))
        seeds: dict[str, set[int]] = {}
        for data, _, _, seed in self._rows:
            seeds.setdefault(data, set()).add(seed)
        # Federations whose runs are complete.
        self.seeds = {
            data: sorted(of_data)
            for data, of_data in seeds.items()
            if all(
                (data, mode, method, seed) in self._rows
                for mode in MODES
                for method in self.methods
                for seed in of_data
            )
        }

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


def tuning_table(rows: Sequence[Row]) -> str:
    """Mean lowest loss over the tuning cells by learning rate; the chosen one in bold."""
    chosen = chosen_rates(rows)
    rates = sorted({row.rate for row in rows if row.part == "tune"} | set(RATES))

    def cell(method: str, rate: float) -> str:
        losses = [r.lowest for r in rows if (r.part, r.method, r.rate) == ("tune", method, rate)]
        text = f"{np.mean(losses):.3f}" if losses else ""
        return f"**{text}**" if rate == chosen[method] else text

    lines = [[f"`{m}`", *(cell(m, rate) for rate in rates)] for m in chosen]
    return markdown(["method", *(f"{rate:g}" for rate in rates)], lines)


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
            style = {"color": "black", "lw": 2.4} if method == OURS else {"lw": 1.1}
            if method == ORACLE:
                style = {"color": "0.6", "lw": 1.1, "ls": "--"}
            marker = "os^DvPXh<>"[i % 10]
            axis.plot(MODES, heights, marker=marker, markersize=4, label=method, **style)
        axis.set_title(title)
        axis.set_ylim(-8, highest)
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
    return "\n\n".join(f"**{title}**\n\n{table()}" for title, table in parts)


if __name__ == "__main__":
    stored = read_rows(Path(sys.argv[1]))
    print(report(stored))
    if len(sys.argv) > 2:
        draw(Cells(stored), Path(sys.argv[2]))
