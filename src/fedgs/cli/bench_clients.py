"""`fedgs bench clients`: the cost of evaluating clients separately."""

from typing import Annotated

import typer
from rich.table import Table

from fedgs.cli.common import console

__all__ = ["clients"]


def clients(
    number: Annotated[int, typer.Option("--clients", min=1, help="Number of clients.")] = 1000,
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, help="Repetitions of each; the median is printed.")
    ] = 5,
) -> None:
    """Time the evaluation of each client and one evaluation of the same examples, in turns."""
    from fedgs.bench.by_client import TARGET, measure_by_client
    from fedgs.bench.engines import machine

    table = Table(box=None, pad_edge=False)
    table.add_column("model", no_wrap=True)
    for column in ("clients", "examples", "once ms", "by client ms", "ratio"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in measure_by_client(clients=number, repeats=repeats):
        table.add_row(
            row.model,
            str(row.clients),
            str(row.examples),
            f"{1e3 * row.once_seconds:.2f}",
            f"{1e3 * row.by_client_seconds:.2f}",
            f"{row.ratio:.2f}{'*' if row.misses else ''}",
        )
    console().print(table)
    console().print(
        f"{machine()}. Processor time of one thread, medians of {repeats}, timed in turns; "
        f"* above {TARGET:g}."
    )
