"""What the commands share: options, reading configurations, the next command, exit codes."""

import contextlib
import shlex
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console

from fedgs.config import Config
from fedgs.errors import ConfigError, FedgsError, UserError, missing_extra, shown
from fedgs.experiments.grid import Grid, expand, parse_override, read_config
from fedgs.registry import load_plugin, table

__all__ = [
    "ConfigArgument",
    "DataDirOption",
    "PluginOption",
    "SetOption",
    "Terminated",
    "command_again",
    "console",
    "exit_codes",
    "line_width",
    "one_config",
    "read_grid",
    "terminated_like_interrupted",
]

ConfigArgument = Annotated[
    Optional[Path],  # noqa: UP045 (typer reads the annotation)
    typer.Argument(
        metavar="CONFIG",
        help="A TOML file; without one, the standard comparison.",
        show_default=False,
    ),
]
SetOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--set",
        metavar="K=V",
        help="Set a value, such as training.rounds=50; a list makes an axis. Repeatable.",
    ),
]
PluginOption = Annotated[
    Optional[list[Path]],  # noqa: UP045
    typer.Option(
        "--plugin",
        metavar="FILE",
        help="A Python file that registers samplers, modes, models or on_record. Repeatable.",
    ),
]
DataDirOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--data-dir", metavar="DIR", help="Where data files are searched first.", show_default=False
    ),
]


def console(*, stderr: bool = False) -> Console:
    """A console that leaves text as it is.

    There is no markup and no highlighting, and tables are not wrapped when they are piped.
    """
    return Console(stderr=stderr, highlight=False, markup=False, soft_wrap=True)


def line_width(screen: Console) -> int | None:
    """The characters of a line of a terminal; None where the output is piped or a file."""
    return screen.width if screen.is_terminal else None


def read_grid(
    config: Path | None,
    overrides: list[str] | None,
    plugins: list[Path] | None,
    *,
    further: Sequence[tuple[str, object]] = (),
) -> Grid:
    """The configurations that a command line asks for.

    Args:
        config: a TOML file; None: the standard comparison.
        overrides: texts of `--set`.
        plugins: Python files that are loaded before.
        further: dotted keys and values that other options stand for.
    """
    for path in plugins or []:
        load_plugin(path)
    tables = None if config is None else read_config(config)
    settings = [*map(parse_override, overrides or []), *further]
    return expand(tables, settings, file=config.name if config else "")


def one_config(
    config: Path | None, overrides: list[str] | None, plugins: list[Path] | None
) -> Config:
    """The first configuration, for commands that need a federation rather than runs.

    Raises:
        ConfigError: a grid of several data sets.
    """
    first, *others = read_grid(config, overrides, plugins).configs
    mine = table(first.data)
    for theirs in (table(other.data) for other in others if other.data != first.data):
        key = next(key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key))
        hint = (
            f"; a list as one value is data.{key}=[[...]]"
            if isinstance(mine.get(key), list)
            else ""
        )
        raise ConfigError(
            f"data.{key} must have one value for this command, "
            f"got {shown(mine.get(key))} and {shown(theirs.get(key))} of a grid{hint}"
        )
    return first


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
        config: the file of the first command.
        overrides: its `--set` settings.
        plugins: its `--plugin` files.
        data_dir: its `--data-dir`.
        out: the folder of the records; None: not named.
        also: further `--set` settings; each replaces an earlier one of the same key.

    >>> given = {"overrides": ["seed=0", "availability=LDF"], "plugins": [Path("my plug.py")]}
    >>> command_again("fedgs run", None, **given, also=["availability=MDF"])
    "fedgs run --set seed=0 --plugin 'my plug.py' --set availability=MDF"
    """
    replaced = {text.partition("=")[0].strip() for text in also}
    retained = [text for text in overrides or [] if text.partition("=")[0].strip() not in replaced]
    words = [] if config is None else [str(config)]
    for option, values in (("--set", retained), ("--plugin", plugins or []), ("--set", also)):
        words += [word for value in values for word in (option, str(value))]
    words += [] if data_dir is None else ["--data-dir", str(data_dir)]
    words += [] if out is None else ["--out", str(out)]
    return f"{command} {shlex.join(words)}"


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP was received; the runs are saved, as after an interrupt."""

    def __init__(self, signal: int) -> None:
        super().__init__()
        self.signal = signal


@contextlib.contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise `Terminated` while the block runs.

    A signal that does not end the process, such as SIGHUP under nohup, is left as it is.
    """

    def terminate(number: int, frame: object) -> None:
        raise Terminated(number)

    names = ("SIGTERM", "SIGHUP")  # not every system has the second
    numbers = [number for name in names if (number := getattr(signal, name, None)) is not None]
    # Not where a signal is handled or ignored: nohup ignores SIGHUP.
    changed = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in changed:
        signal.signal(number, terminate)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def exit_codes() -> Iterator[None]:
    """Turn errors into one sentence and an exit code.

    The code is 2 for mistakes of the user, 1 for other errors, 130 for an interrupt and 143 for
    SIGTERM.
    """
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
        word = "interrupted" if number == signal.SIGINT else "terminated"
        # The interrupt has arguments where runs are stored.
        resumes = "; the same command resumes where this one stopped" if interrupt.args else ""
        with contextlib.suppress(OSError):  # the terminal may be closed
            console(stderr=True).print(f"fedgs: {word}{resumes}")
        raise SystemExit(128 + number) from None
    except BrokenPipeError:
        raise SystemExit(0) from None
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        console(stderr=True).print(f"fedgs: {error.strerror or error}{where}")
        raise SystemExit(1) from None
