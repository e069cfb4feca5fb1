"""What is asked: one run's configuration, frozen and checked.

A configuration file is TOML with the tables and keys of `Config`; a variant is a table with `name`
or just its name. Values not given default to what the data set's table in the paper says. How
files, `--set` and grids become configurations: `experiments.grid`.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from pydantic import Field, ValidationInfo, field_serializer, field_validator

from fedgs.errors import ConfigError, shown
from fedgs.evaluation_settings import Evaluation
from fedgs.execution_settings import Execution
from fedgs.families import TABLES
from fedgs.registry import Seeded, Variant, build, table, text_keys
from fedgs.stopping import Stopping
from fedgs.system_settings import System
from fedgs.training_settings import Training

__all__ = ["Config", "Evaluation", "Execution", "HasDefaults", "System", "Training", "cohort_limit"]


def _checked_table(value: object, settings: type, name: str) -> object:
    """The settings themselves; anything else is refused."""
    if isinstance(value, settings):
        return value
    raise ValueError(
        f"{name} must be a table of settings or a {settings.__name__}, got {shown(value)}"
    )


class DataDefaults(Protocol):
    """Settings of a data set that hold if none are given."""

    @property
    def model(self) -> str | None:
        """Name of the model, or None."""

    @property
    def training(self) -> Mapping[str, object]:
        """Training settings."""


@runtime_checkable
class HasDefaults(Protocol):
    """A data set with default settings."""

    @property
    def defaults(self) -> DataDefaults:
        """The settings."""


class Config(Variant):
    """One run: its data, availability, sampling, model and training.

    Attributes:
        data, availability, method, aggregation, model: variants; a name, a table with `name` or
            the object itself. aggregation None: `mean`, which is also what its default settings
            become.
        system: how long clients take and which of them answer; None: rounds take no time, and every
            selected client answers.
        label: what tables call the method; None: derived from the settings.
        seed: of theta^0, local batches and sampling.

    >>> Config(data="synthetic", availability="LDF", method="uniform", seed=3).availability.seed
    3
    """

    data: Variant
    availability: Variant
    method: Variant
    aggregation: Variant | None = None
    model: Variant | None = None
    training: Training = Training()
    evaluation: Evaluation = Evaluation()
    stopping: Stopping = Stopping()
    execution: Execution = Execution()
    system: System | None = None
    seed: int = Field(default=0, ge=0)
    label: str | None = None

    @field_validator(*TABLES, mode="before")
    @classmethod
    def _variant(cls, value: object, info: ValidationInfo) -> object:
        return None if value is None else build(str(info.field_name), value)

    @field_validator("training", "evaluation", "stopping", "execution", mode="before")
    @classmethod
    def _settings(cls, value: object, info: ValidationInfo) -> object:
        name = str(info.field_name)
        settings = cls.model_fields[name].annotation
        assert isinstance(settings, type)
        if isinstance(value, Mapping):
            return settings(**text_keys(value, name))
        return _checked_table(value, settings, name)

    @field_validator("system", mode="before")
    @classmethod
    def _system(cls, value: object) -> object:
        if value is None or isinstance(value, Mapping):
            return None if value is None else System(**text_keys(value, "system"))
        return _checked_table(value, System, "system")

    @field_serializer(*TABLES)
    def _as_table(self, value: Variant | None) -> dict[str, object] | None:
        return None if value is None else table(value)

    def model_post_init(self, context: object) -> None:
        """Fill in the availability's seed, and the data set's training settings and model."""
        if isinstance(self.availability, Seeded) and self.availability.seed is None:
            self._fill(availability=self.availability.model_copy(update={"seed": self.seed}))
        if self.system is not None and self.system.seed is None:
            self._fill(system=self.system.model_copy(update={"seed": self.seed}))
        aggregation = self.aggregation
        if aggregation is not None and table(aggregation) == table(build("aggregation", "mean")):
            self._fill(aggregation=None)
        if isinstance(self.data, HasDefaults):
            defaults = self.data.defaults
            self._fill(training=self.training.with_defaults(defaults.training))
            if self.model is None and defaults.model is not None:
                self._fill(model=build("model", defaults.model))

    def _fill(self, **values: object) -> None:
        self.__dict__.update(values)

    def tables(self) -> dict[str, Any]:
        """The configuration as TOML-ready tables; values that are None are left out.

        >>> Config(data="synthetic", availability="IDL", method="md").tables()["method"]["name"]
        'md'
        """
        tables = self.model_dump(mode="json", exclude_none=True)
        if not self.stopping.is_on:
            del tables["stopping"]
        return tables


def cohort_limit(training: Training, num_clients: int) -> int:
    """M for a federation of N clients.

    Raises:
        ConfigError: M > N, or `proportion` and `cohort_limit` that contradict each other; with both
            numbers.

    >>> cohort_limit(Training(proportion=0.2), 30), cohort_limit(Training(cohort_limit=7), 30)
    (6, 7)
    """
    proportion, limit = training.proportion, training.cohort_limit
    if proportion is None and limit is None:
        proportion = 0.2
    from_proportion = None if proportion is None else max(1, int(proportion * num_clients + 1e-9))
    if limit is not None and from_proportion is not None and limit != from_proportion:
        raise ConfigError(
            f"training.cohort_limit = {limit} and training.proportion = {proportion} contradict "
            f"each other: the proportion of {num_clients} clients is {from_proportion}; "
            "give one of them"
        )
    chosen = limit if limit is not None else from_proportion
    assert chosen is not None
    if chosen > num_clients:
        raise ConfigError(
            f"training.cohort_limit must be at most {num_clients}, the number of clients; "
            f"got {chosen}"
        )
    return chosen
