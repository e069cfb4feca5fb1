"""`fedgs data`: describe a federation, export it, compare it with an exported one, check it."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Optional

import typer

from fedgs.availability import Diurnal, Trace
from fedgs.cli.common import (
    ConfigArgument,
    DataDirOption,
    PluginOption,
    SetOption,
    console,
    one_config,
)
from fedgs.config import cohort_limit
from fedgs.data import Data, Federation, check_folder, export, to_folder, write_leaf
from fedgs.data import describe as describe_federation
from fedgs.data.verify import verify as difference_from
from fedgs.plurals import counted

__all__ = ["check", "describe", "export_", "verify"]


class Format(StrEnum):
    """What `export` writes."""

    npz = "npz"
    leaf = "leaf"
    folder = "folder"


def describe(
    config: ConfigArgument = None,
    set_: SetOption = None,
    plugin: PluginOption = None,
    data_dir: DataDirOption = None,
    every_client: Annotated[
        bool, typer.Option("--all", help="All clients, not only the first 20.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON with all clients and measures.")
    ] = False,
    plot: Annotated[
        Optional[Path],  # noqa: UP045 (typer reads the annotation)
        typer.Option(
            "--plot",
            metavar="FILE",
            help="Write a picture: a bar for each client, a colour for each label.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Describe a federation: sizes, labels by client, skew, bias of the average, fingerprint."""
    chosen = one_config(config, set_, plugin)
    federation = _load(chosen.data, data_dir)
    description = describe_federation(
        federation, cohort_size=cohort_limit(chosen.training, len(federation))
    )
    if as_json:
        console().print(json.dumps(description.table(), indent=1))
    else:
        console().print("\n".join(description.lines(max_clients=None if every_client else 20)))
        if isinstance(chosen.availability, Diurnal | Trace):
            lines = chosen.availability.lines(federation.clients)
            console().print("\n".join(["", *lines] if lines else []), end="\n" if lines else "")
    if plot is not None:
        from fedgs.data.picture import plot_labels

        written = plot_labels(description, plot)
        console(stderr=as_json).print(f"Picture: {written}")


def export_(
    out: Annotated[
        Path,
        typer.Argument(metavar="OUT", help="The .npz to write, or the folder.", show_default=False),
    ],
    config: ConfigArgument = None,
    set_: SetOption = None,
    plugin: PluginOption = None,
    data_dir: DataDirOption = None,
    format_: Annotated[
        Format,
        typer.Option(
            "--format",
            help="One .npz, a folder of LEAF-style JSON, or one of memory-mapped arrays.",
        ),
    ] = Format.npz,
) -> None:
    """Write a federation so that it loads back identically.

    Read it with `--set data=file --set data.path=OUT` (or `data=leaf`, `data=folder`).
    """
    federation = _load(one_config(config, set_, plugin).data, data_dir)
    write = {Format.npz: export, Format.leaf: write_leaf, Format.folder: to_folder}[format_]
    written = write(federation, out)
    clients = counted(len(federation), "client")
    screen = console()
    screen.print(f"{federation.name}: {clients}, fingerprint {federation.fingerprint}")
    screen.print(f"Written: {written}")


def verify(
    reference: Annotated[
        str,
        typer.Argument(
            metavar="KEPT",
            help="An exported .npz or LEAF folder, or a fingerprint.",
            show_default=False,
        ),
    ],
    config: ConfigArgument = None,
    set_: SetOption = None,
    plugin: PluginOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Rebuild a federation and compare it with an exported one.

    If they differ, the first difference is named and the exit code is 1.
    """
    federation = _load(one_config(config, set_, plugin).data, data_dir)
    difference = difference_from(federation, reference)
    if difference is None:
        console().print(
            f"{federation.name} is the federation of {reference}: "
            f"fingerprint {federation.fingerprint}"
        )
        return
    console(stderr=True).print(
        f"{federation.name} is not the federation of {reference}: {difference}"
    )
    raise typer.Exit(1)


def check(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="A folder that `export --format folder` or FolderWriter wrote.",
            show_default=False,
        ),
    ],
) -> None:
    """Read all arrays of a federation's folder and compare them with their digests.

    A run opens a folder without reading it. If an array was changed since it was written, its place
    is named and the exit code is 1.
    """
    difference = check_folder(folder)
    if difference is None:
        console().print(f"{folder} is unchanged.")
        return
    console(stderr=True).print(f"{folder} was changed: {difference}")
    raise typer.Exit(1)


def _load(data: object, data_dir: Path | None) -> Federation:
    assert isinstance(data, Data)
    return data.load(data_dir)
