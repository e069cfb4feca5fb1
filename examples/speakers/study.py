"""Predict the next character of speakers, each of them a client, with an LSTM.

python examples/speakers/study.py [PICTURE]
"""

import sys
import tempfile
from pathlib import Path

import matplotlib
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from make import write

import fedgs

matplotlib.use("Agg")
from matplotlib import pyplot as plt

METHODS = {"uniform": "#444444", "power_of_choice": "#009E73", "fedgs": "#D55E00"}


def study(rounds: int = 100, seeds: int = 3, hidden: int = 64, **sizes: int) -> fedgs.Results:
    """Speakers with little to say are available more often; every character counts.

    The graph of FedGS is made from the speakers' local models, since texts have no labels.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = str(write(Path(folder, "speakers"), **sizes))
        federation = fedgs.Leaf(path=path, task="sequence", predict="every").load()
    by_models = fedgs.FedGS(alpha=1.0, graph={"similarity": "update"})
    return fedgs.compare(
        federation,
        methods={**{name: name for name in METHODS}, "fedgs": by_models},
        availability=fedgs.LessDataFirst(beta=0.7),
        model=fedgs.LSTM(embedding=8, hidden=hidden, layers=1),
        training=fedgs.Training(
            rounds=rounds, cohort_limit=3, batch_size=16, local_steps=10, learning_rate=2.0
        ),
        evaluation=fedgs.Evaluation(every=5),
        seeds=range(seeds),
    )


def draw(results: fedgs.Results, picture: str) -> None:
    """The texts of each speaker, and the accuracy of the next character over the rounds."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    sizes = results.runs[0].clients.data_sizes
    left.bar(range(1, len(sizes) + 1), sizes, color="#999999")
    left.set(xlabel="speaker", ylabel="training texts")
    left.xaxis.get_major_locator().set_params(integer=True)
    for method, colour in METHODS.items():
        runs = [run for run in results.runs if run.label == method]
        evaluated = [[one for one in run.records if one.test_accuracy is not None] for run in runs]
        accuracy = np.mean([[one.test_accuracy for one in run] for run in evaluated], axis=0)
        right.plot([one.round for one in evaluated[0]], accuracy, color=colour, label=method)
    right.set(xlabel="round", ylabel="accuracy of the next character", ylim=(0, 1))
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(picture, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    results = study()
    print(results.table(against="uniform"))
    draw(results, sys.argv[1] if len(sys.argv) > 1 else "speakers.png")
