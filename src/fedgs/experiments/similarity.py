"""The client graph that a run begins with, and how well it recovers the oracle's edges."""

from collections.abc import Iterator, Sequence

from fedgs.arrays import FloatMatrix
from fedgs.errors import ConfigError
from fedgs.features import feature_request
from fedgs.graph import ClientGraph
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
from fedgs.local.engines import make_engine
from fedgs.local.parameters import initial_parameters
from fedgs.plan import Plan
from fedgs.requests import Failure, Work
from fedgs.sampling import FedGS, Wish
from fedgs.sampling.graph_source import graph_before_round_0, graph_source, private_products
from fedgs.sampling.landmarks import has_landmarks

__all__ = ["edge_rows", "made_graph", "model_features"]

TARGET_DENSITY = 1 / 3


def model_features(
    work: Work,
    wishes: Sequence[Wish],
    *,
    learning_rate: float,
    seed: int,
    data_seed: int = 0,
    device: str = "cpu",
) -> list[FloatMatrix]:
    """(N, d) features for each wish, after one local training of every client from theta^0.

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
    request = feature_request(
        wishes, work, parameters, learning_rate=learning_rate, seed=seed, data_seed=data_seed
    )
    ((_, reply),) = engine.answer([request])
    if isinstance(reply, Failure):
        raise reply.exception
    return list(reply)


def made_graph(plan: Plan, *, device: str = "cpu") -> tuple[ClientGraph, str | None]:
    """The client graph that a run of the plan begins with.

    Args:
        plan: a run with FedGS.
        device: where tensors live.

    Returns:
        The graph, and the cost in words; None if no secure scalar product was computed.

    Raises:
        ConfigError: the sampler is not FedGS, or its graph grows with the rounds or has landmarks.
        RunError: a client failed; it is named.
    """
    sampler, clients = plan.sampler, plan.federation.clients
    if not isinstance(sampler, FedGS):
        raise ConfigError(f"a client graph is made for method 'fedgs', got {sampler.name!r}")
    if has_landmarks(sampler.graph, clients):
        raise ConfigError(
            "the graph of all pairs is shown for method.graph.structure = 'dense', and for 'auto' "
            f"up to 10000 clients; got {sampler.graph.structure!r} and {len(clients)} clients"
        )
    graph, wish, features = sampler.graph, sampler.wish("start"), None
    if wish is not None:
        (features,) = model_features(
            plan.work,
            [wish],
            learning_rate=plan.learning_rate_of(0),
            seed=plan.seed,
            data_seed=plan.data_seed,
            device=device,
        )
    made = graph_before_round_0(graph, clients, features=features)
    if made is None:
        raise ConfigError("method.graph.start must be 'all' for a graph before round 0, got 'seen'")
    if graph_source(graph) != "secure_product":
        return made, None
    cost = private_products(graph, clients).cost
    seconds = ", ".join(f"{role} {value:.2f} s" for role, value in cost.seconds.items())
    return (
        made,
        f"{cost.exchanges} exchanges, {cost.messages} messages, {cost.bytes} bytes; {seconds}",
    )


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
        similarity: (N, N) V of the graph that is evaluated.
        products: (N, N) raw products u_i·u_j of the oracle's features.
        epsilons: the grid.
        target_density: of the rule "density".
        oracle_epsilon: the oracle's own threshold.

    >>> import numpy as np
    >>> truth = np.array([[0.5, 0.4, 0.0], [0.4, 0.5, 0.0], [0.0, 0.0, 0.5]])
    >>> similarity = np.array([[1.0, 0.9, 0.2], [0.9, 1.0, 0.1], [0.2, 0.1, 1.0]])
    >>> rows = list(edge_rows(similarity, truth, epsilons=(0.5,)))
    >>> [(oracle, rule, row.f1) for oracle, rule, row in rows[:3]]
    [('raw', 'grid', 1.0), ('raw', 'density', 1.0), ('raw', 'histogram', 1.0)]
    """
    rules = {
        "density": epsilon_of_density(similarity, target_density),
        "histogram": epsilon_of_histogram(similarity),
    }
    for variant in ORACLES:
        oracle = oracle_edges(products, variant, epsilon=oracle_epsilon)
        for row in recovery_grid(similarity, oracle, epsilons):
            yield variant, "grid", row
        for rule, epsilon in rules.items():
            yield variant, rule, recovery(similarity, oracle, epsilon=epsilon)
