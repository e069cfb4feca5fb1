"""Features of local models: results of the folds, the noise batch, and runs that use them."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.conftest import make_federation
from tests.driving import RecordedRun
from tests.oracles.states import equal_states

import fedgs
from fedgs.availability import AvailabilityDraws, LessDataFirst
from fedgs.data import Federation
from fedgs.data.federation import Normalization
from fedgs.driver import drive
from fedgs.errors import ClientError, ConfigError
from fedgs.experiments.compare import compare
from fedgs.features import (
    Responses,
    UpdateSketch,
    check_wish,
    feature_fold,
    feature_request,
    noise_batch,
)
from fedgs.graph import Graph
from fedgs.graph.growth import model_similarity
from fedgs.local import LoopEngine, StackedEngine
from fedgs.local.parameters import initial_parameters
from fedgs.models import LogisticRegression, as_model
from fedgs.plan import Plan
from fedgs.requests import Engine, Failure, Train, Work
from fedgs.sampling import FedGS, Wish


def deep() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))


def work_of(federation: Federation, model: Any = None, steps: int = 3) -> Work:
    return Work(federation, model or LogisticRegression(), 0.0, steps, 4)


def trained(work: Work, *wishes: Wish, engine: Engine | None = None) -> list[np.ndarray]:
    request = feature_request(
        wishes,
        work,
        initial_parameters(work.model, work.federation, 0),
        learning_rate=0.1,
        seed=0,
        data_seed=0,
    )
    ((_, reply),) = (engine or LoopEngine()).answer([request])
    if isinstance(reply, Failure):
        raise reply.exception
    return list(reply)


def normalised(momentum: float | None = 0.1) -> torch.nn.Module:
    norm = torch.nn.BatchNorm1d(5, momentum=momentum)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), norm, torch.nn.ReLU(), torch.nn.Linear(5, 3))


# --- folds


def test_an_exact_update_is_the_difference_of_the_parameters() -> None:
    start, models = torch.zeros(5), torch.arange(15.0).reshape(3, 5)
    fold = UpdateSketch(start + 1, 0)
    assert fold.cosine_error == 0.0
    np.testing.assert_array_equal(
        fold.finish(fold.add(fold.start(), np.arange(3), models)), models.numpy() - 1
    )


@pytest.mark.parametrize("model", [None, as_model(deep)])
@pytest.mark.parametrize(
    "wish",
    [Wish("update", sketch=0), Wish("update", sketch=8), Wish("functional", noise_samples=32)],
)
def test_a_fold_does_not_depend_on_how_the_clients_are_cut_into_blocks(
    toy_federation: Federation, model: Any, wish: Wish
) -> None:
    work = work_of(toy_federation, model)
    start = initial_parameters(work.model, toy_federation, 0)
    models = start + torch.randn(6, len(start), generator=torch.Generator().manual_seed(1))
    fold = feature_fold(wish, work, start, seed=0)
    results = []
    for cuts in ([6], [1, 1, 1, 1, 1, 1], [2, 4]):
        accumulator, done = fold.start(), 0
        for size in cuts:
            accumulator = fold.add(
                accumulator, np.arange(done, done + size), models[done : done + size]
            )
            done += size
        results.append(fold.finish(accumulator))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("sketch", [0, 16])
def test_running_statistics_are_no_part_of_an_update(sketch: int) -> None:
    federation = make_federation((4, 40, 8, 12, 20, 16))
    # Training does not read the running statistics, so their momentum changes them and nothing
    # else.
    slow, fast = (
        trained(
            work_of(federation, as_model(lambda m=m: normalised(m))), Wish("update", sketch=sketch)
        )[0]
        for m in (0.01, 0.9)
    )
    assert slow.shape == (6, sketch or 63)  # 6 * 5 + 5, 2 * 5 and 5 * 3 + 3 parameters
    np.testing.assert_array_equal(slow, fast)
    assert np.all(np.abs(slow).max(axis=1) > 0)


def test_a_sketch_keeps_cosines_within_its_stated_error() -> None:
    # 45 cosines of 10 updates that share a part; the standard error is at most 1/sqrt(1024) = .031,
    # six of them: odds 1e-7.
    draws = np.random.default_rng(0)
    updates = torch.from_numpy(
        (draws.normal(size=(10, 20000)) + draws.normal(size=20000)).astype(np.float32)
    )
    fold = UpdateSketch(torch.zeros(20000), 1024)
    assert fold.cosine_error == 1024**-0.5
    sketch = fold.finish(fold.add(fold.start(), np.arange(10), updates))
    assert sketch.shape == (10, 1024)
    error = np.abs(model_similarity(sketch) - model_similarity(updates.numpy()))[
        np.triu_indices(10, 1)
    ]
    assert 0 < error.max() < 6 * fold.cosine_error
    assert error.std() < 1.5 * fold.cosine_error


def test_responses_are_the_mean_output_on_the_noise(toy_federation: Federation) -> None:
    work = work_of(toy_federation)
    noise = noise_batch(toy_federation, samples=16)
    model = torch.arange(21.0) / 10  # weight (3, 6), bias (3,)
    fold = Responses(work, noise)
    features = fold.finish(fold.add(fold.start(), np.array([4]), model[None]))
    weight, bias = model[:18].reshape(3, 6), model[18:]
    np.testing.assert_allclose(
        features[0], (noise @ weight.T + bias).mean(dim=0).numpy(), rtol=1e-5
    )


def test_responses_of_an_inner_layer(toy_federation: Federation) -> None:
    work = work_of(toy_federation, as_model(deep))
    (hidden,) = trained(work, Wish("functional", layer="1"))
    (logits,) = trained(work, Wish("functional"))
    assert hidden.shape == (6, 5) and logits.shape == (6, 3)
    assert hidden.min() >= 0  # behind the ReLU


def test_responses_leave_dropout_out(toy_federation: Federation) -> None:
    def dropping() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(6, 3))

    work = work_of(toy_federation, as_model(dropping))
    fold = Responses(work, noise_batch(toy_federation, samples=8))
    models = torch.ones(2, 21)
    features = fold.finish(fold.add(fold.start(), np.arange(2), models))
    np.testing.assert_array_equal(features[0], features[1])


def test_an_unknown_layer_is_refused_with_the_known_ones(toy_federation: Federation) -> None:
    with pytest.raises(ConfigError) as error:
        check_wish(Wish("functional", layer="head"), work_of(toy_federation, as_model(deep)))
    assert (
        str(error.value)
        == "method.graph.layer must be one of the model's layers ('0', '1', '2'), got 'head'"
    )
    with pytest.raises(ConfigError, match="method.graph.layer must be one of the model's layers"):
        plan_of(toy_federation, FedGS(graph=Graph(similarity="functional", layer="head")))


@pytest.mark.parametrize("engine", [LoopEngine(), StackedEngine()])
@pytest.mark.parametrize("kind", ["update", "functional"])
def test_identical_clients_are_alike_by_1(kind: Any, engine: Engine) -> None:
    x, y = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32), np.array([0, 1, 2, 0])
    federation = Federation.from_arrays(
        np.concatenate([x, x, -x]),
        np.tile(y, 3),
        client=np.repeat([0, 1, 2], 4),
        test=(x, y),
        name="twins",
    )
    # Four examples and B = 4: the batch is all of them, in whatever order.
    (features,) = trained(work_of(federation), Wish(kind), engine=engine)
    similarity = model_similarity(features)
    assert similarity[0, 1] == pytest.approx(1.0, abs=1e-6)
    assert similarity[0, 2] < 0.99


def test_a_model_that_does_not_move_is_like_nobody(toy_federation: Federation) -> None:
    work = work_of(toy_federation)
    start = initial_parameters(work.model, toy_federation, 0)
    fold = feature_fold(Wish("update"), work, start, seed=0)
    features = fold.finish(
        fold.add(fold.start(), np.arange(3), torch.stack([start, start, start + 1]))
    )
    assert not features[:2].any()
    np.testing.assert_array_equal(model_similarity(features), np.eye(3))


@pytest.mark.parametrize(
    ("kind", "what"), [("update", "update"), ("functional", "response to noise")]
)
def test_a_feature_that_is_not_finite_names_the_client(
    toy_federation: Federation, kind: Any, what: str
) -> None:
    work = work_of(toy_federation)
    fold = feature_fold(Wish(kind), work, torch.zeros(21), seed=0)
    models = torch.ones(2, 21)
    models[1, 3] = torch.nan
    with pytest.raises(
        ClientError, match=rf"^the {what} of client 'site-5' is not finite \(NaN or inf\)$"
    ) as error:
        fold.add(fold.start(), np.array([2, 5]), models)
    assert error.value.client == 5


def test_engines_agree_on_features(toy_federation: Federation) -> None:
    wishes = (Wish("update"), Wish("functional"))
    for loop, stacked in zip(
        trained(work_of(toy_federation), *wishes),
        trained(work_of(toy_federation), *wishes, engine=StackedEngine()),
        strict=True,
    ):
        np.testing.assert_allclose(loop, stacked, rtol=1e-3, atol=1e-5)


# --- noise


def spread(count: int = 400) -> Federation:
    """Two correlated inputs with means 3 and -1, one client, all of it validation too."""
    draws = np.random.default_rng(0)
    x = (
        draws.normal(size=(count, 2)) @ np.array([[2.0, 1.0], [0.0, 0.5]]) + np.array([3.0, -1.0])
    ).astype(np.float32)
    y = np.arange(count) % 2
    owner = np.zeros(count, dtype=np.int64)
    return Federation.from_arrays(x, y, client=owner, test=(x, y), validation=(x, y, owner))


@pytest.mark.parametrize("covariance", ["full", "diagonal", "scalar"])
def test_noise_has_the_mean_and_covariance_of_the_examples(covariance: Any) -> None:
    federation = spread()
    assert federation.validation is not None
    noise = (
        noise_batch(federation, samples=20000, examples=400, covariance=covariance).double().numpy()
    )
    sigma = np.cov(federation.validation.x.T.astype(float))
    if covariance != "full":
        sigma = np.diag(np.diagonal(sigma))
    if covariance == "scalar":
        sigma = np.eye(2) * np.trace(sigma) / 2
    # Standard errors are at most sd·1/sqrt(20000) = .016 and var·sqrt(2/20000) = .04; six of them:
    # odds below 1e-7.
    np.testing.assert_allclose(noise.mean(axis=0), federation.validation.x.mean(axis=0), atol=0.1)
    np.testing.assert_allclose(np.cov(noise.T), sigma, atol=0.25)


def test_noise_depends_on_the_seed_alone(toy_federation: Federation) -> None:
    again = replace(toy_federation)
    torch.manual_seed(1)
    assert torch.equal(noise_batch(toy_federation, seed=3), noise_batch(again, seed=3))
    assert not torch.equal(noise_batch(toy_federation, seed=3), noise_batch(toy_federation, seed=4))
    assert (
        noise_batch(toy_federation).shape == (256, 6)
        and noise_batch(toy_federation).dtype == torch.float32
    )


def test_noise_takes_inputs_as_models_see_them() -> None:
    x = np.full((4, 1, 2, 2), 255, dtype=np.uint8)
    federation = Federation.from_arrays(
        x,
        np.array([0, 1, 0, 1]),
        client=np.zeros(4),
        test=(x, np.array([0, 1, 0, 1])),
        normalization=Normalization(255.0, (0.5,), (0.25,)),
    )
    noise = noise_batch(federation, samples=3)  # no spread: all noise is the mean, (1 - .5) / .25
    assert noise.shape == (3, 1, 2, 2) and torch.allclose(noise, torch.full_like(noise, 2.0))


def test_without_validation_parts_the_noise_takes_training_examples_and_says_so(
    toy_federation: Federation, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="fedgs"):
        noise_batch(toy_federation)
        assert not caplog.records
        noise_batch(replace(toy_federation, validation=None))
    assert "has no validation parts: the noise batch takes" in caplog.text


# --- runs


def plan_of(federation: Federation, sampler: FedGS, **settings: Any) -> Plan:
    values: dict[str, Any] = {
        "rounds": 6,
        "cohort_limit": 2,
        "learning_rate": 0.1,
        "decay": 0.998,
        "evaluate_every": 2,
        "seed": 0,
    }
    availability = AvailabilityDraws(LessDataFirst(beta=0.7, seed=1), federation.clients)
    return Plan(federation, availability, sampler, work_of(federation), **{**values, **settings})


class Counting(LoopEngine):
    """Notes who trains in each call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[list[list[int]]] = []

    def answer(self, requests: Any) -> Any:
        if any(isinstance(request, Train) for request in requests):
            self.calls.append([request.clients.tolist() for request in requests])
        return super().answer(requests)


GRAPHS = [
    Graph(similarity=kind, start=start)
    for kind in ("update", "functional")
    for start in ("all", "seen")
]
GRAPHS.append(Graph(similarity="oracle", start="seen"))


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: f"{graph.similarity}-{graph.start}")
def test_alone_and_in_a_batch_a_run_is_the_same_to_the_last_bit(
    toy_federation: Federation, graph: Graph
) -> None:
    alone = RecordedRun(plan_of(toy_federation, FedGS(graph=graph)))
    drive([alone.live], StackedEngine())
    batch = [
        RecordedRun(plan_of(toy_federation, FedGS(graph=graph, alpha=alpha), seed=seed))
        for alpha, seed in ((1.0, 5), (1.0, 0), (2.0, 0))
    ]
    drive([run.live for run in batch], StackedEngine())
    assert len(alone.records) == 7 and alone.records == batch[1].records
    assert equal_states(alone.starts[0], batch[1].starts[0]) and equal_states(
        alone.final, batch[1].final
    )


def test_all_clients_train_once_before_round_0_in_one_call_for_many_runs(
    toy_federation: Federation,
) -> None:
    engine = Counting()
    runs = [
        RecordedRun(plan_of(toy_federation, FedGS(graph=Graph(similarity="functional")), seed=seed))
        for seed in (0, 1)
    ]
    drive([run.live for run in runs], engine)
    assert engine.calls[0] == [list(range(6)), list(range(6))]
    assert all(len(clients) <= 2 for call in engine.calls[1:] for clients in call)
    for run in runs:
        assert run.starts[0].round == 0 and run.starts[0].counts.tolist() == [0] * 6
        assert run.final.memory["distance"] is run.starts[0].memory["distance"]
        assert run.final.counts.sum() == sum(len(record.cohort or ()) for record in run.records)


def test_with_seen_nobody_is_asked_before_being_selected(toy_federation: Federation) -> None:
    engine = Counting()
    run = RecordedRun(
        plan_of(toy_federation, FedGS(graph=Graph(similarity="functional", start="seen")))
    )
    drive([run.live], engine)
    assert all(len(clients) <= 2 for call in engine.calls for clients in call)
    names = toy_federation.clients.names
    selected = {names.index(name) for record in run.records for name in record.cohort or ()}
    assert np.flatnonzero(run.final.memory["seen"]).tolist() == sorted(selected)
    assert run.starts[0].memory["distance"].tolist() == (1 - np.eye(6)).tolist()


def test_a_client_that_fails_at_the_start_is_named(toy_federation: Federation) -> None:
    run = RecordedRun(
        plan_of(toy_federation, FedGS(graph=Graph(similarity="update")), learning_rate=1e38)
    )
    good = RecordedRun(plan_of(toy_federation, FedGS()))
    drive([run.live, good.live], LoopEngine())
    assert run.failed.round == 0 and run.failed.client is not None and not run.records
    assert good.failed is None and len(good.records) == 7


def test_the_seed_of_the_data_makes_the_noise(toy_federation: Federation) -> None:
    distances = []
    for data_seed in (0, 1):
        run = RecordedRun(
            plan_of(
                toy_federation, FedGS(graph=Graph(similarity="functional")), data_seed=data_seed
            )
        )
        drive([run.live], LoopEngine())
        distances.append(run.starts[0].memory["similarity"])
    assert not np.array_equal(*distances)


def study(federation: Federation, out: Path, graph: Graph, rounds: int, **settings: Any) -> Any:
    return compare(
        federation,
        methods={"FedGS": fedgs.FedGS(graph=graph)},
        availability=fedgs.LessDataFirst(),
        training={"rounds": rounds, "proportion": 0.4, "local_steps": 2, "batch_size": 4},
        seeds=(0,),
        execution={"engine": "loop", "checkpoint_every": 2, "workers": 1},
        out=out,
        **settings,
    )


def lines(out: Path) -> bytes:
    (file,) = out.rglob("rounds.jsonl")
    return file.read_bytes()


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: f"{graph.similarity}-{graph.start}")
def test_a_resumed_run_is_that_of_an_unbroken_one_and_does_not_make_its_graph_again(
    toy_federation: Federation, graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study(toy_federation, tmp_path / "whole", graph, 9)
    study(toy_federation, tmp_path / "parts", graph, 3)
    (memory,) = [
        *(tmp_path / "parts").rglob("memory.npz"),
        *(tmp_path / "parts" / "graphs").glob("*.npz"),
    ]
    stamp = memory.stat().st_mtime_ns
    trained_all: list[int] = []
    answer = LoopEngine.reply

    def noted(self: LoopEngine, request: Any) -> Any:
        if isinstance(request, Train):
            trained_all.append(len(request.clients))
        return answer(self, request)

    monkeypatch.setattr(LoopEngine, "reply", noted)
    for rounds in (6, 9):  # twice, so that a checkpoint made after a resume is read too
        study(toy_federation, tmp_path / "parts", graph, rounds)
    assert lines(tmp_path / "parts") == lines(tmp_path / "whole")
    assert memory.stat().st_mtime_ns == stamp
    assert max(trained_all) <= 2
    with np.load(memory) as stored:
        assert {"distance", "similarity", "adjacency"} <= set(stored.files)
    ends = [np.load(next((tmp_path / part).rglob("checkpoint.npz"))) for part in ("whole", "parts")]
    for name in (
        "parameters",
        "counts",
        *(name for name in ends[0].files if name.startswith("memory.")),
    ):
        np.testing.assert_array_equal(ends[0][name], ends[1][name])


def test_a_start_that_was_cut_off_is_made_again(toy_federation: Federation, tmp_path: Path) -> None:
    graph = Graph(similarity="functional")
    study(toy_federation, tmp_path / "whole", graph, 4)
    study(toy_federation, tmp_path / "cut", graph, 4)
    before = lines(tmp_path / "whole")
    for name in ("memory.npz", "checkpoint.npz", "rounds.jsonl", "timings.jsonl"):
        next((tmp_path / "cut").rglob(name)).unlink()
    study(toy_federation, tmp_path / "cut", graph, 4)
    assert lines(tmp_path / "cut") == before
    assert next((tmp_path / "cut").rglob("memory.npz")).is_file()


def test_a_graph_from_a_file_gives_the_run_of_the_graph_itself(
    toy_federation: Federation, tmp_path: Path
) -> None:
    from fedgs.graph.files import save_graph

    made = Graph(epsilon=0.3).of_clients(toy_federation.clients)
    save_graph(tmp_path / "g.npz", made)
    study(toy_federation, tmp_path / "direct", Graph(epsilon=0.3), 6)
    study(toy_federation, tmp_path / "file", Graph(path=str(tmp_path / "g.npz")), 6)
    assert lines(tmp_path / "direct") == lines(tmp_path / "file")


def test_a_graph_file_is_known_by_its_distances(toy_federation: Federation, tmp_path: Path) -> None:
    from fedgs.graph.files import save_graph

    names = []
    for epsilon in (0.3, 0.3, 0.6):
        save_graph(tmp_path / "g.npz", Graph(epsilon=epsilon).of_clients(toy_federation.clients))
        results = study(toy_federation, tmp_path / "out", Graph(path=str(tmp_path / "g.npz")), 1)
        names.append(results.runs[0].path.name)
    assert names[0] == names[1] != names[2]
