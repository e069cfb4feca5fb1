"""The parts of an experiment: what it runs or computes, the stored records, and their rendering."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedgs.arrays import AnyArray
from fedgs.config import Config
from fedgs.data.base import Data
from fedgs.data.federation import Federation
from fedgs.errors import ConfigError
from fedgs.experiments.grid import expand
from fedgs.experiments.paper.frame.request import ExperimentRequest, Mode, Source
from fedgs.registry import variant_class
from fedgs.report.run_view import Run
from fedgs.report.summary import summarize
from fedgs.report.table import Block, Cell, Column, Table

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
    "Row",
    "StoredRun",
    "check_overrides",
    "computations_of",
    "data_config",
    "data_of",
    "is_about_fedgs",
    "losses",
    "planned_runs",
    "runs_table",
]

_FIXED = ("data", "availability", "method", "model", "seed", "label")


@dataclass(frozen=True)
class Row:
    """A method of a table.

    Attributes:
        key: short and unique, such as "fedgs-0.5"; `--methods` accepts it.
        label: the text in tables.
        method: the method's table of a configuration.
        training: training settings of this row alone.
    """

    key: str
    label: str
    method: Mapping[str, object]
    training: Mapping[str, object] = field(default_factory=dict)

    @property
    def family(self) -> str:
        """The method's name. `--methods` accepts it for all rows of the method."""
        return str(self.method["name"])


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


def planned_runs(
    request: ExperimentRequest, source: Source, *, modes: Sequence[Mode], rows: Sequence[Row]
) -> list[PlannedRun]:
    """One run for every mode, row and seed on a federation, with the overrides that its method has.

    Raises:
        ConfigError: an override that would change what the table is about, a list, or an unknown
            setting.
    """
    return [
        PlannedRun(
            source.key,
            mode.title,
            row.key,
            _run_config(request, source, mode=mode, row=row, seed=seed),
        )
        for mode in modes
        for row in rows
        for seed in request.seeds
    ]


def _run_config(
    request: ExperimentRequest, source: Source, *, mode: Mode, row: Row, seed: int
) -> Config:
    training = (
        dict(row.training) if request.rounds is None else {**row.training, "rounds": request.rounds}
    )
    tables = {
        "data": source.table,
        "availability": mode.table,
        "method": dict(row.method),
        "seed": seed,
        "training": training,
    }
    overrides = [(key, value) for key, value in request.overrides if _applies(key, row)]
    for key, value in overrides:
        if key in _FIXED or key.endswith(".name"):
            raise ConfigError(
                f"--set {key} would change what {request.name} is about; use --data, --modes, "
                "--methods and --seeds"
            )
        if isinstance(value, list):
            raise ConfigError(
                f"--set {key} must be one value for every run of {request.name}, got {value!r}"
            )
    (config,) = expand(tables, overrides).configs
    return config


def _applies(key: str, row: Row) -> bool:
    """Whether a row has the setting that an override changes. Only a method's settings differ."""
    family, _, setting = key.partition(".")
    if family != "method" or not setting:
        return True
    name = "md" if row.family == "fedprox" else row.family
    return setting.split(".")[0] in variant_class("method", name).model_fields


def check_overrides(request: ExperimentRequest, rows: Sequence[Row]) -> None:
    """Refuse an override of a method's setting that no row has.

    Raises:
        ConfigError: there is such an override.
    """
    for key, _ in request.overrides:
        if not any(_applies(key, row) for row in rows):
            families = ", ".join(sorted({row.family for row in rows}))
            raise ConfigError(f"--set {key} is not a setting of any of {families}")


def data_config(request: ExperimentRequest, source: Source) -> Config:
    """A configuration that names the federation, with the overrides of the data.

    Raises:
        ConfigError: an override of something else, which would be ignored.
    """
    other = next((key for key, _ in request.overrides if not key.startswith("data.")), None)
    if other is not None:
        raise ConfigError(
            f"--set {other} means nothing for {request.name}; it takes settings of data"
        )
    (config,) = expand({"data": source.table}, request.overrides).configs
    return config


def computations_of(request: ExperimentRequest) -> list[Computation]:
    """One computation a federation, or one without data."""
    stored = request.as_json()
    settings = {key: stored[key] for key in ("modes", "rounds", "seeds")}
    if not request.data:
        return [Computation("", None, settings)]
    return [
        Computation(source.key, data_config(request, source), settings) for source in request.data
    ]


def data_of(computation: Computation) -> Data:
    """The data set of a computation that has one."""
    assert computation.config is not None
    assert isinstance(computation.config.data, Data)
    return computation.config.data


def is_about_fedgs(row: str) -> bool:
    """Whether a row's key is one of FedGS."""
    return row.startswith("fedgs-")


def losses(runs: Sequence[LoadedRun], *, data: str, mode: str, row: str) -> dict[object, float]:
    """Replicate -> lowest test loss, in one cell."""
    return {
        loaded.run.replicate: loss
        for loaded in runs
        if (loaded.data, loaded.mode, loaded.row) == (data, mode, row)
        and (loss := loaded.test_loss) is not None
    }


def runs_table(title: str, runs: Sequence[LoadedRun]) -> Table:
    """Every run with its figure and its folder: the origin of each number in the other tables."""
    columns = [
        Column(name, (name,), numeric=name in ("seed", "rounds", "test_loss"))
        for name in _RUN_FIELDS
    ]
    rows = []
    for loaded in runs:
        run = loaded.run
        values = (
            loaded.data,
            loaded.mode,
            loaded.row,
            run.seed,
            run.rounds_done,
            loaded.test_loss,
            _standing(run),
            run.name,
        )
        rows.append(tuple(Cell("–" if value is None else str(value), (value,)) for value in values))
    return Table(title, tuple(columns), (Block((), tuple(rows)),))


_RUN_FIELDS = ("data", "mode", "row", "seed", "rounds", "test_loss", "standing", "folder")


def _standing(run: Run) -> str:
    return "failed" if run.failure is not None else "finished" if run.finished else "unfinished"
