"""Evaluation by clients and losses for samplers: bounded waits, and an event for each failure."""

import json
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

from flwr.app import Error, Message, RecordDict
from flwr.serverapp.strategy import FedAvg

from fedgs.errors import ConfigError
from fedgs.flower import SampledStrategy
from fedgs.records import RunFolder
from fedgs.sampling import PowerOfChoice

SITES = ["s-0", "s-1", "s-2"]
DEADLINE = 1.0


def muted(world: Any, *nodes: int, rounds: Any = None) -> Any:
    """A world whose `nodes` ignore evaluation requests while `rounds(server_round)` holds."""

    class Muted(world):  # type: ignore[misc]
        def _reply(self, message: Any) -> Any:
            metadata = message.metadata
            if metadata.message_type == "evaluate" and metadata.dst_node_id in nodes:
                number = message.content["config"]["server-round"]
                if rounds is None or rounds(number):
                    return None
            return super()._reply(message)

    return Muted(SITES)


def changed(world: Any, node: int, change: Any) -> Any:
    """A world in which `change(message, reply)` gives the node's reply to evaluation requests."""

    class Changed(world):  # type: ignore[misc]
        def _reply(self, message: Any) -> Any:
            reply = super()._reply(message)
            ours = (
                message.metadata.message_type == "evaluate" and message.metadata.dst_node_id == node
            )
            return change(message, reply) if ours else reply

    return Changed(SITES)


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def strategy(folder: Path, sampler: Any = "uniform", **settings: Any) -> SampledStrategy:
    defaults = {
        "cohort_limit": 2,
        "sufficient_replies": 1,
        "reply_timeout": DEADLINE,
        "records": folder,
    }
    return SampledStrategy(FedAvg(), sampler, **{**defaults, **settings})


def test_a_client_that_never_evaluates_costs_its_deadline_once(
    world: Any, tmp_path: Path, caplog: Any
) -> None:
    begun = time.monotonic()
    strategy(tmp_path).start(muted(world, 102), world.model(), num_rounds=8)
    # Waiting in full in each round would take 8 deadlines.
    assert DEADLINE <= time.monotonic() - begun < 5 * DEADLINE
    found = [(event["round"], event["event"], event["client"]) for event in events(tmp_path)]
    expected = [
        (round, *what)
        for round in range(1, 9)
        for what in (("silent", "s-2"), ("incomplete", None))
    ]
    assert found == expected
    assert all(event["request"] == "evaluate" for event in events(tmp_path))
    assert events(tmp_path)[0]["detail"] == "no reply within 1 s"
    assert events(tmp_path)[1]["clients"] == ["s-2"]
    # Clients 0 and 1 have losses 0 and 1, and 10 and 20 examples.
    assert [record.valid_loss for record in RunFolder(tmp_path).records()[1:]] == pytest.approx(
        [20 / 30] * 8
    )
    assert (
        "round 1 of 8 (record 1): client 's-2' silent (evaluate): no reply within 1 s"
        in caplog.text
    )


def test_evaluation_has_a_deadline_of_its_own(world: Any, tmp_path: Path) -> None:
    begun = time.monotonic()
    chosen = strategy(tmp_path, reply_timeout=600.0, evaluate_timeout=0.3)
    chosen.start(muted(world, 100, 101, 102), world.model(), num_rounds=3)
    assert 0.3 <= time.monotonic() - begun < 10.0
    assert RunFolder(tmp_path).records()[1].valid_loss is None
    assert (
        events(tmp_path)[3]["detail"]
        == "the validation loss is of 0 of 3 clients; missing: 's-0', 's-1', 's-2'"
    )
    with pytest.raises(ConfigError, match="SampledStrategy.evaluate_timeout"):
        strategy(tmp_path, evaluate_timeout=0.0)


@pytest.mark.parametrize("silent", [(102,), (100, 101, 102)])
def test_a_client_that_answers_again_is_waited_for_again(
    world: Any, tmp_path: Path, silent: tuple[int, ...]
) -> None:
    grid = muted(world, *silent, rounds=lambda number: number in (1, 2))
    strategy(tmp_path, reply_timeout=0.3).start(grid, world.model(), num_rounds=4)
    assert {event["round"] for event in events(tmp_path)} == {1, 2}
    # Losses 0, 1, 2 of 10, 20, 30 examples.
    assert RunFolder(tmp_path).records()[4].valid_loss == pytest.approx(80 / 60)


def _nan(message: Any, reply: Any) -> Any:
    next(iter(reply.content.metric_records.values()))["eval_loss"] = float("nan")
    return reply


def _other_metrics(message: Any, reply: Any) -> Any:
    next(iter(reply.content.metric_records.values()))["more"] = 1.0
    return reply


@pytest.mark.parametrize(
    ("change", "kind", "detail"),
    [
        (
            lambda message, reply: Message(
                Error(code=2, reason="Traceback ...\nValueError: no file"), reply_to=message
            ),
            "failed",
            "error 2: ValueError: no file",
        ),
        (_nan, "refused", "its 'eval_loss' is nan"),
        (
            _other_metrics,
            "refused",
            "its metrics ['eval_loss', 'more', 'num-examples'] are not those of the others",
        ),
    ],
)
def test_a_useless_evaluation_is_named(
    world: Any, tmp_path: Path, caplog: Any, change: Any, kind: str, detail: str
) -> None:
    strategy(tmp_path).start(changed(world, 101, change), world.model(), num_rounds=1)
    first, second = events(tmp_path)
    expected = {"event": kind, "client": "s-1", "round": 1, "request": "evaluate"}
    assert expected.items() <= first.items()
    assert first["detail"].startswith(detail)
    assert second["clients"] == ["s-1"]
    assert f"client 's-1' {kind} (evaluate): {detail}" in caplog.text
    # Clients 0 and 2 have losses 0 and 2, and 10 and 30 examples.
    assert RunFolder(tmp_path).records()[1].valid_loss == pytest.approx(60 / 40)


def test_a_client_without_validation_examples_is_not_missing(world: Any, tmp_path: Path) -> None:
    def none(message: Any, reply: Any) -> Any:
        next(iter(reply.content.metric_records.values()))["num-examples"] = 0
        return reply

    strategy(tmp_path).start(changed(world, 101, none), world.model(), num_rounds=1)
    assert events(tmp_path) == []
    assert RunFolder(tmp_path).records()[1].valid_loss == pytest.approx(60 / 40)


def test_a_silent_client_costs_a_sampler_that_asks_for_losses_one_deadline(
    world: Any, tmp_path: Path
) -> None:
    begun = time.monotonic()
    inner = FedAvg(fraction_evaluate=0.0)
    chosen = SampledStrategy(
        inner, PowerOfChoice(), cohort_limit=1, reply_timeout=DEADLINE, records=tmp_path
    )
    chosen.start(muted(world, 102), world.model(), num_rounds=8)
    assert DEADLINE <= time.monotonic() - begun < 5 * DEADLINE
    assert chosen.counts == {"s-0": 0, "s-1": 8, "s-2": 0}
    assert [
        (event["round"], event["client"], event["event"], event["request"])
        for event in events(tmp_path)
    ] == [(round, "s-2", "silent", "losses") for round in range(8)]


def test_a_round_in_which_no_client_reports_a_loss_is_aborted(world: Any, tmp_path: Path) -> None:
    chosen = SampledStrategy(
        FedAvg(fraction_evaluate=0.0), PowerOfChoice(), reply_timeout=0.1, records=tmp_path
    )
    result = chosen.start(muted(world, 100, 101, 102), world.model(4.0, 5.0), num_rounds=1)
    assert result.arrays["w"].numpy().tolist() == [4.0, 5.0]
    assert events(tmp_path)[-1] == {
        "round": 0,
        "client": None,
        "event": "gave_up",
        "detail": "no client told its loss",
        "clients": SITES,
    }


def test_a_reply_to_another_request_is_no_evaluation(world: Any, tmp_path: Path) -> None:
    grid, chosen = world(SITES), strategy(tmp_path)
    chosen.configure_train(1, world.model(), world.config(), grid)
    messages = list(chosen.configure_evaluate(1, world.model(), world.config(), grid))
    replies = grid.send_and_receive(messages)
    content = RecordDict({"arrays": world.model(), "config": world.config()})
    stray = grid.send_and_receive([Message(content, 101, "evaluate")])
    metrics = chosen.aggregate_evaluate(1, [*stray, *replies])
    assert metrics is not None
    assert metrics["eval_loss"] == pytest.approx(80 / 60)  # losses 0, 1, 2 of 10, 20, 30 examples


def test_the_mean_of_evaluations_follows_the_objective(world: Any, tmp_path: Path) -> None:
    losses = {}
    for objective in ("data_size", "equal"):
        chosen = strategy(tmp_path / objective, objective=objective)
        result = chosen.start(world(SITES), world.model(), num_rounds=1)
        losses[objective] = result.evaluate_metrics_clientapp[1]["eval_loss"]
        config = tomllib.loads((tmp_path / objective / "config.toml").read_text())
        assert config["training"].get("objective", "data_size") == objective
    # Losses 0, 1, 2 of 10, 20, 30 examples.
    assert losses == {"data_size": pytest.approx(80 / 60), "equal": pytest.approx(1.0)}


def test_a_client_that_fails_to_tell_its_loss_says_why(world: Any, tmp_path: Path) -> None:
    grid = changed(
        world,
        102,
        lambda message, reply: Message(Error(code=2, reason="OSError: disk"), reply_to=message),
    )
    chosen = SampledStrategy(
        FedAvg(fraction_evaluate=0.0), PowerOfChoice(), cohort_limit=1, records=tmp_path
    )
    chosen.start(grid, world.model(), num_rounds=1)
    assert events(tmp_path) == [
        {
            "round": 0,
            "client": "s-2",
            "event": "failed",
            "detail": "error 2: OSError: disk",
            "request": "losses",
        }
    ]
