"""`fedgs trace`: convert traces of devices, describe them, and fetch public ones."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Optional

import typer

from fedgs.cli.common import console
from fedgs.errors import DataError
from fedgs.plurals import counted
from fedgs.system.profile import TRAINING_FACTOR, profile_of, write_profile
from fedgs.traces import Traces, convert_capacities, read_traces, write_traces
from fedgs.traces import convert as convert_traces
from fedgs.traces.intervals import check_target
from fedgs.traces.statistics import statistics

__all__ = ["Form", "Public", "convert", "fetch", "profile", "stats"]


class Form(StrEnum):
    """The forms of files that `convert` reads."""

    csv = "csv"
    fedscale = "fedscale"
    flash = "flash"
    flame = "flame"


class Public(StrEnum):
    """The traces that `fetch` downloads."""

    flame = "flame"


OutArgument = Annotated[
    Path, typer.Argument(metavar="OUT", help="The .npz to write.", show_default=False)
]


def convert(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A csv, FedScale's pickle, FLASH's JSON, or Flame's YAML, JSON or folder.",
            show_default=False,
        ),
    ],
    out: OutArgument,
    form: Annotated[
        Optional[Form],  # noqa: UP045 (typer reads the annotation)
        typer.Option("--from", help="The form; without it, from the name and the content."),
    ] = None,
    rule: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--rule",
            metavar="EXPR",
            help="When a phone of FLASH is available: charging, wifi, locked, screen_off, "
            "battery>=50, joined by & and |. Default: charging & wifi & locked.",
        ),
    ] = None,
) -> None:
    """Convert a file of another program to the .npz that availability.name=trace reads."""
    check_target(out)
    _write(convert_traces(path, form=None if form is None else str(form), rule=rule), out)


def profile(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="FedScale's client_device_capacity.", show_default=False
        ),
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="The .csv to write.", show_default=False)
    ],
) -> None:
    """Convert FedScale's speeds of devices to the .csv that system.profile reads."""
    if out.suffix != ".csv":
        raise DataError(f"the profile must end in .csv, got {str(out)!r}")
    if not out.absolute().parent.is_dir():
        raise DataError(f"the folder of {str(out)!r} does not exist")
    converted = profile_of(convert_capacities(path))
    written = write_profile(converted, out)
    screen = console()
    screen.print(
        f"{counted(len(converted.names), 'device')}; training on an example takes "
        f"{TRAINING_FACTOR:g} times as long as inference"
    )
    screen.print(f"Written: {written}")


def stats(
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="A converted .npz.", show_default=False)
    ],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Print shares of time, the day, memory and sessions of a trace."""
    traces = read_traces(path)
    found = statistics(traces)
    screen = console()
    if as_json:
        screen.print(json.dumps({**found.table(), "origin": dict(traces.origin)}, indent=1))
    else:
        screen.print("\n".join([*found.lines(), *_origin_lines(traces)]))


def fetch(
    name: Annotated[
        Public, typer.Argument(metavar="NAME", help="flame: 300 phones.", show_default=False)
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="The .npz to write.", show_default=False)
    ] = Path("flame.npz"),
) -> None:
    """Download a public trace, check its hash and convert it."""
    from fedgs.data.trace_files import fetch_flame

    assert name is Public.flame
    check_target(out)
    _write(fetch_flame(), out)


def _write(traces: Traces, out: Path) -> None:
    written = write_traces(traces, out)
    screen = console()
    devices, intervals = counted(len(traces), "device"), counted(len(traces.on), "interval")
    screen.print("\n".join([f"{devices}, {intervals}", *_origin_lines(traces)]))
    screen.print(f"Written: {written}")


def _origin_lines(traces: Traces) -> list[str]:
    """Where a trace comes from, and what was repaired."""
    repairs = traces.origin.get("repairs")
    lines = [
        f"{key:<15} {value}"
        for key, value in traces.origin.items()
        if key not in ("repairs", "converter") and isinstance(value, str | int)
    ]
    if isinstance(repairs, dict) and repairs:
        counts = ", ".join(f"{number} {fault}" for fault, number in repairs.items())
        lines.append(f"repaired        {counts}".replace("_", " "))
    return lines
