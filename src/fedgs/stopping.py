"""When a run ends before its last round: at a target, or when a figure no longer improves."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field, field_validator, model_serializer

from fedgs.arrays import AnyArray, FloatArray
from fedgs.clients import Memory
from fedgs.errors import ConfigError
from fedgs.registry import Variant
from fedgs.targets import first_reached

__all__ = ["Stopping"]

Reason = Literal["target", "patience"]
Range = tuple[float, float]  # the lowest and the highest value
_OF_THEIR_OWN = ("accuracy", "loss")  # figures of every record, with targets of their own


class Stopping(Variant):
    """When a run ends before its last round; without a setting it does not.

    A run stops at an evaluation, before the round's training. The record of that round is the last
    one, and the model of that round the last model.

    Attributes:
        target_loss: stop where the test loss is at most this in two evaluations in a row.
        target_accuracy: stop where the test accuracy is at least this in two evaluations in a row.
        target_metrics: name of a metric of `evaluation.metrics` -> stop where its value on the test
            set is this or better in two evaluations in a row; finite, and in the metric's range
            where that is known.
        patience: stop after so many evaluations without a better value of `figure`.
        figure: that `patience` looks at: "valid_loss", "test_loss" or "test_accuracy".

    >>> stopping = Stopping(target_loss=0.5, patience=2, figure="test_loss")
    >>> stopping.reason({"test_loss": np.array([0.9, 0.4, 0.5])})
    'target'
    >>> stopping.reason({"test_loss": np.array([0.9, 0.7, 0.8, 0.7])})
    'patience'
    """

    family = "stopping"
    target_loss: float | None = Field(default=None, allow_inf_nan=False)
    target_accuracy: float | None = Field(default=None, gt=0, le=1)
    target_metrics: dict[str, float] = Field(default_factory=dict)
    patience: int | None = Field(default=None, ge=1)
    figure: Literal["valid_loss", "test_loss", "test_accuracy"] = "valid_loss"

    @field_validator("target_metrics")
    @classmethod
    def _finite(cls, targets: dict[str, float]) -> dict[str, float]:
        for name, value in targets.items():
            if not math.isfinite(value):
                raise ValueError(
                    f"stopping.target_metrics must have finite numbers, got {value} for {name!r}"
                )
            if name in _OF_THEIR_OWN:
                raise ValueError(
                    f"stopping.target_metrics must name a further metric, got {name!r}, whose "
                    f"target is stopping.target_{name}"
                )
        return targets

    @classmethod
    def without_effect(cls, settings: Mapping[str, object]) -> dict[str, str]:
        """`figure` changes nothing without `patience`."""
        figure = settings.get("figure", "valid_loss")
        if settings.get("patience") is not None or figure == "valid_loss":
            return {}
        why = f"stopping.figure = {figure!r} has no effect without stopping.patience"
        return {"figure": why}

    @property
    def is_on(self) -> bool:
        """Whether a run can end early."""
        return bool(self.figures)

    @property
    def figures(self) -> tuple[str, ...]:
        """The figures of a record that are looked at."""
        watched = {
            "test_loss": self.target_loss is not None,
            "test_accuracy": self.target_accuracy is not None,
        }
        watched |= {f"test_{name}": True for name in self.target_metrics}
        if self.patience is not None:
            watched[self.figure] = True
        return tuple(figure for figure, is_watched in watched.items() if is_watched)

    def check(
        self,
        *,
        has_validation: bool,
        has_accuracy: bool,
        metrics: Sequence[str] = (),
        ranges: Mapping[str, Range] | None = None,
    ) -> None:
        """Refuse what a run cannot give.

        Args:
            has_validation: whether there are validation parts.
            has_accuracy: whether answers are right or wrong.
            metrics: names of the metrics that are recorded.
            ranges: name of a metric -> its lowest and highest value, where they are known.

        Raises:
            ConfigError: no validation parts for the validation loss, no accuracy, a metric that is
                not recorded, or a target outside of its range.
        """
        for name, target in self.target_metrics.items():
            if name not in metrics:
                recorded = ", ".join(map(repr, metrics)) or "none"
                raise ConfigError(
                    f"stopping.target_metrics names {name!r}, which evaluation.metrics does not "
                    f"have; recorded are {recorded}"
                )
            low, high = (ranges or {}).get(name, (-math.inf, math.inf))
            if not low <= target <= high:
                upper = "" if math.isinf(high) else f" and at most {high:g}"
                raise ConfigError(
                    f"stopping.target_metrics must be at least {low:g}{upper} for {name!r}, "
                    f"got {target:g}"
                )
        if "valid_loss" in self.figures and not has_validation:
            raise ConfigError(
                "stopping.patience looks at the validation loss, and this federation has no "
                "validation parts; set stopping.figure = 'test_loss'"
            )
        if "test_accuracy" in self.figures and not has_accuracy:
            raise ConfigError(
                "stopping cannot look at the test accuracy, since this federation's targets are "
                "no classes; set stopping.target_loss or stopping.figure = 'test_loss'"
            )

    def extended(self, history: Memory, figures: Mapping[str, Any]) -> dict[str, AnyArray]:
        """The figures of all evaluations, with those of one more.

        Args:
            history: figure -> (E,) its values so far; empty before the first evaluation.
            figures: figure -> its value now, and "test_metrics" -> those of further metrics; None
                counts as NaN.
        """
        none = np.empty(0)
        further = figures.get("test_metrics") or {}
        now = {**figures, **{f"test_{name}": value for name, value in further.items()}}
        return {
            name: np.append(history.get(name, none), _number(now.get(name)))
            for name in self.figures
        }

    def reason(self, history: Memory, lower: Collection[str] = ()) -> Reason | None:
        """Why a run ends after these evaluations, or None.

        Args:
            history: figure -> (E,) its values, with the last evaluation.
            lower: names of metrics of which lower values are better.
        """
        targets: list[tuple[str, float | None, bool]] = [
            ("test_loss", self.target_loss, False),
            ("test_accuracy", self.target_accuracy, True),
        ]
        targets += [
            (f"test_{n}", value, n not in lower) for n, value in self.target_metrics.items()
        ]
        for name, target, higher in targets:
            if target is None:
                continue
            if first_reached(history[name].tolist(), target, higher=higher) is not None:
                return "target"
        if self.patience is not None:
            values = history[self.figure]
            losses = -values if self.figure == "test_accuracy" else values
            if len(losses) - 1 - _best(losses) >= self.patience:
                return "patience"
        return None

    @model_serializer(mode="wrap")
    def _without_defaults(self, serialize: Any) -> Any:
        """Leave out what is not set, and the figure where there is no patience."""
        settings = serialize(self)
        if not self.target_metrics:
            settings.pop("target_metrics", None)
        if self.patience is None:
            settings.pop("figure", None)
        return settings


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _best(losses: FloatArray) -> int:
    """The position of the lowest loss, the first of equal ones; 0 where all are NaN."""
    return 0 if np.isnan(losses).all() else int(np.nanargmin(losses))
