"""`fedgs reproduce`: a table or figure of the paper from stored or fresh runs, the paper's figures beside ours."""

import shlex
from pathlib import Path
from typing import Annotated, Optional

import typer

from fedgs.cli.common import DataDirOption, console
from fedgs.cli.progress import progress_display
from fedgs.experiments.grid import parse_override

__all__ = ["reproduce"]

_NAMES = "table1 to table4, fig3, fig4, fig5, fig7, fig8, tuning, gamma, theorem1; or document: the page of all that is in --out"
Words = Optional[list[str]]  # noqa: UP045 (typer reads the annotation)


def reproduce(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help=_NAMES)],
    data: Annotated[
        Words, typer.Option("--data", help="synthetic, cifar10, fashion_mnist or FILE.npz; several by commas.")
    ] = None,
    modes: Annotated[Words, typer.Option("--modes", help="Such as IDL,LDF or LN0.3; else the paper's.")] = None,
    methods: Annotated[Words, typer.Option("--methods", help="Rows, such as uniform,fedgs-1; fedgs: all of its rows.")] = None,
    rounds: Annotated[Optional[int], typer.Option("--rounds", min=1, help="T; else the paper's.")] = None,  # noqa: UP045
    seeds: Annotated[str, typer.Option("--seeds", help="How many (3), or which (0,1,2).")] = "",
    scale: Annotated[str, typer.Option("--scale", help="Of the FedGS rows: cohort, the paper's tables, or paper.")] = "",
    ours: Annotated[bool, typer.Option("--ours", help="Add FedGS and uniform with inverse participation.")] = False,
    workers: Annotated[Optional[int], typer.Option("--workers", min=1, help="Processes that share the runs.")] = None,  # noqa: UP045
    set_: Annotated[Words, typer.Option("--set", metavar="K=V", help="A setting of every run. Repeatable.")] = None,
    data_dir: DataDirOption = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of records, tables, figures.")] = Path("fedgs-paper"),
) -> None:
    """Make a table or figure of the paper, set its figures beside ours, and say where the order of methods agrees.

    Finished runs are kept, interrupted ones go on where they stopped.
    """
    from fedgs.experiments.paper.frame.request import Asked, parse_data, parse_modes, parse_seeds
    from fedgs.experiments.paper.frame.run import checked
    from fedgs.experiments.paper.frame.run import reproduce as carry_out

    if name == "document":
        _document(out)
        return
    options = {"data": data, "modes": modes, "methods": methods, "rounds": rounds, "seeds": seeds, "scale": scale, "ours": ours}
    given = [key for key, value in {**options, "workers": workers, "set": set_}.items() if value]
    asked = Asked(
        name,
        data=parse_data(data or [], data_dir),
        modes=parse_modes(modes or []),
        methods=tuple(word.strip() for text in methods or [] for word in text.split(",") if word.strip()),
        rounds=rounds,
        seeds=parse_seeds(seeds or "3"),
        scale=scale or "cohort",
        ours=ours,
        overrides=tuple(parse_override(text) for text in set_ or []),
    )
    asked = checked(asked, given)
    screen = console()
    outcome = carry_out(
        asked,
        out=out,
        data_dir=data_dir,
        workers=workers,
        command=_command(asked.name, context),
        display=lambda runs, longest: progress_display(screen, runs=runs, rounds=longest),
    )
    if outcome.reused:
        from fedgs.cli.run import reuse

        screen.print(reuse(outcome.reused, outcome.total).partition(";")[0])
    for shown in outcome.presented.tables:
        if shown.printed:
            screen.print(f"\n{shown.table.title}\n\n{shown.table.text()}")
    screen.print("\n" + "\n".join(outcome.presented.verdict))
    for problem in outcome.problems:
        console(stderr=True).print(problem)
    screen.print(f"\nWritten to {out}/: {', '.join(path.name for path in outcome.files)}")
    failed = [one.run for one in outcome.material.runs if one.run.failure is not None]
    if failed:
        from fedgs.cli.run import report_failures

        report_failures(failed)
        raise SystemExit(1)


def _command(name: str, context: typer.Context) -> str:
    """The command line again, without where files lie on this machine."""
    parts = ["fedgs", "reproduce", name]
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if parameter.name in ("name", "out", "data_dir") or not value:
            continue
        flag = parameter.opts[0]
        for one in value if isinstance(value, list | tuple) else [value]:
            word = Path(str(one)).name if parameter.name == "data" and str(one).endswith(".npz") else str(one)
            parts += [flag] if one is True else [flag, word]
    return shlex.join(parts)


def _document(out: Path) -> None:
    from fedgs.experiments.paper.frame.page import write_document

    written, problems = write_document(out)
    for problem in problems:
        console(stderr=True).print(problem)
    console().print(f"{written}: the page of every part, run or not")
