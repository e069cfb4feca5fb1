"""What is asked: one run's configuration, frozen and checked.

A configuration file is TOML with the tables and keys of `Config`; a variant is a table with `name`
or just its name. Values not given default to what the data set's table in the paper says. How
files, `--set` and grids become configurations: `experiments.grid`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol, Self, runtime_checkable

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_serializer,
)

from fedgs.clients import Objective
from fedgs.errors import ConfigError, shown
from fedgs.execution_settings import Execution
from fedgs.families import TABLES
from fedgs.registry import Seeded, Variant, build, table, text_keys
from fedgs.stopping import Stopping
from fedgs.system_settings import System

__all__ = ["Config", "Evaluation", "Execution", "HasDefaults", "System", "Training", "cohort_limit"]

_FLOAT32_MIN, _FLOAT32_MAX = 1.5e-45, 3.4e38  # clients train in float32
_INSTEAD = {"decay": "schedule", "local_steps": "local_epochs"}  # setting -> what replaces it


def _part_of(family: str, setting: str, default: str | None = None) -> Callable[[object], object]:
    """What makes a setting's value the variant of a family that it names.

    The variant `default` with its own settings becomes None, as where nothing is given.
    """

    def built(value: object) -> object:
        if value is None:
            return None
        try:
            variant = build(family, value)
            is_default = default is not None and table(variant) == table(build(family, default))
            return None if is_default else variant
        except ConfigError as error:
            text = str(error)
            named = text.startswith((f"{family}.", f"{family} "))
            raise ValueError(setting + text.removeprefix(family) if named else text) from None

    return built


def _as_metrics(value: object) -> object:
    """Metrics from a list of names, tables, objects or functions, or from one text with commas."""
    given = value.replace(" ", "").split(",") if isinstance(value, str) else value
    if not isinstance(given, Sequence):
        raise ValueError(f"evaluation.metrics must be a list of metrics, got {given!r}")
    return tuple(map(_part_of("metric", "evaluation.metrics"), given))


def _named(variant: Variant | None) -> object:
    """The table of a variant, or its name alone where it has the default settings."""
    if variant is None:
        return None
    settings = table(variant)
    return settings["name"] if set(settings) == {"name"} else settings


def _listed(variants: tuple[Variant, ...]) -> list[object]:
    return [_named(variant) for variant in variants]


Loss = Annotated[
    Variant | None,
    BeforeValidator(_part_of("loss", "training.loss")),
    PlainSerializer(_named),
]
Optimizer = Annotated[
    Variant | None,
    BeforeValidator(_part_of("optimizer", "training.optimizer", default="sgd")),
    PlainSerializer(_named),
]
Schedule = Annotated[
    Variant | None,
    BeforeValidator(_part_of("schedule", "training.schedule")),
    PlainSerializer(_named),
]
Metrics = Annotated[tuple[Variant, ...], BeforeValidator(_as_metrics), PlainSerializer(_listed)]


def _checked_table(value: object, settings: type, name: str) -> object:
    """The settings themselves; anything else is refused."""
    if isinstance(value, settings):
        return value
    raise ValueError(
        f"{name} must be a table of settings or a {settings.__name__}, got {shown(value)}"
    )


class Training(Variant):
    """How clients train and how many are selected (defaults: the paper's for Synthetic).

    Attributes:
        rounds: T, communication rounds.
        proportion: share of the N clients that may be selected, in (0, 1]; M = max(1,
            floor(proportion N + 1e-9)).
        cohort_limit: M itself; giving both is an error unless they agree.
        local_steps: E, steps a selected client makes in a round.
        local_epochs: passes over its examples that a client makes instead of E steps; none: E
            steps.
        drop_last: whether the short batch that ends a pass is left out; a client with fewer than B
            examples keeps its one batch.
        batch_size: B; a client with fewer examples trains on all of them in each step.
        learning_rate: eta of round 0, within float32's range.
        decay: eta is multiplied by it every round, in (0, 1]; without effect beside a schedule.
        schedule: what eta is multiplied by in each round; none: decay^t.
        warmup: rounds in which eta rises to its value, by (t + 1)/(warmup + 1).
        mu: weight of the proximal term (mu/2)·|theta - theta^t|² of the local objective
            (FedProx), within float32's range.
        precision: arithmetic of forward and backward passes.
        objective: the weights p_k of the clients in the objective sum_k p_k F_k: "data_size":
            n_k / n; "equal": 1/N. Weightings and the validation loss follow it.
        loss: what clients minimise and what is recorded as the loss of a model; none: the default
            of the federation's task, cross-entropy for classes.
        optimizer: the direction of a local step; none: `sgd`, the gradient.
        optimizer_state: how long the optimiser's state lasts: "round": one participation of a
            client; "client": all of its participations.
        clip: gradients of larger norm are scaled to this norm, > 0 and within float32's
            range; none: any norm.

    >>> Training(rounds=5).local_steps
    10
    """

    family = "training"
    rounds: int = Field(default=1000, ge=1)
    proportion: float | None = Field(default=None, gt=0, le=1)
    cohort_limit: int | None = Field(default=None, ge=1)
    local_steps: int = Field(default=10, ge=1)
    batch_size: int = Field(default=10, ge=1)
    learning_rate: float = Field(default=0.1, gt=0, allow_inf_nan=False)
    decay: float = Field(default=0.998, gt=0, le=1)
    mu: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    precision: Literal["float32", "bf16"] = "float32"
    objective: Objective = "data_size"
    local_epochs: int | None = Field(default=None, ge=1)
    drop_last: bool = False
    schedule: Schedule = None
    warmup: int = Field(default=0, ge=0)
    loss: Loss = None
    optimizer: Optimizer = None
    clip: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    optimizer_state: Literal["round", "client"] = "round"

    @field_validator("learning_rate", "mu", "clip")
    @classmethod
    def _in_float32(cls, value: float | None, info: ValidationInfo) -> float | None:
        if value is None:
            return None
        if value > _FLOAT32_MAX or 0 < value < _FLOAT32_MIN:
            bound = "at most 3.4e38" if value > 1 else "at least 1.5e-45"
            raise ValueError(
                f"training.{info.field_name} must be within float32's range, {bound}, got {value:g}"
            )
        return value

    @model_serializer(mode="wrap")
    def _without_later_defaults(self, serialize: Callable[[Any], dict[str, Any]]) -> Any:
        """Leave out what earlier versions did not have, whose runs stay the same runs."""
        settings = serialize(self)
        if self.objective == "data_size":
            settings.pop("objective", None)
        if self.optimizer_state == "round":
            settings.pop("optimizer_state", None)
        later = ("local_epochs", "drop_last", "schedule", "warmup", "loss", "optimizer", "clip")
        for name in later:
            if not getattr(self, name):
                settings.pop(name, None)
        for name, instead in _INSTEAD.items():
            if getattr(self, instead) is not None:
                settings.pop(name, None)
        return settings

    @classmethod
    def without_effect(cls, settings: Mapping[str, object]) -> dict[str, str]:
        """The decay beside a schedule, and the steps beside epochs."""
        return {
            name: f"training.{name} has no effect beside training.{instead}; give one of them"
            for name, instead in _INSTEAD.items()
            if settings.get(instead) is not None and settings.get(name) is not None
        }

    def with_defaults(self, defaults: Mapping[str, object]) -> Self:
        """The same settings with `defaults` where nothing was given."""
        given = {key: getattr(self, key) for key in self.model_fields_set}
        rest = dict(defaults)
        if given.get("cohort_limit") is not None and given.get("proportion") is None:
            rest.pop("proportion", None)
        for name, instead in _INSTEAD.items():
            if given.get(instead) is not None:
                rest.pop(name, None)
        return type(self)(**{**rest, **given})


class ClientEvaluation(Variant):
    """When the global model is evaluated on the examples of each client.

    Attributes:
        every: rounds divisible by it, and the last model, are evaluated.
        part: "test": the clients' own test parts; "validation": their validation parts; none: test
            parts where test examples have owners, else validation parts.

    >>> ClientEvaluation(every=50).part is None
    True
    """

    family = "evaluation.per_client"
    every: int = Field(default=50, ge=1)
    part: Literal["test", "validation"] | None = None


class Evaluation(Variant):
    """When the global model is evaluated.

    Attributes:
        every: rounds divisible by it, and the last model, are evaluated.
        metrics: of the test set that are recorded beside loss and accuracy; a list, or names with
            commas between them.
        per_client: when the model is evaluated on the examples of each client; none: never.
        sample: so many clients, drawn once by the run's seed, stand for all in the validation loss
            and in `per_client`; none: all clients.

    >>> Evaluation(every=10, metrics="macro_f1, auc").metrics
    (MacroF1(), AUC())
    """

    family = "evaluation"
    every: int = Field(default=5, ge=1)
    metrics: Metrics = ()
    per_client: ClientEvaluation | None = None
    sample: int | None = Field(default=None, ge=1)

    @field_validator("per_client", mode="before")
    @classmethod
    def _clients(cls, value: object) -> object:
        if isinstance(value, Mapping):
            return ClientEvaluation(**text_keys(value, "evaluation.per_client"))
        return value

    @model_serializer(mode="wrap")
    def _without_no_metrics(self, serialize: Callable[[Any], dict[str, Any]]) -> Any:
        """Leave out what earlier versions did not have, whose runs stay the same runs."""
        settings = serialize(self)
        if not self.metrics:
            settings.pop("metrics", None)
        if self.per_client is None:
            settings.pop("per_client", None)
        if self.sample is None:
            settings.pop("sample", None)
        return settings


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
