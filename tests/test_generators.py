"""Models may draw from the global generators, which seed, round and client determine.

The caller's generators are not changed.
"""

# ruff: noqa: NPY002

import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.commands import fedgs
from torch import nn

from fedgs import Federation
from fedgs.data import Synthetic
from fedgs.errors import ConfigError
from fedgs.experiments.compare import compare
from fedgs.local.stacking import why_not_stackable
from fedgs.models import as_model, check_model
from fedgs.registry import load_plugin
from fedgs.rng import derived_seed, kept_generators, seed_generators, seeded
from fedgs.sampling import FedGS

TRAINING = {"rounds": 4, "proportion": 0.5, "local_steps": 2, "batch_size": 4}
DRAWS: dict[str, Callable[[], float]] = {
    "torch": lambda: float(torch.randn(())),
    "numpy": lambda: float(np.random.normal()),
    "random": lambda: random.gauss(0.0, 1.0),
}


class Drawn(nn.Linear):
    """Initialises itself with numbers of one source."""

    def __init__(self, source: str) -> None:
        super().__init__(6, 3)
        self.weight.data = torch.tensor([[DRAWS[source]() for _ in range(6)] for _ in range(3)])


class Noisy(nn.Linear):
    """Adds noise of one source to its input, in training, in evaluation or in both."""

    def __init__(self, source: str, when: str = "both") -> None:
        super().__init__(6, 3)
        self.source, self.when = source, when

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.when in ("both", "training" if self.training else "evaluation"):
            x = x + DRAWS[self.source]()
        return super().forward(x)


def states() -> tuple[Any, ...]:
    """The global generators as they stand."""
    numpy = np.random.get_state(legacy=False)
    return (
        torch.get_rng_state().tolist(),
        repr(numpy),
        numpy["state"]["key"].tolist(),
        random.getstate(),
    )


def shaken() -> tuple[Any, ...]:
    """Give the global generators a state of their own, with a spare normal number of NumPy's."""
    torch.manual_seed(17)
    np.random.seed(18)
    random.seed(19)
    return DRAWS["torch"](), DRAWS["numpy"](), DRAWS["random"]()


@pytest.mark.parametrize("source", DRAWS)
def test_every_method_of_a_seed_begins_with_the_same_model(
    toy_federation: Federation, source: str
) -> None:
    losses = []
    for _ in range(2):  # the caller's generators stand elsewhere the second time
        results = compare(
            toy_federation,
            methods=["uniform", "fedgs", "md"],
            model=lambda: Drawn(source),
            training=TRAINING,
            seeds=(0, 1),
        )
        losses.append({(run.label, run.seed): run.records[0].test_loss for run in results.runs})
        DRAWS[source]()
    assert losses[0] == losses[1]
    assert len(set(losses[0].values())) == 2  # one for each seed
    assert {losses[0][label, 0] for label in ("uniform", "fedgs", "md")} == {
        losses[0]["uniform", 0]
    }


@pytest.mark.parametrize("engine", ["auto", "loop"])
@pytest.mark.parametrize("source", DRAWS)
def test_the_callers_generators_stay_as_they_were(
    toy_federation: Federation, source: str, engine: str
) -> None:
    shaken()
    before = states()
    model = lambda: nn.Sequential(Drawn(source), nn.Dropout())  # noqa: E731
    check_model(as_model(model), toy_federation)
    check_model(as_model(lambda: Noisy(source)), toy_federation)
    methods = {
        "functional": FedGS(graph={"similarity": "functional"}),  # type: ignore[arg-type]
        "update": FedGS(graph={"similarity": "update", "start": "seen"}),  # type: ignore[arg-type]
        "losses": "power_of_choice",
    }
    for build in (model, lambda: Noisy(source), lambda: Drawn(source)):
        results = compare(
            toy_federation,
            methods=methods,
            model=build,
            training=TRAINING,
            execution={"engine": engine},
        )
        assert [run.failure for run in results.runs] == [None, None, None]
    Synthetic(clients=2).load()
    assert states() == before


def test_generators_are_restored_after_an_error_and_whatever_kind_numpy_uses() -> None:
    drawn = shaken()
    # NumPy has a spare normal number here.
    expected = (DRAWS["torch"](), DRAWS["numpy"](), DRAWS["random"]())
    shaken()
    with pytest.raises(ZeroDivisionError), seeded(0, "test"):
        _ = shaken() == drawn and 1 / 0
    assert (DRAWS["torch"](), DRAWS["numpy"](), DRAWS["random"]()) == expected
    bit_generator = np.random.get_bit_generator()
    try:
        np.random.set_bit_generator(np.random.PCG64(5))
        with seeded(3, "test", 1):
            np.random.seed(0)  # a model may do so
            assert round(np.random.random(), 4) == 0.5488
        assert np.random.random() == np.random.RandomState(np.random.PCG64(5)).random_sample()
    finally:
        np.random.set_bit_generator(bit_generator)


def test_every_seed_purpose_round_and_client_has_its_own_numbers() -> None:
    numbers = set()
    names = [
        (0, "init"),
        (1, "init"),
        (0, "torch", 0, 1),
        (0, "torch", 1, 0),
        (0, "torch", 1, 1),
        (0, "evaluate", 1),
    ]
    for name in names:
        for _ in range(2):
            with seeded(*name):
                numbers |= {DRAWS[source]() for source in DRAWS}
    assert len(numbers) == len(names) * len(DRAWS)
    with kept_generators():  # records of models that draw from PyTorch depend on this seed
        seed_generators(4, "torch", 2, 7)
        assert torch.initial_seed() == derived_seed(4, "torch", 2, 7)


@pytest.mark.parametrize("source", DRAWS)
def test_clients_and_rounds_draw_different_numbers(toy_federation: Federation, source: str) -> None:
    drawn: list[float] = []

    class Telling(Noisy):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.training:
                noise = DRAWS[self.source]()
                drawn.append(noise)
                x = x + noise
            return nn.Linear.forward(self, x)

    results = compare(
        toy_federation, methods=["uniform"], model=lambda: Telling(source), training=TRAINING
    )
    cohorts = [record.cohort or () for record in results.runs[0].records]
    trained = 2 * sum(map(len, cohorts))  # two steps a client
    assert trained == 24 and len(set(drawn[-trained:])) == trained


@pytest.mark.parametrize(
    "when", [*(pytest.param(w, marks=pytest.mark.long) for w in ("training", "evaluation")), "both"]
)
@pytest.mark.parametrize("source", DRAWS)
def test_a_model_that_draws_gives_the_same_records_whatever_else_draws(
    toy_federation: Federation, tmp_path: Path, source: str, when: str
) -> None:
    def records(
        methods: list[str], engine: str, *, out: Path | None = None, rounds: int = 4
    ) -> list[Any]:
        shake = lambda progress: [draw() for draw in DRAWS.values()]  # noqa: E731
        results = compare(
            toy_federation,
            methods=methods,
            model=model,
            training={**TRAINING, "rounds": rounds},
            execution={"engine": engine, "checkpoint_every": 1},
            out=out,
            on_progress=shake,
        )
        assert [run.failure for run in results.runs] == [None] * len(methods)
        return next(run.records for run in results.runs if run.label == "power_of_choice")

    model = as_model(lambda: Noisy(source, when))
    alone = records(["power_of_choice"], "loop")
    assert records(["uniform", "power_of_choice", "md"], "auto") == alone
    records(["power_of_choice"], "auto", out=tmp_path, rounds=2)
    assert records(["power_of_choice"], "auto", out=tmp_path) == alone  # the rounds of two starts


@pytest.mark.parametrize("when", ["training", "evaluation"])
@pytest.mark.parametrize("source", DRAWS)
def test_a_model_that_draws_is_not_stacked(
    toy_federation: Federation, source: str, when: str
) -> None:
    assert (
        why_not_stackable(Noisy(source, when), (6,)) == "it draws random numbers, such as dropout"
    )
    assert why_not_stackable(Noisy(source, "never"), (6,)) is None
    with pytest.raises(ConfigError, match="cannot be stacked: it draws random numbers"):
        compare(
            toy_federation,
            methods=["md"],
            model=lambda: Noisy(source, when),
            execution={"engine": "stacked"},
        )


OWN = np.random.default_rng(0)
COUNTER = iter(range(1000))


def with_bias(value: Callable[[], float]) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        linear = nn.Linear(6, 3)
        linear.bias.data.fill_(value())
        return linear

    return build


@pytest.mark.parametrize(
    "value",
    [
        OWN.normal,
        lambda: np.random.default_rng().normal(),
        lambda: next(COUNTER),
        random.SystemRandom().random,
    ],
    ids=["own generator", "fresh entropy", "counter", "system"],
)
def test_a_first_model_that_the_seed_does_not_decide_is_refused(
    toy_federation: Federation, value: Any
) -> None:
    with pytest.raises(
        ConfigError,
        match=r"must have the same first parameters .* 'bias' differs between two builds",
    ):
        compare(toy_federation, methods=["md"], model=with_bias(value), training=TRAINING)


def test_a_function_that_always_returns_the_same_module_gives_it_away_unchanged(
    toy_federation: Federation,
) -> None:
    net = nn.Linear(6, 3)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    results = compare(
        toy_federation,
        methods=["uniform", "md"],
        model=lambda: net,
        training=TRAINING,
        seeds=(0, 1),
    )
    assert len({run.records[0].test_loss for run in results.runs}) == 1
    assert (
        all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
        and net.training
    )


PLUGIN = """
import os, random, signal
from pathlib import Path

import numpy as np
import torch
from torch import nn

import fedgs
from fedgs.sampling import Uniform


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(60, 10)
        weight = np.random.normal(size=(10, 60)).astype(np.float32)
        self.inner.weight.data = torch.from_numpy(weight)
        self.inner.bias.data.fill_(random.random())

    def forward(self, x):
        return self.inner(x * np.random.uniform(0.5, 1.5) + random.random() + torch.rand(1))


@fedgs.model("draws-all")
def net():
    return Net()


if os.environ.get("KILL_HERE"):
    select, marker = Uniform.select, Path("killed")

    def killing(self, view, rng):
        if view.round == 3 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return select(self, view, rng)

    Uniform.select = killing
"""


@pytest.mark.long
def test_a_killed_run_of_a_model_that_draws_goes_on_to_the_same_records(tmp_path: Path) -> None:
    def run(folder: str, *, kill: bool) -> int:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "plug.py").write_text(PLUGIN)
        settings = [
            "method=uniform",
            "model=draws-all",
            "data.clients=6",
            "training.rounds=6",
            "execution.checkpoint_every=1",
        ]
        words = ["run", "--plugin", "plug.py", "--out", "out", "--set", "seed=0"]
        words += [word for setting in settings for word in ("--set", setting)]
        return fedgs(tmp_path / folder, *words, KILL_HERE="1" if kill else "").returncode

    def records(folder: str) -> bytes:
        (file,) = (tmp_path / folder / "out").glob("*/rounds.jsonl")
        return file.read_bytes()

    assert run("unbroken", kill=False) == 0
    assert run("broken", kill=True) == -signal.SIGKILL
    assert records("broken") != records("unbroken")
    assert run("broken", kill=True) == 0
    assert records("broken") == records("unbroken")


@pytest.mark.long
def test_workers_draw_what_one_process_draws(tmp_path: Path) -> None:
    (tmp_path / "plug.py").write_text(PLUGIN)
    load_plugin(tmp_path / "plug.py")
    records = [
        {
            run.label: run.records
            for run in compare(
                Synthetic(clients=4),
                methods=["uniform", "md"],
                model="draws-all",
                training=TRAINING,
                execution={"workers": workers},
            ).runs
        }
        for workers in (1, 2)
    ]
    assert records[0] == records[1]
