"""A run's identity: which differences make another run, and content that cannot be identified."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from pydantic import Field
from torch import nn

import fedgs
from fedgs import registry, solver
from fedgs.aggregation import Mean, ServerStep
from fedgs.config import Config
from fedgs.data import Data, Federation
from fedgs.errors import ConfigError
from fedgs.experiments.compare import _Given
from fedgs.experiments.grid import build_config
from fedgs.experiments.prepared import PreparedRun
from fedgs.experiments.preparing import prepare
from fedgs.fingerprint import Identity, identity_of
from fedgs.local import linear, loop, stacked
from fedgs.models import LogisticRegression, as_model
from fedgs.registry import load_plugin
from fedgs.sampling.base import Sampler
from fedgs.weighting import Weighting


def closed_socket() -> socket.socket:
    """An object whose content cannot be identified."""
    made = socket.socket()
    made.close()
    return made


def identity(*, data: str = "d", limit: int = 6, **settings: Any) -> Identity:
    config = Config(**{"data": "synthetic", "availability": "LDF", "method": "fedgs", **settings})
    return identity_of(config, data_fingerprint=data, limit=limit)


def prepared(federation: Federation, *, model: Any = None, **settings: Any) -> PreparedRun:
    given = {
        "data": _Given(federation=federation),
        "availability": "IDL",
        "method": "uniform",
        "seed": 0,
        **settings,
    }
    (prepared_run,) = prepare(
        [build_config({**given, "model": None if model is None else as_model(model)})]
    )
    return prepared_run


def fingerprints(federation: Federation, models: list[Callable[[], nn.Module]]) -> list[str]:
    return [prepared(federation, model=model).fingerprint for model in models]


# Settings


@pytest.mark.parametrize(
    "settings",
    [
        {"availability": "MDF"},
        {"availability": {"name": "LDF", "beta": 0.5}},
        {"method": "uniform"},
        {"method": {"name": "fedgs", "alpha": 2.0}},
        {"training": {"local_steps": 11}},
        {"training": {"mu": 0.1}},
        {"training": {"precision": "bf16"}},
        {"evaluation": {"every": 2}},
        {"model": "cifar_cnn"},
        {"seed": 1},
    ],
)
def test_fingerprint_changes_with_what_changes_results(settings: dict[str, object]) -> None:
    assert identity(**settings).fingerprint != identity().fingerprint


@pytest.mark.parametrize(
    "settings",
    [
        {"training": {"rounds": 7}},
        {"training": {"cohort_limit": 6}},
        {"execution": {"engine": "loop"}},
        {"execution": {"workers": 2}},
        {"execution": {"checkpoint_every": 3}},
        {"label": "mine"},
    ],
)
def test_fingerprint_does_not_change_with_how_a_run_is_carried_out(
    settings: dict[str, object],
) -> None:
    assert identity(**settings).fingerprint == identity().fingerprint


def test_fingerprint_covers_the_data_and_the_cohort_limit() -> None:
    assert identity(limit=5).fingerprint != identity().fingerprint
    assert identity(data="other").fingerprint != identity().fingerprint


# Models given as functions


def test_models_in_a_loop_are_runs_of_their_own(toy_federation: Federation) -> None:
    """The width comes from a closure, a default, a global, an attribute or a partial."""

    def closure(width: int) -> Callable[[], nn.Module]:
        return lambda: nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 3))

    def of_global(width: int) -> Callable[[], nn.Module]:
        space = {"nn": nn, "W": width, "__name__": "__main__"}
        exec("def net(): return nn.Sequential(nn.Linear(6, W), nn.Linear(W, 3))", space)
        return space["net"]

    class Callable_:
        def __init__(self, width: int) -> None:
            self.width = width

        def __call__(self) -> nn.Module:
            return nn.Sequential(nn.Linear(6, self.width), nn.Linear(self.width, 3))

    def default(width: int) -> Callable[[], nn.Module]:
        return lambda width=width: nn.Sequential(nn.Linear(6, width), nn.Linear(width, 3))

    for make in (closure, of_global, default, Callable_):
        narrow, wide, again = fingerprints(toy_federation, [make(4), make(5), make(4)])
        assert narrow == again != wide, make


def test_two_lambdas_are_two_runs_and_the_same_structure_with_another_forward_is_another(
    toy_federation: Federation,
) -> None:
    class Net(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x)

    class Other(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return -super().forward(x)

    Other.__name__ = Other.__qualname__ = "Net"
    models = [
        lambda: nn.Linear(6, 3),
        lambda: nn.Linear(6, 3, bias=False),
        lambda: Net(6, 3),
        lambda: Other(6, 3),
    ]
    assert len(set(fingerprints(toy_federation, models))) == 4


def test_a_model_that_reads_its_first_parameters_from_a_file_counts_by_them(
    toy_federation: Federation, tmp_path: Path
) -> None:
    def pretrained() -> nn.Module:
        module = nn.Linear(6, 3)
        module.load_state_dict(torch.load(tmp_path / "weights.pt"))
        return module

    fingerprints = []
    for value in (0.0, 1.0, 0.0):
        torch.save(
            {"weight": torch.full((3, 6), value), "bias": torch.zeros(3)}, tmp_path / "weights.pt"
        )
        fingerprints.append(prepared(toy_federation, model=pretrained).fingerprint)
    assert fingerprints[0] == fingerprints[2] != fingerprints[1]


def test_a_model_that_is_another_one_each_time_is_not_reused(toy_federation: Federation) -> None:
    calls: list[int] = []

    def drifting() -> nn.Module:
        module = nn.Linear(6, 3)
        module.number = len(calls)
        calls.append(1)
        return module

    drifting.__name__ = "drifting"
    (sentence,) = prepared(toy_federation, model=drifting).identity.unknown
    assert sentence.startswith(
        "model 'drifting' refers to a module that differs from build to build"
    )


def test_a_study_looks_anew_at_a_function_that_builds_another_module_now(
    toy_federation: Federation,
) -> None:
    """Engine, kernels and update size follow from the module, not from the function."""
    width = 0

    def changing() -> nn.Module:
        if not width:
            return nn.Linear(6, 3)
        return nn.Sequential(nn.Linear(6, width), nn.Dropout(), nn.Linear(width, 3))

    def losses(model: Callable[[], nn.Module]) -> tuple[str, list[float | None]]:
        method = {"name": "fedgs", "graph": {"similarity": "update"}}
        training = {"rounds": 2, "batch_size": 2}
        (run,) = fedgs.compare(
            toy_federation, methods=[method], model=model, training=training
        ).runs
        assert run.failure is None
        return run.config["run"]["engine_reason"], [record.test_loss for record in run.records]

    linear = losses(changing)
    width = 4
    assert losses(changing) == losses(lambda: changing()) != linear
    assert "dropout" in losses(changing)[0]


# Samplers


class Private(Sampler):
    _level: int = 1

    def select(self, view: fedgs.View, rng: np.random.Generator) -> fedgs.Selection:
        return fedgs.Selection(view.available[: self._level])


def test_private_attributes_of_a_sampler_count() -> None:
    first, again, other = Private(), Private(), Private()
    other._level = 2
    assert (
        identity(method=first).fingerprint
        == identity(method=again).fingerprint
        != identity(method=other).fingerprint
    )


def made(level: int, thing: Any = None) -> Any:
    @fedgs.sampler("fingerprint-test")
    def chosen(
        view: fedgs.View, rng: np.random.Generator, *, power: float = 1.0
    ) -> fedgs.Selection:
        return fedgs.Selection(view.available[: level if thing is None else level + 1])

    return chosen


def test_samplers_made_in_a_loop_are_methods_of_their_own() -> None:
    first, second = made(1), made(2)
    assert identity(method=first).fingerprint != identity(method=second).fingerprint
    assert identity(method=first).fingerprint == identity(method=made(1)).fingerprint
    latest = made(3)
    assert identity(method="fingerprint-test").fingerprint == identity(method=latest).fingerprint
    named = {"name": "fingerprint-test", "power": 2.0}
    assert identity(method=named).fingerprint != identity(method=latest).fingerprint


class Naming(Sampler):
    """A sampler of the user's that names a weighting of another file."""

    weighting: Any = "own-weighting"


PARTS = """
import numpy as np
from fedgs.aggregation import Aggregation, ServerStep, WeightedMean
from fedgs.availability import Availability
from fedgs.registry import register
from fedgs.weighting import Weighting

@register("weighting", "own-weighting")
class OwnWeighting(Weighting):
    def weights(self, view, selection, memory):
        return np.full(len(selection.clients), 2.0)

@register("server", "own-server")
class OwnServer(ServerStep):
    def moved(self, parameters, update, moments):
        return parameters + 2.0 * update, moments

@register("aggregation", "own-aggregation")
class OwnAggregation(Aggregation):
    def folds(self, round):
        return (WeightedMean(round.weights),)

    def step(self, round, results):
        if not results:
            return round.parameters, round.vectors
        return 2.0 * results[0], round.vectors

@register("availability", "own-mode")
class OwnMode(Availability):
    steady = True

    def rates(self, round, clients):
        return np.full(len(clients), 2.0 / 10)
"""


@pytest.mark.parametrize(
    "settings",
    [
        {"method": {"name": "uniform", "weighting": "own-weighting"}},
        {"method": {"name": "uniform", "weighting": {"name": "own-weighting"}}},
        {"method": Naming},
        {"aggregation": {"name": "mean", "server": "own-server"}},
        {"aggregation": {"name": "own-aggregation"}},
        {"aggregation": {"name": "own-aggregation", "server": "own-server"}},
        {"availability": {"name": "markov", "base": "own-mode"}},
        {"availability": {"name": "staircase", "base": "own-mode"}},
        {"availability": {"name": "cyclic", "base": "own-mode"}},
        {"availability": {"name": "diurnal", "base": "own-mode"}},
    ],
    ids=str,
)
def test_the_code_of_parts_and_of_parts_of_parts_counts(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    found = []
    for factor in ("2.0", "3.0", "2.0"):
        for variants in registry._variants.values():
            for name in ("own-weighting", "own-server", "own-aggregation", "own-mode"):
                variants.pop(name, None)
        (tmp_path / factor).mkdir(exist_ok=True)
        (tmp_path / factor / "parts.py").write_text(PARTS.replace("2.0", factor))
        registry._plugins.clear()
        load_plugin(tmp_path / factor / "parts.py")
        found.append(identity(**settings).fingerprint)
    assert found[0] == found[2] != found[1]


def test_own_weightings_and_server_steps_without_a_name_are_told_apart(tmp_path: Path) -> None:
    class Ones(Weighting):
        def weights(self, view: Any, selection: Any, memory: Any) -> Any:
            return np.ones(len(selection.clients))

    class Twos(Weighting):
        def weights(self, view: Any, selection: Any, memory: Any) -> Any:
            return np.full(len(selection.clients), 2.0)

    class Still(ServerStep):
        def moved(self, parameters: Any, update: Any, moments: Any) -> Any:
            return parameters, moments

    class Moving(ServerStep):
        def moved(self, parameters: Any, update: Any, moments: Any) -> Any:
            return parameters + update, moments

    class FromFile(Ones):
        path: str

    methods = [fedgs.Uniform(weighting=rule()) for rule in (Ones, Twos)]
    assert len({identity(method=method).fingerprint for method in methods}) == 2
    aggregations = [Mean(server=step()) for step in (Still, Moving)]
    assert len({identity(aggregation=one).fingerprint for one in aggregations}) == 2
    found = set()
    for content in ("a", "b"):
        (tmp_path / "weights.csv").write_text(content)
        method = fedgs.Uniform(weighting=FromFile(path=str(tmp_path / "weights.csv")))
        found.add(identity(method=method).fingerprint)
    assert len(found) == 2


def test_what_cannot_be_identified_is_never_the_same_run_and_is_named() -> None:
    method = made(1, closed_socket())
    first, second = identity(method=method), identity(method=method)
    assert first.fingerprint != second.fingerprint
    assert first.unknown == (
        "method 'fingerprint-test' refers to thing (socket.socket), whose content cannot be "
        "identified: its runs are not reused; give it a content_digest",
    )


def test_a_content_digest_stands_for_what_cannot_be_identified() -> None:
    def with_digest(digest: str, level: int = 1) -> Identity:
        method = made(level, closed_socket())
        method.content_digest = digest
        return identity(method=method)

    assert with_digest("a").unknown == ()
    assert (
        with_digest("a").fingerprint == with_digest("a").fingerprint != with_digest("b").fingerprint
    )
    assert with_digest("a").fingerprint != with_digest("a", level=2).fingerprint

    class Own(Sampler):
        THING: ClassVar[Any] = closed_socket()
        version: str = "a"

        @property
        def content_digest(self) -> str:
            return self.version

    assert identity(method=Own()).unknown == ()
    assert (
        identity(method=Own()).fingerprint
        == identity(method=Own()).fingerprint
        != identity(method=Own(version="b")).fingerprint
    )


def test_a_content_digest_that_raises_is_one_sentence() -> None:
    class Broken(Sampler):
        @property
        def content_digest(self) -> str:
            raise KeyError("gone")

    with pytest.raises(
        ConfigError, match="method 'Broken': content_digest raised KeyError: 'gone'"
    ):
        identity(method=Broken())


def test_a_subclass_does_not_take_the_graph_that_its_parent_stored() -> None:
    class Mine(fedgs.FedGS):
        pass

    clients = fedgs.Clients(("a", "b"), np.array([1, 1]), label_counts=np.eye(2, dtype=np.int64))
    assert fedgs.FedGS().memory_key(clients) is not None and Mine().memory_key(clients) is None


def test_an_inherited_content_digest_does_not_stand_for_a_subclass() -> None:
    class Mine(fedgs.FedGS):
        THING: ClassVar[Any] = closed_socket()

    assert len(identity(method=Mine()).unknown) == 1


class Reader(Sampler):
    """A sampler whose settings name files, at every depth."""

    table: str = ""
    path: Path | None = None
    several: list[str] = Field(default_factory=list)
    nested: dict[str, list[dict[str, str]]] = Field(default_factory=dict)


@pytest.mark.parametrize(
    "settings",
    [
        lambda file: {"table": str(file)},
        lambda file: {"path": file},
        lambda file: {"several": ["no file", str(file)]},
        lambda file: {"nested": {"a": [{"b": str(file)}]}},
    ],
)
def test_files_in_settings_count_by_content(
    settings: Callable[[Path], dict[str, Any]], tmp_path: Path
) -> None:
    file = tmp_path / "table.csv"
    file.write_text("1,2")
    method = Reader(**settings(file))
    before = identity(method=method).fingerprint
    assert identity(method=method).fingerprint == before
    file.write_text("1,3")
    assert identity(method=method).fingerprint != before
    file.write_text("1,2")
    assert identity(method=method).fingerprint == before


def test_texts_that_name_no_file_are_texts(tmp_path: Path) -> None:
    for text in ("", "\0", "x" * 5000, str(tmp_path), "weights/" * 600):
        assert identity(method=Reader(table=text)).unknown == ()


def test_a_files_setting_of_a_class_with_a_content_digest_is_left_to_it(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text("1,2")

    class Told(Reader):
        content_digest: ClassVar[str] = "always"

    before = identity(method=Told(table=str(file)))
    file.write_text("1,3")
    assert identity(method=Told(table=str(file))) == before


# Numerics


def image_federation() -> Federation:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 1, 4, 4)).astype(np.float32), np.arange(12) % 2
    return Federation.from_arrays(x, y, client=np.arange(12) // 4, test=(x, y))


def kinds(federation: Federation) -> dict[str, PreparedRun]:
    def network() -> nn.Module:
        return nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))

    def images() -> nn.Module:
        return nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 2))

    def unstackable() -> nn.Module:
        return nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))

    return {
        "logistic": prepared(federation),
        "linear of one's own": prepared(federation, model=lambda: nn.Linear(6, 3)),
        "logistic, bf16": prepared(federation, training={"precision": "bf16"}),
        "network": prepared(federation, model=network),
        "images": prepared(image_federation(), model=images),
        "unstackable": prepared(federation, model=unstackable),
        "logistic, fedgs": prepared(federation, method="fedgs"),
        "images, fedgs": prepared(image_federation(), model=images, method="fedgs"),
    }


CONCERNED = {
    "linear": {"logistic", "linear of one's own", "logistic, fedgs"},
    "stacked": {"network", "logistic, bf16"},
    "loop": {"images", "images, fedgs", "unstackable"},
    "solver": {"logistic, fedgs", "images, fedgs"},
}


@pytest.mark.parametrize("part", CONCERNED)
def test_new_numbers_of_a_part_concern_the_runs_that_it_carries_out_alone(
    part: str, toy_federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = {"linear": linear, "stacked": stacked, "loop": loop, "solver": solver}[part]
    before = {kind: run.fingerprint for kind, run in kinds(toy_federation).items()}
    assert {kind: run.fingerprint for kind, run in kinds(toy_federation).items()} == before
    monkeypatch.setattr(module, "NUMERICS", module.NUMERICS + 1)
    after = {kind: run.fingerprint for kind, run in kinds(toy_federation).items()}
    assert {kind for kind in before if before[kind] != after[kind]} == CONCERNED[part]


def test_the_engine_is_no_part_of_the_identity(toy_federation: Federation) -> None:
    fingerprints = {
        prepared(toy_federation, execution={"engine": engine}).fingerprint
        for engine in ("auto", "loop", "stacked")
    }
    assert len(fingerprints) == 1


# Cost


def test_a_study_asks_for_each_digest_once(
    toy_federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedgs.identity import digest

    bodies = 0
    function_body = digest.function_body

    def counted(*arguments: Any) -> bytes:
        nonlocal bodies
        bodies += 1
        return function_body(*arguments)

    monkeypatch.setattr(digest, "function_body", counted)
    method, given = made(1), _Given(federation=toy_federation)
    counts = []
    for seeds in (1, 20):
        bodies = 0
        prepare(
            [
                build_config({"data": given, "availability": "IDL", "method": method, "seed": seed})
                for seed in range(seeds)
            ]
        )
        counts.append(bodies)
    assert counts[0] == counts[1] > 0


def test_parts_name_what_differs() -> None:
    first, second = identity(), identity(seed=1)
    assert {key for key in first.parts if first.parts[key] != second.parts[key]} == {"settings"}
    assert set(first.parts) == {"format", "data", "settings", "numerics"}


# Data


class Given(Data):
    x: Any
    hidden: Any = Field(default=None, repr=False)

    def load(self, data_dir: Path | None = None) -> Federation:
        y = np.arange(len(self.x)) % 2
        return Federation.from_arrays(
            self.x, y, client=np.arange(len(self.x)) % 4, test=(self.x, y)
        )


def test_data_sets_that_look_the_same_as_text_are_loaded_apart() -> None:
    first = np.zeros((3000, 4), np.float32)
    second = first.copy()
    second[1000:2000] = 7.0  # what NumPy prints as "..."
    given = [Given(x=x) for x in (first, second, first.copy())]
    common = {"availability": "IDL", "method": "uniform", "model": "logistic"}
    runs = prepare(
        [build_config({**common, "data": data, "seed": seed}) for seed, data in enumerate(given)]
    )
    original, changed, copied = (run.plan.federation for run in runs)
    assert original is copied and original is not changed
    assert original.fingerprint != changed.fingerprint


def test_the_start_of_a_model_is_no_part_of_its_class(tmp_path: Path) -> None:
    weights = tmp_path / "weights.safetensors"
    weights.write_bytes(b"one")
    first = identity(model=LogisticRegression(start=str(weights)))
    assert first.parts["model.weights"] != "" and first.fingerprint != identity().fingerprint
    copied = tmp_path / "copy.safetensors"
    copied.write_bytes(b"one")
    assert identity(model=LogisticRegression(start=str(copied))).fingerprint == first.fingerprint
    copied.write_bytes(b"two")
    assert identity(model=LogisticRegression(start=str(copied))).fingerprint != first.fingerprint


def test_the_metric_over_landmarks_has_a_version_of_its_own() -> None:
    def numerics(structure: str) -> str:
        method = {"name": "fedgs", "graph": {"structure": structure}}
        tables = {"data": "synthetic_clustered", "availability": "IDL", "method": method}
        return prepare([build_config(tables)])[0].identity.parts["numerics"]

    assert "landmarks 1" in numerics("landmarks")
    assert "landmarks" not in numerics("auto") and numerics("auto") == numerics("dense")


def test_sums_over_more_than_a_block_of_clients_have_a_version_of_their_own() -> None:
    def numerics(cohort: int, aggregation: str | None = None) -> str:
        training = {"cohort_limit": cohort, "rounds": 1}
        data = {"name": "synthetic", "clients": 40}
        tables: dict[str, object] = {
            "data": data,
            "method": "uniform",
            "availability": "IDL",
            "training": training,
        }
        if aggregation is not None:
            tables |= {"aggregation": aggregation}
        return prepare([build_config(tables)])[0].identity.parts["numerics"]

    assert "tree" not in numerics(32) and "tree 1" in numerics(33)
    assert "tree" not in numerics(33, "scaffold")
