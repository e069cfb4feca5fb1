"""The server's side of selection without Flower's messages: newcomers, the graph, memories that grow."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from fedgs.arrays import IntArray
from fedgs.clients import Clients, Selection, View
from fedgs.errors import ConfigError, SelectionError
from fedgs.flower.features import distances, graph_of, parameter_names, reply_feature
from fedgs.flower.selector import Selector
from fedgs.graph import Graph
from fedgs.sampling import FedGS, Sampler, Uniform
from fedgs.weights import aggregation_weights

LABELS = np.array([[8, 0, 0], [4, 4, 0], [0, 4, 4], [0, 0, 8]])
FEDERATION = Clients(tuple("abcd"), np.full(4, 8), label_counts=LABELS)


def proportions(row: int) -> list[float]:
    return (LABELS[row] / 8).tolist()


def distance(selector: Selector) -> Any:
    return selector.view(np.arange(len(selector.roster)), 2).memory["distance"]


def test_the_graph_of_told_proportions_is_the_oracles() -> None:
    selector = Selector(FedGS())
    for row, key in enumerate("abcd"):
        assert selector.meet(key, size=8, feature=proportions(row)) is None
    assert distance(selector) == pytest.approx(FedGS().start(FEDERATION)["distance"])


def test_a_federation_known_beforehand_has_its_graph_at_once() -> None:
    assert distance(Selector(FedGS(), clients=FEDERATION)) == pytest.approx(
        FedGS().start(FEDERATION)["distance"]
    )


def test_unknown_distances_are_the_largest_known() -> None:
    selector = Selector(FedGS())
    selector.meet("a", feature=proportions(0))
    selector.meet("b", feature=proportions(1))
    selector.meet("stranger")
    known = distance(selector)
    assert known[2].tolist() == [known[0, 1], known[0, 1], 0.0]


def test_without_any_feature_all_are_equally_far_and_it_says_so(caplog: Any) -> None:
    selector = Selector(FedGS())
    selector.meet("a")
    selector.meet("b")
    assert distance(selector).tolist() == [[0, 1], [1, 0]]
    assert "no client has told its label proportions" in caplog.text


def test_identical_clients_are_as_far_apart_as_the_graph_says() -> None:
    same = distances(Graph(similarity="update"), {0: np.ones(3), 1: np.ones(3)}, 3)
    assert np.all(same[~np.eye(3, dtype=bool)] > 0)


def test_the_graph_is_made_anew_only_when_something_has_changed() -> None:
    selector = Selector(FedGS())
    for row, key in enumerate("abc"):
        selector.meet(key, feature=proportions(row))
    before = distance(selector)
    selector.meet("a", feature=proportions(0))  # says the same again
    assert distance(selector) is before
    selector.meet("d", feature=proportions(3))
    assert distance(selector).shape == (4, 4)


def test_updates_grow_the_graph_with_the_replies() -> None:
    selector = Selector(FedGS(graph=Graph(similarity="update")))
    for key in "abc":
        selector.meet(key)
    sent = {"w": np.zeros(2)}
    assert distance(selector)[0, 1] == 1.0
    for row, local in enumerate(([1.0, 0.0], [1.0, 0.1], [0.2, 1.0])):
        assert (
            selector.learn(row, size=5, sent=sent, local=lambda local=local: {"w": np.array(local)})
            is None
        )
    near = distance(selector)
    assert near[0, 1] < near[0, 2]
    selector.learn(
        0, size=5, sent=sent, local=lambda: {"w": np.array([0.0, 1.0])}
    )  # only the first reply counts
    assert distance(selector) is near


def test_functional_similarity_asks_the_users_function() -> None:
    graph = Graph(similarity="functional")
    feature = reply_feature(
        graph, sent={}, local={"w": np.array([2.0, 3.0])}, responses=lambda model: model["w"] * 2
    )
    assert feature.tolist() == [4.0, 6.0]
    with pytest.raises(
        ConfigError, match=r"'functional' needs SampledStrategy\(responses=...\), got None"
    ):
        Selector(FedGS(graph=graph))


def test_private_similarity_is_refused() -> None:
    with pytest.raises(
        ConfigError,
        match="must be 'oracle', 'update' or 'functional' in a deployment, got 'private'",
    ):
        graph_of(FedGS(graph=Graph(similarity="private")), None)


def test_long_updates_are_sketched_and_keep_their_cosines() -> None:
    generator = np.random.default_rng(0)
    first, noise = generator.normal(size=(2, 100_000))
    second = 0.6 * first + 0.8 * noise  # cosine 0.6
    graph = Graph(similarity="update")
    a, b = (
        reply_feature(graph, sent={"w": np.zeros(100_000)}, local={"w": x}, responses=None)
        for x in (first, second)
    )
    assert len(a) == 4096
    assert a @ b / np.sqrt((a @ a) * (b @ b)) == pytest.approx(
        0.6, abs=0.06
    )  # 4 standard deviations of 1/sqrt(4096)


BATCH_NORM = {
    "conv.weight": np.zeros((2, 1), dtype=np.float32),
    "bn.weight": np.ones(2, dtype=np.float16),
    "bn.running_mean": np.zeros(2, dtype=np.float32),
    "bn.running_var": np.ones(2, dtype=np.float32),
    "bn.num_batches_tracked": np.array(0),
    "steps": np.array(0),
}


def moved(*weight: float, counts: float = 100) -> dict[str, Any]:
    """The model after local training: its weight by so much, its statistics and counters by `counts`."""
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
    graph = Graph(similarity="update")
    up, down, long = (
        reply_feature(graph, sent=BATCH_NORM, local=local, responses=None, parameters=parameters)
        for local in (moved(1, 0), moved(-1, 0), moved(2, 0, counts=4000))
    )
    assert len(up) == 4
    assert cosine(up, down) == pytest.approx(-1)  # the updates are opposite
    assert cosine(up, long) == pytest.approx(
        1
    )  # and of one direction, whatever the number of batches


def test_statistics_can_be_asked_for() -> None:
    names = parameter_names(BATCH_NORM, lambda name: True)
    assert names == [
        "bn.running_mean",
        "bn.running_var",
        "bn.weight",
        "conv.weight",
    ]  # whole numbers never count
    assert parameter_names(BATCH_NORM) == ["bn.weight", "conv.weight"]
    assert parameter_names({"running_mean": np.ones(1), "my_running_mean": np.ones(1)}) == [
        "my_running_mean"
    ]


@pytest.mark.parametrize(
    ("model", "parameters", "why"),
    [
        (
            BATCH_NORM,
            ["conv.bias"],
            r"must name floating-point arrays of the model \('bn.running_mean', .*\), got 'conv.bias'",
        ),
        (BATCH_NORM, ["steps"], "must name floating-point arrays of the model .*, got 'steps'"),
        (BATCH_NORM, [], r"SampledStrategy\(parameters=...\) chooses none"),
        (BATCH_NORM, lambda name: False, r"SampledStrategy\(parameters=...\) chooses none"),
        (
            {"steps": np.array(3)},
            None,
            "needs at least one floating-point parameter, and the model has none",
        ),
    ],
)
def test_parameters_that_the_model_does_not_have_are_refused(
    world: Any, model: Any, parameters: Any, why: str
) -> None:
    from flwr.app import Array, ArrayRecord
    from flwr.serverapp.strategy import FedAvg

    from fedgs.flower import SampledStrategy

    grid = world(["a-0", "b-1"])
    chosen = SampledStrategy(
        FedAvg(), FedGS(graph=Graph(similarity="update")), parameters=parameters
    )
    with pytest.raises(ConfigError, match=why):
        chosen.start(
            grid, ArrayRecord({name: Array(array) for name, array in model.items()}), num_rounds=1
        )
    assert grid.asked == []


@pytest.mark.parametrize("parameters", ["weight", 3, ["weight", 3], b"weight"])
def test_parameters_are_names_or_a_function(parameters: Any) -> None:
    with pytest.raises(ConfigError, match="must be names of arrays or a function of a name, got"):
        Selector(FedGS(graph=Graph(similarity="update")), parameters=parameters)


def test_the_strategy_makes_its_graph_from_the_parameters_it_is_given() -> None:
    selector = Selector(FedGS(graph=Graph(similarity="update")), parameters=["conv.weight"])
    for row, local in enumerate((moved(1, 0), moved(1, 0.1, counts=4000), moved(0.2, 1))):
        selector.meet("abc"[row])
        assert selector.learn(row, size=5, sent=BATCH_NORM, local=lambda local=local: local) is None
    near = distance(selector)
    assert near[0, 1] < near[0, 2]
    assert len(selector.roster.features[0]) == 2


def test_a_feature_of_another_length_is_refused() -> None:
    selector = Selector(FedGS())
    selector.meet("a", feature=[0.5, 0.5])
    assert selector.meet("b", feature=[1.0]) == "its feature has 1 entries, the others' 2"
    assert selector.meet("c", feature=[np.nan, 1.0]) == "its feature is empty or not finite"


def test_unknown_sizes_count_as_the_mean_of_the_known() -> None:
    selector = Selector(Uniform())
    selector.meet("a", size=10)
    selector.meet("b", size=30)
    selector.meet("c")
    assert selector.clients().data_sizes.tolist() == [10, 30, 20]


class Seen(Sampler):
    """Remembers how often each client was available."""

    def start(self, clients: Clients) -> Any:
        return {"seen": np.zeros(len(clients), dtype=np.int64)}

    def observe(self, memory: Any, view: Any, outcome: Any) -> Any:
        seen = memory["seen"].copy()
        seen[view.available] += 1
        return {"seen": seen}

    def select(self, view: Any, rng: Any) -> Selection:
        return Selection(view.available[: view.cohort_size])


def test_the_memory_of_a_sampler_of_your_own_grows_with_the_clients() -> None:
    selector = Selector(Seen())
    selector.meet("a")
    selector.meet("b")
    view = selector.view(np.array([0, 1]), 1)
    selector.observe(view, selector.select(view).clients, np.ones(1))
    selector.meet("c")
    assert selector.view(np.array([0, 2]), 1).memory["seen"].tolist() == [1, 1, 0]


def test_a_memory_that_shrinks_is_an_error() -> None:
    from fedgs.flower.selector import _grown

    with pytest.raises(
        SelectionError, match=r"memory 'seen' of shape \(3,\) does not fit in \(2,\)"
    ):
        _grown({"seen": np.zeros(3)}, {"seen": np.zeros(2)})


def test_weights_are_zero_for_those_who_did_not_answer() -> None:
    selector = Selector(Uniform(), clients=FEDERATION)
    view = selector.view(np.arange(4), 3)
    weights = selector.weights(view, Selection(np.array([0, 1, 3])), {0: 10.0, 3: 30.0})
    assert weights.tolist() == [0.25, 0.0, 0.75]


def test_weights_are_those_of_the_simulator() -> None:
    sizes, draws, counts = np.array([3, 1, 6]), np.array([2, 1, 1]), np.array([0, 4, 2])
    for weighting in ("data_size", "draws", "equal", "inverse_participation"):
        selector = Selector(Uniform(weighting=weighting), clients=Clients(("a", "b", "c"), sizes))
        selector.roster.counts += counts
        view = selector.view(np.arange(3), 4)
        ours = selector.weights(
            view, Selection(np.arange(3), draws=draws), dict(enumerate(sizes.astype(float)))
        )
        assert ours == pytest.approx(aggregation_weights(weighting, sizes, draws, counts))


def test_candidates_that_are_no_available_clients_are_refused() -> None:
    class Asking(Sampler):
        loss_on: str = "train"

        def loss_candidates(self, view: View, rng: np.random.Generator) -> IntArray:
            return np.array([5])

    selector = Selector(Asking())
    for key in ("a", "b"):
        selector.meet(key, size=3)
    with pytest.raises(
        SelectionError,
        match="loss_candidates must return available clients only; client 5 is not available",
    ):
        selector.loss_candidates(selector.view(np.arange(2), 1))
