"""Predict the length of stay at hospitals that are not always available.

python examples/hospitals/study.py [PICTURE]
"""

import sys
import tempfile
from pathlib import Path

import matplotlib
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from make import write

import fedgs
from fedgs.data import Quantiles, TableFile

matplotlib.use("Agg")
from matplotlib import pyplot as plt

METHODS = {"uniform": "#444444", "power_of_choice": "#009E73", "fedgs": "#D55E00"}


def study(rounds: int = 80, seeds: int = 3, **sizes: int) -> fedgs.Results:
    """Hospitals with long stays are available more often: quartiles of the stays are the groups."""
    with tempfile.TemporaryDirectory() as folder:
        table = TableFile(
            path=str(write(Path(folder, "hospitals.csv"), **sizes)),
            label="stay",
            client="hospital",
            one_hot="admission",
            task="regression",
            groups=Quantiles(4),
            standardize=True,
            client_order="natural",
        )
        return fedgs.compare(
            table.load(),
            methods=list(METHODS),
            availability=fedgs.LargeLabelsFirst(beta=0.9),
            model=fedgs.LogisticRegression(),  # a linear model
            training=fedgs.Training(rounds=rounds, proportion=0.2, learning_rate=0.01),
            evaluation=fedgs.Evaluation(every=5, metrics=["mean_absolute_error"]),
            seeds=range(seeds),
        )


def draw(results: fedgs.Results, picture: str) -> None:
    """The stays of each hospital by quartile, and the mean error over the rounds."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    counts = results.runs[0].clients.label_counts
    bottom, hospitals = np.zeros(len(counts)), range(1, len(counts) + 1)
    for group, colour in enumerate(plt.get_cmap("viridis")(np.linspace(0.1, 0.9, counts.shape[1]))):
        left.bar(hospitals, counts[:, group], bottom=bottom, color=colour, label=group + 1)
        bottom += counts[:, group]
    left.set(
        xlabel="hospital", ylabel="training patients", ylim=(0, 1.35 * counts.sum(axis=1).max())
    )
    left.xaxis.get_major_locator().set_params(integer=True)
    left.legend(title="quartile of the stay", frameon=False, ncols=2)
    for method, colour in METHODS.items():
        runs = [run for run in results.runs if run.label == method]
        evaluated = [[one for one in run.records if one.test_metrics] for run in runs]
        errors = [[one.test_metrics["mean_absolute_error"] for one in run] for run in evaluated]
        rounds = [one.round for one in evaluated[0]]
        right.plot(rounds, np.mean(errors, axis=0), color=colour, label=method)
    right.set(xlabel="round", ylabel="mean absolute error, days", ylim=(0.8, 2.5))
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    results = study()
    print(results.table(against="uniform"))
    draw(results, sys.argv[1] if len(sys.argv) > 1 else "hospitals.png")
