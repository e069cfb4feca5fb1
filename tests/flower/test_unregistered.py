"""A node that is unregistered in a running deployment, and a node that is registered in its place.

Flower lists an unregistered node no more, and takes no message to it.
"""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Message, RecordDict
from flwr.serverapp.strategy import FedAvg
from tests.flower.private_nodes import PRIVATE, nodes, shares

from fedgs.flower import SampledStrategy
from fedgs.flower.exchange import exchange
from fedgs.records import RunFolder
from fedgs.sampling import FedGS

SITES = [f"site-{k}" for k in range(4)]


def strategy(sampler: Any, **settings: Any) -> SampledStrategy:
    """Deadlines that no test may reach."""
    return SampledStrategy(
        FedAvg(fraction_evaluate=0.0), sampler, cohort_limit=4, min_connected=1, **settings
    )


def unregistered_late(grid: Any, node: int) -> None:
    """The node is listed once more, and unregistered before the requests are sent."""
    listed = list(grid.keys)
    del grid.keys[node]
    grid.script = lambda: listed


@pytest.mark.parametrize("refused", ["", None])
def test_a_message_that_is_not_taken_is_not_waited_for(world: Any, refused: str | None) -> None:
    grid = world(SITES)
    grid.refused = refused
    del grid.keys[100]
    messages = [Message(RecordDict(), node, "query.fedgs") for node in (100, 101, 102)]
    replies = exchange(grid, messages, timeout=600.0)
    assert [reply.metadata.src_node_id for reply in replies] == [101, 102]


@pytest.mark.parametrize("refused", ["", None])
def test_the_clients_of_nodes_are_not_mixed_up(world: Any, refused: str | None) -> None:
    grid = world(SITES)
    grid.refused = refused
    unregistered_late(grid, 101)
    chosen = strategy("uniform", describe_timeout=0.01)
    result = chosen.start(grid, world.model(), num_rounds=1)
    assert chosen.answers == {"site-0": 1, "site-2": 1, "site-3": 1}
    # Client k has 10 (k + 1) examples and adds k + 1.
    assert result.arrays["w"].numpy()[0] == pytest.approx((10 + 90 + 160) / 80)


@pytest.mark.parametrize("refused", ["", None])
def test_a_round_goes_on_without_the_node(world: Any, tmp_path: Path, refused: str | None) -> None:
    labels = np.random.default_rng(0).integers(1, 30, (4, 3))
    grid = world(SITES, app=world.default_app(labels=labels))
    grid.refused = refused
    chosen = strategy(FedGS(), records=str(tmp_path))
    model = chosen.start(grid, world.model(), num_rounds=1).arrays
    distances = chosen._selector.state.memory["distance"]

    unregistered_late(grid, 103)
    begun = time.monotonic()
    model = chosen.start(grid, model, num_rounds=1).arrays
    assert time.monotonic() - begun < 60  # not the deadline of an hour
    grid.script = None
    model = chosen.start(grid, model, num_rounds=1).arrays
    assert chosen.answers == {"site-0": 3, "site-1": 3, "site-2": 3, "site-3": 1}
    assert chosen.counts["site-3"] == 2

    grid.keys[200] = "site-3"  # registered again, which gives it another node id
    chosen.start(grid, model, num_rounds=1)
    assert chosen.answers["site-3"] == 2 and len(chosen.counts) == 4
    np.testing.assert_array_equal(chosen._selector.state.memory["distance"], distances)
    available = [record.available for record in RunFolder(tmp_path).records()[:-1]]
    assert [sorted(names) for names in available] == [SITES, SITES, SITES[:3], SITES]
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [(e["round"], e["event"], e["client"]) for e in events] == [(1, "silent", "site-3")]


def test_the_products_of_the_client_stay(world: Any) -> None:
    pytest.importorskip("cryptography")
    grid = nodes(world, shares(4))
    chosen = strategy(PRIVATE)
    model = chosen.start(grid, world.model(), num_rounds=1).arrays
    products = chosen._selector.products.matrix(4)
    assert np.isfinite(products[np.triu_indices(4, 1)]).all()
    sessions = len(grid.phases())

    del grid.keys[103]
    model = chosen.start(grid, model, num_rounds=1).arrays
    grid.keys[200] = "site-3"
    chosen.start(grid, model, num_rounds=1)
    np.testing.assert_array_equal(chosen._selector.products.matrix(4), products)
    assert len(grid.phases()) == sessions  # nobody is asked again
