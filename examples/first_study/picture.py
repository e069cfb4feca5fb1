"""Draw a folder of runs of one setting: loss over rounds, and how often each client was selected.

python examples/first_study/picture.py fedgs-runs docs/figures/first-study.png
"""

import sys
from collections import defaultdict

import matplotlib
import numpy as np

from fedgs.report import Run, read_runs

matplotlib.use("Agg")
from matplotlib import pyplot as plt

COLOURS = {"fedgs": "#D55E00", "uniform": "#444444", "md": "#0072B2", "power_of_choice": "#009E73"}


def losses(run: Run) -> tuple[list[int], list[float]]:
    """The evaluated rounds of a run and their test losses."""
    points = [(record.round, record.test_loss) for record in run.records]
    rounds, values = zip(*((t, loss) for t, loss in points if loss is not None), strict=True)
    return list(rounds), list(values)


def counts(run: Run) -> np.ndarray:
    """(N,) in how many rounds each client was selected, most often first."""
    selected = dict.fromkeys(run.clients.names, 0)
    for record in run.records:
        for name in record.cohort or []:
            selected[name] += 1
    return np.sort(list(selected.values()))[::-1]


def main(folder: str, picture: str) -> None:
    """Write the picture of a folder of runs."""
    runs, _ = read_runs(folder)
    if len({run.group for run in runs}) != 1:
        sys.exit(f"{folder} must hold the runs of one data set and availability mode")
    methods: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        methods[run.label].append(run)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for label, colour in COLOURS.items():
        rounds = losses(methods[label][0])[0]
        left.plot(rounds, np.mean([losses(run)[1] for run in methods[label]], axis=0), color=colour)
        ranked = np.mean([counts(run) for run in methods[label]], axis=0)
        right.plot(np.arange(1, len(ranked) + 1), ranked, color=colour, marker=".", label=label)
    left.set(xlabel="round", ylabel="test loss", ylim=(0.34, 0.5))
    right.set(xlabel="clients, most selected first", ylabel="rounds in the cohort", ylim=0)
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main(*sys.argv[1:])
