"""Metrics of models: sums over examples, and scores of collected outputs. NumPy and SciPy only."""

from fedgs.metrics.base import (
    FunctionMetric,
    Metric,
    checked_metrics,
    directions,
    metric,
    metric_key,
    metric_value,
    ranges_of,
)
from fedgs.metrics.scores import AUC, Accuracy, MacroF1, MeanAbsoluteError
from fedgs.metrics.sums import client_metrics, mean_losses, weighted_metrics

__all__ = [
    "AUC",
    "Accuracy",
    "FunctionMetric",
    "MacroF1",
    "MeanAbsoluteError",
    "Metric",
    "checked_metrics",
    "client_metrics",
    "directions",
    "mean_losses",
    "metric",
    "metric_key",
    "metric_value",
    "ranges_of",
    "weighted_metrics",
]
