"""`fedgs bench solver`: how good and how fast the selection solver is on this machine."""

from typing import Annotated

import typer

__all__ = ["solver"]


def solver(
    clients: Annotated[
        list[int] | None,
        typer.Option(
            "--clients", help="Federation sizes: 30, 100, 200, 1000, 10000; may be given again."
        ),
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, help="Rounds of each of the 15 runs for each graph and scale.")
    ] = 8,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the federations.")] = 0,
) -> None:
    """Solve selection problems of many federations and print quality and time as a table."""
    from fedgs.bench.solver import markdown, run

    print(markdown(run(tuple(clients or (30, 100, 200, 1000)), rounds=rounds, seed=seed)))
