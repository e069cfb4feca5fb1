"""Filters: clients that break a rule are not available, and the reason is an event."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from fedgs.errors import ConfigError, RunError
from fedgs.flower import SampledStrategy, describe
from fedgs.flower.descriptions import Description
from fedgs.flower.filters import Filters, Refusal
from fedgs.records import RunFolder

SITES = ["site-0", "site-1", "site-2"]


def reporting(world: Any, battery: Any = None, metered: Any = None) -> Any:
    """The default app, whose clients report battery and network from dicts by key."""
    inside, app = world.default_app(), ClientApp()
    describe(
        app,
        battery=None if battery is None else lambda context: battery[key_of(context)],
        metered=None if metered is None else lambda context: metered[key_of(context)],
    )

    def chosen(message: Any, context: Any) -> Any:
        is_query = message.metadata.message_type.startswith("query")
        return (app if is_query else inside)(message, context)

    return chosen


def key_of(context: Any) -> Any:
    return context.node_config["client-id"]


def strategy(filters: Any, **settings: Any) -> SampledStrategy:
    defaults = {"cohort_limit": 3, "connect_timeout": 0.1, "reply_timeout": 0.2, "min_connected": 1}
    inner = settings.pop("inner", None) or FedAvg(fraction_evaluate=0.0)
    return SampledStrategy(inner, "uniform", filters=filters, **{**defaults, **settings})


def events(folder: Path) -> list[tuple[Any, ...]]:
    lines = (folder / "events.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    return [(e["round"], e["client"], e["event"], e.get("rule"), e["detail"]) for e in found]


def test_clients_that_are_not_on_the_list_are_not_met(world: Any, tmp_path: Path) -> None:
    chosen = strategy({"allow": ["site-0", "site-2"]}, records=tmp_path)
    grid = world(SITES)
    chosen.start(grid, world.model(), num_rounds=2)
    assert chosen.counts == {"site-0": 2, "site-2": 2}
    detail = "it is not on the list allow; it is not available"
    assert events(tmp_path) == [(0, "site-1", "filtered", "allow", detail)]
    assert ("train", 101) not in grid.asked
    config = RunFolder(tmp_path).config()
    assert config["training"]["filters"]["allow"] == ["site-0", "site-2"]


def test_a_number_and_its_text_are_one_key(world: Any) -> None:
    chosen = strategy(Filters(allow=("3", 5)))
    chosen.start(world([3, 4, "5"]), world.model(), num_rounds=1)
    assert chosen.counts == {3: 1, "5": 1}


def test_a_low_battery_is_charged_and_low_again(world: Any, tmp_path: Path) -> None:
    battery = {"site-0": 0.9, "site-1": 0.1, "site-2": 0.3}
    settings = {"min_battery": 0.3, "max_age": 1e-9}
    chosen = strategy(settings, records=tmp_path)
    grid = world(SITES, app=reporting(world, battery))
    chosen.start(grid, world.model(), num_rounds=2)
    assert chosen.counts == {"site-0": 2, "site-1": 0, "site-2": 2}
    battery["site-1"] = 0.8
    chosen.start(grid, world.model(), num_rounds=1)
    assert chosen.counts == {"site-0": 3, "site-1": 1, "site-2": 3}
    battery["site-1"] = 0.2
    chosen.start(grid, world.model(), num_rounds=1)
    assert chosen.counts == {"site-0": 4, "site-1": 1, "site-2": 4}
    below = "its battery is at {}, below min_battery = 0.3; it is not available"
    assert events(tmp_path) == [
        (0, "site-1", "filtered", "min_battery", below.format(0.1)),
        (3, "site-1", "filtered", "min_battery", below.format(0.2)),
    ]
    record = RunFolder(tmp_path).records()[0]
    assert record.available == ["site-0", "site-2"]


def test_reports_are_read_again_after_their_age_only(world: Any) -> None:
    for filters in ({}, {"min_battery": 0.1}, {"metered": False}):
        grid = world(SITES, app=reporting(world, dict.fromkeys(SITES, 0.5), dict.fromkeys(SITES)))
        strategy(filters).start(grid, world.model(), num_rounds=3)
        assert [kind for kind, _ in grid.asked].count("query.fedgs") == 3


def test_a_node_that_is_asked_again_and_does_not_answer_keeps_what_it_said(world: Any) -> None:
    grid = world(SITES, app=reporting(world, dict.fromkeys(SITES, 0.5)))
    chosen = strategy({"min_battery": 0.2, "max_age": 1e-9})
    chosen.start(grid, world.model(), num_rounds=1)
    push = grid.push_messages
    grid.push_messages = lambda messages: (
        [push([m])[0] for m in messages if not m.metadata.message_type.startswith("query")]
        or ["lost"] * len(messages)
    )
    chosen.start(grid, world.model(), num_rounds=2)
    assert set(chosen.counts.values()) == {3}


@pytest.mark.parametrize("metered", [None, True])
def test_a_metered_network_or_no_report_of_it(world: Any, tmp_path: Path, metered: Any) -> None:
    told = None if metered is None else {"site-0": True, "site-1": False, "site-2": False}
    grid = world(SITES, app=reporting(world, metered=told))
    chosen = strategy({"metered": False}, records=tmp_path, max_idle_rounds=1)
    if told is None:
        with pytest.raises(RunError, match="1 clients must be connected, 0 are"):
            chosen.start(grid, world.model(), num_rounds=1)
        reason = "it has not reported whether its network is metered; it is not available"
        assert [event[4] for event in events(tmp_path)][:3] == [reason] * 3
        return
    chosen.start(grid, world.model(), num_rounds=1)
    assert chosen.counts == {"site-0": 0, "site-1": 1, "site-2": 1}


def test_a_filtered_client_does_not_evaluate_either(world: Any) -> None:
    grid = world(SITES)
    inner = FedAvg(fraction_evaluate=1.0, min_evaluate_nodes=1)
    strategy({"allow": ["site-1"]}, inner=inner).start(grid, world.model(), num_rounds=1)
    assert [node for kind, node in grid.asked if kind == "evaluate"] == [101]


def test_a_report_out_of_range_is_named(world: Any, tmp_path: Path) -> None:
    grid = world(SITES, app=reporting(world, {"site-0": 80, "site-1": 1.0, "site-2": 0.5}))
    chosen = strategy({"min_battery": 0.2}, records=tmp_path)
    chosen.start(grid, world.model(), num_rounds=1)
    assert chosen.counts == {"site-0": 0, "site-1": 1, "site-2": 1}
    details = [event[4] for event in events(tmp_path) if event[1] == "site-0"]
    assert any("battery must be a charge in [0, 1], got 80" in detail for detail in details)
    assert any("it has not reported its battery" in detail for detail in details)


def test_each_rule_by_itself() -> None:
    told = Description("a", battery=0.5, metered=True)
    assert Filters().refusal("a", None) is None
    assert Filters(min_battery=0.5).refusal("a", told) is None
    assert Filters(metered=False).refusal("a", told) == Refusal("metered", "its network is metered")
    assert Filters(allow=()).refusal("a", told) == Refusal("allow", "it is not on the list allow")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"filters": {"min_battery": 1.5}}, "min_battery"),
        ({"filters": {"min_batery": 0.5}}, "did you mean 'min_battery'"),
        ({"filters": {"max_age": 0}}, "max_age"),
        ({"filters": {"allow": 3}}, "allow"),
        ({"filters": "all"}, "filters"),
        ({"filters": {"metered": False}, "describe": False}, "need describe = True"),
    ],
)
def test_bad_filters_are_refused(settings: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        SampledStrategy(FedAvg(), "uniform", **settings)


def test_the_default_filters_are_not_in_the_records(world: Any, tmp_path: Path) -> None:
    strategy({}, records=tmp_path).start(world(SITES), world.model(), num_rounds=1)
    assert "filters" not in RunFolder(tmp_path).config()["training"]
