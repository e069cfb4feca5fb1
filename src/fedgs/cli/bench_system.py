"""`fedgs bench system`: the cost of a trace and of a clock on this machine."""

from typing import Annotated

import typer

__all__ = ["system"]


def system(
    devices: Annotated[
        int, typer.Option(min=60, help="Devices of the generated trace, each a client.")
    ] = 100_000,
    repeats: Annotated[
        int, typer.Option(min=1, help="Measurements of each; the median counts.")
    ] = 15,
) -> None:
    """Time A_t of a trace, and runs with a table [system] against runs without."""
    from fedgs.bench.system import markdown, measure_system

    print(markdown(list(measure_system(devices=devices, repeats=repeats))))
