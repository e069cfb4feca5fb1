"""`fedgs bench engine`: how fast rounds are trained here, and how far from the floor."""

from typing import Annotated, Literal, Optional, cast

import typer
from rich.table import Table

from fedgs.cli.common import console

__all__ = ["engine"]


def engine(
    settings: Annotated[
        Optional[list[str]],  # noqa: UP045 (typer reads the annotation)
        typer.Argument(
            metavar="[SETTING]...",
            help="synthetic, fashion_mnist, cifar10; all without one.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[str, typer.Option("--engine", help="auto, loop or stacked.")] = "auto",
    device: Annotated[str, typer.Option("--device", help="cpu, cuda or cuda:<number>.")] = "cpu",
    precision: Annotated[str, typer.Option("--precision", help="float32 or bf16.")] = "float32",
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, help="How often each is timed; the median counts.")
    ] = 5,
) -> None:
    """Time a round of each of the paper's settings and a bare PyTorch loop over the same steps."""
    from fedgs.bench.engines import SETTINGS, machine, measure_setting

    table = Table(box=None, pad_edge=False)
    for column in ("setting", "engine"):
        table.add_column(column, no_wrap=True)
    for column in ("round ms", "eval ms", "floor ms", "ratio", "run-rounds/s", "MB"):
        table.add_column(column, justify="right", no_wrap=True)
    for setting in settings or SETTINGS:
        row = measure_setting(
            setting,
            engine=name,
            device=device,
            precision=cast(Literal["float32", "bf16"], precision),
            repeats=repeats,
        )
        seconds = (row.round_seconds, row.evaluation_seconds, row.floor_seconds)
        table.add_row(
            row.setting,
            row.engine.partition(":")[0],
            *(f"{1e3 * value:.2f}" for value in seconds),
            f"{row.ratio:.2f}",
            f"{row.run_rounds_per_second:,.1f}",
            f"{row.peak_megabytes:.0f}",
        )
    console().print(table)
    console().print(
        f"{machine()}. Medians of {repeats}; floor: bare PyTorch on ready batches, same steps."
    )
