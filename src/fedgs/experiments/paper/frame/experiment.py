"""The parts of an experiment: what it runs or computes, the stored records, and their rendering."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedgs.arrays import AnyArray
from fedgs.config import Config
from fedgs.data.federation import Federation
from fedgs.experiments.paper.frame.conditions import Source
from fedgs.experiments.paper.frame.request import ExperimentRequest
from fedgs.report.run_view import Run
from fedgs.report.summary import summarize
from fedgs.report.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Computation",
    "Computed",
    "Experiment",
    "ExperimentRecords",
    "LoadedRun",
    "PlannedRun",
    "Rendering",
    "StoredRun",
    "losses",
]


@dataclass(frozen=True)
class _TableCell:
    """The cell of a table that a run belongs to.

    Attributes:
        data: key of the federation.
        mode: title of the availability mode.
        row: key of the row.
    """

    data: str
    mode: str
    row: str


@dataclass(frozen=True)
class PlannedRun(_TableCell):
    """A run that a table needs: its cell and the configuration."""

    config: Config


@dataclass(frozen=True)
class StoredRun(_TableCell):
    """A run on disk: its cell, its folder in `runs/`, and how many of its rounds count."""

    folder: str
    rounds: int


@dataclass(frozen=True)
class LoadedRun(_TableCell):
    """A run read from disk: its cell and its records."""

    run: Run

    @property
    def test_loss(self) -> float | None:
        """The run's lowest test loss; None if it failed or was not evaluated."""
        return None if self.run.failure is not None else summarize(self.run).test_loss


def losses(runs: Sequence[LoadedRun], *, data: str, mode: str, row: str) -> dict[object, float]:
    """Replicate -> lowest test loss, in one cell."""
    return {
        loaded.run.replicate: loss
        for loaded in runs
        if (loaded.data, loaded.mode, loaded.row) == (data, mode, row)
        and (loss := loaded.test_loss) is not None
    }


@dataclass(frozen=True, eq=False)
class Computation:
    """Arrays to compute without training a run.

    Attributes:
        key: short and unique: the federation's key, or the key and a seed.
        config: names the federation; None if no data is needed.
        settings: what the arrays depend on besides the federation.
    """

    key: str
    config: Config | None
    settings: Mapping[str, object]


@dataclass(frozen=True, eq=False)
class Computed:
    """The stored result of one computation.

    Attributes:
        arrays: the result.
        about: settings, the data's title and fingerprint, versions.
    """

    arrays: Mapping[str, AnyArray]
    about: Mapping[str, object]

    @property
    def data_title(self) -> str:
        """The name of the federation."""
        return str(self.about["data_title"])

    @property
    def num_clients(self) -> int | None:
        """N; None without a federation."""
        count = self.about.get("num_clients")
        return count if isinstance(count, int) else None


@dataclass(frozen=True, eq=False)
class ExperimentRecords:
    """The stored records of an experiment: runs, or results by the key of their computation."""

    runs: Sequence[LoadedRun] = ()
    computed: Mapping[str, Computed] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Rendering:
    """An experiment's tables, verdict and figures. Equal records give equal renderings.

    Attributes:
        tables: by the suffix of their file names, as far as there are records.
        csv_only: tables that are written as CSV but not shown, by suffix.
        verdict: sentences, each true of the records.
        draw: makes the figures by suffix, or None.
    """

    tables: Mapping[str, Table] = field(default_factory=dict)
    csv_only: Mapping[str, Table] = field(default_factory=dict)
    verdict: Sequence[str] = ()
    draw: "Callable[[], Mapping[str, Figure]] | None" = None


Compute = Callable[[ExperimentRequest, Computation, Federation | None], Mapping[str, AnyArray]]


@dataclass(frozen=True, eq=False)
class Experiment:
    """One NAME of `fedgs reproduce`. Either `plan` or `compute` is given.

    Attributes:
        name: on the command line.
        title: in one line.
        claim: what the paper says.
        takes: the options that the experiment accepts.
        data: default federations.
        plan: the runs that the experiment needs.
        compute: arrays of one computation, from its federation (None if it needs no data).
        computations: what is computed one by one; None: one computation a federation.
        render: tables, verdict and figures, from stored records alone.
        draws: whether it needs matplotlib.
        one_seed: whether it uses one seed only.
        other_modes: whether it takes availability modes beyond the paper's.
    """

    name: str
    title: str
    claim: str
    takes: frozenset[str]
    data: tuple[Source, ...]
    render: Callable[[ExperimentRequest, ExperimentRecords], Rendering]
    plan: Callable[[ExperimentRequest], list[PlannedRun]] | None = None
    compute: Compute | None = None
    computations: Callable[[ExperimentRequest], list[Computation]] | None = None
    draws: bool = False
    one_seed: bool = False
    other_modes: bool = False
