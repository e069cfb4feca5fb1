"""What every command shares: options, plug-ins, and the way from a command line to configurations."""

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console

from fedgs.config import Config
from fedgs.errors import ConfigError, FedgsError, UserError, own_traceback
from fedgs.experiments.grid import Grid, expand, parse_override, read_config

__all__ = ["ConfigArgument", "DataDirOption", "PluginOption", "SetOption", "console", "load_plugins", "one_config", "read_grid"]

ConfigArgument = Annotated[
    Optional[Path],  # noqa: UP045 (typer reads the annotation)
    typer.Argument(metavar="[CONFIG]", help="A TOML file; without one, the standard comparison.", show_default=False),
]
SetOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--set", metavar="K=V", help="Set a value, such as method.alpha=2; a list makes an axis. Repeatable."),
]
PluginOption = Annotated[
    Optional[list[Path]],  # noqa: UP045
    typer.Option("--plugin", metavar="FILE", help="A Python file that registers samplers, modes or models. Repeatable."),
]
DataDirOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--data-dir", metavar="DIR", help="Where data files are searched first.", show_default=False),
]


def console(*, stderr: bool = False) -> Console:
    """A console that leaves text as it is: no markup, no highlighting, no wrapping of tables when piped."""
    return Console(stderr=stderr, highlight=False, markup=False, soft_wrap=True)


def read_grid(config: Path | None, overrides: list[str] | None, plugins: list[Path] | None) -> Grid:
    """The configurations that a command line asks for."""
    load_plugins(plugins or [])
    given = None if config is None else read_config(config)
    return expand(given, [parse_override(text) for text in overrides or []], file=config.name if config else "")


def one_config(config: Path | None, overrides: list[str] | None, plugins: list[Path] | None) -> Config:
    """The first configuration, for commands that need a federation rather than runs."""
    return read_grid(config, overrides, plugins).configs[0]


def load_plugins(plugins: list[Path]) -> None:
    """Import plug-in files, so that what they register can be named.

    Raises:
        ConfigError: no such file, or it raised while being imported (the traceback of the file is part of the message).
    """
    for path in plugins:
        if not path.is_file():
            raise ConfigError(f"--plugin must be a Python file; there is no file {str(path)!r}")
        name = f"fedgs_plugin_{path.stem}"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ConfigError(f"--plugin must be a Python file (.py); got {str(path)!r}")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except ConfigError:
            raise
        except Exception as error:
            trace = own_traceback(error)
            raise ConfigError(f"--plugin {str(path)!r} raised {type(error).__name__}: {error}\n{trace}") from None


@contextlib.contextmanager
def exit_codes() -> Iterator[None]:
    """Errors of the user as one sentence and exit code 2; an interrupt as 130."""
    try:
        yield
    except UserError as error:
        console(stderr=True).print(f"fedgs: {error}")
        raise SystemExit(2) from None
    except FedgsError as error:
        console(stderr=True).print(f"fedgs: {error}")
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        console(stderr=True).print("fedgs: interrupted; the same command goes on where this one stopped")
        raise SystemExit(130) from None
    except BrokenPipeError:
        raise SystemExit(0) from None
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        console(stderr=True).print(f"fedgs: {error.strerror or error}{where}")
        raise SystemExit(1) from None
