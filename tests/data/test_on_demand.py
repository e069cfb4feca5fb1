"""Federations whose examples are made when they are needed."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedgs
from fedgs.data import (
    Synthetic,
    check_folder,
    describe,
    export,
    first_difference,
    open_folder,
    to_folder,
    write_leaf,
)
from fedgs.data import on_demand as module
from fedgs.data.on_demand import FederationOnDemand, examples_of, holding
from fedgs.errors import ConfigError, DataError
from fedgs.experiments.payload import bytes_of
from fedgs.experiments.transfer import read_federation, write_federation
from fedgs.local.engines import new_engine
from fedgs.models import LogisticRegression
from fedgs.registry import table
from fedgs.requests import Failure, Train, Work


def made(**settings: Any) -> FederationOnDemand:
    federation = Synthetic(on_demand=True, **settings).load()
    assert isinstance(federation, FederationOnDemand)
    return federation


def test_each_clients_examples_are_those_of_the_whole_federation() -> None:
    whole, some = Synthetic(clients=12, seed=4).load(), made(clients=12, seed=4)
    assert some.name == whole.name and len(some) == 12
    np.testing.assert_array_equal(some.clients.data_sizes, whole.clients.data_sizes)
    np.testing.assert_array_equal(some.test.x, whole.test.x)
    np.testing.assert_array_equal(some.test.y, whole.test.y)
    for split in ("train", "validation"):
        part = getattr(whole, split)
        np.testing.assert_array_equal(getattr(some, split).offsets, part.offsets)
        held = getattr(some.holding(np.array([9, 2]), split), split)
        for client in (2, 9):
            for name in ("x", "y"):
                there = getattr(held, name)[held.rows(client)]
                np.testing.assert_array_equal(there, getattr(part, name)[part.rows(client)])
        assert len(held) == len(range(*part.rows(2).indices(10**6))) + len(
            range(*part.rows(9).indices(10**6))
        )
        rows = np.array([len(part) - 1, 0, 5])
        np.testing.assert_array_equal(examples_of(some, rows, split), part.x[rows])
        np.testing.assert_array_equal(examples_of(whole, rows, split), part.x[rows])
    assert holding(whole, np.array([1])) is whole


def test_features_are_the_two_means_that_the_clients_optimum_and_inputs_are_drawn_with() -> None:
    # The mean of the 610 numbers of an optimum is mu_k up to 1/sqrt(610) = .04.
    whole, some = Synthetic(clients=30).load(), made(clients=30)
    assert whole.clients.features is not None and some.clients.features is not None
    assert np.abs(whole.clients.features.mean(axis=1) - some.clients.features[:, 0]).max() < 0.2
    # The mean of the 60 numbers v_k is B_k up to 1/sqrt(60) = .13.
    means = [whole.train.x[whole.train.rows(k)].mean() for k in range(30)]
    assert np.abs(means - some.clients.features[:, 1]).max() < 0.7


def study(data: Synthetic, out: Path, methods: Any = ("uniform",), **settings: Any) -> bytes:
    """The records of all runs, one after another."""
    results = fedgs.compare(
        data,
        methods=methods,
        availability="LDF",
        training={"rounds": 4, "cohort_limit": 3, "local_steps": 2, "objective": "equal"},
        seeds=[0],
        out=out,
        **settings,
    )
    paths = [run.path for run in results.runs]
    return b"".join((path / "rounds.jsonl").read_bytes() for path in paths if path is not None)


def assert_equal_records(tmp_path: Path, *methods: Any, **settings: Any) -> None:
    whole, some = (Synthetic(clients=12, on_demand=wanted) for wanted in (False, True))
    lines = study(whole, tmp_path / "whole", methods, **settings)
    assert lines.count(b'"round":4') == len(methods)
    assert study(some, tmp_path / "some", methods, **settings) == lines


def test_records_are_those_of_the_whole_federation(tmp_path: Path) -> None:
    evaluation = {"sample": 4, "per_client": {}, "every": 2}
    assert_equal_records(tmp_path, "uniform", "power_of_choice", evaluation=evaluation)


@pytest.mark.long
@pytest.mark.parametrize("engine", ["stacked", "loop"])
@pytest.mark.parametrize("aggregation", ["mean", "scaffold", "gossip"])
def test_records_are_equal_with_any_engine_and_aggregation(
    engine: str, aggregation: str, tmp_path: Path
) -> None:
    execution = {"engine": engine}
    method = {"name": "uniform", "weighting": "equal" if aggregation == "gossip" else "data_size"}
    assert_equal_records(tmp_path, method, aggregation=aggregation, execution=execution)


@pytest.mark.long
def test_records_are_equal_with_graphs_of_local_models(tmp_path: Path) -> None:
    graphs = [
        {"similarity": "update", "start": "seen"},
        {"similarity": "functional"},
        {"similarity": "functional", "start": "seen"},
    ]
    assert_equal_records(tmp_path, *({"name": "fedgs", "graph": graph} for graph in graphs))


def test_a_round_makes_the_examples_of_its_cohort_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[int] = []
    examples = Synthetic._client

    def counted(self: Synthetic, client: int) -> Any:
        asked.append(client)
        return examples(self, client)

    monkeypatch.setattr(Synthetic, "_client", counted)
    data = Synthetic(clients=4000, on_demand=True, test_clients=5)
    federation = data.load()
    assert len(asked) == 5  # for the test set
    asked.clear()
    assert len(federation.fingerprint) == 64 and not asked
    lines = study(data, tmp_path / "runs", evaluation={"sample": 7, "every": 4})
    assert b'"round":4' in lines
    # 5 for the test set, 3 in each of 4 rounds, 7 at rounds 0 and 4; and a few for the checks of
    # model and steps before round 0
    assert 5 + 4 * 3 + 2 * 7 <= len(asked) <= 5 + 4 * 3 + 2 * 7 + 10


def test_the_test_set_is_that_of_some_clients_drawn_by_the_seed() -> None:
    whole, some = Synthetic(clients=40).load(), made(clients=40, test_clients=6)
    again = made(clients=40, test_clients=6)
    assert 0 < len(some.test) < len(whole.test)
    np.testing.assert_array_equal(some.test.x, again.test.x)
    assert {row.tobytes() for row in some.test.x} <= {row.tobytes() for row in whole.test.x}
    other = made(clients=40, test_clients=6, seed=1)
    assert other.test.x.tobytes() != some.test.x.tobytes()


def test_the_fingerprint_is_a_function_of_the_settings() -> None:
    one = made(clients=5)
    assert one.fingerprint == made(clients=5).fingerprint
    others = [{"clients": 6}, {"a": 0.1}, {"seed": 1}, {"test_clients": 3}]
    prints = {made(**{"clients": 5, **other}).fingerprint for other in others}
    assert len({one.fingerprint, Synthetic(clients=5).load().fingerprint, *prints}) == 6


def test_folders_hold_the_settings_alone(tmp_path: Path) -> None:
    one = made(clients=20)
    folder = to_folder(one, tmp_path / "folder")
    assert sum(path.stat().st_size for path in folder.iterdir()) < 1000
    assert check_folder(folder) is None
    assert_equal_federations(open_folder(folder), one)
    (folder / "meta.json").write_text('{"format": 2, "on_demand": {"name": "synthetics"}}')
    with pytest.raises(DataError, match=r"not a complete folder .* 'synthetics'"):
        open_folder(folder)


def assert_equal_federations(other: Any, one: FederationOnDemand) -> None:
    assert isinstance(other, FederationOnDemand)
    assert (other.fingerprint, other.name, len(other)) == (one.fingerprint, one.name, len(one))
    assert list(other.clients.names) == list(one.clients.names)
    assert not other.train.held and np.isnan(other.train.x[-1]).all()
    for split in ("train", "validation"):
        np.testing.assert_array_equal(getattr(other, split).offsets, getattr(one, split).offsets)
        held, wanted = (getattr(f.holding(np.array([3, 1]), split), split) for f in (other, one))
        np.testing.assert_array_equal(held.x, wanted.x)
    np.testing.assert_array_equal(other.clients.features, one.clients.features)
    np.testing.assert_array_equal(other.test.x, one.test.x)
    for array in (other.clients.features, other.train.offsets, other.test.x):
        assert not array.flags.writeable


def test_copies_and_workers_draw_nothing_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one, drawn = made(clients=20), []
    draw = Synthetic._distribution
    content, folder = pickle.dumps(one), write_federation(one, tmp_path / "0")
    monkeypatch.setattr(
        Synthetic,
        "_distribution",
        lambda data, client: (drawn.append(client), draw(data, client))[1],
    )
    others = [pickle.loads(content), copy.deepcopy(one), read_federation(folder)]
    assert drawn == []
    for other in others:
        assert_equal_federations(other, one)
    assert set(drawn) == {1, 3}


def test_examples_that_are_not_made_take_no_memory_and_cannot_be_trained_on() -> None:
    one = made(clients=50)
    assert one.train.x.strides[0] == one.train.y.strides[0] == 0
    assert not one.train.held and np.isnan(one.train.x[0]).all() and one.train.y[0] == -1
    assert one.test is not None
    assert bytes_of(one) == one.test.x.nbytes + one.test.y.nbytes  # what a cluster stores
    plain = copy.copy(one.holding(np.array([0]), "validation"))  # its training part is not made
    work = Work(plain, LogisticRegression(), 0.0, local_steps=1, batch_size=5)
    import torch

    request = Train(work, torch.zeros(610), np.array([1]), 0.1, (0, 0), ())
    for name in ("loop", "stacked"):
        ((_, reply),) = new_engine(name, "cpu").answer([request])
        assert isinstance(reply, Failure)


def test_a_description_has_the_sizes_and_no_labels() -> None:
    description = describe(made(clients=8))
    assert description.label_counts is None and description.duplicates is None
    assert "8 clients" in description.lines()[0]


def test_what_reads_all_examples_is_refused(tmp_path: Path) -> None:
    one = made(clients=4)
    sentence = r"^Synthetic\(0.5, 0.5\) makes its examples on demand, so they can be neither"
    with pytest.raises(DataError, match=sentence):
        export(one, tmp_path / "one.npz")
    with pytest.raises(DataError, match=sentence):
        write_leaf(one, tmp_path / "leaf")
    with pytest.raises(DataError, match=sentence):
        first_difference(Synthetic(clients=4).load(), one)
    assert not list(tmp_path.iterdir())


def test_more_examples_than_fit_into_memory_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one = made(clients=20)
    needed = 248 * int(one.clients.data_sizes.sum())
    monkeypatch.setattr(module, "memory_limit", lambda: needed)
    one.check_room(None, "train")
    monkeypatch.setattr(module, "memory_limit", lambda: needed - 1)
    with pytest.raises(DataError, match="the train examples of 20 clients would take"):
        one.holding(np.arange(20), "train")
    one.holding(np.arange(3), "train")
    data = Synthetic(clients=20, on_demand=True)
    graph = {"name": "fedgs", "graph": {"similarity": "update"}}
    for evaluation in ({"sample": 5}, {}):
        with pytest.raises(ConfigError, match="a method and an aggregation that train the cohort"):
            study(data, tmp_path, [graph], evaluation=evaluation)
    monkeypatch.setattr(module, "memory_limit", lambda: 248 * 40)
    with pytest.raises(ConfigError, match="with evaluation.sample = 10_000, so many clients stand"):
        study(data, tmp_path)


def test_settings_are_left_out_of_tables_where_examples_are_held() -> None:
    assert set(table(Synthetic())) == {"name", "a", "b", "clients", "seed"}
    stored = table(Synthetic(on_demand=True))
    assert stored["on_demand"] is True and stored["test_clients"] == 1000
    with pytest.raises(ConfigError, match="data.test_clients has no effect without data.on_demand"):
        Synthetic(test_clients=5)


def test_more_clients_than_fit_into_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedgs.data.synthetic.memory_limit", lambda: 10_000)
    with pytest.raises(DataError, match="data.clients must be at most 100 for synthetic data"):
        Synthetic(clients=101, on_demand=True).load()
