"""The bias of FedAvg over two rates of availability, and the same runs of FedAWE and MIFA.

Usage: fedgs run study.toml --plugin quadratics.py --out pairs
       python summary.py pairs [FIGURE]

The 180 runs of 2000 rounds take about two minutes of one core, and this script a few seconds. It
prints a table over (pi_1, pi_2): the closed form, and each method's long-run mean of theta minus
the minimiser 1/2, averaged over rounds and seeds, with a 95 % interval over seeds. With FIGURE it
also draws the closed form and the measured means over pi_1, and writes them to FIGURE.

With theta' = theta + sum of w_k eta (b_k - theta) over the available clients and weights 1/|A_t|,
the mean of theta tends to sum of E[w_k] b_k, where E[w_2] is the probability that client 2 is alone
plus half the probability that both are, given that at least one is (Xiang et al., 2024, NeurIPS,
Example 1). Client 1 has b = 0 and client 2 has b = 1, so the bias is E[w_2] - 1/2.
"""

import math
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from fedgs.report import Run, read_runs

SHARE_LEFT_OUT = 0.25  # of the rounds, before the mean of theta is taken
METHODS = ("FedAvg", "FedAWE", "MIFA")
Key = tuple[float, float, str]  # pi_1, pi_2, method


def closed_form(first: float, second: float) -> float:
    """E[theta] - 1/2 of FedAvg, from the rates pi_1 and pi_2 of the clients.

    >>> closed_form(0.5, 0.5), round(closed_form(0.1, 0.9), 4)
    (0.0, 0.4396)
    """
    somebody = 1 - (1 - first) * (1 - second)
    return (second * (1 - first) + first * second / 2) / somebody - 0.5


def parameter(test_loss: float) -> float:
    """theta >= -1 from the test loss (theta + 1)²/2 + 1, see `quadratics.py`.

    >>> parameter(3.0)
    1.0
    """
    return math.sqrt(max(2 * (test_loss - 1), 0.0)) - 1


def method(run: Run) -> str:
    """The method's name in the table."""
    return {"gossip": "FedAWE", "stale": "MIFA"}.get(
        str(run.table("aggregation").get("name")), "FedAvg"
    )


def long_run_bias(run: Run) -> float:
    """The mean of theta - 1/2 over the evaluated records after the first quarter of the rounds."""
    values = [
        parameter(record.test_loss)
        for record in run.records
        if record.test_loss is not None and record.round >= SHARE_LEFT_OUT * run.rounds
    ]
    return float(np.mean(values)) - 0.5


def measured(runs: Sequence[Run]) -> dict[Key, tuple[float, float]]:
    """(pi_1, pi_2, method) -> mean over seeds, and half the width of its 95 % interval."""
    biases: dict[Key, list[float]] = defaultdict(list)
    for run in runs:
        mode = run.table("availability")
        biases[float(mode["first"]), float(mode["second"]), method(run)].append(long_run_bias(run))
    return {
        key: (
            float(np.mean(values)),
            float(stats.t.ppf(0.975, len(values) - 1) * stats.sem(values))
            if len(values) > 1
            else np.nan,
        )
        for key, values in sorted(biases.items())
    }


def table(runs: Sequence[Run]) -> str:
    """A Markdown table with a row for each pair of rates."""
    means = measured(runs)
    lines = [
        f"| π_1 | π_2 | closed form | {' | '.join(METHODS)} |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for first, second in dict.fromkeys(key[:2] for key in means):
        cells = [means.get((first, second, name)) for name in METHODS]
        shown = ["" if cell is None else f"{cell[0]:+.3f} ± {cell[1]:.3f}" for cell in cells]
        start = f"| {first:g} | {second:g} | {closed_form(first, second):+.3f} |"
        lines.append(f"{start} {' | '.join(shown)} |")
    return "\n".join(lines)


def figure(runs: Sequence[Run]) -> Any:
    """The closed form as lines over pi_1, one for each pi_2, and the means as points."""
    import matplotlib.pyplot as plt

    means = measured(runs)
    seconds = sorted({key[1] for key in means})
    wheel = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#444444")
    colours = {second: wheel[i % len(wheel)] for i, second in enumerate(seconds)}
    looks = {"FedAvg": ("o", "full"), "FedAWE": ("s", "none"), "MIFA": ("^", "none")}
    drawing, axes = plt.subplots(figsize=(4.6, 3.2), layout="constrained")
    rates = np.linspace(0.02, 1, 200)
    for second in seconds:
        line = [closed_form(first, second) for first in rates]
        axes.plot(rates, line, color=colours[second], label=f"closed form, π₂ = {second:g}")
    for name, (marker, fill) in looks.items():
        for second in seconds:
            points = {k[0]: v for k, v in means.items() if k[1:] == (second, name)}
            axes.errorbar(
                list(points),
                [mean for mean, _ in points.values()],
                yerr=[half for _, half in points.values()],
                color=colours[second],
                marker=marker,
                fillstyle=fill,
                markersize=4,
                linestyle="none",
                elinewidth=0.8,
            )
        axes.plot([], [], color="#444444", marker=marker, fillstyle=fill, ls="none", label=name)
    axes.axhline(0, color="#999999", linewidth=0.6)
    axes.set(xlabel="π₁, rate of client 1", ylabel="mean of θ − minimiser")
    axes.legend(frameon=False, fontsize=7)
    return drawing


if __name__ == "__main__":
    runs, problems = read_runs(Path(sys.argv[1]))
    finished = [run for run in runs if run.finished]
    print(table(finished))
    if len(sys.argv) > 2:
        figure(finished).savefig(sys.argv[2], dpi=200)
    print(*problems, sep="\n", file=sys.stderr)
