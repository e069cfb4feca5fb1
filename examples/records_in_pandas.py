"""Read the records of a study with pandas, and plot them.

python examples/records_in_pandas.py [PICTURE]
"""

import sys

import matplotlib
import pandas as pd

import fedgs

matplotlib.use("Agg")
from matplotlib import pyplot as plt

METHODS = {"uniform": "#444444", "md": "#0072B2", "fedgs": "#D55E00"}


def study(rounds: int = 300, seeds: int = 3) -> pd.DataFrame:
    """A row for each run and round; `fedgs.export.to_dataframe` reads a stored folder."""
    results = fedgs.compare(
        "synthetic",
        methods=list(METHODS),
        availability=fedgs.LargeLabelsFirst(beta=0.9),
        training=fedgs.Training(rounds=rounds),
        seeds=range(seeds),
    )
    return results.to_dataframe()


def participation(frame: pd.DataFrame) -> pd.DataFrame:
    """In how many rounds each client was available and in the cohort: means over the seeds."""
    keys, counts = ["method", "seed"], {}
    for column in ("available", "cohort"):
        single = frame.explode(column).dropna(subset=column)  # a row for each client
        counts[column] = single.groupby([*keys, column]).size().rename_axis([*keys, "client"])
    return pd.DataFrame(counts).fillna(0).groupby(["method", "client"]).mean()


def draw(frame: pd.DataFrame, picture: str) -> None:
    """The mean test loss over rounds, and how often each client was available and selected."""
    plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    evaluated = frame.dropna(subset="test_loss").groupby(["method", "round"]).test_loss
    for method, colour in METHODS.items():
        loss = evaluated.agg(["mean", "std"]).loc[method]
        left.plot(loss["mean"], color=colour)
        low, high = loss["mean"] - loss["std"], loss["mean"] + loss["std"]
        left.fill_between(loss.index, low, high, color=colour, alpha=0.2, lw=0)
        client = participation(frame).loc[method]
        right.scatter(client.available, client.cohort, color=colour, s=18, label=method)
    left.set(xlabel="round", ylabel="test loss", ylim=(0.35, 1))
    right.set(xlabel="rounds available", ylabel="rounds in the cohort")
    right.legend(frameon=False)
    figure.savefig(picture, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    draw(study(), sys.argv[1] if len(sys.argv) > 1 else "records-in-pandas.png")
