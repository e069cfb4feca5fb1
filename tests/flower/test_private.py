"""The private graph over a Grid in memory: results, failures, clients that join or restart."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("cryptography")

from flwr.serverapp.strategy import FedAvg
from tests.flower.private_nodes import PRIVATE, nodes, shares

from fedgs.errors import ConfigError
from fedgs.flower import SampledStrategy
from fedgs.flower.features import graph_of
from fedgs.graph import Graph
from fedgs.sampling import FedGS
from fedgs.secure import private_similarity

COUNTS = shares(5)
VECTORS = COUNTS / COUNTS.sum(axis=1, keepdims=True)
QUICK = {"connect_timeout": 0.2, "reply_timeout": 0.2, "graph_timeout": 0.05}


def deployed(folder: Path | None = None, **settings: Any) -> SampledStrategy:
    records = {} if folder is None else {"records": folder}
    defaults = {"cohort_limit": 2, "min_connected": 1, **QUICK, **records}
    return SampledStrategy(FedAvg(fraction_evaluate=0.0), PRIVATE, **{**defaults, **settings})


def products(strategy: SampledStrategy) -> np.ndarray:
    selector = strategy._selector
    return selector.products.matrix(len(selector.roster))


def expected(rows: Any = range(5), vectors: np.ndarray = VECTORS) -> np.ndarray:
    """The products of the clients in `rows`, NaN for the others."""
    wanted = np.full((len(vectors), len(vectors)), np.nan)
    kept = np.array(list(rows))
    wanted[np.ix_(kept, kept)] = (vectors @ vectors.T)[np.ix_(kept, kept)]
    np.fill_diagonal(wanted, np.nan)
    return wanted


def events(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event.get("request") == "graph"]


def test_the_products_are_those_of_a_simulation(world: Any) -> None:
    grid, strategy = nodes(world, COUNTS), deployed()
    strategy.start(grid, world.model(), num_rounds=3)
    simulated = private_similarity(VECTORS)
    # The same vectors in the same encoding: the products are exact in both.
    np.testing.assert_array_equal(products(strategy), simulated.products)
    assert grid.phases() == ["keys", "masked", "blinded", "shares"]
    distance = strategy._selector.state.memory["distance"]
    np.testing.assert_array_equal(distance, Graph().of_products(simulated.products).distance)


def test_no_round_asks_again_for_what_is_known(world: Any) -> None:
    grid, strategy = nodes(world, COUNTS), deployed()
    strategy.start(grid, world.model(), num_rounds=4)
    assert len(grid.relayed) == 2 * 4 * 5
    strategy.start(grid, world.model(), num_rounds=1)
    assert len(grid.relayed) == 2 * 4 * 5


@pytest.mark.parametrize("phase", ["keys", "masked", "blinded", "shares"])
def test_a_node_that_vanishes_in_a_phase_is_left_out_and_returns(
    world: Any, phase: str, tmp_path: Path
) -> None:
    grid, strategy = nodes(world, COUNTS), deployed(tmp_path)
    grid.before = lambda name, node, entries: None if (name, node) == (phase, 102) else entries
    strategy.start(grid, world.model(), num_rounds=1)
    # All pairs of the others are known after the same round.
    np.testing.assert_allclose(products(strategy), expected([0, 1, 3, 4]), atol=1e-7)
    (silent,) = events(tmp_path)
    assert (silent["client"], silent["event"]) == ("site-2", "silent")
    assert silent["detail"] == f"no reply within 0.05 s in phase '{phase}'"
    before = len(grid.relayed)
    grid.before = lambda name, node, entries: entries
    strategy = again(strategy, grid, world)
    np.testing.assert_allclose(products(strategy), expected(), atol=1e-7)
    # Only its four pairs were asked for.
    assigned = [
        entries for name, _, way, entries in grid.relayed[before:] if "assignment" in entries
    ]
    assert len(assigned) == 5


def again(strategy: SampledStrategy, grid: Any, world: Any, rounds: int = 1) -> SampledStrategy:
    """The same deployment, later."""
    strategy.start(grid, world.model(), num_rounds=rounds)
    return strategy


def test_a_node_whose_reply_is_lost_in_every_phase_never_blocks_a_round(world: Any) -> None:
    grid, strategy = nodes(world, COUNTS), deployed()
    grid.bend = lambda name, node, entries: None if node == 104 else entries
    strategy.start(grid, world.model(), num_rounds=6)
    np.testing.assert_allclose(products(strategy), expected(range(4)), atol=1e-7)
    asked = [name for name, node, way, _ in grid.relayed if (node, way) == (104, "request")]
    assert asked == ["keys"] * 3  # in rounds 0, 1 and 3: at intervals that double


def test_clients_that_join_meet_the_others(world: Any) -> None:
    grid, strategy = nodes(world, COUNTS), deployed()
    grid.online = [100, 101, 102]
    strategy.start(grid, world.model(), num_rounds=1)
    np.testing.assert_allclose(products(strategy), expected(range(3), VECTORS[:3]), atol=1e-7)
    grid.online = None
    again(strategy, grid, world)
    np.testing.assert_allclose(products(strategy), expected(), atol=1e-7)
    assert grid.phases().count("keys") == 2


def test_a_known_pair_is_not_computed_again(world: Any) -> None:
    grid, strategy = nodes(world, COUNTS), deployed()
    grid.online = [100, 101, 102, 103]
    strategy.start(grid, world.model(), num_rounds=1)
    grid.online, before = None, len(grid.relayed)
    again(strategy, grid, world)
    masked = {
        node: len(entries["message"])
        for name, node, way, entries in grid.relayed[before:]
        if (name, way) == ("masked", "reply") and "message" in entries
    }
    one, four = min(masked.values()), masked[104]
    assert [masked[node] for node in (100, 101, 102, 103)] == [one] * 4
    assert (four - one) % 3 == 0 and four > one


def test_two_clients_wait_for_a_third(world: Any) -> None:
    grid, strategy = nodes(world, COUNTS), deployed()
    grid.online = [100, 101]
    strategy.start(grid, world.model(), num_rounds=2)
    assert grid.relayed == []
    np.testing.assert_array_equal(strategy._selector.state.memory["distance"], 1 - np.eye(2))
    grid.online = None
    again(strategy, grid, world)
    np.testing.assert_allclose(products(strategy), expected(), atol=1e-7)


def test_a_node_that_restarts_between_phases_refuses_and_joins_later(
    world: Any, tmp_path: Path
) -> None:
    grid, strategy = nodes(world, COUNTS), deployed(tmp_path)

    def restarting(phase: str, node: int, entries: Any) -> Any:
        if (phase, node) == ("blinded", 103):
            grid.restart(103)
        return entries

    grid.before = restarting
    strategy.start(grid, world.model(), num_rounds=1)
    np.testing.assert_allclose(products(strategy), expected([0, 1, 2, 4]), atol=1e-7)
    (refused,) = events(tmp_path)
    assert refused["client"] == "site-3"
    assert (
        "replayed, out of order or of another session: this node expects 'keys'"
        in (refused["detail"])
    )
    # It had completed no session, so that its new key is accepted.
    grid.before = lambda phase, node, entries: entries
    again(strategy, grid, world)
    np.testing.assert_allclose(products(strategy), expected(), atol=1e-7)


def test_a_restart_with_a_new_key_keeps_the_products(world: Any, tmp_path: Path) -> None:
    grid, strategy = nodes(world, COUNTS), deployed(tmp_path)
    grid.online = [100, 101, 102, 103]
    strategy.start(grid, world.model(), num_rounds=1)
    grid.restart(101)
    again(strategy, grid, world)
    assert events(tmp_path) == []
    # A client joins: the others refuse the new key of site-1, whose known products stay.
    grid.online = None
    again(strategy, grid, world)
    known = expected()
    known[1, 4] = known[4, 1] = np.nan
    np.testing.assert_allclose(products(strategy), known, atol=1e-7)
    refusals = [event for event in events(tmp_path) if event["event"] == "refused"]
    assert {event["client"] for event in refusals} == {"site-0", "site-2", "site-3"}
    assert all(event["accused"] == ["site-1"] for event in refusals)
    assert "client 'site-1': its key is another one than before" in refusals[0]["detail"]


def test_the_state_holds_the_products(world: Any, tmp_path: Path) -> None:
    grid, strategy = nodes(world, COUNTS), deployed()
    strategy.start(grid, world.model(), num_rounds=2)
    strategy.save_state(tmp_path / "state.npz")
    resumed, asked = deployed(), len(grid.relayed)
    arrays = resumed.load_state(tmp_path / "state.npz")
    resumed.start(grid, arrays, num_rounds=2)
    np.testing.assert_array_equal(products(resumed), products(strategy))
    assert len(grid.relayed) == asked
    straight = deployed()
    straight.start(nodes(world, COUNTS), world.model(), num_rounds=4)
    assert straight.counts == resumed.counts


def test_nodes_without_the_handler_train_and_have_no_distances(world: Any, tmp_path: Path) -> None:
    grid, strategy = world([f"site-{k}" for k in range(4)]), deployed(tmp_path)
    strategy.start(grid, world.model(), num_rounds=1)
    assert sum(strategy.counts.values()) == 2
    details = {event["detail"] for event in events(tmp_path)}
    assert details == {"its ClientApp does not call fedgs.flower.describe_privately(app)"}


def test_the_server_is_not_told_proportions(world: Any) -> None:
    grid, strategy = nodes(world, COUNTS), deployed()
    strategy.start(grid, world.model(), num_rounds=1)
    assert strategy._selector.roster.features == {}
    assert len(grid.described) == len(COUNTS)
    for reply in grid.described:
        assert set(reply.content["fedgs"]) == {"client-key"}
        assert list(reply.content) == ["fedgs"]


def test_a_client_with_a_key_that_is_too_long_does_not_stop_the_others(world: Any) -> None:
    grid, strategy = nodes(world, COUNTS), deployed()
    last = max(grid.keys)
    grid.keys[last] = f"{'x' * 1500}-{len(COUNTS) - 1}"
    strategy.start(grid, world.model(), num_rounds=1)
    keys = strategy._selector.roster.keys
    assert f"node-{last}" in keys
    rows = [keys.index(f"site-{k}") for k in range(4)]
    known = products(strategy)[np.ix_(rows, rows)]
    np.testing.assert_allclose(known, expected(vectors=VECTORS[:4], rows=range(4)), atol=1e-9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"protocol": "paper"}, "graph.protocol must be 'ring' .* got 'paper'"),
        ({"dealer": "registry"}, "graph.dealer must be None .* got 'registry'"),
        ({"value_range": 2.0}, r"set by describe_privately\(app, value_range=...\)\), got 2.0"),
        ({"normalize_by_norm": True}, "graph.normalize_by_norm must be False"),
        ({"normalize_over": "all"}, "normalize_over must be 'off_diagonal' or 'none'"),
        ({"construction": "complete"}, "graph.construction must be 'threshold'"),
        ({"structure": "landmarks"}, "graph.structure must be 'auto' or 'dense'"),
    ],
)
def test_settings_that_a_deployment_cannot_have_are_refused(
    settings: dict[str, Any], message: str
) -> None:
    graph = Graph.model_construct(**{**Graph(similarity="private").model_dump(), **settings})
    sampler = FedGS.model_construct(graph=graph)
    with pytest.raises(ConfigError, match=message):
        graph_of(sampler)
