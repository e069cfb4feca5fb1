"""Which runs and computations an experiment consists of, with the user's rows and overrides."""

from collections.abc import Sequence

from fedgs.config import Config
from fedgs.data.base import Data
from fedgs.errors import ConfigError
from fedgs.experiments.grid import expand
from fedgs.experiments.paper.frame.conditions import Mode, Source
from fedgs.experiments.paper.frame.experiment import Computation, PlannedRun
from fedgs.experiments.paper.frame.request import ExperimentRequest
from fedgs.experiments.paper.frame.rows import MethodRow
from fedgs.families import TABLES
from fedgs.registry import variant_class

__all__ = [
    "check_overrides",
    "chosen_rows",
    "computations_of",
    "data_config",
    "data_of",
    "planned_runs",
]

_FIXED = (*TABLES, "seed", "label")


def chosen_rows(request: ExperimentRequest, rows: Sequence[MethodRow]) -> list[MethodRow]:
    """The rows that `--methods` names, by key or by family; without it, all rows.

    Raises:
        ConfigError: a name that is neither.
    """
    for name in request.methods:
        if all(name not in (row.key, row.family) for row in rows):
            known = dict.fromkeys(word for row in rows for word in (row.family, row.key))
            raise ConfigError(
                f"--methods must be of {', '.join(known)} for {request.name}; got {name!r}"
            )
    chosen = [
        row for row in rows if not request.methods or {row.key, row.family} & set(request.methods)
    ]
    check_overrides(request, chosen)
    return chosen


def planned_runs(
    request: ExperimentRequest, source: Source, *, modes: Sequence[Mode], rows: Sequence[MethodRow]
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
    request: ExperimentRequest, source: Source, *, mode: Mode, row: MethodRow, seed: int
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


def _applies(key: str, row: MethodRow) -> bool:
    """Whether a row has the setting that an override changes. Only a method's settings differ."""
    family, _, setting = key.partition(".")
    if family != "method" or not setting:
        return True
    name = "md" if row.family == "fedprox" else row.family
    return setting.split(".")[0] in variant_class("method", name).model_fields


def check_overrides(request: ExperimentRequest, rows: Sequence[MethodRow]) -> None:
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
