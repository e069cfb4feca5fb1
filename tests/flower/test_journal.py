"""The log of a deployment: cohorts and events, in one numbering of rounds, with Flower's lines."""

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord
from flwr.serverapp.strategy import FedAvg, FedProx

from fedgs.flower import SampledStrategy
from fedgs.flower.journal import JSON_LOGGER, LOGGER, listed

SITES = [f"site-{k}" for k in range(10)]


def strategy(inner: Any = None, **settings: Any) -> SampledStrategy:
    return SampledStrategy(
        inner or FedAvg(), "uniform", **{"cohort_limit": 2, "reply_timeout": 0.2, **settings}
    )


def lines(caplog: Any, logger: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith(logger)]


def test_a_round_says_who_was_selected_of_how_many(world: Any, caplog: Any) -> None:
    grid = world(SITES)
    chosen = strategy()
    chosen.start(grid, world.model(), num_rounds=2)
    ours = lines(caplog, "fedgs.flower")
    cohort = ", ".join(repr(grid.keys[node]) for kind, node in grid.asked if kind == "train")
    first, second = ", ".join(cohort.split(", ")[:2]), ", ".join(cohort.split(", ")[2:])
    assert f"round 1 of 2 (record 0): uniform selects 2 of 10 available clients: {first}" in ours
    assert f"round 2 of 2 (record 1): uniform selects 2 of 10 available clients: {second}" in ours
    assert "round 1 of 2 (record 0): 2 of 2 selected clients replied usefully" in ours
    assert "round 1 of 2 (record 1): 10 of 10 clients evaluated, validation loss 6" in ours


def test_the_sampler_and_its_settings_are_told(world: Any, caplog: Any) -> None:
    strategy().start(world(SITES), world.model(), num_rounds=1)
    (line,) = [line for line in lines(caplog, "fedgs.flower") if line.startswith("sampler ")]
    assert line.startswith("sampler uniform (weighting=data_size), cohort_limit=2")


def test_flowers_own_log_says_nothing_untrue(world: Any, caplog: Any) -> None:
    grid = world(SITES)
    grid.faults[101] = "raise"
    strategy(inner=FedProx(fraction_train=1.0, proximal_mu=0.25), cohort_limit=3).start(
        grid, world.model(), num_rounds=3
    )
    flower = "\n".join(lines(caplog, "flwr"))
    for line in ("[ROUND 1/3]", "Proximal mu: 0.25", "Aggregated MetricRecord"):
        assert line in flower
    for untrue in (": Sampled", "Fraction", "Minimum", "failures"):
        assert untrue not in flower
    caplog.clear()
    FedAvg().summary()  # the filter is gone afterwards
    assert "Fraction: train (1.00)" in "\n".join(lines(caplog, "flwr"))


def test_rounds_are_counted_over_a_restart(world: Any, caplog: Any, tmp_path: Any) -> None:
    first = strategy(state=tmp_path / "state.npz")
    first.start(world(SITES), world.model(), num_rounds=3)
    again = strategy(state=tmp_path / "state.npz")
    model = again.load_state(tmp_path / "state.npz")
    caplog.clear()
    again.start(world(SITES), model, num_rounds=7)
    ours = lines(caplog, "fedgs.flower")
    assert "continuing after 3 rounds: Flower's ROUND 1/7 is round 4" in ours
    assert any(line.startswith("round 4 of 10 (record 3): uniform selects") for line in ours)


def test_names_of_many_are_cut() -> None:
    assert listed(list(range(12))) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"


def test_the_loggers_are_left_as_they_were(world: Any) -> None:
    ours = logging.getLogger("fedgs.flower")
    before = (ours.level, list(ours.handlers), list(logging.getLogger("flwr").filters))
    strategy().start(world(SITES), world.model(), num_rounds=1)
    assert (ours.level, list(ours.handlers), list(logging.getLogger("flwr").filters)) == before


def test_lines_appear_without_any_set_up_of_logging() -> None:
    """In a process of its own, since pytest sets up logging."""
    code = """
import logging
from fedgs.flower.journal import Journal
import flwr.app, flwr.serverapp
journal = Journal()
with journal.heard():
    journal.last = 4
    journal.line(0, "%d clients", 7)
    logging.getLogger("fedgs.flower.directory").warning("a warning")
journal.line(1, "unheard")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    output = done.stdout + done.stderr
    assert output.count("round 1 of 4 (record 0): 7 clients") == 1
    assert output.count("a warning") == 1
    assert "unheard" not in output


def test_lines_appear_once_where_the_application_has_set_up_logging() -> None:
    code = """
import logging
logging.basicConfig(level=logging.WARNING)
from fedgs.flower.journal import Journal
import flwr.app, flwr.serverapp
with Journal().heard():
    Journal().line(0, "%d clients", 7)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert (done.stdout + done.stderr).count("7 clients") == 1


# One JSON object a line.


@pytest.fixture
def objects() -> Any:
    """The objects that `fedgs.flower.json` logs in a test."""
    found: list[dict[str, Any]] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(json.loads(record.getMessage()))

    handler = Collect()
    JSON_LOGGER.addHandler(handler)
    yield found
    JSON_LOGGER.removeHandler(handler)


def test_a_round_is_objects_that_name_cohort_sampler_and_reasons(
    world: Any, tmp_path: Path, objects: Any
) -> None:
    grid = world(["site-0", "site-1", "site-2"])
    nan = ArrayRecord({"w": Array(np.array([np.nan, 0.0], dtype=np.float32))})
    grid.faults[101] = lambda reply: (reply.content.update({"arrays": nan}), reply)[1]
    strategy = SampledStrategy(
        FedAvg(min_evaluate_nodes=1), "uniform", cohort_limit=3, records=tmp_path
    )
    strategy.start(grid, world.model(), num_rounds=1)
    assert all(isinstance(entry.pop("time"), float) for entry in objects)
    selected, refused, trained, evaluated = objects
    cohort = ["site-0", "site-1", "site-2"]
    assert selected == {
        "round": 0,
        "event": "selected",
        "sampler": "uniform",
        "available": 3,
        "cohort": cohort,
        "status": None,
    }
    assert refused == {
        "round": 0,
        "client": "site-1",
        "event": "refused",
        "detail": "its array 'w' holds NaN or inf",
    }
    assert trained == {
        "round": 0,
        "event": "trained",
        "sampler": "uniform",
        "cohort": cohort,
        "answered": ["site-0", "site-2"],
        "averaged": True,
    }
    loss = (0 * 10 + 1 * 20 + 2 * 30) / 60
    assert evaluated.pop("loss") == pytest.approx(loss)
    assert evaluated == {"round": 1, "event": "evaluated", "answered": 3, "asked": 3}
    # Every event of the records is among them, as it is there.
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert all(line in objects for line in lines)


def test_objects_do_not_reach_the_text_log(world: Any, objects: Any) -> None:
    texts: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            texts.append(record.getMessage())

    handler = Collect()
    LOGGER.addHandler(handler)
    try:
        SampledStrategy(FedAvg(), "uniform", cohort_limit=2).start(
            world(["a-0", "b-1"]), world.model(), num_rounds=1
        )
    finally:
        LOGGER.removeHandler(handler)
    assert objects and texts
    assert not [text for text in texts if text.startswith("{")]
