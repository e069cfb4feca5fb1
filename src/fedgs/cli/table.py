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
    target_valid_loss: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            "--target-valid-loss",
            help="Add the rounds to this validation loss.",
            show_default=False,
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
            help="Add the rounds to this value of a metric, such as auc=0.9, or valid_auc=0.9 on "
            "the validation parts.",
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
        target=_target(
            runs, target_loss, target_accuracy, target_metric, valid_loss=target_valid_loss
        ),
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
    runs: "Sequence[Run]",
    loss: float | None,
    accuracy: float | None,
    metric: str,
    *,
    valid_loss: float | None = None,
) -> "Target | None":
    """The target that the options name."""
    from fedgs.report.targets import Target

    if sum(given is not None for given in (loss, valid_loss, accuracy, metric or None)) > 1:
        raise ConfigError(
            "--target-loss, --target-valid-loss, --target-accuracy and --target-metric exclude "
            "each other; give one"
        )
    if metric:
        return _metric_target(runs, metric)
    if valid_loss is not None:
        return Target(valid_loss, "valid_loss")
    if accuracy is not None:
        return Target(accuracy, "test_accuracy")
    return None if loss is None else Target(loss)


def _metric_target(runs: "Sequence[Run]", text: str) -> "Target":
    """The target that NAME=VALUE names."""
    from fedgs.report.metric_columns import better_of, ranges_of
    from fedgs.report.summary import evaluated
    from fedgs.report.targets import Target

    given, _, number = (part.strip() for part in text.partition("="))
    figure = given if given.startswith("valid_") else f"test_{given}"
    name, known = figure.partition("_")[2], better_of(runs)
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if name not in known or not math.isfinite(value):
        raise ConfigError(
            "--target-metric takes NAME=VALUE with a metric of the runs "
            f"({', '.join(known) or 'they have none'}); got {text!r}"
        )
    low, high = ranges_of(runs).get(name, (-math.inf, math.inf))
    if not low <= value <= high:
        upper = "" if math.isinf(high) else f" and at most {high:g}"
        raise ConfigError(
            f"--target-metric must be at least {low:g}{upper} for {name!r}, got {value:g}"
        )
    if not any(evaluated(run, figure) for run in runs):
        raise ConfigError(f"--target-metric names {given!r}, which no run has a value of")
    return Target(value, figure, "higher" if known[name] > 0 else "lower")
