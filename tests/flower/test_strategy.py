"""`SampledStrategy` on a Grid in memory: selection, weights, identity, deadlines, refusals."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAdam, FedAvg, FedAvgM, FedProx

from fedgs.clients import Selection
from fedgs.errors import ConfigError, RunError
from fedgs.flower import SampledStrategy
from fedgs.flower.exchange import resend
from fedgs.records import RunFolder
from fedgs.registry import Variant
from fedgs.sampling import MD, ActiveFL, CPowD, FedGS, PowerOfChoice, RPowD, Sampler, Uniform

SITES = [f"site-{k}" for k in range(5)]
QUICK = {"connect_timeout": 0.1, "reply_timeout": 0.2}


class First(Sampler):
    """The available clients with the smallest counts, then the lowest rows."""

    def select(self, view: Any, rng: Any) -> Selection:
        order = np.lexsort((view.available, view.counts[view.available]))
        return Selection(view.available[order[: view.cohort_size]])


def strategy(sampler: Any = None, inner: Any = None, **settings: Any) -> SampledStrategy:
    inner = inner if inner is not None else FedAvg(fraction_evaluate=0.0)
    defaults = {"cohort_limit": 2, "min_connected": 1, **QUICK}
    return SampledStrategy(
        inner, sampler if sampler is not None else First(), **{**defaults, **settings}
    )


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


# Selection and weights.


def test_average_uses_data_size_weights(world: Any) -> None:
    chosen = strategy()
    result = chosen.start(world(SITES), world.model(), num_rounds=1)
    # Clients 0 and 1 move by 1 and 2 and have 10 and 20 examples: (10·1 + 20·2) / 30 = 5/3.
    assert result.arrays["w"].numpy() == pytest.approx([5 / 3, 1.0])
    assert chosen.counts == {"site-0": 1, "site-1": 1, "site-2": 0, "site-3": 0, "site-4": 0}
    assert chosen.answers == chosen.counts


@pytest.mark.parametrize(
    ("weighting", "expected"),
    # Second round of a cohort of all: counts are 1, moves 1 and 2, sizes 10 and 20.
    [("equal", 1.5), ("inverse_participation", 5 / 3), ("draws", 1.5), ("data_size", 5 / 3)],
)
def test_weighting_rules(world: Any, weighting: str, expected: float) -> None:
    result = strategy(First(weighting=weighting)).start(
        world(SITES[:2]), world.model(), num_rounds=1
    )
    assert result.arrays["w"].numpy()[0] == pytest.approx(expected)


def test_a_client_drawn_twice_trains_once_and_weighs_twice(world: Any) -> None:
    class Twice(Sampler):
        weighting: str = "draws"

        def select(self, view: Any, rng: Any) -> Selection:
            return Selection(np.array([0, 1]), draws=np.array([3, 1]))

    grid = world(SITES)
    result = strategy(Twice(), cohort_limit=4).start(grid, world.model(), num_rounds=1)
    assert result.arrays["w"].numpy()[0] == pytest.approx((3 * 1 + 1 * 2) / 4)
    assert [node for kind, node in grid.asked if kind == "train"] == [100, 101]


def test_cohort_limit_follows_the_inner_strategy_where_it_is_not_given(world: Any) -> None:
    inner = FedAvg(fraction_train=0.6, min_train_nodes=1, fraction_evaluate=0.0)
    chosen = strategy(inner=inner, cohort_limit=None)
    chosen.start(world(SITES), world.model(), num_rounds=1)
    assert sum(chosen.counts.values()) == 3  # floor(0.6 · 5)
    # The user's object is not changed.
    assert (inner.fraction_train, inner.min_available_nodes) == (0.6, 2)


def test_stock_sampling_never_draws(world: Any) -> None:
    random.seed(7)
    before = random.getstate()
    strategy(inner=FedAvg()).start(world(SITES), world.model(), num_rounds=2)
    assert random.getstate() == before


def test_inner_strategies_keep_what_they_add(world: Any) -> None:
    grid = world(SITES)
    seen: list[dict[str, Any]] = []
    inner_reply = grid._reply
    grid._reply = lambda message: (
        seen.append(dict(message.content.config_records.get("config", {}))) or inner_reply(message)
    )
    strategy(inner=FedProx(proximal_mu=0.25, fraction_evaluate=0.0)).start(
        grid, world.model(), num_rounds=1
    )
    assert seen[-1] == {"proximal-mu": 0.25, "server-round": 1}


@pytest.mark.parametrize("inner", [FedAvgM(server_momentum=0.9), FedAdam(eta=0.1)])
def test_server_optimisers_work(world: Any, inner: Any) -> None:
    result = strategy(inner=inner).start(world(SITES), world.model(), num_rounds=3)
    assert result.arrays["w"].numpy()[0] > 0


def test_power_of_choice_asks_for_losses_and_takes_the_highest(world: Any) -> None:
    grid = world(SITES)
    chosen = strategy(PowerOfChoice(loss_on="validation"))
    chosen.start(grid, world.model(), num_rounds=1)  # client k's loss is k
    assert [key for key, count in chosen.counts.items() if count] == ["site-3", "site-4"]
    assert [node for kind, node in grid.asked if kind == "evaluate"] == [100, 101, 102, 103, 104]


def test_a_client_that_tells_no_loss_is_not_selected(world: Any) -> None:
    grid = world(SITES)
    chosen = strategy(PowerOfChoice())
    chosen.start(grid, world.model(), num_rounds=1)
    grid.faults[104] = "silent"
    chosen.start(grid, world.model(), num_rounds=1)
    assert chosen.counts == {"site-0": 0, "site-1": 0, "site-2": 1, "site-3": 2, "site-4": 1}


def test_cpow_d_asks_for_losses_on_a_mini_batch(world: Any) -> None:
    asked: dict[str, list[dict[str, Any]]] = {}
    for sampler in (CPowD(loss_batch=7), PowerOfChoice()):
        grid, configs = world(SITES), asked.setdefault(sampler.name, [])
        grid._reply = lambda message, reply=grid._reply, configs=configs: (
            configs.append(dict(message.content.config_records.get("config", {}))) or reply(message)
        )
        chosen = strategy(sampler)
        chosen.start(grid, world.model(), num_rounds=1)  # client k's loss is k
        assert [key for key, count in chosen.counts.items() if count] == ["site-3", "site-4"]
    question = {"server-round": 1, "loss-on": "train"}
    assert asked["cpow_d"].count({**question, "loss-batch": 7}) == 5
    assert asked["power_of_choice"].count(question) == 5


@pytest.mark.parametrize("sampler", [RPowD(), ActiveFL(excluded_share=0.5, uniform_share=0.0)])
def test_reported_losses_come_with_the_training_replies(world: Any, sampler: Sampler) -> None:
    grid, chosen = world(SITES), strategy(sampler, newcomer_count="zero")
    chosen.start(grid, world.model(), num_rounds=2)  # client k reports a train_loss of k
    # Clients never seen come first; no message is sent for losses.
    assert sorted(chosen.counts.values()) == [0, 1, 1, 1, 1]
    assert {kind for kind, _ in grid.asked} == {"query.fedgs", "train"}
    losses = chosen._selector.state.memory["losses"]
    expected = [float(k) if chosen.counts[f"site-{k}"] else np.inf for k in range(5)]
    assert losses.tolist() == expected
    grid.keys[200] = "site-9"  # a newcomer, never seen like one of the others
    chosen.start(grid, world.model(), num_rounds=1)
    assert set(chosen.counts.values()) == {1}
    assert chosen._selector.state.memory["losses"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 9.0]


def test_the_highest_reported_losses_are_selected_once_everyone_was_seen(world: Any) -> None:
    grid, chosen = world(SITES), strategy(RPowD(), cohort_limit=3, newcomer_count="zero")
    chosen.start(grid, world.model(), num_rounds=2)
    assert min(chosen.counts.values()) == 1
    before = chosen.counts
    chosen.start(grid, world.model(), num_rounds=4)
    gained = {key: chosen.counts[key] - before[key] for key in SITES}
    assert gained == {"site-0": 0, "site-1": 0, "site-2": 4, "site-3": 4, "site-4": 4}


def test_a_reply_without_the_wanted_report_is_an_event_and_its_update_counts(
    world: Any, tmp_path: Path
) -> None:
    def quiet(reply: Any) -> Any:
        metrics = next(iter(reply.content.metric_records.values()))
        metrics["train_loss"] = float("nan")
        return reply

    grid, chosen = world(SITES[:2]), strategy(RPowD(), records=tmp_path / "records")
    grid.faults[100] = quiet
    result = chosen.start(grid, world.model(), num_rounds=1)
    # Weights 1/2 of the moves 1 and 2.
    assert result.arrays["w"].numpy()[0] == pytest.approx(1.5)
    np.testing.assert_array_equal(chosen._selector.state.memory["losses"], [np.nan, 1.0])
    (event,) = events(tmp_path / "records")
    assert (event["event"], event["client"], event["round"]) == ("report", "site-0", 0)
    assert event["detail"] == (
        "its metrics hold no finite number 'mean_loss' or 'train_loss', which 'rpow_d' needs"
    )


def test_a_report_by_its_own_name_is_preferred(world: Any) -> None:
    def both(reply: Any) -> Any:
        next(iter(reply.content.metric_records.values()))["mean_loss"] = 7.5
        return reply

    grid, chosen = world(SITES[:2]), strategy(RPowD())
    grid.faults.update({100: both, 101: both})
    chosen.start(grid, world.model(), num_rounds=1)
    assert chosen._selector.state.memory["losses"].tolist() == [7.5, 7.5]


def test_reported_losses_survive_a_restart(world: Any, tmp_path: Path) -> None:
    whole = strategy(RPowD(candidates=3))
    whole.start(world(SITES), world.model(), num_rounds=6)
    first = strategy(RPowD(candidates=3), state=tmp_path / "state.npz")
    first.start(world(SITES), world.model(), num_rounds=3)
    again = strategy(RPowD(candidates=3), state=tmp_path / "state.npz")
    arrays = again.load_state(tmp_path / "state.npz")
    again.start(world(SITES), arrays, num_rounds=3)
    assert again.counts == whole.counts
    np.testing.assert_array_equal(
        again._selector.state.memory["losses"], whole._selector.state.memory["losses"]
    )


def test_evaluation_takes_its_fraction_of_the_connected_and_is_seeded(world: Any) -> None:
    asked = []
    for _ in range(2):
        grid = world(SITES)
        result = strategy(inner=FedAvg(fraction_evaluate=0.6, min_evaluate_nodes=1), seed=3).start(
            grid, world.model(), num_rounds=2
        )
        asked.append([node for kind, node in grid.asked if kind == "evaluate"])
        assert set(result.evaluate_metrics_clientapp) == {1, 2}
    assert asked[0] == asked[1]
    assert len(asked[0]) == 2 * 3


def test_a_client_without_validation_examples_does_not_break_the_evaluation(world: Any) -> None:
    grid = world(SITES)
    chosen = strategy()
    chosen.configure_train(1, world.model(), world.config(), grid)
    # fraction_evaluate = 0.
    assert list(chosen.configure_evaluate(1, world.model(), world.config(), grid)) == []
    chosen = strategy(inner=FedAvg(min_evaluate_nodes=1))
    chosen.configure_train(1, world.model(), world.config(), grid)
    messages = chosen.configure_evaluate(1, world.model(), world.config(), grid)
    answers = grid.send_and_receive(list(messages))
    for answer in answers:
        next(iter(answer.content.metric_records.values()))["num-examples"] = 0
    assert chosen.aggregate_evaluate(1, answers) is None


# Available clients.


def test_nodes_are_asked_once_who_they_are(world: Any) -> None:
    grid = world(SITES)
    strategy().start(grid, world.model(), num_rounds=4)
    assert sum(kind == "query.fedgs" for kind, _ in grid.asked) == 5


def test_cohorts_do_not_depend_on_the_order_of_node_ids(world: Any) -> None:
    chosen = [strategy(Uniform()), strategy(Uniform())]
    for deployment, keys in zip(chosen, (SITES, SITES[::-1]), strict=True):
        deployment.start(world(keys), world.model(), num_rounds=3)
    assert chosen[0].counts == chosen[1].counts


def test_counts_follow_the_key_to_a_new_node_id(world: Any) -> None:
    grid = world(SITES)
    chosen = strategy(cohort_limit=1)
    chosen.start(grid, world.model(), num_rounds=1)
    grid.keys[200] = grid.keys.pop(100)  # site-0 comes back under another node id
    chosen.start(grid, world.model(), num_rounds=4)
    assert chosen.counts == dict.fromkeys(SITES, 1)


@pytest.mark.parametrize(("rule", "start"), [("mean", 2), ("zero", 0)])
def test_a_newcomer_starts_at_the_mean_count_or_at_zero(world: Any, rule: str, start: int) -> None:
    grid = world(SITES)
    grid.online = [100, 101]
    chosen = strategy(newcomer_count=rule)
    chosen.start(grid, world.model(), num_rounds=2)
    grid.online = [100, 101, 102]
    chosen.configure_train(1, world.model(), world.config(), grid)
    assert chosen.counts["site-2"] - start in (0, 1)
    assert sum(chosen.counts.values()) == 4 + start + 2


def test_two_live_nodes_with_one_key_are_an_error(world: Any) -> None:
    grid = world(["site-0", "site-0", "site-1"])
    with pytest.raises(
        RunError,
        match=r"client key 'site-0' is held by two live nodes \(100 and 101\); give every Super",
    ):
        strategy().start(grid, world.model(), num_rounds=1)


def test_a_restarted_client_replaces_its_dead_node_that_is_still_listed(world: Any) -> None:
    grid = world(SITES)
    chosen = strategy(cohort_limit=5)
    chosen.start(grid, world.model(), num_rounds=1)
    grid.faults[100] = "silent"  # killed, but listed for a while
    grid.keys[200] = "site-0"
    chosen.start(grid, world.model(), num_rounds=1)
    assert chosen.answers["site-0"] == 2
    assert ("train", 200) in grid.asked


def test_a_twin_that_still_lives_is_found_one_round_later(world: Any) -> None:
    grid = world(SITES)
    chosen = strategy()
    chosen.start(grid, world.model(), num_rounds=1)
    grid.keys[200] = "site-0"
    with pytest.raises(RunError, match="held by two live nodes"):
        chosen.start(grid, world.model(), num_rounds=2)


def test_a_node_that_does_not_say_who_it_is_is_known_by_its_node_id(
    world: Any, caplog: Any
) -> None:
    grid = world(SITES[:2], node_config=lambda key: {})
    chosen = strategy()
    chosen.start(grid, world.model(), num_rounds=1)
    assert set(chosen.counts) == {"node-100", "node-101"}
    assert "set client-id in its node configuration" in caplog.text


def test_a_public_key_stands_for_a_node_without_a_key(world: Any) -> None:
    class Info:
        def __init__(self, node_id: int) -> None:
            self.node_id, self.public_key = node_id, b"key %d" % node_id

    grid = world(SITES[:2], node_config=lambda key: {})
    grid.get_nodes = lambda: [Info(100), Info(101)]
    chosen = strategy()
    chosen.start(grid, world.model(), num_rounds=1)
    assert all(str(key).startswith("key-") for key in chosen.counts)


def test_partition_ids_are_keys_too(world: Any) -> None:
    grid = world([3, 1], node_config=lambda key: {"partition-id": key})
    chosen = strategy()
    chosen.start(grid, world.model(), num_rounds=1)
    assert set(chosen.counts) == {3, 1}


# Deadlines and failures.


def test_waiting_for_clients_uses_up_no_round(world: Any, tmp_path: Path, caplog: Any) -> None:
    grid = world(SITES)
    calls = iter(range(1000))
    grid.script = lambda: [102] if next(calls) < 40 else [100, 102]
    chosen = strategy(
        min_connected=2,
        records=tmp_path / "records",
        state=tmp_path / "state.npz",
        connect_timeout=0.02,
        max_idle_rounds=500,
    )
    chosen.start(grid, world.model(), num_rounds=2)
    assert chosen.round == 2
    assert set(chosen.counts.values()) == {2}
    records = RunFolder(tmp_path / "records").records()
    assert [record.cohort for record in records[:-1]] == 2 * [["site-2", "site-0"]]
    why = "2 clients must be connected, 1 are ('site-2')"
    assert f"round 1 of 2 (record 0): waits for clients: {why}" in caplog.text
    waits = events(tmp_path / "records")
    assert len(waits) >= 2
    first = {"round": 0, "client": None, "event": "waiting", "detail": why, "clients": ["site-2"]}
    assert waits == len(waits) * [first]


def test_a_wait_is_in_the_events_before_it_is_over(world: Any, tmp_path: Path) -> None:
    grid, seen = world(SITES), []

    def online() -> list[int]:
        path = tmp_path / "events.jsonl"
        seen.append(path.exists() and "waiting" in path.read_text())
        return [100] if seen[-1] else []

    grid.script = online
    chosen = strategy(records=tmp_path, connect_timeout=0.02)
    chosen.start(grid, world.model(), num_rounds=1)
    assert chosen.counts == {"site-0": 1}
    assert not seen[0]


def test_a_deployment_ends_if_clients_are_missing_for_too_long(world: Any, tmp_path: Path) -> None:
    grid = world(SITES[:2])
    settings = {
        "records": tmp_path / "records",
        "state": tmp_path / "state.npz",
        "max_idle_rounds": 3,
        "connect_timeout": 0.02,
        "min_connected": 2,
    }
    chosen = strategy("uniform", **settings)
    grid.script = lambda: [100, 101] if chosen.round < 2 else [100]
    why = (
        r"^3 waits of connect_timeout = 0.02 s are over \(max_idle_rounds = 3\): 2 clients must be "
        r"connected, 1 are \('site-0'\); 2 rounds are done, and load_state continues after them$"
    )
    with pytest.raises(RunError, match=why):
        chosen.start(grid, world.model(), num_rounds=9)
    folder = RunFolder(tmp_path / "records")
    assert [record.round for record in folder.records()] == [0, 1]
    assert folder.failure()["round"] == 2
    assert [event["event"] for event in events(tmp_path / "records")] == 3 * ["waiting"]
    # It continues with the round that has not begun, as if nothing had been missing.
    again = strategy("uniform", **settings)
    model = again.load_state(tmp_path / "state.npz")
    again.start(world(SITES[:2]), model, num_rounds=2)
    whole = strategy("uniform", **{**settings, "records": None, "state": None})
    expected = whole.start(world(SITES[:2]), world.model(), num_rounds=4)
    assert again.round == 4
    assert again.counts == whole.counts
    assert again._selector.state.model["w"].tolist() == expected.arrays["w"].numpy().tolist()
    assert [record.round for record in folder.records()] == [0, 1, 2, 3, 4]
    assert events(tmp_path / "records") == []


def test_a_round_without_clients_is_aborted_where_none_are_needed(
    world: Any, tmp_path: Path
) -> None:
    grid = world(SITES)
    chosen = strategy(min_connected=0, records=tmp_path, connect_timeout=60.0)
    grid.script = lambda: [] if chosen.round == 1 else [100]
    result = chosen.start(grid, world.model(), num_rounds=3)
    assert result.arrays["w"].numpy()[0] == pytest.approx(2.0)
    assert chosen.counts == {"site-0": 2}
    (event,) = events(tmp_path)
    assert (event["event"], event["detail"]) == ("gave_up", "no client is connected")
    record = RunFolder(tmp_path).records()[1]
    assert (record.selection_status, record.cohort, record.available) == ("skipped", [], [])


@pytest.mark.parametrize("fault", ["raise", "silent", "error"])
def test_a_deployment_without_usable_replies_ends_with_an_error(
    world: Any, tmp_path: Path, fault: str
) -> None:
    grid = world(SITES)
    settings = {
        "records": tmp_path / "records",
        "state": tmp_path / "state.npz",
        "max_idle_rounds": 3,
        "reply_timeout": 0.05,
    }
    chosen = strategy(**settings)
    chosen._training.connected(grid)
    grid.script = lambda: (
        grid.faults.update(dict.fromkeys(grid.keys, fault) if chosen.round >= 2 else {})
        or list(grid.keys)
    )
    aborted = r"the last 3 rounds were aborted \(max_idle_rounds = 3\), the last of them: "
    with pytest.raises(RunError, match=aborted + "good replies: 0 came, 1 needed"):
        chosen.start(grid, world.model(), num_rounds=50)
    assert [record.round for record in RunFolder(tmp_path / "records").records()] == [0, 1, 2, 3, 4]
    failure = RunFolder(tmp_path / "records").failure()
    assert failure is not None
    assert failure["round"] == 5
    again = strategy(**settings)  # goes on from the state, with the model of the last useful round
    model = again.load_state(tmp_path / "state.npz")
    assert again.round == 5
    assert model["w"].numpy()[0] > 0
    again.start(world(SITES), model, num_rounds=1)
    records = RunFolder(tmp_path / "records").records()
    assert [record.round for record in records] == list(range(7))


def test_the_model_of_an_ended_deployment_can_be_saved(world: Any, tmp_path: Path) -> None:
    grid = world(SITES)
    chosen = strategy(max_idle_rounds=1)
    grid.script = lambda: (
        grid.faults.update(dict.fromkeys(grid.keys, "raise") if chosen.round else {})
        or list(grid.keys)
    )
    with pytest.raises(RunError, match="2 rounds are done, and save_state keeps the model"):
        chosen.start(grid, world.model(), num_rounds=9)
    chosen.save_state(tmp_path / "state.npz")
    model = strategy().load_state(tmp_path / "state.npz")
    assert model is not None
    assert model["w"].numpy()[0] == pytest.approx(5 / 3)


def test_rounds_without_clients_are_idle_too(world: Any) -> None:
    grid = world(SITES)
    grid.online = []
    with pytest.raises(RunError, match="the last of them: no client is connected; 2 rounds are"):
        strategy(max_idle_rounds=2, min_connected=0).start(grid, world.model(), num_rounds=50)


def test_a_useful_round_ends_a_row_of_idle_ones(world: Any) -> None:
    grid = world(SITES)
    chosen = strategy(max_idle_rounds=2)
    chosen._training.connected(grid)
    grid.script = lambda: (
        setattr(grid, "faults", dict.fromkeys(grid.keys, "raise") if chosen.round % 2 else {})
        or list(grid.keys)
    )
    chosen.start(grid, world.model(), num_rounds=8)
    assert chosen.round == 8


def test_a_deployment_ends_after_ten_idle_rounds_unless_told_otherwise(world: Any) -> None:
    for settings, rounds in (({}, 10), ({"max_idle_rounds": None}, 50)):
        grid = world(SITES)
        chosen = strategy(**settings)
        chosen._training.connected(grid)
        grid.faults = dict.fromkeys(grid.keys, "raise")
        if rounds == 50:
            chosen.start(grid, world.model(), num_rounds=50)
        else:
            with pytest.raises(RunError):
                chosen.start(grid, world.model(), num_rounds=50)
        assert chosen.round == rounds


class Nobody(First):
    """`First`, and nobody in the rounds given."""

    without: tuple[int, ...] = (2,)

    def select(self, view: Any, rng: Any) -> Selection:
        if view.round in self.without:
            return Selection(view.available[:0])
        return super().select(view, rng)


def test_an_empty_selection_keeps_the_model_and_goes_on(world: Any, tmp_path: Path) -> None:
    grid = world(SITES)
    chosen = strategy(Nobody(), records=tmp_path, inner=FedAvg(min_evaluate_nodes=1))
    chosen.start(grid, world.model(), num_rounds=5)
    records = RunFolder(tmp_path).records()
    assert [len(record.cohort or []) for record in records] == [2, 2, 0, 2, 2, 0]
    empty = records[2]
    assert (empty.selection_status, empty.cohort, empty.weights) == ("empty", [], [])
    assert empty.available == SITES
    # The clients' losses do not depend on the model; they are asked all the same.
    assert records[3].valid_loss == records[2].valid_loss
    assert events(tmp_path) == [
        {
            "round": 2,
            "client": None,
            "event": "empty",
            "detail": "the sampler selected none of 5 available clients; the model stays",
        }
    ]
    assert sum(chosen.counts.values()) == 8


def test_empty_selections_are_not_idle_rounds(world: Any) -> None:
    chosen = strategy(Nobody(without=tuple(range(30))), max_idle_rounds=1)
    result = chosen.start(world(SITES), world.model(4.0, 5.0), num_rounds=30)
    assert result.arrays["w"].numpy().tolist() == [4.0, 5.0]
    assert set(chosen.counts.values()) == {0}


def test_a_smaller_cohort_suffices_by_itself(world: Any) -> None:
    result = strategy(sufficient_replies=3).start(world(SITES[:1]), world.model(), num_rounds=1)
    assert result.arrays["w"].numpy()[0] == pytest.approx(1.0)


# Replies that do not fit.


def _metrics(reply: Any) -> Any:
    return next(iter(reply.content.metric_records.values()))


def _with(arrays: Any = None, metrics: Any = None) -> Any:
    def change(reply: Any) -> Any:
        if arrays is not None:
            reply.content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": _metrics(reply)})
        if metrics is not None:
            metrics(_metrics(reply))
        return reply

    return change


def _two_records(reply: Any) -> Any:
    reply.content["more"] = MetricRecord({"num-examples": 1})
    return reply


def _no_arrays(reply: Any) -> Any:
    reply.content = RecordDict({"metrics": _metrics(reply)})
    return reply


def _array(*values: float) -> Any:
    return Array(np.array(values, dtype=np.float32))


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (_with({"w": _array(np.nan, 1.0)}), "its array 'w' holds NaN or inf"),
        (_with({"w": _array(np.inf, 1.0)}), "its array 'w' holds NaN or inf"),
        (_with({"w": _array(1.0)}), "its array 'w' has shape (1,), the model's (2,)"),
        (
            _with({"w": _array(1.0, 1.0), "x": _array(1.0)}),
            "its arrays are not those of the model: 'x' is unknown",
        ),
        (_with({"v": _array(1.0, 1.0)}), "its arrays are not those of the model: 'v' is unknown"),
        (_with({}), "its arrays are not those of the model: 'w' is missing"),
        (
            _with(metrics=lambda m: m.update({"num-examples": 0})),
            "'num-examples' must be a number > 0, got 0",
        ),
        (
            _with(metrics=lambda m: m.update({"num-examples": -3})),
            "'num-examples' must be a number > 0, got -3",
        ),
        (
            _with(metrics=lambda m: m.update({"num-examples": float("nan")})),
            "'num-examples' must be a number > 0, got nan",
        ),
        (
            _with(metrics=lambda m: m.pop("num-examples")),
            "its metrics have no number 'num-examples'",
        ),
        (
            _with(metrics=lambda m: m.update({"num-examples": [1, 2]})),
            "its metrics have no number 'num-examples'",
        ),
        (_two_records, "its reply has 2 metric records instead of 1"),
        (_no_arrays, "its reply has 0 array records instead of 1"),
        (
            _with(metrics=lambda m: m.update({"extra": 1.0})),
            "its metrics ['extra', 'num-examples', 'train_loss'] are not those of the others "
            "['num-examples', 'train_loss'], or differ in length",
        ),
    ],
)
def test_a_reply_that_does_not_fit_is_refused_by_name(
    world: Any, tmp_path: Path, fault: Any, reason: str
) -> None:
    grid = world(SITES)
    grid.faults[102] = fault
    result = strategy(cohort_limit=3, records=tmp_path).start(grid, world.model(), num_rounds=1)
    assert result.arrays["w"].numpy() == pytest.approx([5 / 3, 1.0])  # of clients 0 and 1
    assert events(tmp_path) == [
        {"round": 0, "client": "site-2", "event": "refused", "detail": reason}
    ]


def test_only_unusable_replies_keep_the_model(world: Any, tmp_path: Path) -> None:
    grid = world(SITES, app=world.default_app(sizes=[0, 0, 0, 0, 0]))
    result = strategy(records=tmp_path).start(grid, world.model(4.0, 5.0), num_rounds=1)
    assert result.arrays["w"].numpy().tolist() == [4.0, 5.0]
    assert events(tmp_path)[-1]["event"] == "gave_up"


def test_a_reply_to_another_message_is_ignored(world: Any) -> None:
    grid, chosen = world(SITES), strategy()
    messages = list(chosen.configure_train(1, world.model(), world.config(), grid))
    (stray,) = grid.send_and_receive([resend(messages[0], timeout=1.0, group="1")])
    replies = grid.send_and_receive(messages)
    arrays, _ = chosen.aggregate_train(1, [stray, *replies])
    assert arrays["w"].numpy()[0] == pytest.approx(5 / 3)
    assert sum(chosen.answers.values()) == 2


def test_an_average_that_is_not_finite_keeps_the_model(world: Any, tmp_path: Path) -> None:
    class Diverging(FedAvg):
        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            _, metrics = super().aggregate_train(server_round, replies)
            return ArrayRecord({"w": _array(np.inf, 0.0)}), metrics

    chosen = strategy(inner=Diverging(fraction_evaluate=0.0), records=tmp_path)
    result = chosen.start(world(SITES), world.model(4.0, 5.0), num_rounds=1)
    assert result.arrays["w"].numpy().tolist() == [4.0, 5.0]
    (event,) = events(tmp_path)
    assert event["detail"] == "the average is not finite (NaN or inf)"
    assert event["clients"] == ["site-0", "site-1"]
    assert not result.train_metrics_clientapp  # those of a round that does not count


def test_a_feature_of_a_reply_that_is_not_finite_is_an_event(world: Any, tmp_path: Path) -> None:
    sampler = FedGS(graph={"similarity": "functional"})
    chosen = SampledStrategy(
        FedAvg(fraction_evaluate=0.0),
        sampler,
        responses=lambda model: np.array([np.nan]),
        cohort_limit=1,
        records=tmp_path,
    )
    chosen.start(world(SITES), world.model(), num_rounds=1)
    (event,) = events(tmp_path)
    assert (event["event"], event["detail"]) == ("feature", "its feature is empty or not finite")
    assert sum(chosen.answers.values()) == 1


# What is refused beforehand.


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cohort_limit": 0}, "SampledStrategy.cohort_limit"),
        ({"reply_timeout": -1.0}, "SampledStrategy.reply_timeout"),
        ({"reply_timeout": float("inf")}, "SampledStrategy.reply_timeout"),
        ({"newcomer_count": "max"}, "SampledStrategy.newcomer_count"),
        (
            {"min_conected": 2},
            "min_conected is not a setting; known are .*did you mean 'min_connected'",
        ),
    ],
)
def test_bad_settings_are_refused_with_their_name(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SampledStrategy(FedAvg(), Uniform(), **settings)


@pytest.mark.parametrize(
    "setting",
    [
        *("loss", "optimizer", "optimizer_state", "clip", "schedule", "warmup", "local_epochs"),
        *("drop_last", "training", "metrics", "per_client", "evaluation", "stopping", "model"),
    ],
)
def test_settings_of_simulations_are_refused_by_name(setting: str) -> None:
    with pytest.raises(ConfigError, match=rf"^SampledStrategy\.{setting} is not a setting; known"):
        SampledStrategy(FedAvg(), Uniform(), **{setting: 1})
    with pytest.raises(ConfigError, match=rf"^method\.{setting} is not a setting; known"):
        SampledStrategy(FedAvg(), {"name": "uniform", setting: 1})


def test_a_sampler_can_be_named(world: Any) -> None:
    chosen = strategy("md")
    chosen.start(world(SITES), world.model(), num_rounds=1)
    assert isinstance(chosen._selector.sampler, MD)
    with pytest.raises(ConfigError, match=r"method.name must be one of .*; got 'fedsg'"):
        strategy("fedsg")


def test_a_method_that_is_no_sampler_is_refused() -> None:
    class Odd(Variant):
        family = "method"

    with pytest.raises(ConfigError, match=r"sampler must be a sampler, got Odd\(\)"):
        strategy(Odd())
