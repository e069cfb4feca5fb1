"""The `fedgs` command: which function carries out which command."""

import functools
import importlib
from collections.abc import Callable
from typing import Annotated, ParamSpec

import typer

from fedgs import __version__
from fedgs.cli.common import exit_codes, terminated_like_interrupted
from fedgs.collector import collect_rarely

__all__ = ["app", "main"]

Options = ParamSpec("Options")

app = typer.Typer(
    name="fedgs",
    help="Client sampling for federated learning under arbitrary availability.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

# Command -> the module and function that carry it out, in the order of the help.
_COMMANDS = {
    "run": "fedgs.cli.run:run",
    "table": "fedgs.cli.table:table",
    "model": "fedgs.cli.model:model",
    "report": "fedgs.cli.report:report",
    "figures": "fedgs.cli.figures:figures",
    "export": "fedgs.cli.export:export",
    "graph": "fedgs.cli.graph:graph",
    "reproduce": "fedgs.cli.reproduce:reproduce",
    "config": "fedgs.cli.config:config",
    "methods": "fedgs.cli.methods:methods",
    "list": "fedgs.cli.list:list_",
}
_GROUPS: dict[str, tuple[str, dict[str, str]]] = {
    "data": (
        "Describe, export and verify federations.",
        {
            "describe": "fedgs.cli.data:describe",
            "export": "fedgs.cli.data:export_",
            "check": "fedgs.cli.data:check",
            "verify": "fedgs.cli.data:verify",
        },
    ),
    "trace": (
        "Convert, describe and fetch traces of devices.",
        {
            "convert": "fedgs.cli.trace:convert",
            "profile": "fedgs.cli.trace:profile",
            "stats": "fedgs.cli.trace:stats",
            "fetch": "fedgs.cli.trace:fetch",
        },
    ),
    "bench": (
        "Measure speed on this machine.",
        {
            "engine": "fedgs.cli.bench_engine:engine",
            "clients": "fedgs.cli.bench_clients:clients",
            "optimizers": "fedgs.cli.bench_optimizers:optimizers",
            "scale": "fedgs.cli.bench_scale:scale",
            "solver": "fedgs.cli.bench_solver:solver",
            "system": "fedgs.cli.bench_system:system",
        },
    ),
}


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"fedgs {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """The options of `fedgs` without a command."""


def _command(path: str) -> Callable[..., None]:
    module, _, name = path.partition(":")
    function: Callable[..., None] = getattr(importlib.import_module(module), name)
    return _guarded(function)


def _guarded(function: Callable[Options, None]) -> Callable[Options, None]:
    """The command with `exit_codes` inside.

    Outside of them, typer would end an interrupted command without a message.
    """

    @functools.wraps(function)
    def command(*arguments: Options.args, **options: Options.kwargs) -> None:
        with exit_codes():
            function(*arguments, **options)

    return command


def _build() -> typer.Typer:
    for name, path in _COMMANDS.items():
        app.command(name)(_command(path))
    for name, (help_text, commands) in _GROUPS.items():
        group = typer.Typer(help=help_text, no_args_is_help=True)
        for command, path in commands.items():
            group.command(command)(_command(path))
        app.add_typer(group, name=name)
    return app


def main() -> None:
    """Run the command line.

    The exit code is 0, 1 (a run failed), 2 (bad input), 130 (interrupted) or 143 (SIGTERM).
    """
    collect_rarely()
    with exit_codes(), terminated_like_interrupted():
        _build()()
