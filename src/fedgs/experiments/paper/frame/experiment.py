"""What an experiment of the paper is: a claim, runs or a computation, and how their records are shown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fedgs.arrays import AnyArray
from fedgs.config import Config
from fedgs.data.base import Data
from fedgs.data.federation import Federation
from fedgs.errors import ConfigError
from fedgs.experiments.grid import expand
from fedgs.experiments.paper.frame.request import Asked, Mode, Source
from fedgs.registry import variant_class
from fedgs.report.layout import Block, Cell, Column, Table
from fedgs.report.run import Run
from fedgs.report.summary import summarize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "CellRun",
    "Computed",
    "Experiment",
    "Material",
    "PlannedRun",
    "Presented",
    "Row",
    "Shown",
    "Unit",
    "data_config",
    "data_of",
    "is_about_fedgs",
    "losses",
    "planned",
    "runs_table",
    "units_of",
]

Overrides = Sequence[tuple[str, Any]]
_FIXED = ("data", "availability", "method", "model", "seed", "label")


@dataclass(frozen=True)
class Row:
    """A method of a table.

    Attributes:
        key: short and unique, such as "fedgs-0.5"; what --methods names.
        label: as shown.
        method: its table of a configuration.
        training: training settings of its own.
    """

    key: str
    label: str
    method: Mapping[str, Any]
    training: Mapping[str, Any] = field(default_factory=dict)

    @property
    def family(self) -> str:
        """The method's name, which --methods may give for all of its rows."""
        return str(self.method["name"])


@dataclass(frozen=True)
class PlannedRun:
    """A run of an experiment and its place in the table.

    Attributes:
        data: key of the federation. mode: title of the mode. row: key of the row.
        config: what is run.
    """

    data: str
    mode: str
    row: str
    config: Config


@dataclass(frozen=True, eq=False)
class CellRun:
    """A stored run and its place in the table, see `PlannedRun`."""

    data: str
    mode: str
    row: str
    run: Run

    @property
    def test_loss(self) -> float | None:
        """The run's lowest test loss; None where it failed or was not evaluated."""
        return None if self.run.failure is not None else summarize(self.run).test_loss


@dataclass(frozen=True, eq=False)
class Unit:
    """One thing to compute and keep.

    Attributes:
        key: short and unique: the federation's key, or that with a seed.
        config: names the federation; None where no data is needed.
        settings: what its figures follow from, beside the federation.
    """

    key: str
    config: Config | None
    settings: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Computed:
    """What was computed of one unit and kept.

    Attributes:
        arrays: the figures.
        about: settings, the data's title and fingerprint, versions.
        file: where it is stored.
    """

    arrays: Mapping[str, AnyArray]
    about: Mapping[str, Any]
    file: str = ""


@dataclass(frozen=True, eq=False)
class Material:
    """The stored records of an experiment: runs, or computed figures by the key of their unit."""

    runs: Sequence[CellRun] = ()
    computed: Mapping[str, Computed] = field(default_factory=dict)


@dataclass(frozen=True)
class Shown:
    """A table of an experiment.

    Attributes:
        suffix: of its file's name.
        table: itself.
        printed: whether it is shown as text, or kept as CSV only.
    """

    suffix: str
    table: Table
    printed: bool = True


@dataclass(frozen=True, eq=False)
class Presented:
    """An experiment as it is shown; equal records give equal ones.

    Attributes:
        tables: as far as there are records.
        verdict: sentences, each true of the records.
        draw: makes the figures by suffix, or None.
    """

    tables: Sequence[Shown] = ()
    verdict: Sequence[str] = ()
    draw: "Callable[[], Mapping[str, Figure]] | None" = None


@dataclass(frozen=True, eq=False)
class Experiment:
    """One NAME of `fedgs reproduce`; either `plan` or `compute` is given.

    Attributes:
        name: on the command line.
        title: in one line.
        claim: what the paper says.
        takes: the options that mean something for it.
        data: default federations.
        plan: the runs that are asked for.
        compute: figures of one unit, on its federation (None where it needs no data).
        units: what is computed one by one; None: one unit a federation.
        present: tables, verdict and figures, from stored records alone.
        draws: whether it needs matplotlib.
        one_seed: whether it is made from one seed only.
    """

    name: str
    title: str
    claim: str
    takes: frozenset[str]
    data: tuple[Source, ...]
    present: Callable[[Asked, Material], Presented]
    plan: Callable[[Asked], list[PlannedRun]] | None = None
    compute: "Callable[[Asked, Unit, Federation | None], Mapping[str, AnyArray]] | None" = None
    units: Callable[[Asked], list[Unit]] | None = None
    draws: bool = False
    one_seed: bool = False


def planned(asked: Asked, source: Source, mode: Mode, row: Row, seed: int) -> PlannedRun:
    """The run of one row, mode and seed, with the overrides that its method has.

    Raises:
        ConfigError: an override that would change what the table is about, a list, or an unknown setting.
    """
    training = dict(row.training) if asked.rounds is None else {**row.training, "rounds": asked.rounds}
    tables = {"data": source.table, "availability": mode.table, "method": dict(row.method), "seed": seed, "training": training}
    overrides = [(key, value) for key, value in asked.overrides if _applies(key, row)]
    for key, value in overrides:
        if key in _FIXED or key.endswith(".name"):
            raise ConfigError(f"--set {key} would change what {asked.name} is about; use --data, --modes, --methods and --seeds")
        if isinstance(value, list):
            raise ConfigError(f"--set {key} must be one value for every run of {asked.name}, got {value!r}")
    (config,) = expand(tables, overrides).configs
    return PlannedRun(source.key, mode.title, row.key, config)


def _applies(key: str, row: Row) -> bool:
    """Whether an override concerns a row: settings of a method only where the method has them."""
    family, _, setting = key.partition(".")
    if family != "method" or not setting:
        return True
    name = "md" if row.family == "fedprox" else row.family
    return setting.split(".")[0] in variant_class("method", name).model_fields


def check_overrides(asked: Asked, rows: Sequence[Row]) -> None:
    """Refuse an override of a method's setting that no row has."""
    for key, _ in asked.overrides:
        if not any(_applies(key, row) for row in rows):
            raise ConfigError(f"--set {key} is not a setting of any of {', '.join(sorted({row.family for row in rows}))}")


def data_config(asked: Asked, source: Source) -> Config:
    """A configuration that names the federation, with the overrides that concern it.

    Raises:
        ConfigError: an override of something else, which would be ignored.
    """
    other = next((key for key, _ in asked.overrides if not key.startswith("data.")), None)
    if other is not None:
        raise ConfigError(f"--set {other} means nothing for {asked.name}; it takes settings of data")
    (config,) = expand({"data": source.table}, asked.overrides).configs
    return config


def units_of(asked: Asked) -> list[Unit]:
    """One unit a federation, or one without data."""
    stored = asked.as_json()
    settings = {key: stored[key] for key in ("modes", "rounds", "seeds")}
    if not asked.data:
        return [Unit("", None, settings)]
    return [Unit(source.key, data_config(asked, source), settings) for source in asked.data]


def data_of(unit: Unit) -> Data:
    """The data set of a unit that has one."""
    assert unit.config is not None
    assert isinstance(unit.config.data, Data)
    return unit.config.data


def is_about_fedgs(row: str) -> bool:
    """Whether a row's key is one of FedGS."""
    return row.startswith("fedgs-")


def losses(runs: Sequence[CellRun], data: str, mode: str, row: str) -> dict[object, float]:
    """Replicate -> lowest test loss of one cell."""
    return {
        run.run.replicate: loss
        for run in runs
        if (run.data, run.mode, run.row) == (data, mode, row) and (loss := run.test_loss) is not None
    }


def runs_table(title: str, runs: Sequence[CellRun]) -> Table:
    """Every single run with its figure and its folder: where each number of the other tables comes from."""
    columns = [Column(name, (name,), numeric=name in ("seed", "rounds", "test_loss")) for name in _RUN_FIELDS]
    rows = []
    for one in runs:
        values = (one.data, one.mode, one.row, one.run.seed, one.run.rounds_done, one.test_loss, _standing(one.run), one.run.name)
        rows.append(tuple(Cell("–" if value is None else str(value), (value,)) for value in values))
    return Table(title, tuple(columns), (Block((), tuple(rows)),))


_RUN_FIELDS = ("data", "mode", "row", "seed", "rounds", "test_loss", "standing", "folder")


def _standing(run: Run) -> str:
    return "failed" if run.failure is not None else "finished" if run.finished else "unfinished"
