"""The edges of table 3: graphs made from local models against the oracle's graph."""

from dataclasses import asdict, dataclass

from fedgs.arrays import FloatMatrix
from fedgs.config import Config
from fedgs.data.federation import Federation
from fedgs.errors import ConfigError
from fedgs.graph import client_features, feature_products
from fedgs.graph.growth import model_similarity
from fedgs.models.base import Model
from fedgs.registry import seed_of
from fedgs.requests import Work
from fedgs.sampling import Wish

__all__ = ["Recovered", "recovered_edges", "similarities"]

_WISHES = (Wish("functional"), Wish("update", sketch=0))


@dataclass(frozen=True)
class Recovered:
    """One graph against one oracle.

    Attributes:
        data: name of the data set, or key of the federation.
        local_steps: E.
        seed: makes federation, theta^0 and batches.
        similarity: "functional" or "update".
        oracle: "raw", "off_diagonal" or "all": the scale of the products that are >= 0.1 on the
            oracle's edges.
        rule: how epsilon is chosen: "grid" (given), "density" (1/3 of the pairs are edges) or
            "histogram" (Otsu's rule). The latter two do not use the oracle.
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


def recovered_edges(config: Config, federation: Federation) -> list[Recovered]:
    """All rows of one federation and one configuration, which gives E and the seed.

    Raises:
        ConfigError: the configuration has no model.
        RunError: a client failed; it is named.
    """
    from fedgs.experiments.similarity import edge_rows

    by_kind = similarities(config, federation)
    products = feature_products(client_features(federation.clients))
    steps, seed = config.training.local_steps, config.seed
    return [
        Recovered(config.data.name, steps, seed, kind, oracle, rule, **asdict(recovery))
        for kind, similarity in by_kind.items()
        for oracle, rule, recovery in edge_rows(similarity, products)
    ]


def similarities(config: Config, federation: Federation) -> dict[str, FloatMatrix]:
    """(N, N) V in [0, 1] of "functional" and "update" (exact cosines) after one local training.

    Raises:
        ConfigError: the configuration has no model.
        RunError: a client failed; it is named.
    """
    from fedgs.experiments.similarity import model_features

    if config.model is None:
        raise ConfigError("model must be given for Table 3, got none")
    assert isinstance(config.model, Model)
    training = config.training
    work = Work(federation, config.model, 0.0, training.local_steps, training.batch_size)
    features = model_features(
        work,
        _WISHES,
        learning_rate=training.learning_rate,
        seed=config.seed,
        data_seed=seed_of(config.data) or 0,
        device=config.execution.device,
    )
    return {
        wish.kind: model_similarity(vectors)
        for wish, vectors in zip(_WISHES, features, strict=True)
    }
