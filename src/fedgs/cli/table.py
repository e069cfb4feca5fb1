"""`fedgs table`: the figures of a folder of runs, side by side."""

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from fedgs.cli.common import console, line_width
from fedgs.errors import ConfigError

if TYPE_CHECKING:
    from fedgs.report.targets import Target

__all__ = ["TableFormat", "table"]


class TableFormat(StrEnum):
    """The forms of a table."""

    text = "text"
    markdown = "markdown"
    csv = "csv"
    latex = "latex"


def table(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An output folder of fedgs run.")],
    against: Annotated[
        str,
        typer.Option("--against", help="The method that others are compared to; default: uniform."),
    ] = "",
    target_loss: Annotated[
        Optional[float],  # noqa: UP045 (typer reads the annotation)
        typer.Option("--target-loss", help="Add the rounds to this test loss.", show_default=False),
    ] = None,
    target_accuracy: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            "--target-accuracy", help="Add the rounds to this test accuracy.", show_default=False
        ),
    ] = None,
    at_hours: Annotated[
        str,
        typer.Option(
            "--at-hours",
            metavar="HOURS",
            help="Add the figure at these hours of runs with a clock, such as 1,6,24.",
        ),
    ] = "",
    format: Annotated[
        TableFormat, typer.Option("--format", help="Format of the table.")
    ] = TableFormat.text,
    out: Annotated[
        str, typer.Option("--out", metavar="FILE", help="Write the table to a file instead.")
    ] = "",
) -> None:
    """Print mean and spread over seeds, and paired differences, for the runs in DIR.

    Unfinished runs are included.
    """
    from fedgs.report.files import write_file
    from fedgs.report.reading import read_runs
    from fedgs.report.tables import ALL_FIGURES, comparison

    runs, problems = read_runs(folder)
    figures = comparison(
        runs,
        against=against or None,
        figures=ALL_FIGURES,
        target=_target(target_loss, target_accuracy),
        at_hours=_hours(at_hours),
    )
    screen = console()
    width = None if out else line_width(screen)
    forms = {
        TableFormat.text: lambda: figures.text(width),
        TableFormat.markdown: figures.markdown,
        TableFormat.csv: figures.csv,
        TableFormat.latex: figures.latex,
    }
    content = forms[format]().rstrip("\n")
    if out:
        write_file(Path(out), (content + "\n").encode())
    else:
        screen.print(content)
    for problem in problems:
        console(stderr=True).print(problem)


def _hours(text: str) -> list[float]:
    """The hours that the option names."""
    try:
        hours = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        hours = [math.nan]
    if not all(0 <= hour < math.inf for hour in hours):
        raise ConfigError(f"--at-hours takes numbers >= 0, such as 1,6,24; got {text!r}")
    return hours


def _target(loss: float | None, accuracy: float | None) -> "Target | None":
    """The target that the options name."""
    from fedgs.report.targets import Target

    if loss is not None and accuracy is not None:
        raise ConfigError("--target-loss and --target-accuracy exclude each other; give one")
    if accuracy is not None:
        return Target(accuracy, "test_accuracy")
    return None if loss is None else Target(loss)
