"""A graph that runs share is computed and stored once.

One that does not fit into memory is refused before anything is written.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedgs
from fedgs.clients import Clients, Memory
from fedgs.data import Federation
from fedgs.errors import ConfigError, DataError, GraphError, OutputError
from fedgs.experiments.compare import compare
from fedgs.experiments.memories import StartMemories
from fedgs.experiments.study import Results
from fedgs.graph import Graph
from fedgs.records import RunFolder, read_arrays, save_arrays
from fedgs.report.network import network_of_run
from fedgs.report.reading import read_runs
from fedgs.sampling import FedGS

GRAPHS: list[dict[str, Any]] = [
    {},
    {"similarity": "private", "dealer": "notary"},
    {"start": "seen"},
    {"construction": "complete"},
]


def study(
    federation: Federation,
    out: Path | None,
    *,
    methods: Any = None,
    workers: int = 1,
    **settings: Any,
) -> Results:
    return compare(
        federation,
        methods={"one": FedGS(), "two": FedGS(alpha=0.5, scale="cohort")}
        if methods is None
        else methods,
        availability=settings.pop("availability", "LDF"),
        training={"rounds": 4, "proportion": 0.4, "local_steps": 2, "batch_size": 4},
        seeds=range(3),
        execution={"engine": "loop", "workers": workers, "checkpoint_every": 2},
        out=out,
        **settings,
    )


def records(out: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in out.rglob("rounds.jsonl")}


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_six_runs_share_one_file(toy_federation: Federation, tmp_path: Path, workers: int) -> None:
    results = study(toy_federation, tmp_path / "out", workers=workers)
    (file,) = (tmp_path / "out" / "graphs").glob("*.npz")
    assert list((tmp_path / "out").rglob("memory.npz")) == []
    expected = Graph().of_clients(toy_federation.clients)
    assert np.array_equal(read_arrays(file)["distance"], expected.distance)
    assert len(results.runs) == 6
    for run in results.runs:
        assert run.path is not None
        assert json.loads((run.path / "memory.json").read_text()) == {
            "file": f"../graphs/{file.name}"
        }
        assert np.array_equal(RunFolder(run.path).arrays("memory")["distance"], expected.distance)
    runs, problems = read_runs(tmp_path / "out")
    assert problems == []
    drawn = network_of_run(runs[0])
    assert drawn is not None and np.array_equal(drawn.distance, expected.distance)


@pytest.mark.parametrize("out", [True, False])
def test_the_graph_is_made_once(
    toy_federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: bool
) -> None:
    made: list[Graph] = []
    original = Graph.of_clients
    monkeypatch.setattr(
        Graph, "of_clients", lambda self, clients: (made.append(self), original(self, clients))[1]
    )
    methods = [FedGS(), FedGS(alpha=0.0), FedGS(graph=Graph(epsilon=0.3))]
    results = study(
        toy_federation,
        tmp_path / "out" if out else None,
        methods={str(k): method for k, method in enumerate(methods)},
    )
    assert [run.failure for run in results.runs] == [None] * 9
    assert len(made) == 2  # one for each setting of the graph
    if out:
        study(toy_federation, tmp_path / "out", methods={"other": FedGS(alpha=3.0, scale="cohort")})
        assert len(made) == 2  # a later study finds the file
        assert len(list((tmp_path / "out" / "graphs").glob("*.npz"))) == 2


@pytest.mark.parametrize("graph", GRAPHS, ids=str)
def test_a_killed_run_resumes_to_the_same_records(
    toy_federation: Federation, tmp_path: Path, graph: dict[str, Any]
) -> None:
    methods = {"one": FedGS(graph=Graph(**graph))}
    results = study(toy_federation, tmp_path / "out", methods=methods)
    assert len(list((tmp_path / "out" / "graphs").glob("*.npz"))) == 1
    before = records(tmp_path / "out")
    for run, what in zip(results.runs, ("tail", "checkpoint", "all"), strict=True):
        assert run.path is not None
        lines = run.path / "rounds.jsonl"
        lines.write_bytes(b"" if what == "all" else lines.read_bytes()[:-20])
        if what != "tail":
            (run.path / "checkpoint.npz").unlink()
        if what == "all":
            (run.path / "memory.json").unlink()
    study(toy_federation, tmp_path / "out", methods=methods)
    assert records(tmp_path / "out") == before


@pytest.mark.parametrize("similarity", ["update", "functional"])
def test_graphs_that_a_seed_decides_stay_with_their_runs(
    toy_federation: Federation, tmp_path: Path, similarity: str
) -> None:
    methods = {"one": {"name": "fedgs", "graph": {"similarity": similarity}}}
    study(toy_federation, tmp_path / "out", methods=methods)
    assert len(list((tmp_path / "out").rglob("memory.npz"))) == 3
    assert list((tmp_path / "out").rglob("memory.json")) == []


def test_a_run_with_a_file_of_its_own_resumes_and_is_shown(
    toy_federation: Federation, tmp_path: Path
) -> None:
    results = study(toy_federation, tmp_path / "out", methods={"one": FedGS()})
    before = records(tmp_path / "out")
    for run in results.runs:  # as earlier versions stored it
        assert run.path is not None
        save_arrays(run.path / "memory.npz", RunFolder(run.path).arrays("memory"))
        (run.path / "memory.json").unlink()
        (run.path / "rounds.jsonl").write_bytes((run.path / "rounds.jsonl").read_bytes()[:-20])
    for file in (tmp_path / "out" / "graphs").iterdir():
        file.unlink()
    study(toy_federation, tmp_path / "out", methods={"one": FedGS()})
    assert records(tmp_path / "out") == before
    assert list((tmp_path / "out" / "graphs").glob("*.npz")) == []
    assert "distance" in read_runs(tmp_path / "out")[0][0].memory()


def test_a_missing_or_damaged_file_is_named(toy_federation: Federation, tmp_path: Path) -> None:
    results = study(toy_federation, tmp_path / "out", methods={"one": FedGS()})
    (file,) = (tmp_path / "out" / "graphs").glob("*.npz")
    for run in results.runs:
        assert run.path is not None
        (run.path / "rounds.jsonl").write_bytes((run.path / "rounds.jsonl").read_bytes()[:-20])
    file.write_bytes(b"PK nothing")
    with pytest.raises(OutputError, match=rf"{file.name} is damaged"):
        study(toy_federation, tmp_path / "out", methods={"one": FedGS()})
    file.unlink()
    with pytest.raises(
        OutputError, match=rf"{file.name} is missing, which .* begins with; remove the run's folder"
    ):
        study(toy_federation, tmp_path / "out", methods={"one": FedGS()})


def test_the_key_names_all_that_the_graph_is_made_of(toy_federation: Federation) -> None:
    clients = toy_federation.clients
    assert clients.label_counts is not None
    other = Clients(
        clients.names, clients.data_sizes, label_counts=clients.label_counts[::-1].copy()
    )
    renamed = Clients(
        tuple(range(len(clients))), clients.data_sizes, label_counts=clients.label_counts
    )
    keys = [FedGS(graph=Graph(**graph)).memory_key(clients) for graph in GRAPHS]
    assert len({*keys, FedGS().memory_key(other)}) == len(GRAPHS) + 1
    assert FedGS(alpha=3.0).memory_key(renamed) == FedGS().memory_key(clients)
    assert FedGS(graph=Graph(similarity="update")).memory_key(clients) is None
    assert FedGS(graph=Graph(similarity="update", start="seen")).memory_key(clients) is not None


def test_what_was_made_by_another_process_is_read(tmp_path: Path) -> None:
    def never() -> Memory:
        raise AssertionError("the file is there")

    made = StartMemories(tmp_path).start("ab", lambda: {"distance": np.eye(2)})
    assert not made["distance"].flags.writeable
    again = StartMemories(tmp_path)
    assert np.array_equal(again.start("ab", never)["distance"], np.eye(2))
    assert again.start("ab", never)["distance"] is again.start("ab", never)["distance"]


# --- memory


def limited(monkeypatch: pytest.MonkeyPatch, gigabytes: float) -> None:
    monkeypatch.setattr("fedgs.sampling.fedgs.memory_limit", lambda: int(gigabytes * 1e9))


def many(count: int) -> Clients:
    return Clients(
        tuple(range(count)),
        np.ones(count, dtype=np.int64),
        label_counts=np.ones((count, 1), dtype=np.int64),
    )


@pytest.mark.parametrize(
    "graph",
    [
        {"structure": "dense"},
        {"construction": "complete"},
        {"similarity": "functional", "structure": "dense"},
        {"path": "g.npz"},
    ],
    ids=str,
)
def test_a_graph_that_does_not_fit_is_refused_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch, graph: dict[str, Any]
) -> None:
    limited(monkeypatch, 16)
    with pytest.raises(ConfigError) as error:
        FedGS(graph=Graph(**graph)).check(many(100_000), 10)
    assert str(error.value) == (
        "method 'fedgs' needs about 480.0 GB of memory for the graph of 100000 clients, "
        "and this process may use 16.0 GB (up to 18257 clients); use fewer clients, "
        "or 'uniform', 'md' or 'power_of_choice', which make no graph"
    )


def test_the_limit_is_that_of_the_settings_own_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, 48e-9 * 400)  # 48 bytes a pair: 20 clients
    FedGS().check(many(20), 1)
    with pytest.raises(ConfigError, match=r"up to 20 clients"):
        FedGS().check(many(21), 1)


def test_a_study_that_does_not_fit_writes_nothing(
    toy_federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(monkeypatch, 1e-6)
    with pytest.raises(ConfigError, match="method 'fedgs' needs about"):
        study(toy_federation, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    others = study(toy_federation, None, methods=["uniform", "md", "power_of_choice"])
    assert [run.failure for run in others.runs] == [None] * 9


def test_memory_that_the_system_does_not_give_is_one_sentence(
    toy_federation: Federation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def exhausted(*given: object, **settings: object) -> None:
        raise MemoryError("Unable to allocate 80.0 GiB")

    monkeypatch.setattr(Graph, "of_clients", exhausted)
    with pytest.raises(
        GraphError,
        match="method 'fedgs' needs about .* GB of memory for the graph of 6 clients, and the",
    ):
        FedGS().start(toy_federation.clients)
    run = study(toy_federation, None, methods={"one": FedGS()}).runs[0]
    assert run.failure is not None and run.failure["error"].startswith(
        "GraphError: method 'fedgs' needs about"
    )
    monkeypatch.setattr("fedgs.experiments.preparing.load_federation", exhausted)
    with pytest.raises(
        DataError, match="cannot be prepared in the memory that this process may use: Unable to"
    ):
        study(fedgs.Synthetic(clients=3), tmp_path / "out")  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()
