"""`fedgs bench engine`: how fast rounds are trained here, by setting or by method."""

from collections.abc import Sequence
from typing import Annotated, Literal, Optional, cast

import typer
from rich.table import Table

from fedgs.cli.common import console
from fedgs.errors import ConfigError

__all__ = ["engine"]

_Precision = Literal["float32", "bf16"]


def engine(
    settings: Annotated[
        Optional[list[str]],  # noqa: UP045 (typer reads the annotation)
        typer.Argument(
            metavar="SETTING...",
            help="synthetic, fashion_mnist, cifar10; with --processor also resnet8 and lstm. "
            "All without one.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[str, typer.Option("--engine", help="auto, loop or stacked.")] = "auto",
    device: Annotated[str, typer.Option("--device", help="cpu, cuda or cuda:<number>.")] = "cpu",
    precision: Annotated[str, typer.Option("--precision", help="float32 or bf16.")] = "float32",
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, help="Repetitions of each; the median is printed.")
    ] = 5,
    methods: Annotated[
        bool,
        typer.Option("--methods", help="Time a run-round of each method on Synthetic instead."),
    ] = False,
    processor: Annotated[
        bool,
        typer.Option(
            "--processor",
            help="Time the loop engine and the bare loop by processor time of one thread instead.",
        ),
    ] = False,
) -> None:
    """Time a round of each of the paper's settings and a bare PyTorch loop over the same steps."""
    checked = cast(_Precision, precision)
    if methods and processor:
        raise ConfigError("--methods and --processor exclude each other; give one")
    if processor:
        if name not in ("auto", "loop") or (device, precision) != ("cpu", "float32"):
            raise ConfigError(
                "--processor goes with --engine loop, --device cpu and --precision float32, "
                f"got {name}, {device} and {precision}"
            )
        _by_processor_time(settings or [], repeats=repeats)
    elif methods:
        if (name, device, precision) != ("auto", "cpu", "float32"):
            raise ConfigError(
                "--methods goes with --engine auto, --device cpu and --precision float32, "
                f"got {name}, {device} and {precision}"
            )
        _by_method(settings or [], repeats=repeats)
    else:
        _by_setting(settings or [], name, device, precision=checked, repeats=repeats)


def _table(words: Sequence[str], numbers: Sequence[str]) -> Table:
    """An empty table with these columns."""
    table = Table(box=None, pad_edge=False)
    for column in words:
        table.add_column(column, no_wrap=True)
    for column in numbers:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _by_method(settings: Sequence[str], *, repeats: int) -> None:
    """A row for each method, relative to `uniform`."""
    from fedgs.bench.engines import machine
    from fedgs.bench.methods import measure_methods

    if any(setting != "synthetic" for setting in settings):
        raise ConfigError(
            f"SETTING must be synthetic with --methods, got {', '.join(map(repr, settings))}"
        )
    table = _table(("part", "method"), ("ms", "ratio", "target", "losses"))
    for row in measure_methods(repeats=repeats):
        target = row.row.target
        table.add_row(
            row.row.kind,
            row.row.name,
            f"{row.milliseconds:.3f}",
            f"{row.ratio:.2f}{'*' if row.misses else ''}",
            "-" if target is None else f"{target:g}",
            f"{row.losses:g}",
        )
    console().print(table)
    console().print(
        f"{machine()}. Processor time of one thread for a run-round of Synthetic, 10 runs "
        f"together, medians of {repeats}; ratio: to uniform's, timed in turns, * above the target; "
        "losses: clients whose loss is computed besides."
    )


def _by_processor_time(settings: Sequence[str], *, repeats: int) -> None:
    """A row for each setting: the loop engine above the bare loop."""
    from fedgs.bench.engines import machine
    from fedgs.bench.floors import FLOOR_SETTINGS, TARGET, measure_floor

    table = _table(("setting",), ("round ms", "floor ms", "ratio"))
    for setting in settings or FLOOR_SETTINGS:
        row = measure_floor(setting, repeats=repeats)
        table.add_row(
            row.setting,
            f"{1e3 * row.round_seconds:.2f}",
            f"{1e3 * row.floor_seconds:.2f}",
            f"{row.ratio:.2f}{'*' if row.misses else ''}",
        )
    console().print(table)
    console().print(
        f"{machine()}. Processor time of one thread, medians of {repeats}; the loop engine and "
        f"bare PyTorch on ready batches take turns; * above {TARGET:g}."
    )


def _by_setting(
    settings: Sequence[str], name: str, device: str, *, precision: _Precision, repeats: int
) -> None:
    """A row for each setting of the paper."""
    from fedgs.bench.engines import SETTINGS, machine, measure_setting

    table = _table(
        ("setting", "engine"), ("round ms", "eval ms", "floor ms", "ratio", "run-rounds/s", "MB")
    )
    for setting in settings or SETTINGS:
        row = measure_setting(
            setting,
            engine=name,
            device=device,
            precision=precision,
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
