"""The client graph of a deployment, from clients' descriptions or from their replies.

It grows as descriptions and replies arrive.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from fedgs import rng
from fedgs.arrays import AnyArray, FloatArray, FloatMatrix
from fedgs.clients import Memory
from fedgs.errors import ConfigError
from fedgs.flower.private.products import check_private
from fedgs.graph import Graph, cosines, feature_products
from fedgs.graph.landmark_building import uses_landmarks
from fedgs.sampling.graph_source import graph_source
from fedgs.sampling.growing_landmarks import landmarks_of_known, no_client_known

__all__ = [
    "Parameters",
    "Responses",
    "checked_parameters",
    "distances",
    "graph_memory",
    "graph_of",
    "is_parameter",
    "parameter_names",
    "reply_feature",
]

Responses = Callable[[Mapping[str, AnyArray]], FloatArray]
Parameters = Sequence[str] | Callable[[str], bool]

# The running statistics of PyTorch's norm layers, which a state_dict holds beside the parameters.
_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")

# Longer updates are kept as sketches of this length; a cosine is then off by about 1/sqrt(4096) =
# 0.016.
_LONGEST, _SKETCH, _BLOCK = 65536, 4096, 1 << 20


def graph_of(sampler: object, responses: Responses | None) -> Graph | None:
    """The settings of the graph that a sampler selects on.

    None if the sampler uses no graph or reads it from a file.

    Raises:
        ConfigError: `private` similarities with a setting that they do not have in a deployment, or
            `functional` ones without a function that gives a model's responses.
    """
    graph = getattr(sampler, "graph", None)
    if not isinstance(graph, Graph) or graph_source(graph) == "file":
        return None
    if graph.similarity == "private":
        check_private(graph)
        return graph
    if graph.similarity == "functional" and responses is None:
        raise ConfigError(
            "method.graph.similarity = 'functional' needs SampledStrategy(responses=...), got None"
        )
    return graph


def distances(graph: Graph, features: Mapping[int, FloatArray], num_clients: int) -> FloatMatrix:
    """(N, N) H, the distances of the graph over the clients whose feature is known.

    All other distances are the largest of these, 1 if there is none.

    Args:
        graph: settings; "oracle" takes products of features, "update" and "functional" their
            cosines (negative ones count as 0).
        features: row -> feature.
        num_clients: N.

    >>> distances(Graph(), {0: np.array([1.0, 0.0]), 2: np.array([0.0, 1.0])}, 3)
    array([[0., 1., 1.],
           [1., 0., 1.],
           [1., 1., 0.]])
    """
    known = np.array(sorted(features), dtype=np.int64)
    block = np.zeros((len(known), len(known)))
    if len(known) > 1:
        products = feature_products(np.stack([features[row] for row in known.tolist()]))
        if graph.similarity == "oracle":
            block = graph.of_products(products).distance
        else:
            block = graph.of_similarity(np.maximum(cosines(products), 0.0)).distance
    largest = float(block.max(initial=0.0)) or 1.0
    distance = np.full((num_clients, num_clients), largest)
    distance[np.ix_(known, known)] = block
    np.fill_diagonal(distance, 0.0)
    return distance


def graph_memory(
    graph: Graph, features: Mapping[int, FloatArray], num_clients: int, earlier: Memory
) -> Memory:
    """FedGS's memory of the graph over the clients whose feature is known.

    It holds `distances` under "distance", or landmarks where `graph.structure` says so: see
    `fedgs.graph.landmark_building.uses_landmarks`.

    Args:
        graph: settings.
        features: row -> feature.
        num_clients: N.
        earlier: the memory of fewer clients or features; {}: there is none.

    >>> graph_memory(Graph(), {0: np.ones(1)}, 2, {})["distance"].tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    >>> memory = graph_memory(Graph(structure="landmarks"), {0: np.ones(1)}, 2, {})
    >>> memory["landmarks"].tolist(), memory["pendant"].tolist()
    ([0], [0.0, inf])
    """
    known = np.array(sorted(features), dtype=np.int64)
    rows = np.stack([features[row] for row in known.tolist()]) if len(known) else None
    oracle = graph.similarity == "oracle"
    coordinates = rows.shape[1] if rows is not None and oracle else None
    if not uses_landmarks(graph, num_clients, coordinates):
        return {"distance": distances(graph, features, num_clients)}
    memory = no_client_known(num_clients)
    if rows is None:
        return memory
    quality = {name: earlier[name] for name in ("quality", "measured") if name in earlier}
    return landmarks_of_known(
        graph, {**memory, **quality}, known, rows, of="clients" if oracle else "models"
    )


def checked_parameters(parameters: Parameters | None) -> Parameters | None:
    """The `parameters` of a strategy: a list of names, or a function of a name.

    Raises:
        ConfigError: it is neither.

    >>> checked_parameters(("weight", "bias"))
    ['weight', 'bias']
    """
    if parameters is None or callable(parameters):
        return parameters
    if isinstance(parameters, Iterable) and not isinstance(parameters, str | bytes):
        names = list(parameters)
        if all(isinstance(name, str) for name in names):
            return names
    raise ConfigError(
        "SampledStrategy(parameters=...) must be names of arrays or a function of a name, "
        f"got {parameters!r}"
    )


def parameter_names(
    model: Mapping[str, AnyArray], parameters: Parameters | None = None
) -> list[str]:
    """The arrays of a model whose change is the model update, sorted by name.

    Args:
        model: arrays by name, such as a state_dict.
        parameters: their names, or a function of a name. None: all arrays of floating-point numbers
            except those whose name ends in running_mean, running_var or num_batches_tracked.

    Raises:
        ConfigError: a name that the model does not have, an array of other numbers, or no array at
            all.

    >>> model = {"bn.weight": np.ones(2), "bn.running_mean": np.zeros(2), "steps": np.array(3)}
    >>> parameter_names(model)
    ['bn.weight']
    """
    floating = [name for name in sorted(model) if np.issubdtype(model[name].dtype, np.floating)]
    if parameters is None:
        names = [name for name in floating if is_parameter(name, model[name])]
    elif callable(parameters):
        names = [name for name in floating if parameters(name)]
    else:
        names = sorted(set(parameters))
        wrong = [name for name in names if name not in floating]
        if wrong:
            known = ", ".join(repr(name) for name in floating) or "none"
            raise ConfigError(
                f"SampledStrategy(parameters=...) must name floating-point arrays of the model "
                f"({known}), got {wrong[0]!r}"
            )
    if not names:
        default, chosen = "the model has none", "SampledStrategy(parameters=...) chooses none"
        raise ConfigError(
            "a client graph of model updates needs at least one floating-point parameter, and "
            f"{default if parameters is None else chosen}"
        )
    return names


def is_parameter(name: str, array: AnyArray) -> bool:
    """Whether an array of a model holds floating-point numbers that are no running statistics.

    >>> is_parameter("bn.weight", np.ones(2)), is_parameter("bn.running_var", np.ones(2))
    (True, False)
    """
    floating = np.issubdtype(array.dtype, np.floating)
    return bool(floating) and name.rpartition(".")[2] not in _STATISTICS


def reply_feature(
    graph: Graph,
    *,
    sent: Mapping[str, AnyArray],
    local: Mapping[str, AnyArray],
    responses: Responses | None,
    parameters: Parameters | None = None,
) -> FloatArray:
    """The feature in a client's reply: its model update, or its model's mean response.

    Args:
        graph: its `similarity` says which of the two.
        sent: the global model by name.
        local: the local model by name.
        responses: local model -> (d,) its mean output on a noise batch, for "functional".
        parameters: which arrays the update consists of, see `parameter_names`.
    """
    if graph.similarity == "functional":
        assert responses is not None
        return np.asarray(responses(local), dtype=np.float64).ravel()
    names = parameter_names(sent, parameters)
    changes = [local[name].astype(np.float64) - sent[name].astype(np.float64) for name in names]
    return _sketch(np.concatenate([change.ravel() for change in changes]))


def _sketch(update: FloatArray) -> FloatArray:
    """A long update as a count sketch: each entry, with a random sign, adds to a random sum."""
    if len(update) <= _LONGEST:
        return update
    sums = np.zeros(_SKETCH)
    for block, start in enumerate(range(0, len(update), _BLOCK)):
        part = update[start : start + _BLOCK]
        generator = rng.stream(0, "flower-sketch", block)
        place = generator.integers(_SKETCH, size=_BLOCK)[: len(part)]
        sign = generator.integers(2, size=_BLOCK)[: len(part)] * 2 - 1
        sums += np.bincount(place, weights=sign * part, minlength=_SKETCH)
    return sums
