"""A private graph whose nodes come, go, restart, lie and fall silent: no product is wrong."""

import logging
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("cryptography")

from flwr.serverapp.strategy import FedAvg
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.flower.conftest import _make_world
from tests.flower.private_nodes import PRIVATE, nodes, shares

from fedgs.flower import SampledStrategy

CLIENTS = 5
PHASES = ("keys", "masked", "blinded", "shares")


def flipped(entries: dict[str, Any]) -> dict[str, Any]:
    """The last bit of every entry of bytes is another one."""
    return {
        name: value[:-1] + bytes([value[-1] ^ 1]) if isinstance(value, bytes) and value else value
        for name, value in entries.items()
    }


def shorter(entries: dict[str, Any]) -> dict[str, Any]:
    """Every entry of bytes lacks its last byte."""
    return {
        name: value[:-1] if isinstance(value, bytes) else value for name, value in entries.items()
    }


def longer(entries: dict[str, Any]) -> dict[str, Any]:
    """Every entry of bytes is far too long."""
    return {
        name: value * 1000 if isinstance(value, bytes) else value for name, value in entries.items()
    }


# What becomes of a message on its way; None: it is lost.
LIES: dict[str, Any] = {
    "none": lambda entries: entries,
    "lost": lambda entries: None,
    "flipped": flipped,
    "shorter": shorter,
    "longer": longer,
    "empty": lambda entries: {},
    "other types": lambda entries: {name: [1, 2] for name in entries},
    "other session": lambda entries: {**entries, "session": bytes(16)},
}


class Deployment(RuleBasedStateMachine):
    """One strategy over many rounds; between them nodes and what they send change."""

    @initialize()
    def begin(self) -> None:
        logging.disable(logging.CRITICAL)
        counts = shares(CLIENTS)
        proportions = counts / counts.sum(axis=1, keepdims=True)
        self.expected = proportions @ proportions.T
        self.grid = nodes(_make_world(), counts)
        self.lies: dict[tuple[str, int, str], str] = {}  # (phase, node, way) -> name
        self.earlier: dict[tuple[str, int, str], Any] = {}  # the last message of that kind
        self.grid.before = lambda phase, node, entries: self.sent(phase, node, "to", entries)
        self.grid.bend = lambda phase, node, entries: self.sent(phase, node, "from", entries)
        self.strategy = SampledStrategy(
            FedAvg(fraction_evaluate=0.0),
            PRIVATE,
            cohort_limit=2,
            min_connected=0,
            connect_timeout=0.01,
            describe_timeout=0.01,
            reply_timeout=0.01,
            graph_timeout=0.01,
            max_idle_rounds=None,
        )
        self.model = _make_world().model()
        self.known = np.full((0, 0), np.nan)
        self.fresh = 1000

    def sent(self, phase: str, node: int, way: str, entries: Any) -> Any:
        """A message as it arrives."""
        place = (phase, node, way)
        replayed = self.earlier.get(place, entries)
        self.earlier[place] = entries
        lie = self.lies.get(place, "none")
        return replayed if lie == "replayed" else LIES[lie](dict(entries))

    @rule(
        phase=st.sampled_from(PHASES),
        node=st.integers(0, CLIENTS - 1),
        way=st.sampled_from(["to", "from"]),
        lie=st.sampled_from([*sorted(LIES), "replayed"]),
    )
    def lie(self, phase: str, node: int, way: str, lie: str) -> None:
        """The messages of a phase to or from a node are changed from now on."""
        ids = sorted(self.grid.keys)
        self.lies[phase, ids[node % len(ids)], way] = lie

    @rule()
    def heal(self) -> None:
        """Nothing is changed any more."""
        self.lies.clear()

    @rule(node=st.integers(0, CLIENTS - 1))
    def leave_or_return(self, node: int) -> None:
        """A node goes off line, or comes back."""
        ids = sorted(self.grid.keys)
        online = set(ids if self.grid.online is None else self.grid.online)
        self.grid.online = sorted(online ^ {ids[node % len(ids)]})

    @rule(node=st.integers(0, CLIENTS - 1), moved=st.booleans())
    def restart(self, node: int, moved: bool) -> None:
        """A node restarts with a new key, perhaps under another node id."""
        ids = sorted(self.grid.keys)
        old = ids[node % len(ids)]
        self.grid.restart(old)
        if moved:
            self.fresh += 1
            online = set(ids if self.grid.online is None else self.grid.online)
            self.grid.keys[self.fresh] = self.grid.keys.pop(old)
            self.grid.online = sorted(online - {old} | {self.fresh})

    @rule(rounds=st.integers(1, 3))
    def train(self, rounds: int) -> None:
        """Rounds; each begins with sessions if products are missing."""
        self.strategy.start(self.grid, self.model, num_rounds=rounds)

    @invariant()
    def products_are_right_or_unknown(self) -> None:
        """What is known stays, and is the product of the two vectors."""
        if not hasattr(self, "strategy"):
            return
        keys = self.strategy._selector.roster.keys
        products = self.strategy._selector.products.matrix(len(keys))
        sites = [int(str(key).split("-")[1]) for key in keys]
        known = ~np.isnan(products)
        expected = self.expected[np.ix_(sites, sites)]
        np.testing.assert_allclose(products[known], expected[known], atol=1e-8)
        assert (known == known.T).all() and not known.diagonal().any()
        before = len(self.known)
        earlier = ~np.isnan(self.known)
        np.testing.assert_array_equal(products[:before, :before][earlier], self.known[earlier])
        self.known = products

    def teardown(self) -> None:
        logging.disable(logging.NOTSET)


COMMON: Any = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "derandomize": True,
    "database": None,
}


def test_a_few_private_graphs() -> None:
    run_machine(settings(max_examples=3, stateful_step_count=8, **COMMON))


@pytest.mark.long
def test_many_private_graphs() -> None:
    run_machine(settings(max_examples=200, stateful_step_count=20, **COMMON))


def run_machine(how: Any) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(Deployment, settings=how)
