"""Tables and figure of the study of realistic availability, from the rows that study.py wrote.

Usage: python summary.py ROWS.csv [FIGURE.png]
"""

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from study import EVERY, PAPER, RATES, REALISTIC, Row, chosen_rates, read_rows

REFERENCE = "uniform"
SHOWN = ("md", "fedgs", "inverse_participation", "balanced_shares", "mifa", "fedau")


class Cells:
    """The runs of a part by condition, method and federation."""

    def __init__(self, rows: Iterable[Row], part: str) -> None:
        self._rows = {(r.condition, r.method, r.federation): r for r in rows if r.part == part}
        self.conditions = list(dict.fromkeys(key[0] for key in self._rows))
        self.methods = list(dict.fromkeys(key[1] for key in self._rows))

    def of(self, condition: str, method: str) -> dict[int, Row]:
        """Federation -> the run."""
        return {f: r for (c, m, f), r in self._rows.items() if (c, m) == (condition, method)}

    def loss(self, condition: str, method: str, column: str = "lowest") -> float:
        """The mean over federations of a column; NaN without a run."""
        values = [getattr(row, column) for row in self.of(condition, method).values()]
        return float(np.mean(values)) if values else math.nan

    def differences(self, condition: str, method: str, other: str = REFERENCE) -> np.ndarray:
        """Lowest loss minus that of another method, for the federations that both have."""
        own, others = self.of(condition, method), self.of(condition, other)
        common = sorted(own.keys() & others.keys())
        return np.array([own[f].lowest - others[f].lowest for f in common])

    def best(self, condition: str) -> str:
        """The method with the lowest mean loss."""
        return min(
            (method for method in self.methods if self.of(condition, method)),
            key=lambda method: self.loss(condition, method),
        )

    def target(self, condition: str, federation: int) -> float | None:
        """The lowest loss of uniform selection within the first half of its evaluations."""
        row = self._rows.get((condition, REFERENCE, federation))
        return None if row is None else min(row.losses[: len(row.losses) // 2])

    def reached(self, condition: str, method: str) -> dict[int, tuple[float, float]]:
        """Federation -> hour and place of the first of two evaluations at the target; or inf."""
        found = {}
        for federation, row in self.of(condition, method).items():
            target = self.target(condition, federation)
            if target is not None:
                good = np.array(row.losses) <= target
                first = np.flatnonzero(good[:-1] & good[1:])
                place = first[0] if len(first) else None
                hit = (math.inf, math.inf) if place is None else (row.hours[place], float(place))
                found[federation] = hit
        return found


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table whose first column is text."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, rule, *lines])


def number(value: float, digits: int) -> str:
    """A number; nothing for NaN."""
    return "" if math.isnan(value) else f"{value:.{digits}f}"


def interval(differences: np.ndarray, digits: int = 3) -> str:
    """Mean and 95 % interval of paired differences."""
    if not len(differences):
        return ""
    middle = float(differences.mean())
    if len(differences) < 2:
        return f"{middle:+.{digits}f}"
    half = float(stats.t.ppf(0.975, len(differences) - 1) * stats.sem(differences))
    return f"{middle:+.{digits}f} [{middle - half:+.{digits}f}, {middle + half:+.{digits}f}]"


def tuning_table(rows: Sequence[Row]) -> str:
    """Mean lowest loss over the tuning runs by learning rate; the chosen one in bold."""
    chosen = chosen_rates(rows)

    def cell(method: str, rate: float) -> str:
        losses = [r.lowest for r in rows if (r.part, r.method, r.rate) == ("tune", method, rate)]
        text = f"{np.mean(losses):.3f}" if losses else ""
        return f"**{text}**" if rate == chosen[method] else text

    lines = [[f"`{m}`", *(cell(m, rate) for rate in RATES)] for m in chosen]
    return markdown(["method", *(f"{rate:g}" for rate in RATES)], lines)


def loss_table(cells: Cells, conditions: Iterable[str]) -> str:
    """Mean lowest test loss over the federations; the lowest of a condition in bold."""
    columns = [name for name in conditions if name in cells.conditions]
    best = {name: cells.best(name) for name in columns}

    def cell(condition: str, method: str) -> str:
        text = number(cells.loss(condition, method), 3)
        return f"**{text}**" if best[condition] == method else text

    available = [f"{cells.loss(name, REFERENCE, 'available'):.0f}" for name in columns]
    lines = [[f"`{m}`", *(cell(name, m) for name in columns)] for m in cells.methods]
    return markdown(["method", *columns], [*lines, ["available clients", *available]])


def difference_table(cells: Cells, conditions: Iterable[str], other: str = REFERENCE) -> str:
    """Paired differences to a method, mean and 95 % interval over federations."""
    columns = [name for name in conditions if name in cells.conditions]
    lines = [
        [f"`{m}`", *(interval(cells.differences(name, m, other)) for name in columns)]
        for m in cells.methods
        if m != other and any(cells.of(name, m) for name in columns)
    ]
    return markdown([f"minus `{other}`", *columns], lines)


def column_table(cells: Cells, column: str, digits: int) -> str:
    """Means of another column."""
    lines = [
        [
            f"`{m}`",
            *(number(cells.loss(name, m, column), digits) for name in cells.conditions),
        ]
        for m in cells.methods
    ]
    return markdown(["method", *cells.conditions], lines)


def time_table(cells: Cells, condition: str) -> str:
    """Hours and rounds to the target, and what the rounds needed, for one condition."""

    def middle(values: Iterable[float], digits: int) -> str:
        median = float(np.median(list(values)))
        return f"{median:.{digits}f}" if math.isfinite(median) else "not reached"

    def line(method: str) -> list[str]:
        own, others = (cells.reached(condition, m) for m in (method, REFERENCE))
        common = sorted(own.keys() & others.keys())
        pairs = np.array([own[f][0] - others[f][0] for f in common])
        is_paired = method != REFERENCE and bool(np.isfinite(pairs).all())
        rows = list(cells.of(condition, method).values())
        every = [row.hours[-1] for row in rows]
        return [
            f"`{method}`",
            middle((hit[0] for hit in own.values()), 1),
            interval(pairs, 1) if is_paired else "",
            middle((EVERY * hit[1] for hit in own.values()), 0),
            f"{sum(math.isfinite(hit[0]) for hit in own.values())}/{len(own)}",
            f"{np.mean(every):.1f}",
            f"{np.mean([row.answered for row in rows]):.2f}",
            f"{np.mean([row.lost for row in rows]):.2f}",
            f"{np.mean([row.lowest for row in rows]):.3f}",
        ]

    head = [
        "method",
        "hours to target",
        "minus `uniform`",
        "rounds to target",
        "reached",
    ]
    head += ["hours in all", "answered", "lost work", "lowest test loss"]
    return markdown(head, map(line, cells.methods))


def draw(rows: Sequence[Row], picture: Path) -> None:
    """Differences to uniform selection by condition, and loss over hours under the trace."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    drawing, (left, right) = plt.subplots(
        1, 2, figsize=(11, 4.2), layout="constrained", width_ratios=(3, 2)
    )
    _draw_differences(left, Cells(rows, "rounds"))
    _draw_hours(right, Cells(rows, "time"))
    drawing.savefig(picture, dpi=110)


def _draw_differences(axes: Any, cells: Cells) -> None:
    names = [name for name in (*PAPER, *REALISTIC) if name in cells.conditions]
    places = np.arange(len(names))
    for i, method in enumerate(m for m in SHOWN if m in cells.methods):
        pairs = [cells.differences(name, method) for name in names]
        middle = [float(values.mean()) for values in pairs]
        half = [
            float(stats.t.ppf(0.975, len(v) - 1) * stats.sem(v)) if len(v) > 1 else 0.0
            for v in pairs
        ]
        shift = 0.12 * (i - (len(SHOWN) - 1) / 2)
        marker = "osD^vX"[i % 6]
        axes.errorbar(
            places + shift,
            middle,
            half,
            fmt=marker,
            markersize=4,
            lw=1,
            label=method,
            capsize=2,
        )
    axes.axhline(0, color="0.5", lw=0.8)
    borders = sum(name in PAPER for name in names)
    axes.axvline(borders - 0.5, color="0.8", lw=0.8)
    axes.set_xticks(places, names, rotation=40, ha="right", fontsize=8)
    axes.set_ylabel("lowest test loss minus that of uniform")
    axes.set_yscale("symlog", linthresh=0.05)
    axes.set_ylim(-0.7, 1.4)
    ticks = [-0.4, -0.2, -0.1, -0.05, -0.025, 0, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8]
    axes.set_yticks(ticks, [f"{tick:+g}" if tick else "0" for tick in ticks])
    if names:
        place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0)}
        axes.legend(fontsize=8, frameon=False, ncol=3, **place)


def _draw_hours(axes: Any, cells: Cells, condition: str = "trace") -> None:
    for method in cells.methods:
        runs = list(cells.of(condition, method).values())
        if not runs:
            continue
        end = min(row.hours[-1] for row in runs)
        grid = np.linspace(0, end, 60)
        rows = []
        for row in runs:
            lowest = np.minimum.accumulate(row.losses)
            rows.append(lowest[np.searchsorted(row.hours, grid, side="right") - 1])
        style = {"color": "black"} if method == REFERENCE else {}
        axes.plot(grid, np.mean(rows, axis=0), lw=1.2, label=method, **style)
    axes.set(xlabel="hours of simulated time", ylabel="lowest test loss so far", yscale="log")
    axes.set_yticks([0.6, 0.8, 1, 2, 4], ["0.6", "0.8", "1", "2", "4"])
    axes.minorticks_off()
    axes.set_ylim(0.6, 4)
    axes.set_title(f"{condition}, with slow clients", fontsize=9)
    if axes.lines:
        axes.legend(fontsize=7, frameon=False)


def named(kind: str) -> list[str]:
    """The realistic conditions of one kind, "trace" or "diurnal"."""
    return [name for name in REALISTIC if name.startswith(kind)]


def report(rows: Sequence[Row]) -> str:
    """All tables, as Markdown."""
    rounds, time, images = (Cells(rows, part) for part in ("rounds", "time", "images"))
    parts: list[tuple[str, Callable[[], str]]] = [
        ("Learning rates", lambda: tuning_table(rows)),
        ("Lowest test loss, the paper's modes", lambda: loss_table(rounds, PAPER)),
        ("Lowest test loss, realistic modes", lambda: loss_table(rounds, REALISTIC)),
        ("Differences, the paper's modes", lambda: difference_table(rounds, PAPER)),
        *(
            (
                f"Differences, {kind}",
                lambda kind=kind: difference_table(rounds, named(kind)),
            )
            for kind in ("trace", "diurnal")
        ),
        ("Bias", lambda: column_table(rounds, "bias", 2)),
        *((f"Time, {name}", lambda name=name: time_table(time, name)) for name in time.conditions),
        ("Time, lowest test loss", lambda: loss_table(time, time.conditions)),
        ("Time, differences", lambda: difference_table(time, time.conditions)),
    ]
    if images.conditions:
        parts += [
            ("Images, lowest test loss", lambda: loss_table(images, images.conditions)),
            ("Images, differences", lambda: difference_table(images, images.conditions)),
        ]
    return "\n\n".join(f"**{title}**\n\n{table()}" for title, table in parts)


if __name__ == "__main__":
    stored = read_rows(Path(sys.argv[1]))
    print(report(stored))
    if len(sys.argv) > 2:
        draw(stored, Path(sys.argv[2]))
