"""The table, the losses by client and the picture of a folder of runs.

python summary.py RUNS [PICTURE]
"""

import sys
from collections.abc import Sequence

from fedgs.report import Run, read_runs
from fedgs.report.figures import losses_by_client, save_figure
from fedgs.report.tables import comparison

FIGURES = (
    "test_loss",
    "last_test_loss",
    "final_accuracy",
    "count_variance",
    "worst_client",
    "worst_decile",
    "client_spread",
    "client_variance",
)


def accuracies(run: Run) -> list[tuple[int, float]]:
    """(round, test accuracy) of the evaluated models."""
    pairs = [(record.round, record.test_accuracy) for record in run.records]
    return [(round, accuracy) for round, accuracy in pairs if accuracy is not None]


def print_summary(runs: Sequence[Run]) -> None:
    """The comparison, and the test accuracy of each run over the rounds."""
    print(comparison(runs, figures=FIGURES).text(100))
    print()
    for run in runs:
        course = ", ".join(f"{round}: {accuracy:.3f}" for round, accuracy in accuracies(run))
        print(f"{run.label} seed {run.seed}: accuracy by round {course}")


def main(folder: str, picture: str | None = None) -> None:
    runs, problems = read_runs(folder)
    print_summary(runs)
    print(*problems, sep="\n")
    if picture is not None:
        save_figure(losses_by_client(runs), picture)


if __name__ == "__main__":
    main(*sys.argv[1:3])
