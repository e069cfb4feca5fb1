"""`fedgs figures`: the figures of a folder of runs, as PDF and PNG."""

from pathlib import Path
from typing import Annotated

import typer

from fedgs.cli.common import console
from fedgs.plurals import counted

__all__ = ["figures"]


def figures(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An output folder of fedgs run.")],
    out: Annotated[
        str, typer.Option("--out", metavar="DIR", help="Where the figures go; else DIR/figures.")
    ] = "",
) -> None:
    """Draw loss curves, participation, partition and client graph of the runs in DIR.

    Each figure is written as PDF and PNG, one column of a paper wide. What the records do not allow
    is left out with a sentence.
    """
    from fedgs.report.figure_set import write_figures
    from fedgs.report.reading import read_runs

    runs, problems = read_runs(folder)
    target = Path(out) if out else folder / "figures"
    paths, missing = write_figures(runs, target)
    names = list(dict.fromkeys(path.stem for path in paths))
    screen = console()
    screen.print(f"{target}: {counted(len(names), 'figure')} as PDF and PNG: {', '.join(names)}")
    for sentence in missing:
        screen.print(sentence)
    for problem in problems:
        console(stderr=True).print(problem)
