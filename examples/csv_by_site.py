"""Train on a CSV file with a column that names the site: each hospital is a client.

python examples/csv_by_site.py [PICTURE]
"""

import csv
import sys
from pathlib import Path

import matplotlib
import numpy as np

import fedgs

matplotlib.use("Agg")
from matplotlib import pyplot as plt

METHODS = {"uniform": "#444444", "power_of_choice": "#009E73", "fedgs": "#D55E00"}
TABLE = Path(__file__).with_name("patients.csv")


def study(rounds: int = 200, seeds: int = 3) -> fedgs.Results:
    """A fifth of the patients are the server's test set; small hospitals are available more."""
    rows = list(csv.DictReader(TABLE.read_text().splitlines()))
    site = np.array([row["hospital"] for row in rows])
    x = np.array([[float(row[name]) for name in ("age", "pressure", "glucose")] for row in rows])
    y = np.array([int(row["risk"]) for row in rows])
    test, train = np.split(np.random.default_rng(0).permutation(len(rows)), [len(rows) // 5])
    x = (x - x[train].mean(axis=0)) / x[train].std(axis=0)
    patients = {"client": site[train], "test": (x[test], y[test]), "client_order": "natural"}
    return fedgs.compare(
        fedgs.Federation.from_arrays(x[train], y[train], **patients, name="patients"),
        methods=list(METHODS),
        availability=fedgs.LessDataFirst(beta=0.7),
        training=fedgs.Training(rounds=rounds, cohort_limit=3, learning_rate=0.05),
        seeds=range(seeds),
    )


def draw(results: fedgs.Results, picture: str) -> None:
    """How often each hospital was selected: the mean over the seeds, for each method."""
    figure, axes = plt.subplots(figsize=(9, 3.2), layout="constrained")
    for place, (method, colour) in enumerate(METHODS.items()):
        runs = [run for run in results.runs if run.label == method]
        cohorts = [name for run in runs for record in run.records for name in record.cohort or ()]
        counts = [cohorts.count(name) / len(runs) for name in runs[0].clients.names]
        axes.bar(np.arange(12) + 0.27 * (place - 1), counts, 0.25, color=colour, label=method)
    axes.set_xticks(range(12), results.runs[0].clients.data_sizes)
    axes.set(xlabel="training patients of the hospital", ylabel="rounds in the cohort")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(picture, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    results = study()
    print(results.table(against="uniform"))
    draw(results, sys.argv[1] if len(sys.argv) > 1 else "csv-by-site.png")
