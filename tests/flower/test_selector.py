"""The server's side of selection without Flower's messages: newcomers, graph, growing memories."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from fedgs.arrays import IntArray
from fedgs.clients import Clients, Outcome, Selection, View
from fedgs.errors import ConfigError, SelectionError
from fedgs.flower.selector import Selector
from fedgs.graph import Graph
from fedgs.sampling import FedGS, Sampler, Uniform
from fedgs.sampling.landmarks import remembered
from fedgs.weighting import as_weighting, checked_weights

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


def test_the_graph_is_rebuilt_only_after_a_change() -> None:
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
        model = {"w": np.array(local)}
        assert selector.learn(row, size=5, models=lambda model=model: (sent, model)) is None
    near = distance(selector)
    assert near[0, 1] < near[0, 2]
    # Only the first reply counts.
    selector.learn(0, size=5, models=lambda: (sent, {"w": np.array([0.0, 1.0])}))
    assert distance(selector) is near


@pytest.mark.parametrize("similarity", ["oracle", "update"])
@pytest.mark.parametrize("structure", ["auto", "landmarks", "dense"])
def test_the_structure_of_the_settings_is_used(
    monkeypatch: pytest.MonkeyPatch, similarity: Any, structure: Any
) -> None:
    monkeypatch.setattr("fedgs.graph.landmark_building.MOST_DENSE", 3)
    selectors = [
        Selector(FedGS(graph=Graph(similarity=similarity, structure=name)))
        for name in (structure, "dense")
    ]
    for count, key in enumerate("abcde", start=1):  # the last client's feature stays unknown
        for selector in selectors:
            selector.meet(key, feature=proportions(count - 1) if count < 5 else None)
            model = {"w": np.array(LABELS[min(count, 4) - 1], dtype=np.float64)}
            if count < 5:
                models = ({"w": np.zeros(3)}, model)
                selector.learn(count - 1, size=5, models=lambda models=models: models)
        found, wanted = (s.view(np.arange(count), 2).memory for s in selectors)
        large = structure == "auto" and count > 3
        assert ("landmarks" in found) == (structure == "landmarks" or large)
        got = (
            remembered(found).rows(np.arange(count)) if "landmarks" in found else found["distance"]
        )
        assert got == pytest.approx(wanted["distance"])  # fewer clients than landmarks
    selection = selectors[0].select(selectors[0].view(np.arange(5), 2))
    assert len(selection.clients) == 2
    assert selection.status == ("optimal" if structure == "dense" else "landmarks")


def test_a_resumed_deployment_has_the_same_landmarks() -> None:
    selector = Selector(FedGS(graph=Graph(structure="landmarks", landmarks=2)))
    for row, key in enumerate("abcd"):
        selector.meet(key, feature=proportions(row))
    before = selector.view(np.arange(4), 2).memory
    assert selector.saved_memory() == {}  # made again from the features
    assert before["quality"][1] == 2  # the clients that are no landmarks are the sample
    selector.state.memory = {}
    resumed = Selector(selector.sampler)
    resumed.resume(selector.state)
    after = resumed.view(np.arange(4), 2).memory
    assert after.keys() == before.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)


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
    selector.observe(view, Outcome(selector.select(view).clients, np.ones(1)))
    selector.meet("c")
    assert selector.view(np.array([0, 2]), 1).memory["seen"].tolist() == [1, 1, 0]


def test_a_memory_that_shrinks_is_an_error() -> None:
    from fedgs.flower.memories import grown

    with pytest.raises(
        SelectionError, match=r"memory 'seen' of shape \(3,\) does not fit in \(2,\)"
    ):
        grown({"seen": np.zeros(3)}, {"seen": np.zeros(2)})


def test_weights_are_zero_for_those_who_did_not_answer() -> None:
    selector = Selector(Uniform(), clients=FEDERATION)
    view = selector.view(np.arange(4), 3)
    weights = selector.weights(view, Selection(np.array([0, 1, 3])), {0: 10.0, 3: 30.0})
    assert weights.tolist() == [0.25, 0.0, 0.75]
    assert selector.weights(view, Selection(np.array([0, 1])), {}).tolist() == [0.0, 0.0]


def test_weights_are_those_of_the_simulator() -> None:
    sizes, draws, counts = np.array([3, 1, 6]), np.array([2, 1, 1]), np.array([0, 4, 2])
    for weighting in ("data_size", "draws", "equal", "inverse_participation"):
        selector = Selector(Uniform(weighting=weighting), clients=Clients(("a", "b", "c"), sizes))
        selector.roster.counts += counts
        view = selector.view(np.arange(3), 4)
        selection = Selection(np.arange(3), draws=draws)
        ours = selector.weights(view, selection, dict(enumerate(sizes.astype(float))))
        expected = checked_weights(as_weighting(weighting), view, selection, {})
        assert ours == pytest.approx(expected)


def test_newcomers_start_at_the_mean_of_balanced_answers() -> None:
    selector = Selector(FedGS(balance="answered"), clients=FEDERATION)
    selector.roster.answers[:], selector.roster.failures[:] = 5, 2
    selector.meet("newcomer")
    view = selector.view(np.arange(len(FEDERATION) + 1), 2)
    assert view.answers.tolist() == [5] * len(FEDERATION) + [7]
    assert selector.roster.answers[-1] == 0  # it has not answered
    cohort, good = np.array([0, 1]), np.array([1])
    selector.count_answers(cohort, good, averaged=False)
    assert selector.roster.failures.tolist() == [3, 0, *[2] * (len(FEDERATION) - 2), 0]
    selector.count_answers(cohort, good, averaged=True)
    assert selector.roster.answers.tolist() == [5, 6, *[5] * (len(FEDERATION) - 2), 0]


def test_weights_can_count_answers() -> None:
    counting = {"name": "inverse_participation", "normalise": False, "counts": "answered"}
    selector = Selector(Uniform(weighting=counting), clients=FEDERATION)
    selector.roster.counts[:], selector.roster.answers[:] = 7, range(len(FEDERATION))
    view = selector.view(np.arange(len(FEDERATION)), 2)
    assert view.counts.tolist() == [7] * len(FEDERATION)
    weights = selector.weights(view, Selection(np.array([0, 1])), {0: 5.0, 1: 5.0})
    assert weights[0] == 2 * weights[1] > 0  # one answer halves the weight


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


def test_requests_that_no_client_can_answer_are_refused() -> None:
    class Own(Uniform):
        loss_on: str = "train"
        loss_batch: Any = 0

        def loss_candidates(self, view: View, rng: np.random.Generator) -> IntArray:
            return view.available

    class Told(Uniform):
        wanted_reports: Any = ("loss",)

    with pytest.raises(ConfigError, match=r"^method\.loss_batch must be an integer >= 1 or None"):
        Selector(Own())
    Selector(Own(loss_batch=np.int64(4)))
    with pytest.raises(ConfigError, match=r"^a report must be 'mean_loss', .*, got 'loss'$"):
        Selector(Told())
