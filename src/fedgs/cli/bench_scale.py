"""`fedgs bench scale`: time and memory of FedGS by the number of clients on this machine."""

from typing import Annotated

import typer

__all__ = ["scale"]


def scale(
    clients: Annotated[
        list[int] | None,
        typer.Option(
            "--clients",
            help="Numbers of clients; may be given again. Without it: 100 to 1000000.",
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Selections of each; the median counts.")] = 7,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the federations.")] = 0,
) -> None:
    """Make the client graph, select cohorts, and print processor time and memory as a table."""
    from fedgs.bench.scale import CLIENTS, markdown, measure_scale

    print(markdown(list(measure_scale(tuple(clients or CLIENTS), rounds=rounds, seed=seed))))
