"""Every sampler, weighting and aggregation together: two rounds, or a refusal that helps."""

import re
from itertools import product
from pathlib import Path

import pytest
from tests.driving import RecordedRun, make_plan
from tests.parts import built_in

import fedgs
from fedgs.aggregation import Aggregation
from fedgs.data import Federation
from fedgs.driver import drive
from fedgs.errors import ConfigError
from fedgs.local import StackedEngine
from fedgs.models import LogisticRegression
from fedgs.plan import Plan
from fedgs.registry import build
from fedgs.requests import Work
from fedgs.sampling import Sampler

SAMPLERS, RULES, AGGREGATIONS = map(built_in, ("method", "weighting", "aggregation"))


def planned(
    federation: Federation, sampler: str, weighting: str, aggregation: str, mu: float = 0.0
) -> Plan:
    """The plan of a run of two rounds.

    Raises:
        ConfigError: the parts do not go together.
    """
    method = build("method", {"name": sampler, "weighting": weighting})
    combined = build("aggregation", aggregation)
    assert isinstance(method, Sampler) and isinstance(combined, Aggregation)
    objective = combined.objective or "data_size"
    mu = combined.proximal or mu
    work = Work(federation, LogisticRegression(), mu, 1, 2, objective=objective)
    return make_plan(federation, method, aggregation=combined, rounds=2, work=work)


def refusal(federation: Federation, *parts: str) -> str | None:
    """The sentence that refuses the parts, if one does."""
    try:
        planned(federation, *parts)
    except ConfigError as error:
        return str(error)
    return None


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("mu", [0.0, 0.1])
def test_a_combination_runs_or_is_refused_with_what_works(
    aggregation: str, mu: float, toy_federation: Federation
) -> None:
    plans = []
    for sampler, rule in product(SAMPLERS, RULES):
        try:
            plans.append(planned(toy_federation, sampler, rule, aggregation, mu))
        except ConfigError as error:
            assert_helpful(str(error), sampler, rule, aggregation, toy_federation)
    runs = [RecordedRun(plan) for plan in plans]
    drive([run.live for run in runs], StackedEngine())
    assert {plan.sampler.name for plan in plans} == set(SAMPLERS) or aggregation != "mean"
    assert len(runs) > len(SAMPLERS) / 2
    for run in runs:
        assert run.failed is None, (run.live.plan.sampler, run.failed)
        assert run.final is not None and run.final.round == 2


def assert_helpful(
    message: str, sampler: str, rule: str, aggregation: str, federation: Federation
) -> None:
    """The sentence names a part that gets past this refusal."""
    assert "\n" not in message and len(message) < 300
    parts, named = (sampler, rule, aggregation), set(re.findall(r"'(\w+)'", message))
    others = [(name, rule, aggregation) for name in named & set(SAMPLERS)]
    others += [(sampler, name, aggregation) for name in named & set(RULES)]
    others += [(sampler, rule, name) for name in named & set(AGGREGATIONS)]
    answers = [refusal(federation, *other) for other in others if other != parts]
    assert answers and any(answer != message for answer in answers), (message, parts)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ({"name": "md", "weighting": "known"}, "method 'uniform' alone.*'fedau' estimates them"),
        ({"name": "uniform", "weighting": "coverage"}, "needs the distances of method 'divfl'"),
        ({"name": "fedawe", "weighting": "data_size"}, "needs method.weighting = 'equal'"),
    ],
)
def test_a_refused_combination_writes_nothing(
    method: dict[str, object], message: str, toy_federation: Federation, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        fedgs.compare(toy_federation, methods=[method], out=tmp_path / "out")
    assert "\n" not in str(raised.value) and not (tmp_path / "out").exists()
