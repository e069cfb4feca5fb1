"""`fedgs report`: a folder of runs as one page that opens offline."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Optional

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
    every: Annotated[
        Optional[float],  # noqa: UP045 (typer reads the annotation)
        typer.Option(
            "--every",
            metavar="SECONDS",
            min=1,
            help="Write the file again after so many seconds, until Ctrl-C; the page reloads.",
        ),
    ] = None,
) -> None:
    """Write one HTML file about the runs in DIR.

    It shows tables, curves, participation, the client graph and the configuration, also of runs
    that are in progress or were killed. The file needs no network.
    """
    _write(folder, out, every)
    while every is not None:
        time.sleep(every)
        _write(folder, out, every)


def _write(folder: Path, out: str, every: float | None) -> None:
    from fedgs.report.files import write_file
    from fedgs.report.page import render_page
    from fedgs.report.reading import read_runs

    runs, problems = read_runs(folder)
    target = Path(out) if out else folder / "report.html"
    title = f"fedgs report: {folder.resolve().name}"
    page = render_page(runs, problems, title=title, written=datetime.now(UTC), reload=every)
    write_file(target, page.encode())
    console().print(f"{target}: {counted(len(runs), 'run')}, {target.stat().st_size / 1e6:.1f} MB")
    for problem in problems:
        console(stderr=True).print(problem)
