"""Features of clients in a deployment, and the client graph that is made of them.

Clients describe themselves, or their features are read off the models in their replies. The graph
grows as descriptions and replies arrive.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import numpy as np

from fedgs.arrays import AnyArray, FloatArray, FloatMatrix
from fedgs.clients import Memory
from fedgs.errors import ConfigError, user_code
from fedgs.flower.private.products import check_private
from fedgs.graph import Graph, cosines, feature_products
from fedgs.graph.landmark_building import uses_landmarks
from fedgs.sampling import DivFL, FedGS, LearnsFromModels, Remembers, Sampler, Wish
from fedgs.sampling.base import checked_wish
from fedgs.sampling.graph_source import graph_source, graph_wish
from fedgs.sampling.growing_landmarks import landmarks_of_known, no_client_known
from fedgs.sketches import count_sketch

__all__ = [
    "Parameters",
    "Responses",
    "checked_parameters",
    "distances",
    "feature_wish",
    "graph_memory",
    "graph_of",
    "is_parameter",
    "parameter_names",
    "reply_feature",
    "update_length",
]

Responses = Callable[[Mapping[str, AnyArray]], FloatArray]
Parameters = Sequence[str] | Callable[[str], bool]

# The running statistics of PyTorch's norm layers, which a state_dict holds beside the parameters.
_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")

# Settings of the noise batch, which the user's function holds in a deployment.
_OF_NOISE = ("noise_samples", "noise_examples", "covariance", "layer")


def graph_of(sampler: Sampler) -> Graph | None:
    """The settings of the graph that is made here for a sampler.

    None if the sampler uses no graph, reads it from a file, or makes it itself of the features of
    its cohorts.

    Raises:
        ConfigError: settings that a deployment does not have.
    """
    graph = getattr(sampler, "graph", None)
    if not isinstance(graph, Graph) or graph_source(graph) == "file":
        return None
    if graph.similarity == "private":
        check_private(graph)
    elif graph.similarity == "functional":
        _refuse_noise("method.graph", graph, Graph())
    if _wish(sampler, "round") is not None:
        return None
    own = (
        getattr(type(sampler), name) is not getattr(FedGS, name) for name in ("start", "observe")
    )
    if isinstance(sampler, Remembers) and any(own):
        raise ConfigError(
            f"{_title(sampler)} has a memory of its own, and a deployment makes the memory of a "
            "sampler with a graph; leave start and observe out, or use graph.similarity = 'update' "
            "with graph.start = 'seen'"
        )
    return graph


def feature_wish(sampler: Sampler, graph: Graph | None, responses: Responses | None) -> Wish | None:
    """The feature that is read off the models in replies; None: there is none.

    Where a simulation trains all clients before round 0 for a graph, a deployment takes the feature
    of each client's first reply.

    Args:
        sampler: of the deployment.
        graph: the one that is made for it here, see `graph_of`.
        responses: the user's function, for functional features.

    Raises:
        ConfigError: features of all clients before round 0 for anything but a graph, or functional
            ones without a function that gives a model's responses.

    >>> from fedgs.sampling import FedGS
    >>> sampler = FedGS(graph=Graph(similarity="update", sketch=64))
    >>> feature_wish(sampler, graph_of(sampler), None).sketch
    64
    """
    wish = None
    if graph is not None:
        wish = graph_wish(graph)
    else:
        wish = _wish(sampler, "round")
        if _wish(sampler, "start") is not None:
            advice = "use a method that reads the features of each cohort"
            if isinstance(sampler, DivFL):
                advice = "use method.first_updates = 'zeros' or 'first_contact'"
            raise ConfigError(
                f"{_title(sampler)} needs features of all clients before round 0, and the clients "
                f"of a deployment join at any time; {advice}"
            )
    if wish is not None and wish.kind == "functional" and responses is None:
        is_graph = hasattr(sampler, "graph")
        what = "method.graph.similarity = 'functional'" if is_graph else _title(sampler)
        raise ConfigError(f"{what} needs SampledStrategy(responses=...), got None")
    if wish is not None and wish.kind == "functional":
        _refuse_noise("Wish", wish, Wish("functional"))
    return wish


def _title(sampler: Sampler) -> str:
    return f"method {sampler.name or type(sampler).__name__!r}"


def _wish(sampler: Sampler, when: Literal["start", "round"]) -> Wish | None:
    return checked_wish(sampler.wish(when)) if isinstance(sampler, LearnsFromModels) else None


def _refuse_noise(owner: str, settings: Graph | Wish, default: Graph | Wish) -> None:
    for name in _OF_NOISE:
        if getattr(settings, name) != getattr(default, name):
            raise ConfigError(
                f"{owner}.{name} has no effect in a deployment, where "
                "SampledStrategy(responses=...) gives the responses; leave it out"
            )


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
            "model updates need at least one floating-point parameter, and "
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
    wish: Wish,
    *,
    sent: Mapping[str, AnyArray],
    local: Mapping[str, AnyArray],
    responses: Responses | None,
    parameters: Parameters | None = None,
) -> FloatArray:
    """The feature in a client's reply: its model update, or its model's mean response.

    Args:
        wish: which of the two, and the length of the sketch of a long update.
        sent: the model that the client started from, by name.
        local: its model after training, by name.
        responses: of "functional" features.
        parameters: which arrays the update consists of, see `parameter_names`.

    >>> model = {"w": np.zeros(2)}
    >>> reply_feature(Wish("update"), sent=model, local={"w": np.array([3.0, 4.0])}, responses=None)
    array([3., 4.])
    """
    if wish.kind == "functional":
        assert responses is not None
        with user_code("SampledStrategy(responses=...)"):
            return np.asarray(responses(local), dtype=np.float64).ravel()
    counted = set(parameter_names(sent, parameters))
    # In the order of the model, as in a simulation: a sketch depends on it.
    names = [name for name in sent if name in counted]
    changes = [local[name].astype(np.float64) - sent[name].astype(np.float64) for name in names]
    update = np.concatenate([change.ravel() for change in changes])
    return count_sketch(update, wish.sketch) if 0 < wish.sketch < len(update) else update


def update_length(
    wish: Wish, model: Mapping[str, AnyArray], parameters: Parameters | None = None
) -> int:
    """How many numbers the updates of a model have as features.

    Args:
        wish: of kind "update".
        model: arrays by name.
        parameters: see `parameter_names`.

    >>> update_length(Wish("update", sketch=4), {"w": np.zeros((2, 3))})
    4
    """
    size = sum(model[name].size for name in parameter_names(model, parameters))
    return wish.sketch if 0 < wish.sketch < size else size
