"""Table 3: how well similarities of local models recover the oracle's edges, after one round of local training."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedgs.arrays import FloatMatrix
from fedgs.config import Config
from fedgs.data.federation import Federation
from fedgs.errors import ConfigError
from fedgs.features import feature_request
from fedgs.graph import ClientGraph, client_features, feature_products
from fedgs.graph.files import stored_graph
from fedgs.graph.growth import model_similarity
from fedgs.graph.recovery import (
    EPSILONS,
    ORACLES,
    Recovery,
    epsilon_of_density,
    epsilon_of_histogram,
    oracle_edges,
    recovery,
    recovery_grid,
)
from fedgs.local import make_engine
from fedgs.local.parameters import initial_parameters
from fedgs.requests import Failure, Work
from fedgs.sampling import FedGS, Wish
from fedgs.sampling.graph_source import graph_of_features, private_graph, private_products
from fedgs.simulation import Plan

__all__ = ["Row", "best_rows", "edge_rows", "made_graph", "model_features", "similarities", "table3", "table3_rows"]

TARGET_DENSITY = 1 / 3
WISHES = (Wish("functional"), Wish("update", sketch=0))


@dataclass(frozen=True)
class Row:
    """One graph against one oracle.

    Attributes:
        data, local_steps, seed: what was trained; the seed makes federation, theta^0 and batches.
        similarity: "functional" or "update".
        oracle: "raw", "off_diagonal" or "all": which products are >= 0.1 where the oracle has an edge.
        rule: how epsilon was chosen: "grid" (given), "density" (1/3 of the pairs are edges) or "histogram" (Otsu's rule); the
            latter two do not look at the oracle.
        epsilon, precision, recall, f1, density: see `fedgs.graph.recovery.Recovery`.
    """

    data: str
    local_steps: int
    seed: int
    similarity: str
    oracle: str
    rule: str
    epsilon: float
    precision: float
    recall: float
    f1: float
    density: float

    def table(self) -> dict[str, Any]:
        """The row as a plain dictionary."""
        return asdict(self)


def model_features(
    work: Work, wishes: Sequence[Wish], *, learning_rate: float, seed: int, data_seed: int = 0, device: str = "cpu"
) -> list[FloatMatrix]:
    """(N, d) features for each wish: every client trains once from theta^0, and nothing of it is kept but the features.

    Args:
        work: what is trained, and on which federation.
        wishes: which features.
        learning_rate: eta.
        seed: of theta^0 and batches.
        data_seed: of the noise batch.
        device: where tensors live.

    Raises:
        RunError: a client failed; it is named.
    """
    parameters = initial_parameters(work.model, work.federation, seed)
    engine, _ = make_engine("auto", device=device, work=work)
    request = feature_request(wishes, work, parameters, learning_rate=learning_rate, seed=seed, data_seed=data_seed)
    ((_, reply),) = engine.answer([request])
    if isinstance(reply, Failure):
        raise reply.exception
    return list(reply)


def similarities(
    work: Work, *, learning_rate: float, seed: int, data_seed: int = 0, device: str = "cpu"
) -> dict[str, FloatMatrix]:
    """(N, N) V in [0, 1] of "functional" and "update" (exact cosines), from one round of local training."""
    found = model_features(work, WISHES, learning_rate=learning_rate, seed=seed, data_seed=data_seed, device=device)
    return {wish.kind: model_similarity(features) for wish, features in zip(WISHES, found, strict=True)}


def made_graph(plan: Plan, *, device: str = "cpu") -> tuple[ClientGraph, str | None]:
    """The client graph that a run of the plan would begin with, and what the secure scalar product cost, in words.

    Raises:
        ConfigError: the sampler is not FedGS, or its graph grows with the rounds.
        RunError: a client failed; it is named.
    """
    sampler, clients = plan.sampler, plan.federation.clients
    if not isinstance(sampler, FedGS):
        raise ConfigError(f"a client graph is made for method 'fedgs', got {sampler.name!r}")
    graph = sampler.graph
    if graph.path is not None:
        return stored_graph(graph.path, len(clients)), None
    if graph.start == "seen":
        raise ConfigError("method.graph.start must be 'all' for a graph before round 0, got 'seen'")
    wish = sampler.wish("start")
    if wish is not None:
        settings = {"learning_rate": plan.learning_rate, "seed": plan.seed, "data_seed": plan.data_seed, "device": device}
        return graph_of_features(graph, model_features(plan.work, [wish], **settings)[0]), None  # type: ignore[arg-type]
    if graph.similarity == "private":
        result = private_products(graph, clients)
        seconds = ", ".join(f"{role} {value:.2f} s" for role, value in result.cost.seconds.items())
        cost = f"{result.cost.exchanges} exchanges, {result.cost.messages} messages, {result.cost.bytes} bytes; {seconds}"
        return private_graph(graph, clients, result), cost
    return graph.of_clients(clients), None


def edge_rows(
    similarity: FloatMatrix,
    products: FloatMatrix,
    *,
    epsilons: Sequence[float] = EPSILONS,
    target_density: float = TARGET_DENSITY,
    oracle_epsilon: float = 0.1,
) -> Iterator[tuple[str, str, Recovery]]:
    """(oracle, rule, recovery) for every oracle and every way to choose epsilon.

    Args:
        similarity: (N, N) V of the graph that is judged.
        products: (N, N) raw products u_i·u_j of the oracle's features.
        epsilons: the grid.
        target_density: of the rule "density".
        oracle_epsilon: the oracle's own threshold.

    >>> import numpy as np
    >>> truth = np.array([[0.5, 0.4, 0.0], [0.4, 0.5, 0.0], [0.0, 0.0, 0.5]])
    >>> rows = list(edge_rows(np.array([[1.0, 0.9, 0.2], [0.9, 1.0, 0.1], [0.2, 0.1, 1.0]]), truth, epsilons=(0.5,)))
    >>> [(oracle, rule, row.f1) for oracle, rule, row in rows[:3]]
    [('raw', 'grid', 1.0), ('raw', 'density', 1.0), ('raw', 'histogram', 1.0)]
    """
    rules = {"density": epsilon_of_density(similarity, target_density), "histogram": epsilon_of_histogram(similarity)}
    for variant in ORACLES:
        oracle = oracle_edges(products, variant, epsilon=oracle_epsilon)
        for row in recovery_grid(similarity, oracle, epsilons):
            yield variant, "grid", row
        for rule, epsilon in rules.items():
            yield variant, rule, recovery(similarity, oracle, epsilon=epsilon)


def table3_rows(config: Config, federation: Federation, *, local_steps: int, device: str = "cpu") -> list[Row]:
    """All rows of one federation, one number of local steps and one seed (the configuration's)."""
    if config.model is None:
        raise ConfigError("model must be given for Table 3, got none")
    training = config.training
    work = Work(federation, config.model, 0.0, local_steps, training.batch_size)  # type: ignore[arg-type]
    data_seed = getattr(config.data, "seed", 0)
    found = similarities(work, learning_rate=training.learning_rate, seed=config.seed, data_seed=data_seed, device=device)
    products = feature_products(client_features(federation.clients))
    return [
        Row(config.data.name, local_steps, config.seed, kind, oracle, rule, **asdict(row))
        for kind, similarity in found.items()
        for oracle, rule, row in edge_rows(similarity, products)
    ]


def table3(
    *,
    data: Iterable[str] = ("cifar10", "fashion_mnist"),
    local_steps: Iterable[int] = (10, 50, 100),
    seeds: Iterable[int] = (0, 1, 2),
    data_dir: Path | None = None,
    device: str = "cpu",
) -> Iterator[tuple[list[Row], float]]:
    """Rows and seconds, one federation, number of local steps and seed after another (so that a caller can keep what there is).

    A seed makes the federation, theta^0 and the batches.
    """
    for steps in local_steps:
        for seed in seeds:
            for name in data:
                tables: dict[str, Any] = {"data": {"name": name, "seed": seed}, "availability": "IDL", "method": "fedgs"}
                config = Config(**tables, seed=seed)
                federation = config.data.load(data_dir)  # type: ignore[attr-defined]
                started = time.perf_counter()
                rows = table3_rows(config, federation, local_steps=steps, device=device)
                yield rows, time.perf_counter() - started


def best_rows(rows: Iterable[Row], *, rule: str = "grid") -> list[Row]:
    """For each (data, local_steps, seed, similarity, oracle) one rule's row of best F1; "grid" thereby looks at the oracle."""
    best: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = (row.data, row.local_steps, row.seed, row.similarity, row.oracle)
        if row.rule == rule and (key not in best or row.f1 > best[key].f1):
            best[key] = row
    return list(best.values())
