"""Settings of local training and cohorts: the table `[training]` of a configuration."""

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    ValidationInfo,
    field_validator,
)

from fedgs.clients import Objective
from fedgs.errors import ConfigError
from fedgs.registry import Variant, build, table

__all__ = ["Training", "named_table", "part_of"]

_FLOAT32_MIN, _FLOAT32_MAX = 1.5e-45, 3.4e38  # clients train in float32
_INSTEAD = {"decay": "schedule", "local_steps": "local_epochs"}  # setting -> what replaces it


def part_of(family: str, setting: str, default: str | None = None) -> Callable[[object], object]:
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


def named_table(variant: Variant | None) -> object:
    """The table of a variant, or its name alone where it has the default settings."""
    if variant is None:
        return None
    settings = table(variant)
    return settings["name"] if set(settings) == {"name"} else settings


Loss = Annotated[
    Variant | None,
    BeforeValidator(part_of("loss", "training.loss")),
    PlainSerializer(named_table),
]
Optimizer = Annotated[
    Variant | None,
    BeforeValidator(part_of("optimizer", "training.optimizer", default="sgd")),
    PlainSerializer(named_table),
]
Schedule = Annotated[
    Variant | None,
    BeforeValidator(part_of("schedule", "training.schedule")),
    PlainSerializer(named_table),
]


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
    later_settings = (
        ("objective",), ("local_epochs",), ("drop_last",), ("schedule",), ("warmup",), ("loss",),
        ("optimizer",), ("clip",), ("optimizer_state",),
    )  # fmt: skip

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

    def _left_out(self) -> Iterator[str]:
        """Also what another setting replaces."""
        yield from super()._left_out()
        yield from (name for name, other in _INSTEAD.items() if getattr(self, other) is not None)

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
