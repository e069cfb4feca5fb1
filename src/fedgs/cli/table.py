"""`fedgs table`: the figures of a folder of runs, side by side."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fedgs.cli.common import console, line_width

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
    figures = comparison(runs, against=against or None, figures=ALL_FIGURES)
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
