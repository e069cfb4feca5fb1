"""A study: runs that are prepared together, carried out together and compared in one table.

The command line and `fedgs.compare` both use it: `prepare_study(configs).run(out=folder).table()`.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgs.config import Config
from fedgs.errors import ConfigError, shown
from fedgs.experiments.crew import Progress
from fedgs.experiments.listening import OnRecord
from fedgs.experiments.prepared import PreparedRun
from fedgs.experiments.preparing import prepare
from fedgs.experiments.remarks import alpha_remarks
from fedgs.experiments.runner import run_all
from fedgs.experiments.snapshots import Which
from fedgs.plurals import counted
from fedgs.registry import Variant
from fedgs.report.labels import labelled, labels_of
from fedgs.report.run_view import Models, Run

if TYPE_CHECKING:
    from torch import nn

    from fedgs.report.tables import Table

__all__ = ["Results", "Study", "prepare_study"]

_log = logging.getLogger("fedgs")


@dataclass(frozen=True)
class Results:
    """The runs of a study after it was carried out.

    Attributes:
        runs: one `Run` a method and seed, failed ones included (`run.failure` says why).

    >>> import fedgs
    >>> training = {"rounds": 1, "local_steps": 1}
    >>> results = fedgs.compare("synthetic", methods=["uniform"], training=training)
    >>> [column.title for column in results.table().columns[:2]]
    ['method', 'lowest test loss']
    """

    runs: list[Run]

    @property
    def reused(self) -> int:
        """How many runs an earlier start had finished."""
        return sum(run.reused for run in self.runs)

    def table(self, against: str | None = None) -> "Table":
        """Mean and spread over seeds, and the paired difference to the method `against`."""
        from fedgs.report.tables import comparison  # imports SciPy, which no round needs

        return comparison(self.runs, against=against)

    def to_dataframe(self) -> Any:
        """One row for each run and record, see `fedgs.export.to_dataframe`.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        from fedgs.export.dataframe import to_dataframe

        return to_dataframe(self.runs)

    def model(self, run: Run, which: Which = "best") -> "nn.Module":
        """The best or the last model of a run, as a PyTorch module.

        The best model is the one with the lowest validation loss among the evaluated ones, or with
        the lowest test loss where the federation has no validation parts; the first of equal ones.
        Without an output folder, the models are in the memory of this process.

        Args:
            run: one of `runs`.
            which: "best" or "last".

        Raises:
            ConfigError: another `run`, or another word.
            OutputError: the folder does not hold that model.

        >>> import fedgs
        >>> training = {"rounds": 1, "local_steps": 1}
        >>> results = fedgs.compare("synthetic", methods=["uniform"], training=training)
        >>> results.model(results.runs[0], "last")
        Linear(in_features=60, out_features=10, bias=True)
        """
        return self._models(run).module(which)

    def save_model(self, run: Run, path: str | Path, which: Which = "best") -> None:
        """Write the best or the last model of a run as a safetensors file.

        `model.start` can name the file.

        Args:
            run: one of `runs`.
            path: of the file, which is replaced.
            which: "best" or "last", see `model`.

        Raises:
            ConfigError: another `run`, or another word.
            OutputError: the folder does not hold that model.
            MissingExtraError: safetensors is not installed.
        """
        self._models(run).save(which, Path(path))

    @staticmethod
    def _models(run: Run) -> Models:
        if not isinstance(run, Run) or run.models is None:
            raise ConfigError(f"run must be one of the runs of these results, got {shown(run)}")
        return run.models

    def __str__(self) -> str:
        return str(self.table())


@dataclass(frozen=True, eq=False)
class Study:
    """Runs that are ready to begin.

    Attributes:
        runs: one for each configuration, in their order.
    """

    runs: Sequence[PreparedRun]

    @property
    def rounds(self) -> int:
        """The rounds of the longest run."""
        return max(run.plan.rounds for run in self.runs)

    @cached_property
    def labels(self) -> list[str]:
        """What tables will call the methods, in the order of the runs."""
        return labels_of(run.tables() for run in self.runs)

    @cached_property
    def heading(self) -> str:
        """One line about the study: data, clients, availability, methods, seeds and rounds."""
        runs = self.runs
        data = _one_or_count({run.plan.federation.name for run in runs}, "federations")
        clients = _one_or_count(
            {counted(len(run.plan.federation), "client") for run in runs}, "sizes"
        )
        modes = _one_or_count({_mode_title(run.config.availability) for run in runs}, "modes")
        methods = counted(
            len({repr((run.config.method, run.config.training)) for run in runs}), "method"
        )
        seeds = counted(len({run.config.seed for run in runs}), "seed")
        rounds = _one_or_count(
            {counted(run.plan.rounds, "round") for run in runs}, "numbers of rounds"
        )
        return f"{data}, {clients}, {modes}: {methods} x {seeds} x {rounds}"

    def run(
        self,
        *,
        out: Path | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        on_record: OnRecord | None = None,
        part: tuple[int, int] | None = None,
    ) -> Results:
        """Carry out all runs, see `fedgs.experiments.runner.run_all`.

        Args:
            out: a folder for the records; None: nothing is written.
            on_progress: called after every round of every run.
            on_record: called with a run and each of its new records.
            part: (i, n): the i-th of n parts of the runs; other processes may carry out the other
                parts meanwhile, with the same `out`.

        Raises:
            UserError: the folder cannot be used, or one run has two labels.
            WorkerError: a worker process crashed three times.
        """
        return Results(
            labelled(
                run_all(self.runs, out=out, on_progress=on_progress, on_record=on_record, part=part)
            )
        )


def prepare_study(configs: Sequence[Config], *, data_dir: Path | None = None) -> Study:
    """Load the data and check every configuration against it; nothing is written.

    A value of alpha that changes no cohort is named in a warning of the logger "fedgs".

    Args:
        configs: one for each run, at least one.
        data_dir: where files are searched first.

    Raises:
        UserError: the first thing that cannot run.

    >>> from fedgs.experiments.grid import build_config
    >>> settings = {"data": "synthetic", "availability": "IDL", "training": {"rounds": 2}}
    >>> configs = [build_config({"method": method, **settings}) for method in ("md", "uniform")]
    >>> study = prepare_study(configs)
    >>> study.heading, study.labels
    ('Synthetic(0.5, 0.5), 30 clients, IDL: 2 methods x 1 seed x 2 rounds', ['md', 'uniform'])
    """
    runs = prepare(configs, data_dir=data_dir)
    for remark in alpha_remarks(runs):
        _log.warning("%s", remark)
    return Study(runs)


def _mode_title(mode: Variant) -> str:
    beta = getattr(mode, "beta", None)
    return (mode.name or "custom") + ("" if beta is None else f" {beta:g}")


def _one_or_count(values: set[str], word: str) -> str:
    return next(iter(values)) if len(values) == 1 else f"{len(values)} {word}"
