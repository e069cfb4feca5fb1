"""The interface of samplers: a frozen variant with `select`, and the decorator that makes one from a function."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from pydantic import create_model

from fedgs.arrays import FloatMatrix, IntArray
from fedgs.clients import Clients, Memory, Outcome, Selection, View, Weighting
from fedgs.registry import Variant, check_name, register, stand_for
from fedgs.sampling.signature import setting_fields

__all__ = [
    "AsksLosses",
    "LearnsFromModels",
    "Remembers",
    "Sampler",
    "SharesMemory",
    "Wish",
    "sampler",
]


class Sampler(Variant):
    """Base of all samplers: settings in fields, the work in `select`; no progress is kept in the object.

    Attributes:
        weighting: the rule for the aggregation weights. "data_size": n_k / sum over the cohort of
            n_i. "draws": how often each client was drawn / all draws. "equal": 1/m.
            "inverse_participation": proportional to n_k / (v_k + 1).

    >>> class Oldest(Sampler):
    ...     skip: int = 0
    ...     def select(self, view: View, rng: np.random.Generator) -> Selection:
    ...         return Selection(view.available[self.skip :][: view.cohort_size])
    >>> view = View(0, Clients((0, 1, 2), np.ones(3, dtype=np.int64)), np.array([0, 2]), np.zeros(3, dtype=np.int64), 2)
    >>> Oldest(skip=1, weighting="equal").select(view, np.random.default_rng(0)).clients
    array([2])
    """

    family: ClassVar[str] = "method"
    weighting: Weighting = "data_size"

    def check(self, clients: Clients, cohort_limit: int) -> None:
        """Raise `ConfigError` where the sampler cannot serve these clients with cohorts of up to `cohort_limit`."""

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        """Who trains in this round.

        Args:
            view: the available clients (at least one) with counts, sizes and memory.
            rng: the generator of this run, purpose and round; the only source of chance.

        Returns:
            The selection. Where there is nothing to say but the clients, their indices suffice, as
            an array, a list or a tuple.
        """
        raise TypeError(f"{type(self).__name__} must define select(view, rng)")


@runtime_checkable
class AsksLosses(Protocol):
    """A sampler that wants local losses of the current model before it selects."""

    loss_on: Any  # "train" or "validation"

    def loss_candidates(self, view: View, rng: np.random.Generator) -> IntArray:
        """Ascending indices of the available clients whose losses are to be computed."""


@runtime_checkable
class Remembers(Protocol):
    """A sampler with a memory: named arrays that are saved with the run's state."""

    def start(self, clients: Clients) -> Memory:
        """The memory before round 0."""

    def observe(self, memory: Memory, view: View, outcome: Outcome) -> Memory:
        """The memory after a round."""


@runtime_checkable
class SharesMemory(Protocol):
    """A sampler whose memory before round 0 is made once for all runs of a study that name the same key."""

    def memory_key(self, clients: Clients) -> str | None:
        """Hexadecimal digits that stand for all that `start(clients)` depends on; None: nothing is shared."""


@dataclass(frozen=True)
class Wish:
    """What a sampler wants to be told of local models: one vector a client, its feature.

    Attributes:
        kind: "update": the flattened update theta_k - theta^t; "functional": the mean output of
            theta_k on a noise batch.
        sketch: "update" only: longer updates are projected to this many numbers; 0: never, all
            updates are held at once.
        noise_samples, noise_examples, covariance, layer: "functional" only, see
            `fedgs.graph.Graph`.

    >>> Wish("functional").noise_samples
    256
    """

    kind: Literal["update", "functional"]
    sketch: int = 4096
    noise_samples: int = 256
    noise_examples: int = 100
    covariance: Literal["full", "diagonal", "scalar"] = "full"
    layer: str | None = None


@runtime_checkable
class LearnsFromModels(Protocol):
    """A sampler that wants features of local models: from everybody before round 0, or from each round's cohort."""

    def wish(self, when: Literal["start", "round"]) -> Wish | None:
        """What it wants at "start", where every client trains once and the models are discarded, or in each "round"."""

    def start_from(self, clients: Clients, features: FloatMatrix) -> Memory:
        """The memory before round 0, from the (N, d) features that were wished for at the start."""


SelectFunction = TypeVar("SelectFunction", bound=Callable[..., Selection])


def sampler(name: str) -> Callable[[SelectFunction], SelectFunction]:
    """Register a function `(view, rng) -> Selection` as a sampler; keyword-only parameters become its settings.

    Raises:
        ConfigError: the name is missing, empty or taken, or the function does not fit (see
            `fedgs.sampling.signature.setting_fields`).

    >>> @sampler("first")
    ... def first(view, rng, *, skip: int = 0):
    ...     return Selection(view.available[skip : skip + view.cohort_limit])
    >>> from fedgs.registry import build
    >>> build("method", {"name": "first", "skip": 1}).skip
    1
    """

    check_name(name, decorator="fedgs.sampler")

    def add(function: SelectFunction) -> SelectFunction:
        fields = setting_fields(name, function, taken=_FunctionSampler)
        variant = create_model(
            function.__name__, __base__=_FunctionSampler, __module__=function.__module__, **fields
        )
        variant.__doc__ = function.__doc__
        variant.function = staticmethod(function)
        variant.option_names = tuple(fields)
        register("method", name)(variant)
        stand_for(function, variant)
        return function

    return add


class _FunctionSampler(Sampler):
    """A sampler made from a function."""

    function: ClassVar[Any] = None
    option_names: ClassVar[tuple[str, ...]] = ()

    @property
    def content_digest(self) -> str | None:
        """The function's own `content_digest`, if it has one: what stands for content that cannot be identified."""
        return getattr(type(self).function, "content_digest", None)

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        options = {option: getattr(self, option) for option in self.option_names}
        answer: Selection = type(self).function(view, rng, **options)
        return answer
