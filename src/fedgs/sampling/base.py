"""The interface of samplers: a frozen variant with `select`, and a decorator for functions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from pydantic import create_model, field_validator

from fedgs.arrays import FloatMatrix, IntArray
from fedgs.clients import Clients, Memory, Outcome, Selection, View
from fedgs.errors import ConfigError, SelectionError, shown
from fedgs.registry import Variant, check_name, refined, register, stand_for
from fedgs.requests import ReportName
from fedgs.sampling.signature import setting_fields
from fedgs.weighting import WeightingSetting

__all__ = [
    "AsksBatchLosses",
    "AsksLosses",
    "AsksReports",
    "DescribesMemory",
    "Grows",
    "LearnsFromModels",
    "Remembers",
    "Sampler",
    "SharesMemory",
    "Wish",
    "checked_wish",
    "sampler",
]


class Sampler(Variant):
    """Base of all samplers: fields are settings, `select` does the work, the object has no state.

    Attributes:
        weighting: the aggregation weights, by name, table or object of `fedgs.weighting`:
            "data_size" (n_k over the cohort's sum), "draws", "equal", "inverse_participation",
            "deficit", "all", "known", "fedau", "f3ast", "ca_fed" and those that plug-ins add.

    >>> class Oldest(Sampler):
    ...     skip: int = 0
    ...     def select(self, view: View, rng: np.random.Generator) -> Selection:
    ...         return Selection(view.available[self.skip :][: view.cohort_size])
    >>> clients = Clients((0, 1, 2), np.ones(3, dtype=np.int64))
    >>> view = View(0, clients, np.array([0, 2]), np.zeros(3, dtype=np.int64), cohort_limit=2)
    >>> Oldest(skip=1, weighting="equal").select(view, np.random.default_rng(0)).clients
    array([2])
    """

    family: ClassVar[str] = "method"
    of_durations: ClassVar[tuple[str, ...]] = ()
    """The settings about the durations of clients, refused in runs without a clock."""
    weighting: WeightingSetting = "data_size"

    @field_validator("weighting", mode="before")
    @classmethod
    def _refined_weighting(cls, value: object) -> object:
        return refined(cls, "weighting", value)

    def check(self, clients: Clients, cohort_limit: int) -> None:
        """Raise `ConfigError` if the sampler cannot serve these clients.

        Args:
            clients: all N clients.
            cohort_limit: M, the largest cohort.
        """

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        """The clients that train in this round.

        Args:
            view: the available clients (at least one) with counts, sizes and memory.
            rng: the generator of this run, purpose and round; the only source of randomness.

        Returns:
            The selection. The indices of the clients are enough, as an array, a list or a tuple.
        """
        raise TypeError(f"{type(self).__name__} must define select(view, rng)")


@runtime_checkable
class AsksLosses(Protocol):
    """A sampler that wants local losses of the current model before it selects."""

    @property
    def loss_on(self) -> Literal["train", "validation"]:
        """The part of each client's data that its loss is computed on."""

    def loss_candidates(self, view: View, rng: np.random.Generator) -> IntArray:
        """Ascending indices of the available clients whose losses are to be computed."""


@runtime_checkable
class AsksBatchLosses(AsksLosses, Protocol):
    """A sampler that wants these losses on one mini-batch of each client."""

    @property
    def loss_batch(self) -> int | None:
        """Examples of the mini-batch, >= 1, see `fedgs.requests.Losses`; None: all of the part."""


@runtime_checkable
class AsksReports(Protocol):
    """A sampler that wants numbers of the local training, which come with the updates."""

    @property
    def wanted_reports(self) -> tuple[ReportName, ...]:
        """The names of the reports, see `fedgs.requests.Train`; given to it in `Outcome`."""


@runtime_checkable
class Remembers(Protocol):
    """A sampler with a memory: named arrays, saved with the state of the run."""

    def start(self, clients: Clients) -> Memory:
        """The memory before round 0."""

    def observe(self, memory: Memory, view: View, outcome: Outcome) -> Memory:
        """The memory after a round."""


@runtime_checkable
class Grows(Protocol):
    """A sampler with a memory that says itself what a client is that joins later.

    Deployments ask it. A memory of a sampler without this method, and an array that it does not
    return, grow by the last entries of each array that `start` gives for more clients.
    """

    def grow(self, memory: Memory, clients: Clients) -> Memory:
        """The memory for more clients.

        Args:
            memory: of the clients met before, the first ones of all.
            clients: all N clients met so far.
        """


@runtime_checkable
class SharesMemory(Protocol):
    """A sampler whose runs of one study share the memory before round 0 if their keys are equal."""

    def memory_key(self, clients: Clients) -> str | None:
        """Hexadecimal hash of all that `start(clients)` depends on; None: nothing is shared."""


@runtime_checkable
class DescribesMemory(Protocol):
    """A sampler that says in words what its memory before round 0 is."""

    def describe(self, memory: Memory) -> Mapping[str, str]:
        """Name -> words, which a run stores with the details of how it was carried out."""


@dataclass(frozen=True)
class Wish:
    """The feature that a sampler asks for from each local model, one vector per client.

    Attributes:
        kind: "update": the flattened update theta_k - theta^t, from its own start where the
            aggregation gives it one; "functional": the mean output of
            theta_k on a noise batch.
        sketch: "update" only: longer updates are projected to this many numbers; 0: never, and all
            updates are held in memory at once.
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

    def __post_init__(self) -> None:
        if self.kind not in ("update", "functional"):
            raise ConfigError(f"Wish.kind must be 'update' or 'functional', got {self.kind!r}")
        is_whole = isinstance(self.sketch, int) and not isinstance(self.sketch, bool)
        if not is_whole or self.sketch < 0:
            raise ConfigError(f"Wish.sketch must be an integer >= 0, got {self.sketch!r}")


def checked_wish(wish: object) -> Wish | None:
    """What `LearnsFromModels.wish` returned.

    Raises:
        SelectionError: something else than a `Wish` or None.

    >>> checked_wish("update")
    Traceback (most recent call last):
    fedgs.errors.SelectionError: wish must return a fedgs.sampling.Wish or None, got 'update'
    """
    if wish is not None and not isinstance(wish, Wish):
        raise SelectionError(f"wish must return a fedgs.sampling.Wish or None, got {shown(wish)}")
    return wish


@runtime_checkable
class LearnsFromModels(Protocol):
    """A sampler that asks for features of local models, before round 0 or in each round."""

    def wish(self, when: Literal["start", "round"]) -> Wish | None:
        """The features that it asks for, or None.

        Args:
            when: "start": before round 0, from all clients, which train once for it; these models
                are discarded. "round": from the cohort of each round.
        """

    def start_from(self, clients: Clients, features: FloatMatrix) -> Memory:
        """The memory before round 0, from the (N, d) features asked for at the start."""


SelectFunction = TypeVar("SelectFunction", bound=Callable[..., Selection])


def sampler(name: str) -> Callable[[SelectFunction], SelectFunction]:
    """Register a function `(view, rng) -> Selection` as a sampler.

    Its keyword-only parameters become the settings.

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
        fields = setting_fields(name, function, reserved=_FunctionSampler)
        variant = create_model(
            function.__name__, __base__=_FunctionSampler, __module__=function.__module__, **fields
        )
        # pydantic's classes accept assignments of their ClassVars, and these do not become fields.
        # A function in a class would be bound to the object, hence `staticmethod`.
        variant.__doc__ = function.__doc__
        variant.function = staticmethod(function)
        variant.option_names = tuple(fields)
        register("method", name)(variant)
        stand_for(function, variant)
        return function

    return add


class _FunctionSampler(Sampler):
    """A sampler made from a function."""

    # A placeholder: each class that `sampler` makes has the user's function.
    function: ClassVar[Callable[..., Selection]] = Selection
    option_names: ClassVar[tuple[str, ...]] = ()

    @property
    def content_digest(self) -> str | None:
        """The function's own `content_digest` if it has one, for content that cannot be hashed."""
        return getattr(type(self).function, "content_digest", None)

    def select(self, view: View, rng: np.random.Generator) -> Selection:
        """What the function selects with these settings."""
        options = {option: getattr(self, option) for option in self.option_names}
        return type(self).function(view, rng, **options)
