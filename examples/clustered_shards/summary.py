"""Clustered sampling against MD sampling on shards of one label, from the runs of `study.toml`.

Usage: fedgs run study.toml --plugin shards.py --out shards
       python summary.py shards [FIGURE]

The 12 runs take about two minutes of one core, and this script a few seconds. For each method:
how many different clients and labels a cohort has, the variance of a client's number of draws
in a round, the test accuracy and the test loss of the evaluated models in the last fifth of the
rounds, and how much the test loss changes from one evaluation to the next in the second half of
them. The differences to MD sampling are paired over seeds, with 95 % intervals. With FIGURE it
also draws the test loss over the rounds, and writes it to FIGURE.
"""

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from fedgs.report import Run, read_runs

NAMES = {
    "md": "MD",
    "clustered_sizes": "Algorithm 1",
    "clustered": "Algorithm 2",
    "one_per_label": "one client of each label",
}
COLUMNS = (
    "clients in a cohort",
    "labels in a cohort",
    "variance of draws",
    "test accuracy",
    "test loss",
    "− MD's [95 %]",
    "change of the loss",
    "− MD's [95 %]",
)


def draws(run: Run) -> np.ndarray:
    """(T, N) how often each client was drawn in each round."""
    assert run.clients is not None
    index = {name: k for k, name in enumerate(run.clients.names)}
    counts = np.zeros((run.rounds_done, len(index)))
    for t, record in enumerate(run.records[: run.rounds_done]):
        cohort = record.cohort or ()
        for name, number in zip(cohort, record.draws or [1] * len(cohort), strict=True):
            counts[t, index[name]] = number
    return counts


def late(run: Run, figure: str) -> float:
    """The mean of a figure over the evaluated records of the last fifth of the rounds."""
    values = [
        value
        for record in run.records
        if record.round >= 0.8 * run.rounds and (value := getattr(record, figure)) is not None
    ]
    return float(np.mean(values))


def change(run: Run) -> float:
    """The mean absolute change of the test loss between evaluations, in the second half."""
    values = [
        record.test_loss
        for record in run.records
        if record.round >= 0.5 * run.rounds and record.test_loss is not None
    ]
    return float(np.abs(np.diff(values)).mean())


def labels_in_a_cohort(run: Run) -> float:
    """The mean number of different labels that the clients of a cohort hold."""
    assert run.clients is not None and run.clients.label_counts is not None
    holds = run.clients.label_counts > 0  # (N, C)
    return float(np.mean([holds[row > 0].any(axis=0).sum() for row in draws(run)]))


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
    """A Markdown table with a row for each method."""
    cells: dict[str, dict[object, Run]] = defaultdict(dict)
    for run in runs:
        cells[str(run.table("method")["name"])][run.seed] = run
    lines = [f"| method | {' | '.join(COLUMNS)} |", f"|---|{'---:|' * len(COLUMNS)}"]
    for name in (name for name in NAMES if name in cells):
        seeds = sorted(cells[name].keys() & cells["md"].keys(), key=str)
        own, md = ([cells[key][seed] for seed in seeds] for key in (name, "md"))
        counts = [draws(run) for run in own]
        row = [
            f"{np.mean([(one > 0).sum(axis=1).mean() for one in counts]):.2f}",
            f"{np.mean([labels_in_a_cohort(run) for run in own]):.2f}",
            f"{np.mean([one.var(axis=0).mean() for one in counts]):.4f}",
            f"{np.mean([late(run, 'test_accuracy') for run in own]):.3f}",
        ]
        for measure in (lambda run: late(run, "test_loss"), change):
            values, others = [measure(run) for run in own], [measure(run) for run in md]
            row += [f"{np.mean(values):.3f}", "" if name == "md" else paired(values, others)]
        lines.append(f"| {NAMES[name]} | {' | '.join(row)} |")
    return "\n".join(lines)


def figure(runs: Sequence[Run]) -> Any:
    """The mean test loss over the rounds with its range over seeds."""
    import matplotlib.pyplot as plt

    drawing, axes = plt.subplots(figsize=(5.2, 3.2), layout="constrained")
    for name, title in NAMES.items():
        chosen = [run for run in runs if run.table("method")["name"] == name]
        points = [[(r.round, r.test_loss) for r in run.records if r.test_loss] for run in chosen]
        values = np.array(points)  # (seeds, evaluations, 2)
        if not len(values):
            continue
        rounds, losses = values[0, :, 0], values[:, :, 1]
        (line,) = axes.plot(rounds, losses.mean(axis=0), label=title)
        axes.fill_between(
            rounds, losses.min(axis=0), losses.max(axis=0), color=line.get_color(), alpha=0.15
        )
    axes.set(xlabel="round", ylabel="test loss", yscale="log")
    axes.legend(frameon=False, fontsize=8)
    return drawing


if __name__ == "__main__":
    runs, problems = read_runs(Path(sys.argv[1]))
    finished = [run for run in runs if run.finished]
    print(table(finished))
    if len(sys.argv) > 2:
        figure(finished).savefig(sys.argv[2], dpi=160)
    print(*problems, sep="\n", file=sys.stderr)
