"""Write an availability file, and see which clients are available and selected in each round.

python examples/recorded_availability.py [PICTURE]
"""

import sys
import tempfile
from pathlib import Path

import matplotlib
import numpy as np

import fedgs

matplotlib.use("Agg")
from matplotlib import pyplot as plt

ROUNDS, CLIENTS = 96, 24  # a round an hour, four days
COLOURS = matplotlib.colors.ListedColormap(["#FFFFFF", "#C9D3DC", "#D55E00"])


def recorded(path: Path) -> fedgs.AvailabilityFile:
    """Phones that charge at night in their time zones: a line each, 0 or 1 for every round."""
    rng = np.random.default_rng(0)
    zone, length = np.sort(rng.integers(0, 24, CLIENTS)), rng.integers(3, 13, CLIENTS)
    hour = (np.arange(ROUNDS) - zone[:, None]) % 24
    np.savetxt(path, hour < length[:, None], fmt="%d", delimiter=",")
    return fedgs.AvailabilityFile(path=path)


def study(rounds: int = ROUNDS) -> fedgs.Results:
    """One run of each method with the recorded availability."""
    with tempfile.TemporaryDirectory() as folder:
        return fedgs.compare(
            fedgs.Synthetic(clients=CLIENTS),
            methods=["uniform", "fedgs"],
            availability=recorded(Path(folder, "charging.csv")),
            training=fedgs.Training(rounds=rounds, cohort_limit=3),
        )


def draw(results: fedgs.Results, picture: str) -> None:
    """Grey where a client is available, coloured where it is selected; totals on the right."""
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for axes, run in zip(panels, results.runs, strict=True):
        cells = np.zeros((CLIENTS, run.rounds))
        for record in run.records[:-1]:  # the last one holds the metrics of the final model
            cells[record.available, record.round] = 1
            cells[record.cohort, record.round] = 2
        axes.imshow(cells, cmap=COLOURS, vmax=2, aspect="auto", interpolation="nearest")
        for client, count in enumerate((cells == 2).sum(axis=1)):
            axes.text(run.rounds, client, f" {count}", va="center", fontsize=7)
        axes.set(title=run.label, xlabel="round (hour)")
    panels[0].set(ylabel="client")
    figure.savefig(picture, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    draw(study(), sys.argv[1] if len(sys.argv) > 1 else "recorded-availability.png")
