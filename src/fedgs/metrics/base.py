"""The interface of metrics: a frozen variant, and the wrapper for a user's function."""

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import Field, field_serializer

from fedgs.arrays import AnyArray
from fedgs.data.federation import Federation
from fedgs.errors import ConfigError, UpdateError, shown
from fedgs.registry import Variant, check_name, register, stand_for

__all__ = [
    "FunctionMetric",
    "Metric",
    "checked_metrics",
    "directions",
    "metric",
    "metric_key",
    "metric_value",
    "ranges_of",
]

Direction = Literal["higher", "lower"]
MetricFunction = Callable[[Any, Any], float]
_RECORDED = ("accuracy", "loss")  # always, under names of their own


class Metric(Variant):
    """Base of all metrics: one number from the outputs of a model on examples.

    A plug-in defines `value`:

    >>> class WorstError(Metric):
    ...     better = "lower"
    ...     tasks = ("regression",)
    ...     def value(self, outputs, targets):
    ...         return float(abs(outputs.reshape(targets.shape) - targets).max())
    """

    family: ClassVar[str] = "metric"
    better: ClassVar[Direction] = "higher"
    """Whether a "higher" or a "lower" value is better: tables and targets follow it."""
    range: ClassVar[tuple[float, float] | None] = None
    """The lowest and the highest value, which targets must be in; None: not known."""
    tasks: ClassVar[tuple[str, ...]] = ()
    """The tasks of `Federation.task` that the metric has a meaning for; empty: all."""

    def check(self, federation: Federation) -> None:
        """Raise `ConfigError` if the metric has no meaning for the federation.

        It is computed on the test set, and on all validation parts together where there are any.
        """
        if self.tasks and federation.task not in self.tasks:
            raise ConfigError(
                f"evaluation.metrics {metric_key(self)!r} needs a federation of task "
                f"{' or '.join(map(repr, self.tasks))}, "
                f"got {federation.name!r} of task {federation.task!r}"
            )

    def value(self, outputs: AnyArray, targets: AnyArray) -> float:
        """The metric of n examples.

        Args:
            outputs: (n, ...) float32 outputs of the model. Of sequences, (n, C) logits of all
                places whose label is not -1, one sequence after another.
            targets: (n, ...) their targets.
        """
        raise TypeError(f"{type(self).__name__} must define value(outputs, targets)")


class FunctionMetric(Metric):
    """A user's function (outputs, targets) -> number, of which higher is better.

    >>> import numpy as np
    >>> largest = FunctionMetric(function=lambda outputs, targets: float(outputs.max()))
    >>> largest.value(np.arange(3.0), np.zeros(3))
    2.0
    """

    name: ClassVar[str] = "function"
    function: MetricFunction

    @field_serializer("function")
    def _qualified_name(self, function: MetricFunction) -> str:
        name = getattr(function, "__qualname__", type(function).__qualname__)
        return f"{getattr(function, '__module__', type(function).__module__)}.{name}"

    @property
    def content_digest(self) -> str | None:
        """The function's own `content_digest` if it has one, for content that cannot be hashed."""
        return getattr(self.function, "content_digest", None)

    def value(self, outputs: AnyArray, targets: AnyArray) -> float:
        """The function's value."""
        value: float = self.function(outputs, targets)
        return value


GivenFunction = TypeVar("GivenFunction", bound=MetricFunction)


def metric(name: str, *, better: Direction = "higher") -> Callable[[GivenFunction], GivenFunction]:
    """Register a function (outputs, targets) -> number as a metric, see `Metric.value`.

    Args:
        name: in configurations and records.
        better: whether a "higher" or a "lower" value is better.

    Raises:
        ConfigError: the name is missing, empty or taken, another direction, or it is not a
            function.

    >>> @metric("worst-error", better="lower")
    ... def worst_error(outputs, targets):
    ...     return abs(outputs.reshape(targets.shape) - targets).max()
    >>> metric_key(worst_error.__fedgs_variant__())
    'worst-error'
    """
    check_name(name, decorator="fedgs.metrics.metric")
    if better not in ("higher", "lower"):
        raise ConfigError(
            f"better of fedgs.metrics.metric({name!r}) must be 'higher' or 'lower', got {better!r}"
        )

    def add(function: GivenFunction) -> GivenFunction:
        if not callable(function) or isinstance(function, type):
            raise ConfigError(
                f"fedgs.metrics.metric({name!r}) takes a function (outputs, targets) that returns "
                f"a number, got {shown(function)}"
            )
        given, direction = function, better

        class Registered(FunctionMetric):
            better: ClassVar[Direction] = direction
            function: MetricFunction = Field(default=given, exclude=True)  # its name stands for it

        Registered.__name__ = Registered.__qualname__ = getattr(function, "__name__", "metric")
        Registered.__module__ = function.__module__
        Registered.__doc__ = function.__doc__
        register("metric", name)(Registered)
        stand_for(function, Registered)
        return function

    return add


def metric_key(metric: Metric) -> str:
    """The name of a metric in records: its own, or that of the user's function."""
    function = getattr(metric, "function", None)
    if function is None or metric.name != "function":
        return metric.name or type(metric).__name__
    return str(getattr(function, "__name__", type(function).__name__))


def checked_metrics(metrics: Sequence[object], federation: Federation) -> tuple[Metric, ...]:
    """The metrics to compute.

    The accuracy is among them only for validation parts: that on the test set is always recorded.

    Raises:
        ConfigError: something else than a metric, one without a meaning for the federation, a name
            that occurs twice or is that of the loss.
    """
    chosen: dict[str, Metric] = {}
    for given in metrics:
        if not isinstance(given, Metric):
            raise ConfigError(
                "evaluation.metrics must hold metrics, subclasses of fedgs.metrics.Metric; "
                f"got {shown(given)}"
            )
        key = metric_key(given)
        if key in chosen or (key in _RECORDED and type(given).__module__ != "fedgs.metrics.scores"):
            why = "occurs twice" if key in chosen else "is the name of a figure of every record"
            raise ConfigError(
                f"evaluation.metrics must have distinct names besides {' and '.join(_RECORDED)}; "
                f"{key!r} {why}"
            )
        if key.startswith(("test_", "valid_")):
            raise ConfigError(
                "evaluation.metrics must have names that do not begin with 'test_' or 'valid_', "
                f"which stand for the examples; got {key!r}"
            )
        given.check(federation)
        chosen[key] = given
    if federation.validation is None:
        chosen.pop("accuracy", None)
    return tuple(chosen.values())


def directions(metrics: Sequence[Metric]) -> dict[str, Direction]:
    """Name in records -> which values are better."""
    return {metric_key(metric): metric.better for metric in metrics}


def ranges_of(metrics: Sequence[Metric]) -> dict[str, tuple[float, float]]:
    """Name in records -> the lowest and the highest value, of metrics that say so."""
    return {metric_key(one): one.range for one in metrics if one.range is not None}


def metric_value(metric: Metric, outputs: AnyArray, targets: AnyArray) -> float:
    """The value of a metric as a number of a record.

    Raises:
        UpdateError: it is not a number.
    """
    value: Any = metric.value(outputs, targets)
    count = value.numel() if hasattr(value, "numel") else getattr(value, "size", 1)
    number = value.item() if hasattr(value, "item") and count == 1 else value
    if not isinstance(number, Real) or isinstance(number, bool):
        raise UpdateError(f"metric {metric_key(metric)!r} must return a number, got {shown(value)}")
    return float(number) if not math.isnan(number) else math.nan
