"""The tools that runs can be exported to, by name."""

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fedgs.errors import ConfigError, OutputError, shown
from fedgs.export.files import as_csv, as_parquet
from fedgs.export.library import library
from fedgs.export.mlflow import to_mlflow, tracking_uri
from fedgs.export.tensorboard import to_tensorboard
from fedgs.export.wandb import to_wandb
from fedgs.report.files import write_file
from fedgs.report.run_view import Run
from fedgs.report.subjects import as_run_list

__all__ = ["TARGETS", "Target", "export"]


@dataclass(frozen=True)
class Target:
    """A tool.

    Attributes:
        default: the file or folder that is written inside an output folder without `--out`.
        needs: the library that must be installed, "" for none.
        write: writes runs to a file or into a folder.
        opens: the command that opens what was written, "" for none.
        is_file: whether one file is written, which replaces an earlier one; otherwise a folder.
        takes_address: whether `out` may be the address of a server.
    """

    default: str
    needs: str
    write: Callable[[list[Run], str], None]
    opens: Callable[[str], str] = lambda out: ""
    is_file: bool = False
    takes_address: bool = False


TARGETS: Mapping[str, Target] = {
    "csv": Target(
        "records.csv", "", lambda runs, out: write_file(Path(out), as_csv(runs)), is_file=True
    ),
    "parquet": Target(
        "records.parquet",
        "pyarrow",
        lambda runs, out: write_file(Path(out), as_parquet(runs)),
        is_file=True,
    ),
    "tensorboard": Target(
        "tensorboard",
        "tensorboard",
        to_tensorboard,
        lambda out: f"tensorboard --logdir {shlex.quote(out)}",
    ),
    "mlflow": Target(
        "mlflow",
        "mlflow",
        to_mlflow,
        lambda out: f"mlflow ui --backend-store-uri {shlex.quote(tracking_uri(out))}",
        takes_address=True,
    ),
    "wandb": Target(
        "wandb",
        "wandb",
        to_wandb,
        lambda out: f"wandb sync {shlex.quote(f'{out}/wandb')}/offline-run-*",
    ),
}
"""Name -> tool."""


def export(runs: Run | Iterable[Run], *, to: str, out: str | Path) -> None:
    """Write runs in the form of another tool.

    Args:
        runs: as `fedgs.report.read_runs` returns them, finished or not, or the results of
            `fedgs.compare`.
        to: "csv", "parquet", "tensorboard", "mlflow" or "wandb".
        out: a file for "csv" and "parquet", which is replaced; a folder that is empty or does not
            exist for the others. For "mlflow" also the address of a tracking server.

    Raises:
        ConfigError: no such tool, or no runs.
        MissingExtraError: the tool's library is not installed; nothing was written.
        OutputError: the folder is not empty, or the file cannot be written.
    """
    if to not in TARGETS:
        raise ConfigError(f"to must be one of {', '.join(map(repr, TARGETS))}; got {shown(to)}")
    target, listed, out = TARGETS[to], as_run_list(runs, "export"), str(out)
    if target.needs:
        library(target.needs, f"--to {to}")
    if not target.is_file and not (target.takes_address and "://" in out):
        _check_empty(Path(out))
    target.write(listed, out)


def _check_empty(folder: Path) -> None:
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise OutputError(
            f"{str(folder)!r} is not an empty folder; remove it, or give another one as --out"
        )
