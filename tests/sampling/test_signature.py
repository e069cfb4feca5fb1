"""Functions that can be samplers, and those that cannot."""

import functools
from typing import Any

import numpy as np
import pytest

import fedgs
from fedgs import Clients, Selection, View
from fedgs.errors import ConfigError
from fedgs.registry import build
from fedgs.sampling import Sampler


def first(view: View, rng: np.random.Generator) -> Selection:
    return Selection(view.available[:1])


def no_rng(view: Any) -> Any: ...


def nothing() -> Any: ...


def three(view: Any, rng: Any, power: float) -> Any: ...


def only_keywords(*, view: Any, rng: Any) -> Any: ...


def untyped(view: Any, rng: Any, *, power=1.0) -> Any: ...  # type: ignore[no-untyped-def]


def two_untyped(view: Any, rng: Any, *, power=1.0, skip) -> Any: ...  # type: ignore[no-untyped-def]


def wrong_default(view: Any, rng: Any, *, power: float = "high") -> Any: ...  # type: ignore[assignment]


def missing_default(view: Any, rng: Any, *, power: float = None) -> Any: ...  # type: ignore[assignment]  # noqa: RUF013


def bool_default(view: Any, rng: Any, *, skip: int = True) -> Any: ...


def reserved(view: Any, rng: Any, *, select: int = 1) -> Any: ...


def private(view: Any, rng: Any, *, _skip: int = 1) -> Any: ...


def taken(view: Any, rng: Any, *, function: int = 1) -> Any: ...


def no_type(view: Any, rng: Any, *, skip: "Missing" = 1) -> Any: ...  # type: ignore[name-defined]  # noqa: F821


async def later(view: Any, rng: Any) -> Any: ...


def in_pieces(view: Any, rng: Any) -> Any:
    yield Selection(view.available[:1])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (no_rng, "must take two positional parameters, view and rng; got view$"),
        (nothing, "must take two positional parameters, view and rng; got none$"),
        (three, "got view, rng, power; a setting is a keyword-only parameter"),
        (only_keywords, "must take two positional parameters, view and rng; got none"),
        (untyped, r"need type annotations, such as `power: float = 1\.0`; power has none"),
        (two_untyped, "power, skip have none"),
        (wrong_default, "the default of power should be a valid number, got 'high'"),
        (missing_default, "the default of power should be a valid number, got None"),
        (bool_default, "the default of skip should be a valid integer, got True"),
        (reserved, "cannot have a setting named 'select'"),
        (private, "cannot have a setting named '_skip'"),
        (taken, "cannot have a setting named 'function'"),
        (no_type, "the type of skip cannot be used for a setting"),
        (later, "must be a plain function that returns a Selection"),
        (in_pieces, "must be a plain function that returns a Selection"),
        (functools.partial(first), r"from a function \(view, rng\), got partial"),
        (3, r"from a function \(view, rng\), got int"),
        (
            Sampler,
            "got the class Sampler; a subclass of fedgs.Sampler is registered by "
            "@fedgs.registry.register",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_function_that_cannot_be_a_sampler_is_refused_when_it_is_registered(
    function: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        fedgs.sampler("no")(function)
    with pytest.raises(ConfigError, match=r"method.name must be one of"):
        build("method", "no")


def positional_only(view: Any, rng: Any, /, *, skip: int = 0) -> Selection:
    return Selection(view.available[skip : skip + 1])


def starred(*given: Any, skip: int = 0) -> Selection:
    return Selection(given[0].available[skip : skip + 1])


@pytest.mark.parametrize(
    "function",
    [positional_only, starred, lambda seen, chance, *, skip=0: Selection(seen.available[:1])][:2],
)
def test_any_function_of_two_arguments_can_be_a_sampler(function: Any) -> None:
    fedgs.sampler("two-arguments-" + function.__name__.replace("_", "-"))(function)
    view = View(
        0, Clients(("a", "b"), np.array([1, 1])), np.arange(2), np.zeros(2, dtype=np.int64), 1
    )
    chosen = build("method", function)
    assert isinstance(chosen, Sampler)
    assert chosen.select(view, np.random.default_rng(0)).clients.tolist() == [0]


def test_a_default_behind_view_and_rng_is_bound_and_no_setting() -> None:
    def select(view: Any, rng: Any, most: int = 2) -> Selection:
        return Selection(view.available[:most])

    fedgs.sampler("bound")(select)
    clients = Clients(tuple("abc"), np.ones(3, dtype=np.int64))
    view = View(0, clients, np.arange(3), np.zeros(3, dtype=np.int64), cohort_limit=3)
    assert build("method", "bound").select(view, np.random.default_rng(0)).clients.tolist() == [
        0,
        1,
    ]
    with pytest.raises(ConfigError, match=r"most"):
        build("method", {"name": "bound", "most": 1})
