"""Schedules of the learning rate: their values, what they refuse, and what clients get."""

import math
from typing import Any

import pytest
from tests.parts import built_in

from fedgs.config import Training
from fedgs.errors import ConfigError
from fedgs.experiments.grid import build_config, expand
from fedgs.experiments.preparing import prepare
from fedgs.plan import Plan
from fedgs.registry import build
from fedgs.requests import Train
from fedgs.schedules import Cosine, Schedule
from fedgs.simulation import initial_state, run_round


def plan(**training: Any) -> Plan:
    tables = {"data": {"name": "synthetic", "clients": 4}, "availability": "IDL"}
    training = {"rounds": 20, "learning_rate": 0.5, **training}
    config = build_config({**tables, "method": "uniform", "training": training})
    return prepare([config])[0].plan


@pytest.mark.parametrize(
    ("training", "rates"),
    [
        ({"decay": 0.5}, {0: 0.5, 1: 0.25, 3: 0.0625}),
        ({"schedule": {"name": "exponential", "decay": 0.5}}, {0: 0.5, 1: 0.25, 3: 0.0625}),
        ({"schedule": "constant"}, {0: 0.5, 19: 0.5}),
        ({"schedule": {"name": "step", "every": 5, "drop": 0.5}}, {4: 0.5, 5: 0.25, 10: 0.125}),
        (
            {"schedule": {"name": "cosine", "rounds": 10, "lowest": 0.2}},
            {0: 0.5, 5: 0.3, 10: 0.1, 19: 0.1},
        ),
        ({"schedule": "constant", "warmup": 4}, {0: 0.1, 1: 0.2, 3: 0.4, 4: 0.5, 9: 0.5}),
        ({"decay": 0.5, "warmup": 1}, {0: 0.25, 1: 0.25, 2: 0.125}),
    ],
)
def test_rates_by_hand(training: dict[str, Any], rates: dict[int, float]) -> None:
    made = plan(**training)
    assert {t: made.learning_rate_of(t) for t in rates} == pytest.approx(rates)


def test_clients_train_with_the_rate_of_the_round() -> None:
    made = plan(schedule={"name": "step", "every": 1, "drop": 0.5})
    state = initial_state(made, {})
    requests = run_round(made, state.__class__(**{**vars(state), "round": 2}))
    request = next(requests)
    while not isinstance(request, Train):
        request = requests.send(None)
    assert request.learning_rate == 0.125


def test_the_schedules_of_the_package_start_at_one_and_never_rise() -> None:
    assert sorted(built_in("schedule")) == ["constant", "cosine", "exponential", "step"]
    needed = {"step": {"every": 3}, "cosine": {"rounds": 8}}
    for name in built_in("schedule"):
        schedule = build("schedule", {"name": name, **needed.get(name, {})})
        assert isinstance(schedule, Schedule)
        factors = [schedule.factor(t) for t in range(12)]
        assert factors[0] == 1 and factors == sorted(factors, reverse=True)
    assert Cosine(rounds=8).factor(3) == pytest.approx((1 + math.cos(3 * math.pi / 8)) / 2)


def test_a_rate_of_zero_is_refused_with_its_round() -> None:
    plan(rounds=8, schedule={"name": "cosine", "rounds": 8})
    with pytest.raises(
        ConfigError, match=r"schedule 'cosine' must give a learning rate > 0 .* 9 rounds, got 0 in "
    ):
        plan(rounds=9, schedule={"name": "cosine", "rounds": 8})
    step = {"name": "step", "every": 1, "drop": 1e-15}  # 0.5, 5e-16, 5e-31, 5e-46
    plan(rounds=3, schedule=step)
    with pytest.raises(ConfigError, match="in all 5 rounds, got 5e-46 in round 3"):
        plan(rounds=5, schedule=step)  # 0 in float32, not in float64


def test_a_decay_beside_a_schedule_is_refused_and_not_written() -> None:
    with pytest.raises(ConfigError, match=r"training\.decay has no effect beside training\.sched"):
        Training(decay=0.9, schedule="constant")
    assert "decay" not in Training(schedule="constant").model_dump(mode="json")
    assert Training().model_dump(mode="json")["decay"] == 0.998
    with pytest.raises(ConfigError, match=r"training\.schedule\.rounds must be given"):
        Training(schedule="cosine")


def test_schedules_are_an_axis_of_a_grid() -> None:
    axes = {"training.schedule": ["constant", {"name": "step", "every": 4}]}
    grid = expand({"grid": axes})
    assert [type(config.training.schedule).__name__ for config in grid.configs] == [
        "Constant",
        "Step",
    ]
