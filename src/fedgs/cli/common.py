"""What every command shares: options, plug-ins, and the way from a command line to configurations and on to the next."""

import contextlib
import shlex
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
from rich.console import Console

from fedgs.config import Config
from fedgs.errors import FedgsError, UserError, missing_extra
from fedgs.experiments.grid import Grid, expand, parse_override, read_config
from fedgs.registry import load_plugin

__all__ = [
    "ConfigArgument",
    "DataDirOption",
    "PluginOption",
    "SetOption",
    "Terminated",
    "command_again",
    "console",
    "exit_codes",
    "one_config",
    "read_grid",
    "terminated_like_interrupted",
]

ConfigArgument = Annotated[
    Optional[Path],  # noqa: UP045 (typer reads the annotation)
    typer.Argument(
        metavar="[CONFIG]",
        help="A TOML file; without one, the standard comparison.",
        show_default=False,
    ),
]
SetOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--set",
        metavar="K=V",
        help="Set a value, such as method.alpha=2; a list makes an axis. Repeatable.",
    ),
]
PluginOption = Annotated[
    Optional[list[Path]],  # noqa: UP045
    typer.Option(
        "--plugin",
        metavar="FILE",
        help="A Python file that registers samplers, modes or models. Repeatable.",
    ),
]
DataDirOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--data-dir", metavar="DIR", help="Where data files are searched first.", show_default=False
    ),
]


def console(*, stderr: bool = False) -> Console:
    """A console that leaves text as it is: no markup, no highlighting, no wrapping of tables when piped."""
    return Console(stderr=stderr, highlight=False, markup=False, soft_wrap=True)


def read_grid(
    config: Path | None,
    overrides: list[str] | None,
    plugins: list[Path] | None,
    *,
    further: Sequence[tuple[str, Any]] = (),
) -> Grid:
    """The configurations that a command line asks for; `further` are dotted keys and values that an option stands for."""
    for path in plugins or []:
        load_plugin(path)
    given = None if config is None else read_config(config)
    asked = [parse_override(text) for text in overrides or []]
    return expand(given, [*asked, *further], file=config.name if config else "")


def one_config(
    config: Path | None, overrides: list[str] | None, plugins: list[Path] | None
) -> Config:
    """The first configuration, for commands that need a federation rather than runs."""
    return read_grid(config, overrides, plugins).configs[0]


def command_again(
    command: str,
    config: Path | None,
    *,
    overrides: Sequence[str] | None = None,
    plugins: Sequence[Path] | None = None,
    data_dir: Path | None = None,
    out: Path | None = None,
    also: Sequence[str] = (),
) -> str:
    """A command line with the same configuration, quoted for a shell.

    Args:
        command: such as "fedgs run".
        config, overrides, plugins, data_dir: as the command line gave them.
        out: the folder of the records; None: not named.
        also: further `--set` settings; each replaces an earlier one of the same key.

    >>> given = {"overrides": ["seed=0", "availability=LDF"], "plugins": [Path("my plug.py")]}
    >>> command_again("fedgs run", None, **given, also=["availability=MDF"])
    "fedgs run --set seed=0 --plugin 'my plug.py' --set availability=MDF"
    """
    replaced = {text.partition("=")[0].strip() for text in also}
    kept = [text for text in overrides or [] if text.partition("=")[0].strip() not in replaced]
    words = [] if config is None else [str(config)]
    for option, values in (("--set", kept), ("--plugin", plugins or []), ("--set", also)):
        words += [word for value in values for word in (option, str(value))]
    words += [] if data_dir is None else ["--data-dir", str(data_dir)]
    words += [] if out is None else ["--out", str(out)]
    return f"{command} {shlex.join(words)}"


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP came; like an interrupt, it saves the runs."""

    def __init__(self, signal: int) -> None:
        super().__init__()
        self.signal = signal


@contextlib.contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise `Terminated` while the block runs, where they would end the process at once."""

    def terminate(number: int, frame: object) -> None:
        raise Terminated(number)

    names = ("SIGTERM", "SIGHUP")  # not every system has the second
    numbers = [number for name in names if (number := getattr(signal, name, None)) is not None]
    changed = [
        number for number in numbers if signal.getsignal(number) == signal.SIG_DFL
    ]  # nohup ignores SIGHUP
    for number in changed:
        signal.signal(number, terminate)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def exit_codes() -> Iterator[None]:
    """Errors of the user as one sentence and exit code 2; an interrupt as 130, SIGTERM as 143."""
    try:
        yield
    except UserError as error:
        console(stderr=True).print(f"fedgs: {error}")
        raise SystemExit(2) from None
    except FedgsError as error:
        console(stderr=True).print(f"fedgs: {error}")
        raise SystemExit(1) from None
    except ModuleNotFoundError as error:
        missing = missing_extra(error)
        if missing is None:
            raise
        console(stderr=True).print(f"fedgs: {missing}")
        raise SystemExit(2) from None
    except KeyboardInterrupt as interrupt:
        number = interrupt.signal if isinstance(interrupt, Terminated) else signal.SIGINT
        resumes = (
            "; the same command resumes where this one stopped" if interrupt.args else ""
        )  # set where runs are stored
        with contextlib.suppress(OSError):  # the terminal may be gone
            console(stderr=True).print(
                f"fedgs: {'interrupted' if number == signal.SIGINT else 'terminated'}{resumes}"
            )
        raise SystemExit(128 + number) from None
    except BrokenPipeError:
        raise SystemExit(0) from None
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        console(stderr=True).print(f"fedgs: {error.strerror or error}{where}")
        raise SystemExit(1) from None
