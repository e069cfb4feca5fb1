"""`fedgs model`: the best and the last models of stored runs, as safetensors files."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Optional

import typer

from fedgs.cli.common import console

__all__ = ["Choice", "model"]


class Choice(StrEnum):
    """Which models to write."""

    best = "best"
    last = "last"
    both = "both"


def model(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="An output folder of fedgs run, or of one run.")
    ],
    which: Annotated[
        Choice, typer.Option("--which", help="The best model, the last one, or both.")
    ] = Choice.both,
    out: Annotated[
        Optional[Path],  # noqa: UP045 (typer reads the annotation)
        typer.Option(
            "--out",
            metavar="DIR",
            help="A folder for all files; default: the runs' own.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write the models of the runs in DIR as safetensors files.

    The best model is that by the figure evaluation.best, without which it is the one with the
    lowest validation loss, or with the lowest test loss where there are no validation parts.
    """
    from fedgs.errors import OutputError
    from fedgs.experiments.kept_models import metadata_of
    from fedgs.experiments.snapshots import stored_snapshot
    from fedgs.models.weights import write_weights
    from fedgs.records import RunFolder
    from fedgs.report.reading import read_runs

    runs, problems = read_runs(folder)
    words = ("best", "last") if which is Choice.both else (which.value,)
    written = 0
    for run in runs:
        assert run.path is not None
        for word in words:
            name = f"{word}.safetensors"
            path = run.path / name if out is None else out / f"{run.name}-{name}"
            try:
                snapshot = stored_snapshot(RunFolder(run.path), word)
                tensors = snapshot.by_name()
            except OutputError as error:
                problems.append(f"{run.name}: {error}")
                continue
            write_weights(path, tensors, metadata_of(snapshot, word))
            written += 1
            console().print(f"{path}: {run.label} seed {run.seed}, round {snapshot.round}")
    for problem in problems:
        console(stderr=True).print(problem)
    if not written:
        raise OutputError(f"{folder} holds no model that could be written")
