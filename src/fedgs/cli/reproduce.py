"""`fedgs reproduce`: a table or figure of the paper, made from stored or new runs."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from fedgs.cli.common import DataDirOption, console, line_width
from fedgs.cli.progress import progress_display

if TYPE_CHECKING:
    from fedgs.experiments.paper.frame.run import Reproduction

__all__ = ["reproduce"]

_NAMES = (
    "table1 to table4, fig3, fig4, fig5, fig7, fig8, tuning, gamma, theorem1; "
    "or document: the page of all that is in --out"
)
_DATA = "synthetic, cifar10, fashion_mnist or FILE.npz, separated by commas."
_METHODS = "Rows, such as uniform,fedgs-1; fedgs: all of its rows."
_SCALE = "Scale of the FedGS rows: cohort (the paper's tables) or paper."
_OURS = "Add FedGS and uniform with inverse participation."
Words = Optional[list[str]]  # noqa: UP045 (typer reads the annotation)
Number = Optional[int]  # noqa: UP045


def reproduce(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help=_NAMES)],
    data: Annotated[Words, typer.Option("--data", help=_DATA)] = None,
    modes: Annotated[
        Words, typer.Option("--modes", help="Such as IDL,LDF or LN0.3; default: the paper's.")
    ] = None,
    methods: Annotated[Words, typer.Option("--methods", help=_METHODS)] = None,
    rounds: Annotated[
        Number, typer.Option("--rounds", min=1, help="Number of rounds T; default: the paper's.")
    ] = None,
    seeds: Annotated[str, typer.Option("--seeds", help="How many (3), or which (0,1,2).")] = "",
    scale: Annotated[str, typer.Option("--scale", help=_SCALE)] = "",
    ours: Annotated[bool, typer.Option("--ours", help=_OURS)] = False,
    workers: Annotated[
        Number, typer.Option("--workers", min=1, help="Processes that share the runs.")
    ] = None,
    set_: Annotated[
        Words, typer.Option("--set", metavar="K=V", help="A setting of every run. Repeatable.")
    ] = None,
    data_dir: DataDirOption = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder of records, tables, figures.")
    ] = Path("fedgs-paper"),
) -> None:
    """Make a table or figure of the paper, and compare our figures with the published ones.

    Finished runs are reused, and interrupted runs are resumed.
    """
    if name == "document":
        _document(out)
        return
    from fedgs.experiments.paper.frame.request import Options
    from fedgs.experiments.paper.frame.run import reproduce as carry_out
    from fedgs.experiments.paper.frame.run import requested

    options = Options(
        data=data or (),
        modes=modes or (),
        methods=methods or (),
        rounds=rounds,
        seeds=seeds,
        scale=scale,
        ours=ours,
        workers=workers,
        set=set_ or (),
    )
    request = requested(name, options, data_dir=data_dir)
    screen = console()
    outcome = carry_out(
        request,
        out=out,
        data_dir=data_dir,
        workers=workers,
        command=_command(name, context),
        display=lambda runs, longest: progress_display(screen, runs=runs, rounds=longest),
    )
    _print(outcome, out)


def _print(outcome: "Reproduction", out: Path) -> None:
    """Print tables, verdict and files; exit with code 1 if a run failed."""
    screen = console()
    if outcome.reused:
        from fedgs.cli.run import reuse

        screen.print(reuse(outcome.reused, outcome.total).partition(";")[0])
    for table in outcome.rendering.tables.values():
        screen.print(f"\n{table.title}\n\n{table.text(line_width(screen))}")
    screen.print("\n" + "\n".join(outcome.rendering.verdict))
    for problem in outcome.problems:
        console(stderr=True).print(problem)
    screen.print(f"\nWritten to {out}/: {', '.join(path.name for path in outcome.files)}")
    failed = [loaded.run for loaded in outcome.records.runs if loaded.run.failure is not None]
    if failed:
        from fedgs.cli.run import report_failures

        report_failures(failed)
        raise SystemExit(1)


def _command(name: str, context: typer.Context) -> str:
    """The command line, without the folders of this machine."""
    parts = ["fedgs", "reproduce", name]
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if parameter.name in ("name", "out", "data_dir") or not value:
            continue
        flag = parameter.opts[0]
        for entry in value if isinstance(value, list | tuple) else [value]:
            is_file = parameter.name == "data" and str(entry).endswith(".npz")
            word = Path(str(entry)).name if is_file else str(entry)
            parts += [flag] if entry is True else [flag, word]
    return shlex.join(parts)


def _document(out: Path) -> None:
    from fedgs.experiments.paper.frame.page import write_page
    from fedgs.plurals import counted

    written = write_page(out)
    for problem in written.problems:
        console(stderr=True).print(problem)
    files = counted(len(written.files), "file")
    console().print(f"{written.path}: the page of every part, run or not")
    console().print(f"{out}/: {files} of tables and figures, made from the records")
