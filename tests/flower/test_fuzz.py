"""Nodes that come, go, lie and return twice: no exception escapes, and no average is wrong."""

import logging
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, MetricRecord
from flwr.serverapp.strategy import FedAvg
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.flower.conftest import _make_world

from fedgs.errors import RunError
from fedgs.flower import SampledStrategy, training
from fedgs.flower.spool import LIMIT

NODES = 6


def with_arrays(**arrays: Any) -> Any:
    """A fault: other arrays in place of the model."""

    def changed(reply: Any) -> Any:
        record = ArrayRecord({name: Array(np.asarray(array)) for name, array in arrays.items()})
        reply.content["arrays"] = record
        return reply

    return changed


def with_bytes(data: bytes, stype: str = "numpy.ndarray") -> Any:
    """A fault: an array of the model's shape with other bytes."""

    def changed(reply: Any) -> Any:
        array = Array(dtype="float32", shape=(2,), stype=stype, data=data)
        reply.content["arrays"] = ArrayRecord({"w": array})
        return reply

    return changed


def with_metrics(**metrics: Any) -> Any:
    """A fault: other metrics."""

    def changed(reply: Any) -> Any:
        named = {name.replace("num_", "num-"): value for name, value in metrics.items()}
        reply.content["metrics"] = MetricRecord(named)
        return reply

    return changed


def emptied(reply: Any) -> Any:
    for name in list(reply.content):
        del reply.content[name]
    return reply


def doubled(reply: Any) -> Any:
    reply.content["more"] = reply.content["arrays"]
    return reply


# What a reply can be; those of `GOOD` have to enter the average, and no other one may.
FAULTS: dict[str, Any] = {
    "none": None,
    "silent": "silent",
    "superlink": "error",
    "raises": "raise",
    "nan": with_arrays(w=np.array([np.nan, 1.0], dtype=np.float32)),
    "inf": with_arrays(w=np.array([np.inf, 1.0], dtype=np.float32)),
    "shape": with_arrays(w=np.zeros(3, dtype=np.float32)),
    "scalar": with_arrays(w=np.float32(1.0)),
    "other name": with_arrays(v=np.zeros(2, dtype=np.float32)),
    "no arrays": with_arrays(),
    "float64": with_arrays(w=np.array([2.0, 3.0])),
    "float16": with_arrays(w=np.array([2.0, 3.0], dtype=np.float16)),
    "integers": with_arrays(w=np.array([2, 3])),
    "text": with_arrays(w=np.array(["a", "b"])),
    "huge": with_arrays(w=np.full(2, 3e38, dtype=np.float32)),
    "complex": with_arrays(w=np.array([1j, 2.0])),
    "booleans": with_arrays(w=np.array([True, False])),
    "no bytes": with_bytes(b""),
    "no format": with_bytes(b"\x93NUMPY\x01\x00\x06\x00{(((\n\n"),
    "archive": with_bytes(b"PK\x03\x04" + bytes(30)),
    "foreign": with_bytes(bytes(8), "torch"),
    "no metrics": with_metrics(),
    "no examples": with_metrics(num_examples=0, train_loss=0.0),
    "negative": with_metrics(num_examples=-5, train_loss=0.0),
    "nan examples": with_metrics(num_examples=float("nan"), train_loss=0.0),
    "listed examples": with_metrics(num_examples=[1, 2], train_loss=0.0),
    "grown": with_metrics(num_examples=10**9, train_loss=0.0),
    "infinite loss": with_metrics(num_examples=5, train_loss=float("inf")),
    "other metrics": with_metrics(num_examples=5, loss=0.0),
    "empty": emptied,
    "two models": doubled,
}
NEVER = {"silent", "superlink", "raises", "nan", "inf", "shape", "scalar", "other name"}
NEVER |= {"no arrays", "text", "no metrics", "no examples", "negative", "nan examples"}
NEVER |= {
    "no bytes",
    "no format",
    "archive",
    "foreign",
    "listed examples",
    "empty",
    "two models",
    "complex",
}
SAMPLERS: list[dict[str, Any]] = [
    *({"name": name} for name in ("uniform", "fedgs", "md", "oort", "least_recent")),
    {"name": "clustered"},
    {"name": "clustered", "measure": "l2", "sketch": 1},
    {"name": "divfl"},
    {"name": "divfl", "first_updates": "first_contact", "distance": "squared"},
    {"name": "fedgs", "graph": {"similarity": "update"}},
    {"name": "fedgs", "graph": {"similarity": "update", "start": "seen"}},
]
# What an evaluation can report; none of these losses may enter the validation loss.
LIES: dict[str, Any] = {
    "none": None,
    "nan": with_metrics(num_examples=10, eval_loss=float("nan")),
    "inf": with_metrics(num_examples=10, eval_loss=float("inf")),
    "listed": with_metrics(num_examples=10, eval_loss=[1.0, 2.0]),
    "no loss": with_metrics(num_examples=10, eval_acc=0.5),
    "no examples": with_metrics(num_examples=0, eval_loss=1e9),
    "negative": with_metrics(num_examples=-10, eval_loss=1e9),
    "nan examples": with_metrics(num_examples=float("nan"), eval_loss=1e9),
    "no metrics": with_metrics(),
    "empty": emptied,
}


def trained(fault: str, number: int, sent: np.ndarray) -> tuple[np.ndarray, float]:
    """The local model and the number of examples that a valid reply of client `number` has."""
    local = sent.astype(np.float64) + np.array([number + 1, 0])
    if fault in ("float64", "float16", "integers"):
        local = np.array([2.0, 3.0])
    elif fault == "booleans":
        local = np.array([1.0, 0.0])
    elif fault == "huge":
        local = np.full(2, 3e38)
    examples = {"grown": 10**9, "infinite loss": 5, "other metrics": 5}
    return local, float(examples.get(fault, 10 * (number + 1)))


class Noting(FedAvg):
    """Notes what it averages."""

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        replies = list(replies)
        self.noted = [
            (reply.content["arrays"]["w"].numpy(), reply.content["metrics"]["num-examples"])
            for reply in replies
        ]
        return super().aggregate_train(server_round, replies)


class Deployment(RuleBasedStateMachine):
    """One strategy over many starts; between them nodes change."""

    @initialize(
        sampler=st.sampled_from(SAMPLERS),
        weighting=st.sampled_from(["data_size", "equal", "all", "fedau"]),
        enough=st.sampled_from([None, 2]),
        limit=st.sampled_from([LIMIT, 0]),
        evaluates=st.booleans(),
    )
    def begin(
        self,
        sampler: dict[str, Any],
        weighting: str,
        enough: int | None,
        limit: int,
        evaluates: bool,
    ) -> None:
        logging.disable(logging.CRITICAL)
        training.LIMIT = limit  # of the replies in memory
        self.grid = _make_world()([f"site-{k}" for k in range(NODES)])
        self.inner = Noting(fraction_evaluate=float(evaluates))
        self.weighting = None if sampler["name"] == "md" else weighting
        method = dict(sampler)
        if self.weighting is not None:
            method["weighting"] = weighting
        self.strategy = SampledStrategy(
            self.inner,
            method,
            cohort_limit=3,
            min_connected=0,
            sufficient_replies=enough,
            connect_timeout=0.02,
            describe_timeout=0.02,
            reply_timeout=0.02,
            evaluate_timeout=0.02,
            max_idle_rounds=None,
        )
        self.model = np.zeros(2, dtype=np.float32)
        self.faults = dict.fromkeys(range(100, 100 + NODES), "none")
        self.nodes = itertools_from(1000)

    @rule(node=st.integers(0, NODES - 1), fault=st.sampled_from(sorted(FAULTS)))
    def misbehave(self, node: int, fault: str) -> None:
        """A site answers in another way from now on."""
        ids = sorted(node for node in self.grid.keys if node in self.faults)
        chosen = ids[node % len(ids)]
        self.faults[chosen] = fault
        self.grid.faults[chosen] = FAULTS[fault]

    @rule(faults=st.lists(st.sampled_from(sorted(FAULTS)), min_size=NODES, max_size=NODES))
    def all_misbehave(self, faults: list[str]) -> None:
        """Every site answers in another way from now on."""
        for node, fault in enumerate(faults):
            self.misbehave(node, fault)

    @rule(node=st.integers(0, NODES - 1), lie=st.sampled_from(sorted(LIES)))
    def lie(self, node: int, lie: str) -> None:
        """A site reports something else of its evaluation from now on."""
        ids = sorted(self.grid.keys)
        self.grid.lies[ids[node % len(ids)]] = LIES[lie]

    @rule(node=st.integers(0, NODES - 1))
    def leave_or_return(self, node: int) -> None:
        """A site goes off line, or comes back under its node id."""
        ids = sorted(self.grid.keys)
        online = set(ids if self.grid.online is None else self.grid.online)
        online ^= {ids[node % len(ids)]}
        self.grid.online = sorted(online)

    @rule(node=st.integers(0, NODES - 1), both=st.booleans())
    def restart(self, node: int, both: bool) -> None:
        """A site returns under another node id, perhaps while the first one is still listed."""
        ids = sorted(self.grid.keys)
        old, new = ids[node % len(ids)], next(self.nodes)
        self.grid.keys[new] = self.grid.keys[old]
        self.faults[new] = "none"
        online = set(ids if self.grid.online is None else self.grid.online) | {new}
        self.grid.online = sorted(online)
        self.grid.faults[old], self.faults[old] = "silent", "silent"
        if not both:
            self.grid.online.remove(old) if old in self.grid.online else None
            del self.grid.keys[old], self.faults[old]

    @rule(rounds=st.integers(1, 2))
    def train(self, rounds: int) -> None:
        """Rounds, each checked against what was averaged."""
        start = ArrayRecord({"w": Array(self.model)})
        for _ in range(rounds):
            before, selected = self.strategy.answers, self.strategy.counts
            self.inner.noted = []
            # Inner is copied by the strategy; the copy notes.
            copy = self.strategy._inner.strategy
            copy.noted = []
            try:
                with np.errstate(all="ignore"):
                    result = self.strategy.start(self.grid, start, num_rounds=1)
            except RunError as error:
                self.end_twins(error)
                return
            sent, start = self.model, result.arrays
            self.model = start["w"].numpy()
            self.check(before, selected, copy.noted)
            self.check_average(sent)
            for metrics in result.evaluate_metrics_clientapp.values():
                # Where most clients report no loss, or a list, there is none.
                loss = metrics.get("eval_loss", 0)
                assert isinstance(loss, list) or 0 <= loss <= NODES - 1

    def end_twins(self, error: RunError) -> None:
        """Two live nodes may not hold one key; the older ones leave."""
        assert "is held by two live nodes" in str(error)
        newest = {self.grid.keys[node]: node for node in sorted(self.grid.keys)}
        older = self.grid.keys.keys() - set(newest.values())
        assert older & set(self.grid.get_node_ids())
        for node in older:
            del self.grid.keys[node], self.faults[node]
        if self.grid.online is not None:
            self.grid.online = [node for node in self.grid.online if node in self.grid.keys]

    def check(self, before: dict[Any, int], selected: dict[Any, int], noted: list[Any]) -> None:
        """The average is one of valid replies alone, and the counts agree with it."""
        after = self.strategy.answers
        entered = {key for key in after if after[key] > before.get(key, 0)}
        counts = self.strategy.counts
        rises = {key: counts[key] - selected[key] for key in selected}  # newcomers begin anywhere
        assert set(rises.values()) <= {0, 1} and sum(rises.values()) <= 3
        assert all(rises[key] == 1 for key in entered & rises.keys())
        rows = {key: row for row, key in enumerate(after)}
        assert not {self.faults[self.node_of(rows[key])] for key in entered} & NEVER
        assert len(entered) in (0, len(noted))
        assert self.model.shape == (2,) and np.isfinite(self.model).all()
        assert self.model.dtype == np.float32

    def node_of(self, row: int) -> int:
        """The node that a client was asked at in this round."""
        node: int = self.strategy._training._nodes[row]
        return node

    def check_average(self, sent: np.ndarray) -> None:
        """The model is theta + sum of w_k Delta_k, with the weights that the weighting states."""
        now = self.strategy._training.now
        if not now.averaged:
            np.testing.assert_array_equal(self.model, sent)
            return
        rows, weights = now.outcome.clients.tolist(), now.outcome.weights
        nodes = [self.node_of(row) for row in rows]
        numbers = [int(self.grid.keys[node].split("-")[1]) for node in nodes]
        replies = [
            trained(self.faults[node], number, sent)
            for node, number in zip(nodes, numbers, strict=True)
        ]
        local, examples = map(np.array, zip(*replies, strict=True))
        if self.weighting in ("data_size", "equal"):
            shares = examples if self.weighting == "data_size" else np.ones(len(rows))
            np.testing.assert_allclose(weights, shares / shares.sum(), rtol=1e-6)
        largest = max(np.abs(local).max(), np.abs(sent).max(), 1.0)
        if largest < 1e30:  # beyond it float32 overflows
            expected = sent + weights @ (local - sent)
            np.testing.assert_allclose(self.model, expected, rtol=1e-5, atol=1e-5 * largest)

    @invariant()
    def counts_are_consistent(self) -> None:
        """Selections and answers fit to each other and to the rounds done."""
        if not hasattr(self, "strategy"):
            return
        roster = self.strategy._selector.roster
        assert len(set(map(str, roster.keys))) == len(roster)
        # A node is known by its id until it says which client it is.
        assert sum(key.startswith("site-") for key in roster.keys) <= NODES
        assert (roster.answers >= 0).all() and (roster.failures >= 0).all()
        assert int(roster.answers.sum()) <= 3 * self.strategy.round
        assert (roster.answers <= self.strategy.round).all()
        assert (np.isnan(roster.sizes) | (roster.sizes > 0)).all()
        for name, array in self.strategy._selector.state.memory.items():
            assert not np.isnan(array).any(), name

    def teardown(self) -> None:
        logging.disable(logging.NOTSET)
        training.LIMIT = LIMIT


def itertools_from(first: int) -> Any:
    while True:
        yield first
        first += 1


@pytest.mark.parametrize("weighting", ["data_size", "all"])
@pytest.mark.parametrize("everyone", [False, True])
def test_no_fault_ends_a_deployment(world: Any, everyone: bool, weighting: str) -> None:
    """Each fault alone, of one client of three and of all."""
    for name, fault in FAULTS.items():
        grid = world(["site-0", "site-1", "site-2"])
        for node in (100, 101, 102) if everyone else (100,):
            grid.faults[node] = fault
        chosen = SampledStrategy(
            FedAvg(fraction_evaluate=0.0),
            {"name": "uniform", "weighting": weighting},
            cohort_limit=3,
            min_connected=0,
            connect_timeout=0.01,
            describe_timeout=0.01,
            reply_timeout=0.01,
            max_idle_rounds=None,
        )
        with np.errstate(all="ignore"):
            result = chosen.start(grid, world.model(), num_rounds=1)
        model = result.arrays["w"].numpy()
        assert model.dtype == np.float32 and np.isfinite(model).all(), name
        answers = chosen.answers
        others = sum(answers.get(f"site-{k}", 0) for k in (1, 2))
        assert others == (2 if not everyone else others), name
        if name in NEVER:
            assert not any(answers.values() if everyone else [answers.get("site-0", 0)]), name


COMMON: Any = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "derandomize": True,
    "database": None,
}


def test_a_few_deployments() -> None:
    machine = settings(max_examples=3, stateful_step_count=8, **COMMON)
    run_machine(machine)


@pytest.mark.long
def test_many_deployments() -> None:
    run_machine(settings(max_examples=300, stateful_step_count=20, **COMMON))


def run_machine(how: Any) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(Deployment, settings=how)
