"""The output of a deployment: no other one is replaced, and two deployments are two runs."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.serverapp.strategy import FedAvg
from tests.flower.conftest import without_times
from tests.time_fields import check_time_fields

from fedgs import sampler
from fedgs.errors import ConfigError, OutputError, UserError
from fedgs.flower import SampledStrategy
from fedgs.records import RunFolder
from fedgs.report.reading import read_runs

SITES = ["a-0", "b-1", "c-2"]


def strategy(
    records: Path | None, sampler: Any = "uniform", inner: Any = None, **settings: Any
) -> SampledStrategy:
    inner = inner if inner is not None else FedAvg(fraction_evaluate=0.0)
    return SampledStrategy(inner, sampler, records=records, **{"cohort_limit": 2, **settings})


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def refused(chosen: SampledStrategy, world: Any, match: str) -> Any:
    """Start, expect a refusal, and return the nodes that were asked for something."""
    grid = world(SITES)
    with pytest.raises(OutputError, match=match):
        chosen.start(grid, world.model(), num_rounds=1)
    return grid.asked


def test_a_second_start_does_not_replace_the_records_of_the_first(
    world: Any, tmp_path: Path
) -> None:
    strategy(tmp_path).start(world(SITES), world.model(), num_rounds=9)
    before = content(tmp_path)
    why = (
        r"records must be a new or empty folder, got .*, which holds 9 rounds of another deployment"
    )
    assert refused(strategy(tmp_path), world, why) == []
    assert content(tmp_path) == before
    assert issubclass(OutputError, UserError)


def test_records_and_state_continue_together_only(world: Any, tmp_path: Path) -> None:
    first, second, state = tmp_path / "first", tmp_path / "second", tmp_path / "state.npz"
    strategy(first, state=state).start(world(SITES), world.model(), num_rounds=3)
    strategy(second).start(world(SITES), world.model(), num_rounds=5)

    def continued(records: Path) -> SampledStrategy:
        chosen = strategy(records)
        chosen.load_state(state)
        return chosen

    refused(continued(second), world, r"which holds 5 rounds of another deployment")
    refused(
        continued(tmp_path / "new"),
        world,
        r"records must be the folder with the records of the 3 rounds before the state .* 0",
    )
    chosen = continued(first)
    chosen.start(world(SITES), world.model(), num_rounds=1)
    assert [record.round for record in RunFolder(first).records()] == [0, 1, 2, 3, 4]
    chosen.start(world(SITES), world.model(), num_rounds=1)  # the same object goes on too
    assert [record.round for record in RunFolder(first).records()] == [0, 1, 2, 3, 4, 5]


def test_a_simulated_run_is_not_taken_over(world: Any, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_config(
        {"method": {"name": "uniform"}, "run": {"engine": "plain", "fingerprint": "5" * 16}}
    )
    folder.append("rounds.jsonl", ['{"round":0,"cohort":[1]}'])
    before = content(tmp_path)
    why = "which holds a simulated run; choose another folder"
    assert refused(strategy(tmp_path), world, why) == []
    assert content(tmp_path) == before


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        (
            "rounds.jsonl",
            "no json\n",
            r"which holds 'rounds\.jsonl' and no deployment's records; choose another folder",
        ),
        (
            "rounds.jsonl",
            '{"round": 0}\n',
            r"which holds 'rounds\.jsonl' and no deployment's records",
        ),
        ("thesis.tex", "", r"which holds 'thesis\.tex' and no deployment's records"),
        ("config.toml", "a = = 1", r"whose config\.toml cannot be read"),
        ("config.toml", "run = 1", r"whose config\.toml cannot be read"),
        ("config.toml", "a = 1", "which holds a simulated run"),
    ],
)
def test_a_folder_with_other_content_is_refused(
    world: Any, tmp_path: Path, name: str, text: str, why: str
) -> None:
    (tmp_path / name).write_text(text)
    before = content(tmp_path)
    assert refused(strategy(tmp_path), world, why) == []
    assert content(tmp_path) == before


@pytest.mark.parametrize("name", ["rounds.jsonl", "timings.jsonl", "events.jsonl"])
@pytest.mark.parametrize("line", ["no json", "3", '{"round": "x"}'])
def test_damaged_records_are_not_continued(
    world: Any, tmp_path: Path, name: str, line: str
) -> None:
    chosen = strategy(tmp_path)
    chosen.start(world(SITES), world.model(), num_rounds=2)
    with (tmp_path / name).open("a") as file:
        file.write(line + "\n")
    before = content(tmp_path)
    refused(chosen, world, name.replace(".", r"\."))
    assert content(tmp_path) == before


def test_a_file_in_place_of_the_folder_is_refused(world: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    why = "records must be a folder, got the file"
    assert refused(strategy(tmp_path / "file"), world, why) == []


@pytest.mark.parametrize("setting", ["records", "state"])
def test_a_place_that_cannot_be_written_is_refused(
    world: Any, tmp_path: Path, setting: str
) -> None:
    (tmp_path / "file").write_text("text")
    chosen = strategy(**{"records": None, setting: tmp_path / "file" / "below"})
    why = "records and state must be places that can be written, got .*file"
    assert refused(chosen, world, why) == []


def test_an_empty_folder_and_the_own_state_in_it_are_fine(world: Any, tmp_path: Path) -> None:
    (tmp_path / ".keep").write_text("")
    state = tmp_path / "state.npz"
    strategy(tmp_path, state=state).start(world(SITES), world.model(), num_rounds=1)
    again = strategy(tmp_path, state=state)
    again.start(world(SITES), again.load_state(state), num_rounds=1)
    assert len(RunFolder(tmp_path).records()) == 3


def test_a_restart_before_the_first_round_was_over_goes_on(world: Any, tmp_path: Path) -> None:
    state, records = tmp_path / "state.npz", tmp_path / "records"

    def stop() -> list[int]:
        raise KeyboardInterrupt

    grid = world(SITES)
    grid.script = stop
    with pytest.raises(KeyboardInterrupt):
        strategy(records, state=state).start(grid, world.model(), num_rounds=2)
    again = strategy(records, state=state)
    assert again.load_state(state) is None
    again.start(world(SITES), world.model(), num_rounds=2)
    assert [record.round for record in RunFolder(records).records()] == [0, 1, 2]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.write_text("notes"), "which is neither; choose another file"),
        (lambda path: np.savez(path, weights=np.ones(3)), "which is neither; choose another file"),
        (lambda path: path.mkdir(), "which is neither; choose another file"),
        (
            lambda path: strategy(None).save_state(path),
            r"which holds another one's state after round 0; choose another file, or",
        ),
    ],
)
def test_a_file_that_is_not_this_deployments_state_is_not_replaced(
    world: Any, tmp_path: Path, make: Any, why: str
) -> None:
    path = tmp_path / "state.npz"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    chosen = strategy(tmp_path / "records", state=path)
    assert refused(chosen, world, f"state must be a new file .*{why}") == []
    assert (path.read_bytes() if path.is_file() else None) == before
    assert not (tmp_path / "records").exists()


def test_replaced_records_are_announced(world: Any, tmp_path: Path, caplog: Any) -> None:
    chosen = strategy(tmp_path / "records")
    chosen.start(world(SITES), world.model(), num_rounds=2)
    chosen.save_state(tmp_path / "kept.npz")
    chosen.start(world(SITES), world.model(), num_rounds=3)
    again = strategy(tmp_path / "records")
    again.load_state(tmp_path / "kept.npz")
    again.start(world(SITES), world.model(), num_rounds=1)
    assert "rounds from 2 on are repeated: 3 records replaced in" in caplog.text


# What tells two deployments apart.


@pytest.mark.parametrize("rounds", [3, 5], ids=["ended after the state", "ended later"])
def test_a_continued_deployment_keeps_the_validation_loss_and_its_events(
    world: Any, tmp_path: Path, rounds: int
) -> None:
    def muted() -> Any:
        class Muted(world):  # type: ignore[misc]
            def _reply(self, message: Any) -> Any:
                silent = (
                    message.metadata.message_type == "evaluate"
                    and message.metadata.dst_node_id == 102
                )
                return None if silent else super()._reply(message)

        return Muted(SITES)

    def lines(folder: Path, name: str) -> list[Any]:
        entries = without_times((folder / name).read_text())
        return [{**entry, "detail": ""} if "detail" in entry else entry for entry in entries]

    settings = {"inner": FedAvg(), "reply_timeout": 0.1}
    strategy(tmp_path / "whole", **settings).start(muted(), world.model(), num_rounds=6)
    first = strategy(tmp_path / "halves", **settings)
    first.start(muted(), world.model(), num_rounds=3)
    first.save_state(tmp_path / "state.npz")
    if rounds > 3:
        first.start(muted(), world.model(), num_rounds=rounds - 3)
    again = strategy(tmp_path / "halves", **settings)
    again.start(muted(), again.load_state(tmp_path / "state.npz"), num_rounds=3)
    for name in ("rounds.jsonl", "events.jsonl"):
        assert lines(tmp_path / "halves", name) == lines(tmp_path / "whole", name)


def test_limits_tell_two_deployments_apart(world: Any, tmp_path: Path) -> None:
    for limit in (2, 3):
        strategy(tmp_path / f"limit-{limit}", cohort_limit=limit).start(
            world(SITES), world.model(), num_rounds=2
        )
    runs, problems = read_runs(tmp_path)
    assert problems == []
    assert sorted((run.label, run.about["cohort_limit"]) for run in runs) == [
        ("uniform cohort_limit=2", 2),
        ("uniform cohort_limit=3", 3),
    ]


def test_equal_deployments_are_two_runs_and_a_copy_is_one(world: Any, tmp_path: Path) -> None:
    for name in ("one", "two"):
        strategy(tmp_path / name).start(world(SITES), world.model(), num_rounds=1)
    runs, _ = read_runs(tmp_path)
    assert len({run.about["fingerprint"] for run in runs}) == 2
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    runs, problems = read_runs(tmp_path)
    assert len(runs) == 2
    assert len(problems) == 1 and "the same run as" in problems[0]


def test_a_restart_keeps_the_run_id(world: Any, tmp_path: Path) -> None:
    records, state = tmp_path / "records", tmp_path / "state.npz"
    strategy(records, state=state).start(world(SITES), world.model(), num_rounds=1)
    before = RunFolder(records).config()["run"]["fingerprint"]
    again = strategy(records, state=state)
    again.start(world(SITES), again.load_state(state), num_rounds=1)
    assert RunFolder(records).config()["run"]["fingerprint"] == before


def test_the_configuration_holds_limits_rounds_and_titles(world: Any, tmp_path: Path) -> None:
    inner = FedAvg(fraction_train=0.7, min_train_nodes=1, fraction_evaluate=0.0)
    chosen = strategy(
        tmp_path, inner=inner, cohort_limit=None, sufficient_replies=1, reply_timeout=7.0
    )
    chosen.start(world(SITES), world.model(), num_rounds=2)
    config = RunFolder(tmp_path).config()
    training, about = config["training"], config["run"]
    assert (training["rounds"], training["proportion"]) == (2, 0.7)
    assert (training["sufficient_replies"], training["reply_timeout"]) == (1, 7.0)
    assert training["strategy"] == "FedAvg"
    assert about["cohort_limit"] == 2  # floor(0.7 · 3)
    assert (about["num_clients"], about["engine"]) == (3, "flower")
    (run,), _ = read_runs(tmp_path)
    assert run.finished
    assert run.group == ("Flower clients", "nodes on line")
    assert run.clients is not None
    assert run.clients.names == tuple(SITES)


def test_a_failed_start_is_written_and_a_later_one_removes_it(world: Any, tmp_path: Path) -> None:
    grid = world(SITES)
    chosen = strategy(tmp_path)

    def evaluate(server_round: int, arrays: Any) -> Any:
        if server_round == 2:
            raise RuntimeError("no test set")

    with pytest.raises(RuntimeError, match="no test set"):
        chosen.start(grid, world.model(), num_rounds=4, evaluate_fn=evaluate)
    failure = RunFolder(tmp_path).failure()
    assert failure is not None
    assert (failure["round"], failure["error"]) == (2, "RuntimeError: no test set")
    assert "in evaluate" in failure["traceback"]
    assert [record.round for record in RunFolder(tmp_path).records()] == [0, 1]
    chosen.start(grid, world.model(), num_rounds=1)
    assert RunFolder(tmp_path).failure() is None
    assert json.loads((tmp_path / "rounds.jsonl").read_text().splitlines()[-1])["round"] == 3


def test_records_hold_the_time_that_a_round_took(world: Any, tmp_path: Path) -> None:
    """The fields are those of a simulation with a clock, from a real one."""
    keys = [f"site-{k}" for k in range(5)]
    state, folder = tmp_path / "state.npz", tmp_path / "records"

    def part(rounds: int, **faults: Any) -> SampledStrategy:
        grid = world(keys)
        grid.faults = {100 + int(name[1:]): fault for name, fault in faults.items()}
        made = SampledStrategy(
            FedAvg(fraction_evaluate=0.0),
            "uniform",
            cohort_limit=5,
            describe=False,
            reply_timeout=0.3,
            records=folder,
            state=state,
        )
        model = made.load_state(state) if state.exists() else world.model()
        made.start(grid, model, num_rounds=rounds)
        return made

    part(1, n0="silent", n1="error", n2="raise", n3=lambda reply: spoil(reply))
    again = part(2)
    first, second, third, last = records = RunFolder(folder).records()
    check_time_fields(records)
    assert first.fates == ["late", "gone", "failed", "failed", "answered"]
    assert first.ended == "deadline" and second.ended == "target"
    assert first.seconds >= first.worked[0] >= 0.3 > first.worked[4] > 0
    assert second.fates == ["answered"] * 5
    assert first.traffic == 7 * 136 < second.traffic == 10 * 136  # bytes of an array of two numbers
    clocks = [record.clock for record in (first, second, third, last)]
    assert clocks == sorted(clocks) and clocks[1] >= first.seconds  # over the restart
    assert last.seconds is None and last.fates is None
    seconds = again._selector.roster.seconds
    assert np.isfinite(seconds).all() and (seconds > 0).all()


def spoil(reply: Any) -> Any:
    reply.content["metrics"]["num-examples"] = -1
    return reply


def test_samplers_see_durations_unless_they_are_hidden(world: Any) -> None:
    seen: list[Any] = []

    @sampler("watching-durations")
    def watching(view: Any, rng: Any) -> Any:
        seen.append((view.seconds, view.clock))
        return view.available[:1]

    for durations in (True, False):
        chosen = SampledStrategy(
            FedAvg(fraction_evaluate=0.0), watching, durations=durations, cohort_limit=1
        )
        chosen.start(world(["a-0", "b-1"]), world.model(), num_rounds=2)
    assert np.isnan(seen[0][0]).all() and np.isfinite(seen[1][0]).tolist() == [True, False]
    assert seen[1][1] > seen[0][1] >= 0
    assert seen[2:] == [(None, None)] * 2
    with pytest.raises(ConfigError, match="method.penalty has no effect with durations = False"):
        SampledStrategy(FedAvg(), {"name": "oort", "penalty": 1.0}, durations=False)
