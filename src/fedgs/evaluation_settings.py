"""Settings of evaluation: the table `[evaluation]` of a configuration."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, field_validator

from fedgs.registry import Variant, text_keys
from fedgs.stopping import named_figure
from fedgs.training_settings import named_table, part_of

__all__ = ["ClientEvaluation", "Evaluation"]


def _as_metrics(value: object) -> object:
    """Metrics from a list of names, tables, objects or functions, or from one text with commas."""
    given = value.replace(" ", "").split(",") if isinstance(value, str) else value
    if not isinstance(given, Sequence):
        raise ValueError(f"evaluation.metrics must be a list of metrics, got {given!r}")
    return tuple(map(part_of("metric", "evaluation.metrics"), given))


def _listed(variants: tuple[Variant, ...]) -> list[object]:
    return [named_table(variant) for variant in variants]


Metrics = Annotated[tuple[Variant, ...], BeforeValidator(_as_metrics), PlainSerializer(_listed)]


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
        best: the figure by which the best model is kept: "valid_loss", "test_loss",
            "test_accuracy", or "valid_" or "test_" and the name of a metric of `metrics`; the
            lowest loss, or the best value by the metric's direction. None: the validation loss, or
            the test loss where there are no validation parts.

    >>> Evaluation(every=10, metrics="macro_f1, auc").metrics
    (MacroF1(), AUC())
    """

    family = "evaluation"
    every: int = Field(default=5, ge=1)
    metrics: Metrics = ()
    per_client: ClientEvaluation | None = None
    sample: int | None = Field(default=None, ge=1)
    best: str | None = None
    later_settings = (("metrics",), ("per_client",), ("sample",), ("best",))

    @field_validator("best")
    @classmethod
    def _of_records(cls, best: str | None) -> str | None:
        return None if best is None else named_figure(best, "evaluation.best")

    @field_validator("per_client", mode="before")
    @classmethod
    def _clients(cls, value: object) -> object:
        if isinstance(value, Mapping):
            return ClientEvaluation(**text_keys(value, "evaluation.per_client"))
        return value
