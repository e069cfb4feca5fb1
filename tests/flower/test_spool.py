"""Replies beyond a limit of memory: the same results, the memory of a few models, no file left."""

import errno
import io
import os
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAdam, FedAvg, FedAvgM
from tests.flower.conftest import without_times

from fedgs.flower import SampledStrategy
from fedgs.flower import spool as spool_module
from fedgs.flower.spool import Spool

SITES = [f"site-{k}" for k in range(6)]


class Own(FedAvg):
    """A strategy with an average of its own, which sees all replies."""

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        arrays, metrics = super().aggregate_train(server_round, list(replies)[::-1])
        return arrays, metrics


def trained(world: Any, folder: Path, inner: Any, sampler: Any, **settings: Any) -> Any:
    app = None
    if "aggregation" in settings:
        pytest.importorskip("torch")
        from fedgs.flower import client_state

        inside = world.default_app()

        def app(message: Any, context: Any) -> Any:
            return client_state(message, context, inside)

    grid = world(SITES, app=app)
    grid.faults[102] = lambda reply: with_nan(reply)
    strategy = SampledStrategy(
        inner, sampler, cohort_limit=4, records=folder, reply_timeout=0.2, **settings
    )
    return strategy.start(grid, world.model(), num_rounds=4).arrays["w"].numpy()


def with_nan(reply: Any) -> Any:
    reply.content["arrays"]["w"] = Array(np.array([np.nan, 0.0], dtype=np.float32))
    return reply


@pytest.mark.parametrize(
    ("inner", "sampler", "settings"),
    [
        (FedAvg, "uniform", {}),
        (FedAvgM, {"name": "md", "weighting": "draws"}, {}),
        (FedAdam, {"name": "uniform", "weighting": "all"}, {}),
        (Own, {"name": "fedgs", "graph": {"similarity": "update"}}, {}),
        (FedAvg, "uniform", {"aggregation": {"name": "stale"}}),
    ],
    ids=["mean", "draws", "sum", "own", "stale"],
)
def test_replies_on_disk_give_the_same_bits(
    world: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    inner: Any,
    sampler: Any,
    settings: Any,
) -> None:
    written = []
    original = Spool._written
    monkeypatch.setattr(
        Spool, "_written", lambda self, array: written.append(1) or original(self, array)
    )
    models = []
    for limit in (spool_module.LIMIT, 0):
        monkeypatch.setattr("fedgs.flower.training.LIMIT", limit)
        chosen = inner(fraction_evaluate=0.0)
        models.append(trained(world, tmp_path / str(limit), chosen, sampler, **settings))
        assert bool(written) == (limit == 0)
    assert models[0].tobytes() == models[1].tobytes()
    assert models[0][0] != 0
    lines = [
        without_times((tmp_path / str(limit) / "rounds.jsonl").read_text())
        for limit in (spool_module.LIMIT, 0)
    ]
    assert lines[0] == lines[1]


def test_a_cohort_needs_the_memory_of_a_few_models(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, cohort = 250_000, 40  # 1 MB each
    monkeypatch.setattr("fedgs.flower.training.LIMIT", 2 * 4 * size)

    class Late(world):  # type: ignore[misc]
        """Replies are made when they are pulled."""

        def _reply(self, message: Any) -> Any:
            is_train = message.metadata.message_type == "train"
            return message if is_train else super()._reply(message)

        def pull_messages(self, identifiers: Any) -> Any:
            for message in super().pull_messages(identifiers):
                if message.metadata.message_type != "train":
                    yield message
                    continue
                record = ArrayRecord({"w": Array(np.ones(size, dtype=np.float32))})
                metrics = MetricRecord({"num-examples": 1})
                content = RecordDict({"arrays": record, "metrics": metrics})
                yield Message(content, reply_to=message)

    start = ArrayRecord({"w": Array(np.zeros(size, dtype=np.float32))})
    strategy = SampledStrategy(FedAvg(fraction_evaluate=0.0), "uniform", cohort_limit=cohort)
    grid = Late([f"site-{k}" for k in range(cohort)])
    tracemalloc.start()
    result = strategy.start(grid, start, num_rounds=2)
    peak = tracemalloc.get_traced_memory()[1] / (4 * size)
    tracemalloc.stop()
    assert result.arrays["w"].numpy()[0] == pytest.approx(1.0)
    assert len(strategy.answers) == cohort and set(strategy.answers.values()) == {2}
    assert peak < 15  # models; all replies alone would be 40


def test_no_file_is_left_and_it_is_closed_after_the_round(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedgs.flower.training.LIMIT", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spools: list[Spool] = []
    original = Spool.__init__
    monkeypatch.setattr(
        Spool, "__init__", lambda self, *a: (spools.append(self), original(self, *a))[1]
    )
    strategy = SampledStrategy(FedAvg(fraction_evaluate=0.0), "uniform", cohort_limit=2)
    strategy.start(world(SITES), world.model(), num_rounds=2)
    used = [spool._file for spool in spools if spool._file is not None]
    assert len(used) == 2 and all(file.closed for file in used)
    assert not list(tmp_path.iterdir())


def test_replies_stay_in_memory_where_nothing_can_be_written(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("fedgs.flower.training.LIMIT", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    strategy = SampledStrategy(FedAvg(fraction_evaluate=0.0), "uniform", cohort_limit=3)
    with caplog.at_level("WARNING", logger="fedgs.flower"):
        result = strategy.start(world(SITES[:3]), world.model(), num_rounds=1)
    assert result.arrays["w"].numpy()[0] == pytest.approx((10 + 40 + 90) / 60)
    lines = [r.getMessage() for r in caplog.records if "stay in memory" in r.getMessage()]
    assert len(lines) == 1 and "missing" in lines[0]


@pytest.mark.parametrize("fails", [1, 2, 3])
def test_replies_stay_in_memory_from_where_the_disk_is_full(
    world: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fails: int
) -> None:
    """A small array must not wait in a buffer until a later read or the end fails."""

    class Disk(io.FileIO):
        writes = 0

        def write(self, data: Any) -> int:
            Disk.writes += 1
            if Disk.writes >= fails:
                raise OSError(errno.ENOSPC, "no space left")
            return super().write(data)

    def opened(buffering: int = -1, **named: Any) -> Any:
        with tempfile.NamedTemporaryFile(delete=False) as file:
            path = file.name
        raw = Disk(path, "r+b")
        os.unlink(path)
        return raw if buffering == 0 else io.BufferedRandom(raw)

    monkeypatch.setattr("fedgs.flower.training.LIMIT", 0)
    monkeypatch.setattr(spool_module.tempfile, "TemporaryFile", opened)
    strategy = SampledStrategy(FedAvg(fraction_evaluate=0.0), "uniform", cohort_limit=3)
    with caplog.at_level("WARNING", logger="fedgs.flower"):
        result = strategy.start(world(SITES[:3]), world.model(), num_rounds=1)
    assert result.arrays["w"].numpy()[0] == pytest.approx((10 + 40 + 90) / 60)
    assert Disk.writes == fails  # later arrays are not tried
    assert sum("stay in memory" in r.getMessage() for r in caplog.records) == 1


@pytest.mark.parametrize("limit", [0, spool_module.LIMIT])
def test_a_reply_that_holds_the_global_model_itself_does_not_change_it(
    world: Any, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr("fedgs.flower.training.LIMIT", limit)

    def app(message: Any, context: Any) -> Any:
        if message.metadata.message_type != "train":
            return world.default_app()(message, context)
        examples = 0 if context.node_id == 100 else 1  # refused, or valid
        metrics = MetricRecord({"num-examples": examples})
        content = RecordDict({"arrays": message.content["arrays"], "metrics": metrics})
        return Message(content, reply_to=message)

    strategy = SampledStrategy(FedAvg(fraction_evaluate=0.0), "uniform", cohort_limit=3)
    start = world.model()
    result = strategy.start(world(SITES[:3], app=app), start, num_rounds=2)
    assert strategy.answers == {"site-0": 0, "site-1": 2, "site-2": 2}
    assert result.arrays["w"].numpy().tolist() == start["w"].numpy().tolist() == [0.0, 1.0]


def test_the_arrays_of_a_refused_reply_are_dropped(world: Any) -> None:
    strategy = SampledStrategy(FedAvg(fraction_evaluate=0.0), "uniform", cohort_limit=3)
    grid = world(SITES[:3])
    grid.faults[101] = with_nan
    strategy.start(grid, world.model(), num_rounds=1)
    replies = strategy._training.now.replies
    assert {row: len(reply.message.content["arrays"]) for row, reply in replies.items()} == {
        0: 1,
        1: 0,
        2: 1,
    }
    assert strategy.answers == {"site-0": 1, "site-1": 0, "site-2": 1}
