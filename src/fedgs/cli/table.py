"""`fedgs table`: the figures of a folder of runs, side by side."""

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from fedgs.cli.common import console, line_width
from fedgs.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedgs.report.run_view import Run
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
    target_metric: Annotated[
        str,
        typer.Option(
            "--target-metric",
            help="Add the rounds to this value of a metric, such as auc=0.9.",
            metavar="NAME=VALUE",
            show_default=False,
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
        target=_target(runs, target_loss, target_accuracy, target_metric),
        at_hours=_hours(at_hours, runs),
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


def _hours(text: str, runs: "Sequence[Run]") -> list[float]:
    """The hours that the option names."""
    from fedgs.report.hours import has_clock

    try:
        hours = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        hours = [math.nan]
    if not all(0 <= hour < math.inf for hour in hours):
        raise ConfigError(f"--at-hours takes numbers >= 0, such as 1,6,24; got {text!r}")
    if hours and not any(has_clock(run) for run in runs):
        raise ConfigError(
            f"--at-hours needs runs with a clock, a table [system]; they have none; got {text!r}"
        )
    return hours


def _target(
    runs: "Sequence[Run]", loss: float | None, accuracy: float | None, metric: str
) -> "Target | None":
    """The target that the options name."""
    from fedgs.report.metric_columns import better_of
    from fedgs.report.targets import Target

    if (loss is not None) + (accuracy is not None) + bool(metric) > 1:
        raise ConfigError(
            "--target-loss, --target-accuracy and --target-metric exclude each other; give one"
        )
    if metric:
        name, _, text = metric.partition("=")
        known = better_of(runs)
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if name.strip() not in known or not math.isfinite(value):
            raise ConfigError(
                "--target-metric takes NAME=VALUE with a metric of the runs "
                f"({', '.join(known) or 'they have none'}); got {metric!r}"
            )
        better = known[name.strip()]
        return Target(value, f"test_{name.strip()}", "higher" if better > 0 else "lower")
    if accuracy is not None:
        return Target(accuracy, "test_accuracy")
    return None if loss is None else Target(loss)
