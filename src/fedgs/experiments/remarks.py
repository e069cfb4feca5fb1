"""Settings of a study that do not have the wished effect, named before it starts."""

from collections.abc import Iterable

from fedgs.experiments.prepared import PreparedRun
from fedgs.sampling import FedGS
from fedgs.solver import balance_bound

__all__ = ["alpha_remarks"]


def alpha_remarks(runs: Iterable[PreparedRun]) -> list[str]:
    """Sentences about values of alpha that were set and give the same cohorts as the default.

    In `paper` scale balance decides before diversity for every alpha below N/(M-1), see
    `balance_bound`. An alpha of 0, which leaves diversity out, is never named, and neither is one
    without a bound: of a graph whose distances are not divided by the largest, or beside balanced
    shares.
    """
    below: dict[float, set[float]] = {}  # bound -> values of alpha that were set
    for run in runs:
        method = run.plan.sampler
        if not isinstance(method, FedGS) or method.scale != "paper" or not method.graph.normalize:
            continue
        if method.balance == "share":  # shares are no whole numbers: every alpha has an effect
            continue
        bound = balance_bound(len(run.plan.federation), run.plan.cohort_limit)
        if "alpha" in method.model_fields_set and 0 < method.alpha < bound:
            below.setdefault(bound, set()).add(method.alpha)
    default = FedGS.model_fields["alpha"].default
    return [
        _remark(bound, sorted(values)) for bound, values in below.items() if values != {default}
    ]


def _remark(bound: float, values: list[float]) -> str:
    *others, last = [f"{value:g}" for value in values]
    given = f"method.alpha = {', '.join(others)} and {last}" if others else f"method.alpha = {last}"
    if bound == float("inf"):
        return f"{given}: alpha has no effect on cohorts of one client, which have no pairs"
    return (
        f"{given}: in scale 'paper' every alpha between 0 and N/(M-1) = {bound:.3g} has the same "
        "best cohorts, those of the smallest counts; set a larger alpha, or method.scale=cohort"
    )
