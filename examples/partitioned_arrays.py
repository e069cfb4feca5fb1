"""Partition your own arrays over clients, and compare samplers on the federation.

python examples/partitioned_arrays.py [PICTURE]
"""

import sys

import matplotlib
import numpy as np

import fedgs
from fedgs.data import DirichletOverClients, Labelled, share_out

matplotlib.use("Agg")
from matplotlib import pyplot as plt

METHODS = {"uniform": "#444444", "md": "#0072B2", "fedgs": "#D55E00"}


def study(rounds: int = 150, seeds: int = 3) -> fedgs.Results:
    """Thirty clients of uneven labels; those with large labels alone are available more often."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 6, 4000)
    x = rng.normal(size=(4000, 20)) + 0.6 * rng.normal(size=(6, 20))[y]
    arrays = Labelled("six labels", x[1000:], y[1000:], test=(x[:1000], y[:1000]), num_labels=6)
    return fedgs.compare(
        share_out(arrays, DirichletOverClients(concentration=0.15, minimum=5), clients=30),
        methods=list(METHODS),
        availability=fedgs.LargeLabelsFirst(beta=0.9),
        training=fedgs.Training(rounds=rounds, proportion=0.2, learning_rate=0.05),
        seeds=range(seeds),
    )


def draw(results: fedgs.Results, picture: str) -> None:
    """The labels of each client, and the mean test loss of each method over the seeds."""
    plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    counts = np.array(sorted(results.runs[0].clients.label_counts, key=sum, reverse=True))
    for label, colour in enumerate(plt.colormaps["viridis"](np.linspace(0, 1, 6))):
        below = counts[:, :label].sum(axis=1)
        left.bar(range(1, 31), counts[:, label], 0.8, below, color=colour, label=f"{label}")
    left.set(xlabel="client, by data size", ylabel="training examples")
    left.legend(title="label", frameon=False, ncols=2)
    for method, colour in METHODS.items():
        runs = [run.records for run in results.runs if run.label == method]
        rounds = [record.round for record in runs[0] if record.test_loss is not None]
        losses = np.mean([[records[t].test_loss for t in rounds] for records in runs], axis=0)
        right.plot(rounds, losses, color=colour, label=method)
    right.set(xlabel="round", ylabel="test loss", ylim=(losses.min() - 0.05, losses.min() + 0.4))
    right.legend(frameon=False)
    figure.savefig(picture, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    results = study()
    print(results.table(against="uniform"))
    draw(results, sys.argv[1] if len(sys.argv) > 1 else "partitioned-arrays.png")
