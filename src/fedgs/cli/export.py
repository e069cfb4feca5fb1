"""`fedgs export`: a folder of runs in the form of another tool."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fedgs.cli.common import console
from fedgs.plurals import counted

__all__ = ["Tool", "export"]


class Tool(StrEnum):
    """The tools that runs can be exported to."""

    csv = "csv"
    parquet = "parquet"
    tensorboard = "tensorboard"
    mlflow = "mlflow"
    wandb = "wandb"


def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An output folder of fedgs run.")],
    to: Annotated[Tool, typer.Option("--to", help="The form of the records.")],
    out: Annotated[
        str,
        typer.Option(
            "--out",
            metavar="PATH",
            help="The file or folder to write, for mlflow also a server; else one inside DIR.",
        ),
    ] = "",
) -> None:
    """Write the records of the runs in DIR for pandas, TensorBoard, MLflow or Weights & Biases.

    Nothing is sent over the network, unless --out is the address of an MLflow server.
    """
    from fedgs.export.target import TARGETS, export
    from fedgs.report.reading import read_runs

    runs, problems = read_runs(folder)
    target = TARGETS[to]
    path = out or str(folder / target.default)
    export(runs, to=to, out=path)
    records = sum(len(run.records) for run in runs)
    opens = target.opens(path)
    screen = console()
    screen.print(f"{path}: {counted(len(runs), 'run')}, {counted(records, 'record')}")
    if opens:
        screen.print(f"Next: {opens}")
    for problem in problems:
        console(stderr=True).print(problem)
