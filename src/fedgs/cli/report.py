"""`fedgs report`: a folder of runs as one page that opens offline."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from fedgs.cli.common import console
from fedgs.plurals import counted

__all__ = ["report"]


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An output folder of fedgs run.")],
    out: Annotated[
        str,
        typer.Option("--out", metavar="FILE", help="The file to write; default: DIR/report.html."),
    ] = "",
) -> None:
    """Write one HTML file about the runs in DIR.

    It shows tables, curves, participation, the client graph and the configuration, also of runs
    that are in progress or were killed. The file needs no network.
    """
    from fedgs.report.files import write_file
    from fedgs.report.page import render_page
    from fedgs.report.reading import read_runs

    runs, problems = read_runs(folder)
    target = Path(out) if out else folder / "report.html"
    title = f"fedgs report: {folder.resolve().name}"
    page = render_page(runs, problems, title=title, written=datetime.now(UTC))
    write_file(target, page.encode())
    console().print(f"{target}: {counted(len(runs), 'run')}, {target.stat().st_size / 1e6:.1f} MB")
    for problem in problems:
        console(stderr=True).print(problem)
