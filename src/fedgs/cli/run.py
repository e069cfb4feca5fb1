"""`fedgs run`: train what a configuration asks for, and say who won by how much."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedgs.cli.common import (
    ConfigArgument,
    DataDirOption,
    PluginOption,
    SetOption,
    command_again,
    console,
    line_width,
    read_grid,
)
from fedgs.cli.progress import progress_display
from fedgs.errors import ConfigError
from fedgs.listeners import registered_listeners
from fedgs.plurals import counted, noun

if TYPE_CHECKING:
    from fedgs.experiments.listening import OnRecord
    from fedgs.records import Record
    from fedgs.report.run_view import Run

__all__ = ["run"]

OUT = Path("fedgs-runs")


def run(
    config: ConfigArgument = None,
    set_: SetOption = None,
    plugin: PluginOption = None,
    data_dir: DataDirOption = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the records.")] = OUT,
    against: Annotated[
        str, typer.Option("--against", help="The method that others are compared to.")
    ] = "",
    part: Annotated[
        str,
        typer.Option(
            "--part",
            metavar="I/N",
            help="Carry out every N-th run alone, beginning with the I-th; other processes may "
            "carry out the other parts with the same --out.",
        ),
    ] = "",
) -> None:
    """Train methods and print a table that compares them.

    Finished runs are reused, and interrupted ones are resumed.
    """
    which = _part(part) if part else None
    grid = read_grid(config, set_, plugin)
    from fedgs.experiments.runner import distinct, part_of
    from fedgs.experiments.study import prepare_study
    from fedgs.report.notes import is_named

    study = prepare_study(grid.configs, data_dir=data_dir)
    if against and not any(is_named(label, against) for label in study.labels):
        raise ConfigError(f"--against must be one of {', '.join(study.labels)}; got {against!r}")
    screen = console()
    screen.print(study.heading)
    runs = distinct(study.runs)
    count = len(runs)
    if which is not None:
        count = len(part_of(runs, which))
        screen.print(f"part {which[0]} of {which[1]}: {count} of {counted(len(runs), 'run')}")
    with progress_display(screen, runs=count, rounds=study.rounds) as on_progress:
        results = study.run(out=out, on_progress=on_progress, on_record=_listeners(), part=which)
    if results.reused:
        screen.print(reuse(results.reused, len(results.runs)))
    if which is None:
        screen.print()
        screen.print(results.table(against=against or None).text(line_width(screen)))
    failed = [run for run in results.runs if run.failure is not None]
    if failed:
        report_failures(failed)
        raise SystemExit(1)
    if which is not None:
        following = f"fedgs table {shlex.quote(str(out))}, after the other parts"
    else:
        following = next_step(config, set_, plugins=plugin, data_dir=data_dir, out=out)
    screen.print(f"Records: {out}/    Next: {following}")


def _part(text: str) -> tuple[int, int]:
    """(i, n) of "i/n"."""
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text.strip())
    number, parts = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= parts:
        raise ConfigError(
            f"--part must be I/N with whole numbers 1 <= I <= N, such as 3/16; got {text!r}"
        )
    return number, parts


def _listeners() -> "OnRecord | None":
    """One function that calls those that plug-ins registered; None without any."""
    functions = registered_listeners()

    def call_all(run: "Run", record: "Record") -> None:
        for function in functions:
            function(run, record)

    return call_all if functions else None


def reuse(reused: int, total: int) -> str:
    """The sentence about runs that were reused.

    >>> reuse(15, 15)
    'all runs were already complete and were reused'
    >>> reuse(1, 15)
    '1 of 15 runs was already complete and was reused'
    >>> reuse(1, 1)
    'the run was already complete and was reused'
    """
    what = (
        ("the run" if total == 1 else "all runs")
        if reused == total
        else f"{reused} of {counted(total, 'run')}"
    )
    were = noun(reused, "was", "were")
    return f"{what} {were} already complete and {were} reused"


def report_failures(failed: "Sequence[Run]") -> None:
    """Print every failed run with round, client and the traceback of the user's code.

    Equal tracebacks are printed once.
    """
    screen = console(stderr=True)
    shown: set[str] = set()
    for run in failed:
        failure = run.failure or {}
        client = "" if failure["client"] is None else f", client {failure['client']!r}"
        where = f"round {failure['round']}{client}"
        screen.print(f"fedgs: {run.label}, seed {run.seed} failed in {where}: {failure['error']}")
        traceback = str(failure["traceback"])
        # Text that is not a traceback says no more than the error.
        if traceback.startswith("Traceback") and traceback not in shown:
            shown.add(traceback)
            screen.print(traceback.rstrip())


def next_step(
    config: Path | None,
    overrides: list[str] | None,
    *,
    plugins: list[Path] | None,
    data_dir: Path | None,
    out: Path,
) -> str:
    """A command worth typing next, which can be pasted into a shell."""
    if config is None and not any(
        text.strip().startswith("availability") for text in overrides or []
    ):
        where = None if out == OUT else out
        also = ["availability=MDF"]
        return command_again(
            "fedgs run",
            config,
            overrides=overrides,
            plugins=plugins,
            data_dir=data_dir,
            out=where,
            also=also,
        )
    folder = shlex.quote(str(out))
    return f"fedgs report {folder}, or fedgs table {folder}"
