"""When a run ends before its last round: at a target, or when a figure no longer improves."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field, field_validator

from fedgs.arrays import AnyArray, FloatArray
from fedgs.clients import Memory
from fedgs.errors import ConfigError
from fedgs.registry import Variant
from fedgs.targets import first_reached

__all__ = ["Stopping", "check_figure", "is_higher", "named_figure"]

Reason = Literal["target", "patience"]
Range = tuple[float, float]  # the lowest and the highest value
_FIGURES = ("valid_loss", "test_loss", "test_accuracy")
_VALID = "valid_"
# Figures with targets of their own.
_OF_THEIR_OWN = {
    "accuracy": "target_accuracy",
    "loss": "target_loss",
    "valid_loss": "target_valid_loss",
}


class Stopping(Variant):
    """When a run ends before its last round; without a setting it does not.

    A run stops at an evaluation, before the round's training. The record of that round is the last
    one, and the model of that round the last model.

    Attributes:
        target_loss: stop where the test loss is at most this in two evaluations in a row.
        target_valid_loss: the same for the validation loss.
        target_accuracy: stop where the test accuracy is at least this in two evaluations in a row.
        target_metrics: name of a metric of `evaluation.metrics` -> stop where its value on the test
            set, or on the validation parts with "valid_" before the name, is this or better in two
            evaluations in a row; finite, and in the metric's range where that is known.
        patience: stop after so many evaluations without a better value of `figure`.
        figure: that `patience` looks at: "valid_loss", "test_loss", "test_accuracy", or "valid_" or
            "test_" and the name of a metric of `evaluation.metrics`.

    >>> stopping = Stopping(target_loss=0.5, patience=2, figure="test_loss")
    >>> stopping.reason({"test_loss": np.array([0.9, 0.4, 0.5])})
    'target'
    >>> stopping.reason({"test_loss": np.array([0.9, 0.7, 0.8, 0.7])})
    'patience'
    """

    family = "stopping"
    target_loss: float | None = Field(default=None, allow_inf_nan=False)
    target_valid_loss: float | None = Field(default=None, allow_inf_nan=False)
    target_accuracy: float | None = Field(default=None, gt=0, le=1)
    target_metrics: dict[str, float] = Field(default_factory=dict)
    patience: int | None = Field(default=None, ge=1)
    figure: str = "valid_loss"
    later_settings = (("target_metrics",),)

    @field_validator("figure")
    @classmethod
    def _of_records(cls, figure: str) -> str:
        return named_figure(figure, "stopping.figure")

    @field_validator("target_metrics")
    @classmethod
    def _finite(cls, targets: dict[str, float]) -> dict[str, float]:
        for name, value in targets.items():
            if not math.isfinite(value):
                raise ValueError(
                    f"stopping.target_metrics must have finite numbers, got {value} for {name!r}"
                )
            own = _OF_THEIR_OWN.get(name)
            if own is not None:
                raise ValueError(
                    f"stopping.target_metrics must name a further metric, got {name!r}, whose "
                    f"target is stopping.{own}"
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
            "valid_loss": self.target_valid_loss is not None,
            "test_accuracy": self.target_accuracy is not None,
        }
        watched |= {_figure_of(name): True for name in self.target_metrics}
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
        named = dict.fromkeys(self.target_metrics, "stopping.target_metrics")
        if self.patience is not None and self.figure not in _FIGURES:
            named[self.figure.removeprefix("test_")] = "stopping.figure"
        recorded = ", ".join(map(repr, metrics)) or "none"
        for name, setting in named.items():
            if name.removeprefix(_VALID) not in metrics and name not in metrics:
                raise ConfigError(
                    f"{setting} names {name!r}, which evaluation.metrics does not have; "
                    f"recorded are {recorded}"
                )
        for name, target in self.target_metrics.items():
            known = ranges or {}
            low, high = known.get(name.removeprefix(_VALID), (-math.inf, math.inf))
            if not low <= target <= high:
                upper = "" if math.isinf(high) else f" and at most {high:g}"
                raise ConfigError(
                    f"stopping.target_metrics must be at least {low:g}{upper} for {name!r}, "
                    f"got {target:g}"
                )
        valid = [figure for figure in self.figures if figure.startswith(_VALID)]
        if valid and not has_validation:
            by_patience = self.patience is not None and self.figure == valid[0]
            setting = "stopping.patience" if by_patience else "a target of stopping"
            title = "validation loss" if valid[0] == "valid_loss" else f"figure {valid[0]!r}"
            raise ConfigError(
                f"{setting} looks at the {title}, and this federation has no validation parts; "
                "set stopping.figure = 'test_loss' or a target of the test set"
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
            figures: figure -> its value now, and "test_metrics" and "valid_metrics" -> those of
                further metrics; None counts as NaN.
        """
        none = np.empty(0)
        now = dict(figures)
        for part in ("test", "valid"):
            further = figures.get(f"{part}_metrics") or {}
            now |= {f"{part}_{name}": value for name, value in further.items()}
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
            ("valid_loss", self.target_valid_loss, False),
            ("test_accuracy", self.target_accuracy, True),
        ]
        for metric, value in self.target_metrics.items():
            figure = _figure_of(metric)
            targets.append((figure, value, is_higher(figure, lower)))
        for name, target, higher in targets:
            if target is None:
                continue
            if first_reached(history[name].tolist(), target, higher=higher) is not None:
                return "target"
        if self.patience is not None:
            values = history[self.figure]
            losses = -values if is_higher(self.figure, lower) else values
            if len(losses) - 1 - _best(losses) >= self.patience:
                return "patience"
        return None

    def _left_out(self) -> Iterator[str]:
        """Also the figure where there is no patience."""
        yield from super()._left_out()
        if self.patience is None:
            yield "figure"


def _figure_of(metric: str) -> str:
    """The figure of a metric of `target_metrics`.

    >>> _figure_of("auc"), _figure_of("valid_auc")
    ('test_auc', 'valid_auc')
    """
    return metric if metric.startswith(_VALID) else f"test_{metric}"


def named_figure(figure: str, setting: str) -> str:
    """The figure, if it has the form of one.

    Raises:
        ValueError: it has not; the message names the setting.
    """
    part, _, name = figure.partition("_")
    if part not in ("valid", "test") or not name:
        raise ValueError(
            f"{setting} must be 'valid_loss', 'test_loss', 'test_accuracy', or 'valid_' "
            f"or 'test_' and the name of a metric, got {figure!r}"
        )
    return figure


def check_figure(
    figure: str,
    setting: str,
    *,
    has_validation: bool,
    has_accuracy: bool,
    metrics: Collection[str],
) -> None:
    """Refuse a figure that the records of a run do not have.

    Args:
        figure: as `named_figure` returns it.
        setting: that names it.
        has_validation: whether there are validation parts.
        has_accuracy: whether answers are right or wrong.
        metrics: names of the metrics that are recorded.

    Raises:
        ConfigError: the run does not record the figure.
    """
    if figure not in _FIGURES and figure.partition("_")[2] not in metrics:
        recorded = ", ".join(map(repr, metrics)) or "none"
        raise ConfigError(
            f"{setting} names {figure!r}, whose metric evaluation.metrics does not have; "
            f"recorded are {recorded}"
        )
    if figure.startswith(_VALID) and not has_validation:
        raise ConfigError(
            f"{setting} = {figure!r} needs validation parts, and this federation has none"
        )
    if figure == "test_accuracy" and not has_accuracy:
        raise ConfigError(
            f"{setting} = 'test_accuracy' needs targets that are classes, and those of this "
            "federation are none"
        )


def is_higher(figure: str, lower: Collection[str]) -> bool:
    """Whether higher values of a figure are better.

    Args:
        figure: such as "test_loss" or "valid_auc".
        lower: names of metrics of which lower values are better.

    >>> is_higher("valid_loss", ()), is_higher("test_auc", ()), is_higher("test_mae", {"mae"})
    (False, True, False)
    """
    return not figure.endswith("_loss") and figure.partition("_")[2] not in lower


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _best(losses: FloatArray) -> int:
    """The position of the lowest loss, the first of equal ones; 0 where all are NaN."""
    return 0 if np.isnan(losses).all() else int(np.nanargmin(losses))
