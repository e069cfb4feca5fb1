"""Mistakes in a user's samplers and models: one sentence each, at registration or in the run."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fedgs
from fedgs import Clients, Selection, View
from fedgs.clients import Memory, Outcome
from fedgs.data import Federation
from fedgs.errors import ConfigError
from fedgs.experiments.compare import compare
from fedgs.experiments.study import Results
from fedgs.registry import check_name
from fedgs.sampling import Sampler


def first(view: View, rng: np.random.Generator) -> Selection:
    return Selection(view.available[:1])


@pytest.mark.parametrize("decorator", [fedgs.sampler, fedgs.model], ids=["sampler", "model"])
@pytest.mark.parametrize(
    ("name", "came"),
    [
        (first, "the function first itself"),
        ("", "''"),
        (" ", "' '"),
        ("a/b", "'a/b'"),
        ("..", r"'\.\.'"),
        ("a\n", r"'a\\n'"),
        (None, "None"),
        (3, "3"),
        (["a"], r"\['a'\]"),
    ],
)
def test_what_is_no_name_is_refused_with_the_way_it_is_used(
    decorator: Callable[[Any], Any], name: Any, came: str
) -> None:
    called = rf"fedgs\.{decorator.__name__}"
    with pytest.raises(
        ConfigError,
        match=rf'^{called} needs a name of .*, such as @{called}\("my-own"\), got {came}$',
    ):
        decorator(name)


def test_a_decorator_without_a_name_is_refused_at_the_function() -> None:
    with pytest.raises(ConfigError, match="got the function mine itself"):

        @fedgs.sampler  # type: ignore[arg-type]
        def mine(view: View, rng: np.random.Generator) -> Selection:
            return Selection(view.available[:1])


@pytest.mark.parametrize("name", ["fewest", "by-size", "v2.1", "größe", "my sampler", "a+b", "_x"])
def test_plain_names_are_names(name: str) -> None:
    check_name(name, decorator="fedgs.sampler")


def test_the_name_of_a_preset_cannot_be_taken() -> None:
    with pytest.raises(ConfigError, match="method 'fedprox' is the name of a preset"):
        fedgs.sampler("fedprox")(first)


def needs_a_width(width: int) -> Any: ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (needs_a_width, "takes a function without arguments; this one needs width"),
        (
            Sampler,
            "takes a function without arguments that returns an nn.Module, got the class Sampler",
        ),
        (
            functools.partial(first),
            "takes a function without arguments that returns an nn.Module, got partial",
        ),
    ],
)
def test_what_cannot_build_a_model_is_refused_when_it_is_registered(
    function: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        fedgs.model("no")(function)


def one_run(federation: Federation, sampler: Any, **training: Any) -> Results:
    return compare(
        federation,
        methods=[sampler, "uniform"],
        training={"rounds": 2, "proportion": 0.5, **training},
    )


@pytest.mark.parametrize("answer", [None, {1}, "site-0", 3], ids=repr)
def test_what_a_function_must_not_answer_is_the_failure_of_its_run_alone(
    toy_federation: Federation, answer: Any
) -> None:
    def mine(view: View, rng: np.random.Generator) -> Any:
        return answer

    fedgs.sampler(f"answers-{type(answer).__name__}")(mine)
    bad, good = one_run(toy_federation, mine).runs
    assert (
        bad.failure is not None
        and f"SelectionError: a sampler must return a fedgs.Selection, got {answer!r}"[:60]
    )
    assert bad.failure is not None and bad.failure["error"].startswith(
        "SelectionError: a sampler must return a fedgs.Selection, got "
    )
    assert good.failure is None


@pytest.mark.parametrize(
    "answer", [lambda view: view.available[:1], lambda view: [0], lambda view: (0,)]
)
def test_a_function_may_answer_with_the_indices_alone(
    toy_federation: Federation, answer: Callable[[View], Any]
) -> None:
    def indices(view: View, rng: np.random.Generator) -> Any:
        return answer(view)

    fedgs.sampler("answers-indices")(indices)
    run, _ = one_run(toy_federation, indices).runs
    assert run.failure is None
    assert run.records[0].cohort == ["site-0"]


def test_a_weighting_of_ones_own_setting_is_checked_before_round_0(
    toy_federation: Federation,
) -> None:
    @fedgs.sampler("own-weighting")
    def own_weighting(
        view: View, rng: np.random.Generator, *, weighting: str = "data-size"
    ) -> Selection:
        return Selection(view.available[:1])

    message = (
        r"method.weighting must be one of data_size, .*got 'data-size'; did you mean 'data_size'"
    )
    with pytest.raises(ConfigError, match=message):
        one_run(toy_federation, own_weighting)


def asking(asked: Any, *, loss_on: str = "train") -> Sampler:
    """Asks for the losses of `asked`, and selects those it got."""

    class Asking(Sampler):
        loss_on: str = "train"

        def loss_candidates(self, view: View, rng: np.random.Generator) -> Any:
            return asked

        def select(self, view: View, rng: np.random.Generator) -> Selection:
            assert view.losses is not None
            return Selection(np.flatnonzero(~np.isnan(view.losses))[: view.cohort_limit])

    return Asking(loss_on=loss_on)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            None,
            "loss_candidates must return the indices of clients as a 1-d array of integers, "
            "got None",
        ),
        (np.ones(6, dtype=bool), "got an array of bool"),
        ([0, 0], "loss_candidates must return distinct clients"),
        ([7], "loss_candidates must return available clients only; client 7 is not available"),
        ([-1], "client -1 is not available"),
        (["site-0"], "names of clients are in view.clients.names"),
    ],
    ids=str,
)
def test_candidates_that_are_no_available_clients_fail_the_run(
    toy_federation: Federation, asked: Any, message: str
) -> None:
    bad, good = one_run(toy_federation, asking(asked)).runs
    assert (
        bad.failure is not None
        and message in bad.failure["error"]
        and bad.failure["error"].startswith("SelectionError")
    )
    assert good.failure is None


@pytest.mark.parametrize(("asked", "cohort"), [([], []), ([4, 1], ["site-1", "site-4"])])
def test_candidates_may_come_in_any_order_and_be_none(
    toy_federation: Federation, asked: list[int], cohort: list[str]
) -> None:
    run, _ = one_run(toy_federation, asking(asked)).runs
    assert run.failure is None
    assert run.records[0].cohort == cohort


def test_losses_on_the_test_set_are_refused(toy_federation: Federation) -> None:
    with pytest.raises(
        ConfigError, match="method.loss_on must be 'train' or 'validation', got 'test'"
    ):
        one_run(toy_federation, asking([0], loss_on="test"))


def keeping(first: Any, then: Any) -> Sampler:
    """Has one memory before round 0, and another one after each round."""

    class Keeping(Sampler):
        def start(self, clients: Clients) -> Memory:
            memory: Memory = first
            return memory

        def observe(self, memory: Memory, view: View, outcome: Outcome) -> Memory:
            after: Memory = then
            return after

        def select(self, view: View, rng: np.random.Generator) -> Selection:
            assert all(isinstance(value, np.ndarray) for value in view.memory.values())
            return Selection(view.available[:1])

    return Keeping()


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        (None, "must return a mapping of names to arrays, got None"),
        (np.zeros(2), r"must return a mapping of names to arrays, got array\(\[0., 0.\]\)"),
        ({1: np.zeros(2)}, "1 cannot be a name"),
        ({"": np.zeros(2)}, "'' cannot be a name"),
        ({"file": np.zeros(2)}, "'file' cannot be a name"),
        ({"seen": {1, 2}}, "'seen' is set {1, 2}"),
        ({"seen": None}, "'seen' is None"),
        ({"seen": [[1], [1, 2]]}, "'seen' is list"),
    ],
    ids=str,
)
@pytest.mark.parametrize("when", ["start", "observe"])
def test_a_memory_that_cannot_be_saved_fails_the_run(
    toy_federation: Federation, tmp_path: Any, memory: Any, message: str, when: str
) -> None:
    sampler = keeping(memory, {}) if when == "start" else keeping({}, memory)
    methods = {"keeping": sampler, "uniform": "uniform"}
    results = compare(
        toy_federation,
        methods=methods,
        training={"rounds": 2, "proportion": 0.5},
        out=tmp_path / "out",
    )
    bad, good = results.runs
    error = "" if bad.failure is None else bad.failure["error"]
    assert error.startswith(f"SelectionError: {when} must return a mapping")
    assert message.replace("\\", "") in error
    assert good.failure is None


def test_numbers_and_lists_in_a_memory_become_arrays(toy_federation: Federation) -> None:
    run, _ = one_run(
        toy_federation, keeping({"mean": 0.5}, {"mean": 1, "last": [1, 2], "by": "a"})
    ).runs
    assert run.failure is None


def test_a_module_that_is_built_is_no_model(toy_federation: Federation) -> None:
    from torch import nn

    with pytest.raises(
        ConfigError,
        match="model must be a function or a class that builds an nn.Module, got a Linear",
    ):
        compare(toy_federation, methods=["uniform"], model=nn.Linear(6, 3), training={"rounds": 1})
