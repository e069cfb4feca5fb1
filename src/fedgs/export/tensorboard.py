"""Runs as event files of TensorBoard: one folder a run, one scalar a metric and round."""

from collections.abc import Sequence
from pathlib import Path

from fedgs.export.library import library
from fedgs.export.rows import metrics_of, seconds_of
from fedgs.export.titles import titles_of
from fedgs.report.run_view import Run

__all__ = ["to_tensorboard"]


def to_tensorboard(runs: Sequence[Run], out: str) -> None:
    """Write OUT/TITLE/events.out.tfevents.* for each run.

    The step is the round. The time of a round is the start of the run plus the seconds of its
    rounds, so that the relative axis shows the seconds of the run itself.

    Args:
        runs: labelled.
        out: an empty folder, or one that does not exist.

    Raises:
        MissingExtraError: tensorboard is not installed.
    """
    summary = library("tensorboard.summary", "--to tensorboard")
    for run, title in zip(runs, titles_of(runs), strict=True):
        writer = summary.Writer(str(Path(out) / title))
        for record, seconds in zip(run.records, seconds_of(run), strict=True):
            for name, value in metrics_of(record).items():
                writer.add_scalar(name, value, record.round, wall_time=seconds)
        writer.close()
