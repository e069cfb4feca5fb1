"""User code cannot change arrays that runs share: it receives read-only arrays or copies."""

import copy
import dataclasses
import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from pydantic import BaseModel
from torch import nn

from fedgs import Clients, Federation, Selection, View
from fedgs.arrays import AnyArray, FloatArray, FloatMatrix, IntArray
from fedgs.availability import Availability
from fedgs.clients import Memory, Outcome
from fedgs.data import open_folder, to_folder
from fedgs.data.assemble import Labelled, share_out
from fedgs.data.partition import Assignment, Partition
from fedgs.experiments.compare import compare
from fedgs.experiments.study import Results
from fedgs.graph.matrix_distances import checked_once
from fedgs.sampler_answers import kept_memory
from fedgs.sampling import MD, FedGS, Sampler
from fedgs.sampling.base import Wish

TRAINING = {"rounds": 4, "proportion": 0.5, "local_steps": 2, "batch_size": 4}
ENGINES = ("loop", "stacked")


def arrays_in(value: Any, path: str = "") -> Iterator[tuple[str, AnyArray]]:
    """Every array that can be reached from a value, with the way to it."""
    if isinstance(value, np.ndarray):
        yield path, value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from arrays_in(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from arrays_in(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from arrays_in(inner, f"{path}[{key!r}]")
    elif isinstance(value, list | tuple | set):
        for index, inner in enumerate(value):
            yield from arrays_in(inner, f"{path}[{index}]")


def assert_closed(seen: dict[str, Any]) -> None:
    """No array can be written to, nor be made writeable."""
    for path, array in arrays_in(seen):
        assert not array.flags.writeable, f"{path} can be written to"
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True


SEEN: dict[str, Any] = {}


class Nosy(Sampler):
    """Keeps all that a sampler is ever handed."""

    loss_on: str = "validation"

    def check(self, clients: Clients, cohort_limit: int) -> None:
        SEEN["check"] = clients

    def wish(self, when: str) -> Wish:
        return Wish("update")

    def start(self, clients: Clients) -> Memory:
        return self.start_from(clients, np.zeros((len(clients), 2)))

    def start_from(self, clients: Clients, features: FloatMatrix) -> Memory:
        SEEN["start_from"] = (clients, features)
        wide = np.zeros((len(clients), 4))
        return {"whole": wide.copy(), "part": wide[:, ::2], "list": [1, 2], "number": 3}  # type: ignore[dict-item]

    def observe(self, memory: Memory, view: View, outcome: Outcome) -> Memory:
        SEEN[f"observe {view.round}"] = (memory, view, outcome)
        return {**memory, "whole": memory["whole"] + 1}

    def loss_candidates(self, view: View, rng: np.random.Generator) -> IntArray:
        SEEN[f"candidates {view.round}"] = view
        return view.available

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        SEEN[f"select {view.round}"] = view
        return Selection(view.available[: view.cohort_limit])


class NosyMode(Availability):
    """Keeps the clients that it is handed."""

    def rates(self, round: int, clients: Clients) -> FloatArray:
        SEEN["rates"] = clients
        return np.full(len(clients), 0.8)


class NosyPartition(Partition):
    """Keeps the labels and columns that it is handed."""

    def assign(
        self,
        labels: IntArray,
        clients: int,
        rng: np.random.Generator,
        *,
        columns: Mapping[str, AnyArray] = {},
    ) -> Assignment:
        SEEN["assign"] = (labels, columns)
        return Assignment.from_owners(np.arange(len(labels)) % clients, clients)


@pytest.mark.parametrize("engine", ENGINES)
def test_no_array_that_user_code_is_handed_can_be_written_to(
    toy_federation: Federation, engine: str
) -> None:
    SEEN.clear()
    results = compare(
        toy_federation,
        methods=[Nosy()],
        availability=NosyMode(),
        training=TRAINING,
        execution={"engine": engine},
    )
    assert results.runs[0].failure is None
    x, y = np.zeros((12, 3), dtype=np.float32), np.arange(12) % 3
    column = np.arange(12)
    partitioned = share_out(
        Labelled("mine", x, y, (x, y), num_labels=3), NosyPartition(), 3, columns={"writer": column}
    )
    x[:], y[:], column[:] = 1, 0, 0  # the arrays that were given stay the giver's
    assert not partitioned.test.x.any() and partitioned.test.y.any()
    reached = {path.split("]")[0].strip("['") for path, _ in arrays_in(SEEN)}
    assert {"check", "start_from", "observe 3", "candidates 3", "select 3", "rates"} <= reached
    assert {"list", "number", "part", "whole"} == set(SEEN["select 3"].memory)
    with pytest.raises(TypeError):
        SEEN["select 3"].memory["new"] = np.zeros(1)
    labels, columns = SEEN.pop("assign")
    assert not labels.flags.writeable and not columns["writer"].flags.writeable
    SEEN["federations"] = (toy_federation, partitioned)
    SEEN["run"] = results.runs[0].clients
    assert_closed(SEEN)


def test_arrays_of_a_stored_federation_cannot_be_written_to(
    toy_federation: Federation, tmp_path: Path
) -> None:
    from fedgs.data import File, Synthetic
    from fedgs.data.archive import export

    stored = export(toy_federation, tmp_path / "one.npz")
    opened = open_folder(to_folder(toy_federation, tmp_path / "folder"))
    assert_closed(
        {
            "npz": File(path=str(stored)).load(),
            "folder": opened,
            "drawn": Synthetic(clients=2).load(),
        }
    )
    assert opened.fingerprint == toy_federation.fingerprint


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))]
)
def test_arrays_of_a_copied_federation_cannot_be_written_to(
    toy_federation: Federation, copied: Callable[[Any], Any]
) -> None:
    before = toy_federation.fingerprint
    other = copied(toy_federation)
    assert_closed({"copy": other})
    assert dataclasses.replace(other).fingerprint == before


# Each writes to one thing that it is handed.
WRITES: dict[str, Callable[[View], Any]] = {
    "available": lambda view: view.available.sort(),
    "counts": lambda view: view.counts.__iadd__(5),
    "losses": lambda view: view.losses.fill(0),  # type: ignore[union-attr]
    "data_sizes": lambda view: view.clients.data_sizes.__setitem__(
        slice(None), view.clients.data_sizes[::-1].copy()
    ),
    "larger data_sizes": lambda view: np.multiply(
        view.clients.data_sizes, 9, out=view.clients.data_sizes
    ),
    "label_counts": lambda view: view.clients.label_counts.fill(1),  # type: ignore[union-attr]
    "features": lambda view: view.clients.features.sort(axis=0),  # type: ignore[union-attr]
    "memory": lambda view: view.memory["kept"].__iadd__(1),
    "shuffle": lambda view: np.random.default_rng(0).shuffle(view.clients.data_sizes),
    "reopened": lambda view: view.clients.data_sizes.setflags(write=True),
    "reopened view": lambda view: view.counts[:].setflags(write=True),
    "mapping": lambda view: view.memory.__setitem__("kept", np.zeros(1)),  # type: ignore[index, attr-defined]
    "attribute": lambda view: setattr(view.clients, "data_sizes", np.ones(6, dtype=np.int64)),
}


class Careless(Sampler):
    """Writes to what it is handed in round 1."""

    kind: str
    loss_on: ClassVar[str] = "train"

    def start(self, clients: Clients) -> Memory:
        return {"kept": np.zeros(3)}

    def observe(self, memory: Memory, view: View, outcome: Outcome) -> Memory:
        return memory

    def loss_candidates(self, view: View, rng: np.random.Generator) -> IntArray:
        return view.available

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        if view.round == 1:
            WRITES[self.kind](view)
        return Selection(view.available[: view.cohort_limit])


def with_features(federation: Federation) -> Federation:
    features = np.arange(12.0).reshape(6, 2)
    return dataclasses.replace(
        federation, clients=dataclasses.replace(federation.clients, features=features)
    )


def lines(results: Results, label: str) -> list[Any]:
    return [run.records for run in results.runs if run.label == label]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", WRITES)
def test_a_sampler_that_writes_fails_alone_and_changes_no_other_run(
    toy_federation: Federation, kind: str, engine: str
) -> None:
    federation = with_features(toy_federation)
    before = (
        federation.fingerprint,
        federation.clients.data_sizes.tolist(),
        federation.clients.label_counts.tolist(),
    )  # type: ignore[union-attr]
    settings: dict[str, Any] = {"training": TRAINING, "execution": {"engine": engine}}
    alone = compare(federation, methods={"md": MD()}, **settings)
    beside = compare(federation, methods={"careless": Careless(kind=kind), "md": MD()}, **settings)
    assert lines(beside, "md") == lines(alone, "md")
    failure = next(run.failure for run in beside.runs if run.label == "careless")
    assert failure is not None and failure["round"] == 1
    assert any(
        word in failure["error"]
        for word in ("read-only", "WRITEABLE", "mappingproxy", "cannot assign to field")
    )
    whole = dataclasses.replace(federation)  # without the cached fingerprint
    assert (
        whole.fingerprint,
        whole.clients.data_sizes.tolist(),
        whole.clients.label_counts.tolist(),
    ) == before  # type: ignore[union-attr]


BUFFER = np.zeros(6, dtype=np.int64)
RATES = np.ones(6)


class Reusing(Sampler):
    """Answers with one array of its own that it overwrites in every call, whichever run calls."""

    loss_on: ClassVar[str] = "train"
    last: bool = False

    def _answer(self, clients: IntArray) -> IntArray:
        BUFFER[: len(clients)] = clients
        return BUFFER[: len(clients)]

    def loss_candidates(self, view: View, rng: np.random.Generator) -> IntArray:
        return self._answer(view.available[-2:] if self.last else view.available[:2])

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        assert view.losses is not None
        candidates = view.available[-2:] if self.last else view.available[:2]
        assert np.flatnonzero(np.isfinite(view.losses)).tolist() == candidates.tolist()
        return Selection(self._answer(candidates[np.argsort(view.losses[candidates])][-1:]))


class ReusingMode(Availability):
    """Says that its rates never change, and overwrites the array that it returned."""

    steady: ClassVar[bool] = True

    def rates(self, round: int, clients: Clients) -> FloatArray:
        RATES[:] = 1.0
        return RATES


@pytest.mark.parametrize("engine", ENGINES)
def test_arrays_that_user_code_returns_can_be_reused_by_it(
    toy_federation: Federation, engine: str
) -> None:
    class Spoiling(Sampler):
        def select(self, view: View, rng: np.random.Generator) -> Selection:
            assert len(view.available) == 6
            RATES[:] = 0.0
            return Selection(view.available[: view.cohort_limit])

    settings: dict[str, Any] = {
        "training": TRAINING,
        "availability": ReusingMode(),
        "execution": {"engine": engine},
    }
    both = {"first": Reusing(), "last": Reusing(last=True)}
    together = compare(toy_federation, methods={**both, "spoiling": Spoiling()}, **settings)
    assert [run.failure for run in together.runs] == [None, None, None]
    for label, sampler in both.items():
        assert lines(together, label) == lines(
            compare(toy_federation, methods={label: sampler}, **settings), label
        )


def test_arrays_of_earlier_rounds_stay_as_they_were(toy_federation: Federation) -> None:
    views: list[tuple[View, list[int], list[int]]] = []

    class Keeping(Sampler):
        def select(self, view: View, rng: np.random.Generator) -> Selection:
            for earlier, available, counts in views:
                assert (earlier.available.tolist(), earlier.counts.tolist()) == (available, counts)
            views.append((view, view.available.tolist(), view.counts.tolist()))
            return Selection(view.available[: view.cohort_limit])

    results = compare(
        toy_federation, methods=[Keeping()], availability=NosyMode(), training=TRAINING
    )
    assert results.runs[0].failure is None and len(views) == 4


def test_distances_in_a_memory_are_checked_once_and_not_copied() -> None:
    # The matrix counts as writeable, so that one compiled version of the kernels serves all.
    assert checked_once(
        kept_memory({"distance": np.zeros((2, 2))})["distance"]
    ).matrix.flags.writeable
    distance = kept_memory({"distance": np.ones((3, 3)) - np.eye(3)})["distance"]
    assert checked_once(distance).tree is checked_once(distance).tree
    assert np.shares_memory(checked_once(distance).matrix, distance)


def test_a_memory_that_stays_is_stored_once_also_after_a_resume(
    toy_federation: Federation, tmp_path: Path
) -> None:
    for rounds in (2, 4):
        settings = {**TRAINING, "rounds": rounds}
        compare(
            toy_federation,
            methods=[FedGS()],
            training=settings,
            out=tmp_path,
            execution={"checkpoint_every": 1},
        )
        (stored,) = tmp_path.glob("*/checkpoint.npz")
        with np.load(stored) as arrays:
            header = json.loads(str(arrays["header"]))
            assert header["unchanged_memory"] == ["distance", "similarity", "adjacency"]
            assert not [name for name in arrays.files if name.startswith("memory.")]


def test_arrays_that_a_federation_was_made_of_stay_the_givers() -> None:
    x, y, owner = np.ones((6, 2), dtype=np.float32), np.arange(6) % 2, np.arange(6) % 3
    test_x, features = np.ones((2, 2), dtype=np.float32), np.zeros((3, 2))
    federation = Federation.from_arrays(
        x,
        y,
        client=owner,
        test=(test_x, y[:2]),
        validation=(x[:3], y[:3], owner[:3]),
        client_features=features,
    )
    sizes, counts = np.array([2, 3]), np.ones((2, 2), dtype=np.int64)
    clients = Clients(("a", "b"), sizes, counts, features[:2])
    before = federation.fingerprint
    for array in (x, y, owner, test_x, features, sizes, counts):
        array[:] = 0
    assert dataclasses.replace(federation).fingerprint == before
    assert (
        clients.data_sizes.tolist() == [2, 3]
        and clients.label_counts is not None
        and clients.label_counts.all()
    )


class InPlace(nn.Module):
    """Writes to its input before it is used."""

    def __init__(self, careful: bool) -> None:
        super().__init__()
        self.careful, self.linear = careful, nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.careful:
            return self.linear(x * 2 - 1)
        x.mul_(2)
        x -= 1
        return self.linear(x)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("similarity", ["oracle", "functional"])
def test_a_model_may_write_to_its_input(
    toy_federation: Federation, engine: str, similarity: str
) -> None:
    before = dataclasses.replace(toy_federation).fingerprint
    records = []
    for careful in (True, False):
        results = compare(
            toy_federation,
            methods=[FedGS(graph={"similarity": similarity}), "power_of_choice"],  # type: ignore[arg-type]
            model=lambda careful=careful: InPlace(careful),
            training=TRAINING,
            execution={"engine": engine},
        )
        assert [run.failure for run in results.runs] == [None, None]
        records.append([run.records for run in results.runs])
    assert records[0] == records[1]
    assert dataclasses.replace(toy_federation).fingerprint == before


PLUGIN = """
import fedgs
@fedgs.sampler("careless-plugin")
def careless(view, rng):
    sizes = view.clients.data_sizes
    sizes[:] = sizes.max() - sizes + 1          # "prefer the small ones"
    return fedgs.Selection(view.available[sizes[view.available].argsort()[-view.cohort_limit:]])
"""


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_plugin_that_writes_ends_its_own_run_in_every_process(
    toy_federation: Federation, tmp_path: Path, workers: int
) -> None:
    from fedgs.registry import load_plugin

    (tmp_path / "careless.py").write_text(PLUGIN)
    load_plugin(tmp_path / "careless.py")
    settings: dict[str, Any] = {"training": TRAINING, "execution": {"workers": workers}}
    alone = compare(toy_federation, methods=["md"], training=TRAINING)
    beside = compare(toy_federation, methods=["careless-plugin", "md"], **settings)
    assert lines(beside, "md") == lines(alone, "md")
    failure = beside.runs[0].failure
    assert failure is not None and "assignment destination is read-only" in failure["error"]
    assert "careless.py" in failure["traceback"]
