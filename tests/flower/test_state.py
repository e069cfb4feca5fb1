"""A restarted ServerApp continues: state, records, optimiser."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.serverapp.strategy import FedAdam, FedAvg, FedAvgM
from tests.flower.conftest import without_times

from fedgs.errors import OutputError
from fedgs.file_writing import write_atomically
from fedgs.flower import SampledStrategy
from fedgs.records import RunFolder
from fedgs.sampling import FedGS, Uniform

SITES = [f"site-{k}" for k in range(6)]


def strategy(
    folder: Path, *, sampler: Any = None, inner: Any = None, **settings: Any
) -> SampledStrategy:
    defaults = {
        "cohort_limit": 2,
        "min_connected": 1,
        "records": folder / "records",
        "state": folder / "state.npz",
    }
    inner = inner if inner is not None else FedAvg(fraction_evaluate=0.0)
    return SampledStrategy(
        inner, sampler if sampler is not None else Uniform(), **{**defaults, **settings}
    )


def evaluate(server_round: int, arrays: Any) -> Any:
    from flwr.app import MetricRecord

    return MetricRecord(
        {"loss": float(arrays["w"].numpy()[0]), "accuracy": 0.5, "round": float(server_round)}
    )


def rounds(folder: Path) -> list[dict[str, Any]]:
    return without_times((folder / "records" / "rounds.jsonl").read_text())


@pytest.mark.parametrize(
    "inner", [FedAvg, FedAdam, lambda **kw: FedAvgM(server_momentum=0.5, **kw)]
)
@pytest.mark.parametrize(
    "sampler", [Uniform(), FedGS(graph={"similarity": "update"})], ids=["uniform", "fedgs"]
)
def test_a_restarted_server_goes_on_exactly(
    world: Any, tmp_path: Path, inner: Any, sampler: Any
) -> None:
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    once = strategy(whole, sampler=sampler, inner=inner(fraction_evaluate=0.0))
    unbroken = once.start(world(SITES), world.model(), num_rounds=6, evaluate_fn=evaluate)
    strategy(halves, sampler=sampler, inner=inner(fraction_evaluate=0.0)).start(
        world(SITES), world.model(), num_rounds=3, evaluate_fn=evaluate
    )
    again = strategy(halves, sampler=sampler, inner=inner(fraction_evaluate=0.0))
    model = again.load_state(halves / "state.npz")
    assert again.round == 3
    grid = world(SITES)
    # Other node ids, in another order.
    grid.keys = dict(zip(range(300, 306), reversed(SITES), strict=True))
    resumed = again.start(grid, model, num_rounds=3, evaluate_fn=evaluate)
    assert np.array_equal(resumed.arrays["w"].numpy(), unbroken.arrays["w"].numpy())
    assert (again.counts, again.answers) == (once.counts, once.answers)
    assert rounds(halves) == rounds(whole)


def test_records_of_rounds_that_are_redone_are_replaced(world: Any, tmp_path: Path) -> None:
    first = strategy(tmp_path, state=None)
    first.start(world(SITES), world.model(), num_rounds=2)
    first.save_state(tmp_path / "kept.npz")
    # Two rounds that the restarted server knows nothing of.
    first.start(world(SITES), world.model(), num_rounds=2)
    again = strategy(tmp_path, state=None)
    again.start(world(SITES), again.load_state(tmp_path / "kept.npz"), num_rounds=1)
    assert [record.round for record in RunFolder(tmp_path / "records").records()] == [0, 1, 2, 3]
    assert len((tmp_path / "records" / "timings.jsonl").read_text().splitlines()) == 3


def test_a_half_written_line_does_not_spoil_the_records(world: Any, tmp_path: Path) -> None:
    strategy(tmp_path).start(world(SITES), world.model(), num_rounds=2)
    with (tmp_path / "records" / "rounds.jsonl").open("a") as file:
        file.write('{"round": 3, "avail')
    again = strategy(tmp_path)
    again.start(world(SITES), again.load_state(tmp_path / "state.npz"), num_rounds=1)
    assert [record.round for record in RunFolder(tmp_path / "records").records()] == [0, 1, 2, 3]


def test_a_half_written_event_is_removed(world: Any, tmp_path: Path) -> None:
    strategy(tmp_path).start(world(SITES), world.model(), num_rounds=1)
    with (tmp_path / "records" / "events.jsonl").open("a") as file:
        file.write('{"round": 0, "cli')
    again = strategy(tmp_path)
    again.start(world(SITES), again.load_state(tmp_path / "state.npz"), num_rounds=1)
    assert (tmp_path / "records" / "events.jsonl").read_text() == ""


def test_the_state_knows_its_sampler_and_seed(world: Any, tmp_path: Path) -> None:
    strategy(tmp_path).start(world(SITES), world.model(), num_rounds=1)
    with pytest.raises(OutputError, match=r"was saved with the sampler .*'uniform'.*, not .*'md'"):
        strategy(tmp_path, sampler="md").load_state(tmp_path / "state.npz")
    with pytest.raises(OutputError, match="was saved with seed 0, not 4"):
        strategy(tmp_path, seed=4).load_state(tmp_path / "state.npz")


def test_a_file_that_is_no_state_is_refused(tmp_path: Path) -> None:
    chosen = strategy(tmp_path)
    with pytest.raises(OutputError, match=r"missing.npz is not a saved state of a deployment"):
        chosen.load_state(tmp_path / "missing.npz")
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(OutputError, match=r"text.npz is not a saved state of a deployment"):
        chosen.load_state(tmp_path / "text.npz")
    np.savez(tmp_path / "other.npz", meta=np.array(json.dumps({"format": 99})))
    with pytest.raises(OutputError, match="has format 99; this version reads 1"):
        chosen.load_state(tmp_path / "other.npz")


@pytest.mark.parametrize("format", [1, 5])
@pytest.mark.parametrize("similarity", ["update", "functional"])
def test_a_state_of_an_earlier_format_is_continued_without_the_features_of_replies(
    world: Any, tmp_path: Path, format: int, similarity: str
) -> None:
    responses = None if similarity == "update" else lambda model: model["w"]
    sampler = FedGS(graph={"similarity": similarity})
    settings = {"sampler": sampler, "records": None, "state": None, "responses": responses}
    first = strategy(tmp_path, **settings)
    first.start(world(SITES), world.model(), num_rounds=2)
    first.save_state(tmp_path / "state.npz")
    with np.load(tmp_path / "state.npz") as stored:
        arrays = dict(stored)
    meta = json.loads(str(arrays.pop("meta")))
    assert meta.pop("run_id")
    assert meta["format"] == 6
    assert len(strategy(tmp_path, **settings).load_state(tmp_path / "state.npz"))
    meta["format"] = format
    np.savez(tmp_path / "old.npz", meta=np.array(json.dumps(meta)), **arrays)
    again = strategy(tmp_path, **settings)
    model = again.load_state(tmp_path / "old.npz")
    # Updates of the first format held running statistics too, those of the fifth other sketches,
    # and responses could be label proportions.
    assert (again.round, again.counts, again._selector.roster.features) == (2, first.counts, {})
    again.start(world(SITES), model, num_rounds=1)
    assert again.round == 3


def test_a_state_before_round_0_has_no_model(tmp_path: Path) -> None:
    chosen = strategy(tmp_path)
    chosen.save_state(tmp_path / "state.npz")
    assert strategy(tmp_path).load_state(tmp_path / "state.npz") is None


def test_records_are_those_of_a_run(world: Any, tmp_path: Path) -> None:
    chosen = strategy(tmp_path, inner=FedAvg(min_evaluate_nodes=1))
    chosen.start(world(SITES), world.model(), num_rounds=2, evaluate_fn=evaluate)
    folder = RunFolder(tmp_path / "records")
    first, second, last = folder.records()
    # Of theta^0.
    assert (first.test_loss, first.test_accuracy, first.valid_loss) == (0.0, 0.5, None)
    assert second.test_loss is not None
    assert second.test_loss > 0
    # Client k has loss k and 10 (k + 1) examples: sum k (k + 1) / sum (k + 1) = 70 / 21.
    assert second.valid_loss == pytest.approx(70 / 21)
    assert (last.round, last.cohort, last.valid_loss) == (2, None, pytest.approx(70 / 21))
    config = folder.config()
    assert (config["method"]["name"], config["seed"]) == ("uniform", 0)
    assert config["availability"]["name"] == "deployment"
    assert folder.clients().names == tuple(SITES)
    assert set(folder.timings()[0]) == {"round", "select", "train", "aggregate"}


def test_tables_read_a_deployment(world: Any, tmp_path: Path) -> None:
    from fedgs.report.reading import read_runs

    strategy(tmp_path).start(world(SITES), world.model(), num_rounds=3, evaluate_fn=evaluate)
    runs, problems = read_runs(tmp_path / "records")
    assert problems == []
    assert [(run.label, run.rounds_done) for run in runs] == [("uniform", 3)]


def test_a_state_that_cannot_be_written_leaves_the_last_one(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = strategy(tmp_path)
    chosen.start(world(SITES), world.model(), num_rounds=2)
    before = (tmp_path / "state.npz").read_bytes()

    def full(path: Path, content: bytes) -> None:
        with monkeypatch.context() as inside:
            inside.setattr("fedgs.file_writing.os.fsync", full_disk)
            write_atomically(path, content)

    with monkeypatch.context() as patch:
        patch.setattr("fedgs.flower.state.write_atomically", full)
        with pytest.raises(OSError, match=r"No space left on device: .*state\.npz"):
            chosen.start(world(SITES), world.model(), num_rounds=1)
    assert (tmp_path / "state.npz").read_bytes() == before
    again = strategy(tmp_path)
    model = again.load_state(tmp_path / "state.npz")
    assert again.round == 2
    again.start(world(SITES), model, num_rounds=1)
    assert len(rounds(tmp_path)) == 4


def full_disk(*_: Any) -> None:
    raise OSError(28, "No space left on device")
