"""`fedgs bench scale`: time and memory of FedGS by the number of clients on this machine."""

from typing import Annotated

import typer

from fedgs.errors import ConfigError

__all__ = ["scale"]

METHODS = ("uniform", "fedgs")  # of --whole-rounds


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
    whole: Annotated[
        bool,
        typer.Option(
            "--whole-rounds",
            help="Measure whole rounds of uniform and fedgs in place of FedGS alone: time, memory "
            "and disk of runs over data in a folder. Needs about 1 GB on the disk.",
        ),
    ] = False,
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            help="uniform or fedgs, for --whole-rounds; may be given again. Without it: both.",
        ),
    ] = None,
    workers: Annotated[
        list[int] | None,
        typer.Option(
            "--workers",
            help="Measure rounds of uniform by so many worker processes, in wall time; may be "
            "given again, the first one 1. Needs about 2 GB on the disk.",
        ),
    ] = None,
) -> None:
    """Make the client graph, select cohorts, and print processor time and memory as a table."""
    from fedgs.bench.scale import CLIENTS, markdown, measure_scale

    if whole and workers:
        raise ConfigError("give either --whole-rounds or --workers, not both")
    if method and not whole:
        raise ConfigError("--method needs --whole-rounds; the other tables have one method")
    methods = tuple(dict.fromkeys(method or METHODS))
    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        raise ConfigError(f"--method must be {' or '.join(METHODS)}, got {unknown[0]!r}")
    chosen = tuple(clients or CLIENTS)
    if workers:
        from fedgs.bench.scale_workers import measure_workers, workers_markdown

        print(workers_markdown(list(measure_workers(chosen, workers, rounds=max(3, rounds)))))
    elif whole:
        from fedgs.bench.scale_rounds import measure_rounds, rounds_markdown

        measured = measure_rounds(chosen, methods=methods, rounds=max(3, rounds))
        print(rounds_markdown(list(measured)))
    else:
        print(markdown(list(measure_scale(chosen, rounds=rounds, seed=seed))))
