"""Runs as offline runs of Weights & Biases; nothing is sent until `wandb sync`."""

from collections.abc import Sequence
from pathlib import Path

from fedgs.export.library import library
from fedgs.export.rows import metrics_of
from fedgs.export.titles import titles_of
from fedgs.report.run_view import Run, without_none

__all__ = ["to_wandb"]


def to_wandb(runs: Sequence[Run], out: str) -> None:
    """Write OUT/wandb/offline-run-* for each run: its configuration, and its metrics by round.

    Runs of one method form a group. The id of a run is its fingerprint, so a run that is exported
    and sent twice stays one run.

    Args:
        runs: labelled.
        out: an empty folder, or one that does not exist.

    Raises:
        MissingExtraError: wandb is not installed.
    """
    wandb = library("wandb", "--to wandb")
    Path(out).mkdir(parents=True, exist_ok=True)
    has_run = wandb.run is not None  # of the program that calls, which continues
    settings = wandb.Settings(silent=True, console="off", save_code=False, disable_git=True)
    for run, title in zip(runs, titles_of(runs), strict=True):
        about = {"label": run.label, "data_title": run.group[0], "availability_title": run.group[1]}
        sent = wandb.init(
            mode="offline",
            project="fedgs",
            dir=out,
            id=str(run.about.get("fingerprint") or title),
            name=title,
            group=run.label or None,
            config={**without_none(run.config), **about},
            reinit="create_new",
            settings=settings,
        )
        for record in run.records:
            metrics = metrics_of(record)
            if metrics:
                sent.log(metrics, step=record.round)
        sent.finish(exit_code=0 if run.failure is None else 1)
    if not has_run:
        wandb.teardown()  # waits until the files are whole
