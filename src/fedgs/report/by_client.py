"""How a model's losses differ between the clients, from the last record by client."""

import math

import numpy as np

from fedgs.arrays import FloatArray
from fedgs.client_sample import client_sample
from fedgs.report.run_view import Run

__all__ = ["CLIENT_FIGURES", "client_accuracies", "client_figures", "client_losses"]

CLIENT_FIGURES = (
    "worst_client",
    "worst_decile",
    "client_spread",
    "client_variance",
    "decile_accuracy",
)


def client_losses(run: Run) -> FloatArray | None:
    """(N,) loss of the last model that was evaluated by client, on each client's own examples.

    NaN for clients without examples and outside of `evaluation.sample`; None where no model was
    evaluated by client.
    """
    return _last(run, "loss")


def client_accuracies(run: Run) -> FloatArray | None:
    """(N,) accuracy of the last model that was evaluated by client, as `client_losses`."""
    return _last(run, "accuracy")


def client_figures(run: Run) -> dict[str, float | None]:
    """The figures of `CLIENT_FIGURES`; None where no model was evaluated by client.

    They are those of the last model that was evaluated by client, over the n clients with examples,
    each of which counts the same:

    * worst_client: the highest loss;
    * worst_decile: the mean of the ceil(n / 10) highest losses;
    * client_spread: the highest loss minus the lowest one;
    * client_variance: the variance of the losses, with n - 1 in the denominator;
    * decile_accuracy: the mean of the ceil(n / 10) lowest accuracies.

    >>> from fedgs.records import Record
    >>> by_client = {"part": "test", "loss": [1.0, None, 3.0], "accuracy": [0.5, None, 0.25]}
    >>> client_figures(Run({}, [Record(0, per_client=by_client)]))  # doctest: +NORMALIZE_WHITESPACE
    {'worst_client': 3.0, 'worst_decile': 3.0, 'client_spread': 2.0, 'client_variance': 2.0,
     'decile_accuracy': 0.25}
    """
    figures: dict[str, float | None] = dict.fromkeys(CLIENT_FIGURES)
    losses = _known(client_losses(run))
    if len(losses):
        figures["worst_client"] = float(losses.max())
        figures["worst_decile"] = float(np.sort(losses)[-_tenth(losses) :].mean())
        figures["client_spread"] = float(losses.max() - losses.min())
    if len(losses) > 1:
        figures["client_variance"] = float(losses.var(ddof=1))
    accuracies = _known(client_accuracies(run))
    if len(accuracies):
        figures["decile_accuracy"] = float(np.sort(accuracies)[: _tenth(accuracies)].mean())
    return figures


def _last(run: Run, figure: str) -> FloatArray | None:
    """The last values by client; NaN for None."""
    for record in reversed(run.records):
        if record.per_client is not None and figure in record.per_client:
            values = record.per_client[figure]
            known = np.array([np.nan if value is None else value for value in values], dtype=float)
            sample, number = record.per_client.get("sample"), run.num_clients
            if sample is None or number is None:
                return known
            every = np.full(number, np.nan)
            every[client_sample(run.seed, number, int(sample))] = known
            return every
    return None


def _known(values: FloatArray | None) -> FloatArray:
    return np.empty(0) if values is None else values[np.isfinite(values)]


def _tenth(values: FloatArray) -> int:
    return math.ceil(len(values) / 10)
