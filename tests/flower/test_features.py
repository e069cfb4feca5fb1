"""Features of clients in a deployment, which are those of a simulation."""

from typing import Any

import numpy as np
import pytest
from tests.conftest import make_federation

pytest.importorskip("flwr")
pytest.importorskip("torch")

import torch
from flwr.app import Array, ArrayRecord
from flwr.serverapp.strategy import FedAvg
from tests.local.material import Keep

from fedgs.clients import Clients
from fedgs.errors import ConfigError
from fedgs.features import feature_fold
from fedgs.flower import SampledStrategy
from fedgs.flower.features import distances, parameter_names, reply_feature
from fedgs.flower.selector import Selector
from fedgs.graph import Graph
from fedgs.local import LoopEngine
from fedgs.local.parameters import FlatModule, initial_parameters
from fedgs.models import as_model
from fedgs.requests import Train, Work
from fedgs.sampling import Clustered, FedGS, Wish
from fedgs.sketches import count_sketch


def normalised(momentum: float | None = 0.1) -> torch.nn.Module:
    norm = torch.nn.BatchNorm1d(5, momentum=momentum)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), norm, torch.nn.ReLU(), torch.nn.Linear(5, 3))


@pytest.mark.parametrize("sketch", [0, 16])
def test_update_features_are_those_of_a_deployment(sketch: int) -> None:
    wish = Wish("update", sketch=sketch)
    federation = make_federation((4, 40, 8, 12, 20, 16))
    work = Work(federation, as_model(normalised), 0.0, 3, 4)
    start = initial_parameters(work.model, federation, 0)
    request = Train(
        work,
        start,
        np.arange(6),
        0.1,
        (0, 0),
        (feature_fold(wish, work, start, seed=0), Keep()),
    )
    ((_, (features, models)),) = LoopEngine().answer([request])
    flat = FlatModule(normalised(), torch.device("cpu"))

    def reply(vector: torch.Tensor, batches: int) -> dict[str, np.ndarray]:
        flat.load(vector)
        arrays = {name: value.clone().numpy() for name, value in flat.module.state_dict().items()}
        return arrays | {"1.num_batches_tracked": np.array(batches)}

    deployed = np.stack(
        [
            reply_feature(wish, sent=reply(start, 0), local=reply(model, 3), responses=None)
            for model in models
        ]
    )
    np.testing.assert_allclose(features, deployed, rtol=0, atol=1e-6)


def test_identical_clients_are_as_far_apart_as_the_graph_says() -> None:
    same = distances(Graph(similarity="update"), {0: np.ones(3), 1: np.ones(3)}, 3)
    assert np.all(same[~np.eye(3, dtype=bool)] > 0)


def test_functional_similarity_asks_the_users_function() -> None:
    graph = Graph(similarity="functional")
    local = {"w": np.array([2.0, 3.0])}
    wish = Wish("functional")
    feature = reply_feature(wish, sent={}, local=local, responses=lambda model: model["w"] * 2)
    assert feature.tolist() == [4.0, 6.0]
    with pytest.raises(
        ConfigError, match=r"'functional' needs SampledStrategy\(responses=...\), got None"
    ):
        Selector(FedGS(graph=graph))


def test_long_updates_are_sketched_and_keep_their_cosines() -> None:
    generator = np.random.default_rng(0)
    first, noise = generator.normal(size=(2, 100_000))
    second = 0.6 * first + 0.8 * noise  # cosine 0.6
    a, b = (
        reply_feature(Wish("update"), sent={"w": np.zeros(100_000)}, local={"w": x}, responses=None)
        for x in (first, second)
    )
    assert len(a) == 4096
    # 4 standard deviations of 1/sqrt(4096).
    assert cosine(a, b) == pytest.approx(0.6, abs=0.06)


def test_sketches_follow_the_order_of_the_model() -> None:
    sent = {"weight": np.zeros((2, 3)), "steps": np.array(0), "bias": np.zeros(4)}
    local = {
        "bias": np.arange(4.0),
        "steps": np.array(5),
        "weight": np.arange(4.0, 10).reshape(2, 3),
    }
    feature = reply_feature(Wish("update", sketch=4), sent=sent, local=local, responses=None)
    order = np.concatenate([local["weight"].ravel(), local["bias"]])
    assert feature.tolist() == count_sketch(order, 4).tolist()


BATCH_NORM = {
    "conv.weight": np.zeros((2, 1), dtype=np.float32),
    "bn.weight": np.ones(2, dtype=np.float16),
    "bn.running_mean": np.zeros(2, dtype=np.float32),
    "bn.running_var": np.ones(2, dtype=np.float32),
    "bn.num_batches_tracked": np.array(0),
    "steps": np.array(0),
}


def moved(*weight: float, counts: float = 100) -> dict[str, Any]:
    """The model after training that adds to its weight, and `counts` to statistics and counters."""
    parts = ("running_mean", "running_var", "num_batches_tracked", "steps")
    local = {
        name: array + np.asarray(counts, array.dtype) if name.endswith(parts) else array
        for name, array in BATCH_NORM.items()
    }
    return {**local, "conv.weight": np.array(weight, dtype=np.float32).reshape(2, 1)}


def cosine(first: Any, second: Any) -> float:
    return float(first @ second / np.sqrt((first @ first) * (second @ second)))


@pytest.mark.parametrize(
    "parameters",
    [None, ["conv.weight", "bn.weight"], lambda name: not name.startswith("bn.running")],
    ids=["default", "names", "function"],
)
def test_an_update_is_of_parameters_alone(parameters: Any) -> None:
    wish = Wish("update")
    up, down, long = (
        reply_feature(wish, sent=BATCH_NORM, local=local, responses=None, parameters=parameters)
        for local in (moved(1, 0), moved(-1, 0), moved(2, 0, counts=4000))
    )
    assert len(up) == 4
    assert cosine(up, down) == pytest.approx(-1)
    assert cosine(up, long) == pytest.approx(1)  # whatever the number of batches


def test_statistics_can_be_asked_for() -> None:
    # Whole numbers never count.
    every = ["bn.running_mean", "bn.running_var", "bn.weight", "conv.weight"]
    assert parameter_names(BATCH_NORM, lambda name: True) == every
    assert parameter_names(BATCH_NORM) == ["bn.weight", "conv.weight"]
    model = {"running_mean": np.ones(1), "my_running_mean": np.ones(1)}
    assert parameter_names(model) == ["my_running_mean"]


@pytest.mark.parametrize(
    ("model", "parameters", "why"),
    [
        (
            BATCH_NORM,
            ["conv.bias"],
            r"must name floating-point arrays of the model \('bn.running_mean', .*'conv.bias'",
        ),
        (BATCH_NORM, ["steps"], "must name floating-point arrays of the model .*, got 'steps'"),
        (BATCH_NORM, [], r"SampledStrategy\(parameters=...\) chooses none"),
        (BATCH_NORM, lambda name: False, r"SampledStrategy\(parameters=...\) chooses none"),
        (
            {"steps": np.array(3)},
            None,
            "model updates need at least one floating-point parameter, and the model has none",
        ),
    ],
)
def test_parameters_that_the_model_does_not_have_are_refused(
    world: Any, model: Any, parameters: Any, why: str
) -> None:
    grid = world(["a-0", "b-1"])
    sampler = FedGS(graph=Graph(similarity="update"))
    chosen = SampledStrategy(FedAvg(), sampler, parameters=parameters)
    arrays = ArrayRecord({name: Array(array) for name, array in model.items()})
    with pytest.raises(ConfigError, match=why):
        chosen.start(grid, arrays, num_rounds=1)
    assert grid.asked == []


@pytest.mark.parametrize("parameters", ["weight", 3, ["weight", 3], b"weight"])
def test_parameters_are_names_or_a_function(parameters: Any) -> None:
    with pytest.raises(ConfigError, match="must be names of arrays or a function of a name, got"):
        Selector(FedGS(graph=Graph(similarity="update")), parameters=parameters)


def test_the_strategy_makes_its_graph_from_the_parameters_it_is_given() -> None:
    selector = Selector(FedGS(graph=Graph(similarity="update")), parameters=["conv.weight"])
    for row, local in enumerate((moved(1, 0), moved(1, 0.1, counts=4000), moved(0.2, 1))):
        selector.meet("abc"[row])
        models = (BATCH_NORM, local)
        assert selector.learn(row, size=5, models=lambda models=models: models) is None
    near = selector.view(np.arange(3), 2).memory["distance"]
    assert near[0, 1] < near[0, 2]
    assert len(selector.roster.features[0]) == 2


FEDERATION = Clients(
    ("a", "b", "c"), np.array([5, 5, 5]), label_counts=np.array([[5, 0], [4, 1], [0, 5]])
)


def test_what_clients_tell_is_no_feature_of_their_models() -> None:
    for similarity in ("update", "functional"):
        graph = Graph(similarity=similarity)
        selector = Selector(FedGS(graph=graph), clients=FEDERATION, responses=lambda model: model)
        assert selector.roster.features == {}
        assert all(map(selector.wants_feature, range(3)))


@pytest.mark.parametrize(
    "settings", [{"noise_samples": 8}, {"noise_examples": 9}, {"covariance": "scalar"}]
)
@pytest.mark.parametrize("start", ["all", "seen"])
def test_settings_of_a_noise_batch_that_the_user_holds_are_refused(
    settings: dict[str, Any], start: str
) -> None:
    graph = Graph(similarity="functional", start=start, **settings)
    with pytest.raises(ConfigError, match=f"^method.graph.{next(iter(settings))} has no effect"):
        Selector(FedGS(graph=graph), responses=lambda model: model["w"])


def test_a_functional_feature_needs_a_function() -> None:
    class Functional(Clustered):
        def wish(self, when: Any) -> Wish | None:
            return Wish("functional") if when == "round" else None

    with pytest.raises(ConfigError, match=r"^method 'clustered' needs SampledStrategy\(responses"):
        Selector(Functional())
    Selector(Functional(), responses=lambda model: model["w"])


def test_clients_enter_a_graph_that_starts_with_seen_ones_by_their_first_update() -> None:
    """Though their proportions are known from the first round on."""
    selector, whole = (
        Selector(FedGS(graph=Graph(start=start)), clients=FEDERATION) for start in ("seen", "all")
    )
    everyone, apart = np.arange(3), ~np.eye(3, dtype=bool)

    def distance(of: Selector) -> Any:
        return of.view(everyone, 2).memory["distance"]

    assert distance(whole)[0, 1] < 1
    assert (distance(selector)[apart] == 1).all()
    pair = everyone[:2]
    selector.count_answers(pair, pair, averaged=False)
    assert len(selector._known_features()) == 0
    selector.count_answers(pair, pair, averaged=True)
    assert (distance(selector)[apart] == 1).all()  # products are rescaled over one pair
    assert len(selector._known_features()) == 2
    selector.count_answers(everyone, everyone, averaged=True)
    np.testing.assert_allclose(distance(selector), distance(whole))
