"""Numbers of the local training that a sampler asks for, from the metrics of the replies."""

import math
from collections.abc import Mapping

import numpy as np

from fedgs.arrays import FloatArray
from fedgs.flower.replies import Reply, first_metric
from fedgs.requests import ReportName
from fedgs.sampling.base import AsksReports, Sampler

__all__ = ["reports_of"]

# The names that a client may give a report, in order of preference; others have their own alone.
_NAMES: dict[ReportName, tuple[str, ...]] = {"mean_loss": ("mean_loss", "train_loss")}


def reports_of(
    sampler: Sampler, replies: Mapping[int, Reply]
) -> tuple[dict[str, FloatArray], dict[int, str]]:
    """The reports that the sampler asks for, and the clients that lack one.

    Args:
        sampler: may be one that asks for none.
        replies: row -> valid reply.

    Returns:
        Name -> (m,) numbers by ascending row, NaN where the client reported none; and row -> why.
    """
    reports: dict[str, FloatArray] = {}
    problems: dict[int, str] = {}
    if not isinstance(sampler, AsksReports):
        return reports, problems
    for report in sampler.wanted_reports:
        names = _NAMES.get(report, (report,))
        numbers = {row: first_metric(replies[row].metrics, names) for row in sorted(replies)}
        missing = [row for row, number in numbers.items() if number is None]
        wanted = " or ".join(map(repr, names))
        why = f"its metrics hold no finite number {wanted}, which {sampler.name!r} needs"
        problems.update(dict.fromkeys(missing, why))
        told = [math.nan if number is None else number for number in numbers.values()]
        reports[report] = np.array(told, dtype=np.float64)
    return reports, problems
