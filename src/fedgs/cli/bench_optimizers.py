"""`fedgs bench optimizers`: the cost of momentum, weight decay and Adam in the stacked engine."""

from typing import Annotated

import typer
from rich.table import Table

from fedgs.cli.common import console

__all__ = ["optimizers"]


def optimizers(
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, help="Repetitions of each; the median is printed.")
    ] = 5,
) -> None:
    """Time a round of the stacked engine with each optimiser and with plain SGD, in turns."""
    from fedgs.bench.engines import machine
    from fedgs.bench.optimizers import TARGET, measure_optimizers

    table = Table(box=None, pad_edge=False)
    for column in ("model", "optimizer"):
        table.add_column(column, no_wrap=True)
    for column in ("plain ms", "ms", "ratio"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in measure_optimizers(repeats=repeats):
        table.add_row(
            row.model,
            row.optimizer,
            f"{1e3 * row.plain_seconds:.2f}",
            f"{1e3 * row.seconds:.2f}",
            f"{row.ratio:.2f}{'*' if row.misses else ''}",
        )
    console().print(table)
    console().print(
        f"{machine()}. Processor time of one thread for a round, medians of {repeats}, timed in "
        f"turns; * above {TARGET:g}."
    )
