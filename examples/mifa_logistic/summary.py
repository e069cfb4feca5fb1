"""MIFA against FedAvg where availability depends on the labels, from the runs of the two studies.

Usage: fedgs run study.toml --plugin waiting.py --out mifa
       fedgs run waiting.toml --plugin waiting.py --out mifa
       python summary.py mifa [FIGURE]

The 30 runs take about three minutes of one core, and this script a few seconds. For each p_min
and method: the losses and the accuracy, averaged over the evaluations of the last 50 rounds and
over seeds; the difference of the test loss to MIFA's, paired over seeds, with a 95 % interval;
and how many client updates a run took. With FIGURE it also draws the test loss over the rounds,
and writes it to FIGURE.
"""

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from fedgs.report import Run, read_runs

COLUMNS = (
    "validation loss",
    "test loss",
    "test accuracy",
    "test loss − MIFA's [95 %]",
    "client updates",
)


def method(run: Run) -> str:
    """The publication's name of the method."""
    settings = run.table("method")
    if settings["name"] == "waiting":
        return f"FedAvg, S = {settings['wait_for']}"
    if run.table("aggregation").get("name") == "stale":
        return "MIFA"
    weighting = settings.get("weighting")
    name = weighting.get("name") if isinstance(weighting, Mapping) else weighting
    return "FedAvg, known rates" if name == "known" else "FedAvg, biased"


def smallest_rate(run: Run) -> float:
    """p_min of the run's availability."""
    return round(1 - float(run.table("availability")["beta"]), 6)


def late(run: Run, figure: str) -> float:
    """The mean of a figure over the evaluated records of the last 50 rounds."""
    values = [
        value
        for record in run.records
        if record.round >= run.rounds - 50 and (value := getattr(record, figure)) is not None
    ]
    return float(np.mean(values))


def paired(values: Sequence[float], others: Sequence[float]) -> str:
    """The mean of values - others and its 95 % interval."""
    difference = np.subtract(values, others)
    middle = float(difference.mean())
    half = (
        stats.t.ppf(0.975, len(difference) - 1) * stats.sem(difference)
        if len(difference) > 1
        else np.nan
    )
    return f"{middle:+.3f} [{middle - half:+.3f}, {middle + half:+.3f}]"


def table(runs: Sequence[Run]) -> str:
    """A Markdown table with a row for each p_min and method, by falling p_min."""
    cells: dict[tuple[float, str], dict[object, Run]] = defaultdict(dict)
    for run in runs:
        cells[smallest_rate(run), method(run)][run.seed] = run
    lines = [
        f"| p_min | method | {' | '.join(COLUMNS)} |",
        f"|---:|---|{'---:|' * len(COLUMNS)}",
    ]
    for rate, name in sorted(cells, key=lambda key: (-key[0], key[1] != "MIFA", key[1])):
        own, mifa = cells[rate, name], cells[rate, "MIFA"]
        seeds = sorted(own.keys() & mifa.keys(), key=str)
        if not seeds:
            continue
        loss, reference = (
            [late(method_runs[seed], "test_loss") for seed in seeds] for method_runs in (own, mifa)
        )
        means = [
            np.mean([late(own[seed], figure) for seed in seeds])
            for figure in ("valid_loss", "test_loss", "test_accuracy")
        ]
        updates = np.mean(
            [sum(len(record.cohort or ()) for record in own[seed].records) for seed in seeds]
        )
        difference = "" if name == "MIFA" else paired(loss, reference)
        lines.append(
            f"| {rate:g} | {name} | {means[0]:.3f} | {means[1]:.3f} | {means[2]:.3f} | "
            f"{difference} | {updates:.0f} |"
        )
    return "\n".join(lines)


def figure(runs: Sequence[Run]) -> Any:
    """The mean test loss over the rounds with its range over seeds, a panel for each p_min."""
    import matplotlib.pyplot as plt

    rates = sorted({smallest_rate(run) for run in runs})
    names = sorted({method(run) for run in runs})
    colours = dict(zip(names, plt.rcParams["axes.prop_cycle"].by_key()["color"], strict=False))
    drawing, panels = plt.subplots(
        1, len(rates), figsize=(7, 3.2), sharey=True, squeeze=False, layout="constrained"
    )
    for axes, rate in zip(panels[0], rates, strict=True):
        for name in names:
            chosen = [run for run in runs if smallest_rate(run) == rate and method(run) == name]
            values = np.array(  # (seeds, evaluations, 2)
                [[(r.round, r.test_loss) for r in run.records if r.test_loss] for run in chosen]
            )
            if not len(values):
                continue
            rounds, losses = values[0, :, 0], values[:, :, 1]
            axes.plot(rounds, losses.mean(axis=0), color=colours[name], label=name, marker=".")
            axes.fill_between(
                rounds, losses.min(axis=0), losses.max(axis=0), color=colours[name], alpha=0.15
            )
        axes.set(xlabel="round", title=f"p_min = {rate:g}", yscale="log")
    panels[0, 0].set_ylabel("test loss")
    panels[0, -1].legend(frameon=False, fontsize=8)
    return drawing


if __name__ == "__main__":
    runs, problems = read_runs(Path(sys.argv[1]))
    finished = [run for run in runs if run.finished]
    print(table(finished))
    if len(sys.argv) > 2:
        figure(finished).savefig(sys.argv[2], dpi=160)
    print(*problems, sep="\n", file=sys.stderr)
