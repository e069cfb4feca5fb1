"""The interface of aggregations: a frozen variant that makes theta^{t+1}, with its own vectors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeAlias

import numpy as np
import torch
from pydantic import BeforeValidator, PlainSerializer, field_validator

from fedgs.aggregation.table import ClientTable
from fedgs.arrays import FloatArray, IntArray
from fedgs.clients import Clients, Objective
from fedgs.errors import ConfigError, UpdateError, shown
from fedgs.registry import Variant, build, refined, table
from fedgs.requests import AnyFold
from fedgs.server_steps import ServerStep, Sgd
from fedgs.weighting import Weighting

__all__ = ["Aggregation", "Corrections", "Round", "Vectors", "checked_step", "checked_vectors"]

# What an aggregation carries from round to round: named tensors, and tables with a row a client.
Vectors: TypeAlias = Mapping[str, torch.Tensor | ClientTable]
Step: TypeAlias = tuple[torch.Tensor, Vectors]


@dataclass(frozen=True, eq=False)
class Round:
    """What an aggregation sees of round t.

    Attributes:
        round: t.
        clients: all N clients.
        cohort: (m,) ascending indices of the clients whose updates arrive; m is 0 in an empty
            round.
        weights: (m,) w_k.
        is_normalised: whether the weights are normalised to sum 1.
        shares: (N,) weights p_k of the clients in the objective.
        parameters: (P,) float32, theta^t.
        vectors: the aggregation's.
        learning_rate: eta_t of the clients.
        local_steps: E.
        trains_everyone: whether all clients train, and not the cohort alone.
    """

    round: int
    clients: Clients
    cohort: IntArray
    weights: FloatArray
    is_normalised: bool
    shares: FloatArray
    parameters: torch.Tensor
    vectors: Vectors
    learning_rate: float
    local_steps: int
    trains_everyone: bool = False

    @property
    def trainees(self) -> IntArray:
        """Ascending indices of the clients that train."""
        return np.arange(len(self.clients)) if self.trains_everyone else self.cohort


@dataclass(frozen=True, eq=False)
class Corrections:
    """How the local training of a cohort differs from the plain one, see `fedgs.requests.Train`.

    Attributes:
        starts: (m, P) where each client starts; None: theta^t.
        offsets: (m, P) added to each client's gradients; None: nothing.
    """

    starts: torch.Tensor | None = None
    offsets: torch.Tensor | None = None


def _as_server(value: object) -> object:
    try:
        return build("server", value)
    except ConfigError as error:
        raise ValueError(f"aggregation.{error}") from None


Server = Annotated[Variant, BeforeValidator(_as_server), PlainSerializer(table)]


class Aggregation(Variant):
    """Base of all aggregations: fields are settings, the object has no state.

    Attributes:
        server: the server step: how the aggregated update moves the parameters.

    A plug-in defines `folds` and `step`, and `start` if it has vectors:

    >>> from fedgs.aggregation import WeightedMean
    >>> class Half(Aggregation):  # moves half of the way to the mean of the local models
    ...     def folds(self, round):
    ...         return (WeightedMean(round.weights),)
    ...     def step(self, round, results):
    ...         if not results:  # a round without a cohort
    ...             return round.parameters, round.vectors
    ...         return round.parameters + 0.5 * (results[0] - round.parameters), round.vectors
    """

    family: ClassVar[str] = "aggregation"
    objective: ClassVar[Objective | None] = None
    """The only objective that the aggregation has a meaning for; None: any."""
    needs_plain_steps: ClassVar[bool] = False
    """Whether `step` reads gradients off the updates, as E steps of plain SGD give them."""

    keeps_models: ClassVar[bool] = False
    """Whether the folds are `Rows`, whose result does not depend on sums over many clients."""

    trains_everyone: ClassVar[bool] = False
    """Whether all N clients train in every round, also those that are not in the cohort. The folds
    then get all of them, in rounds without a cohort too."""

    server: Server = Sgd()

    @field_validator("server", mode="before")
    @classmethod
    def _refined_server(cls, value: object) -> object:
        return refined(cls, "server", value)

    def model_post_init(self, context: object) -> None:
        """Refuse what is not a server step."""
        if not isinstance(self.server, ServerStep):
            raise ConfigError(
                "aggregation.server must be a server step, a subclass of "
                f"fedgs.aggregation.ServerStep; got {shown(self.server)}"
            )

    @property
    def proximal(self) -> float | None:
        """The `training.mu` that the aggregation has a meaning for; None: any."""
        return None

    @property
    def server_step(self) -> ServerStep:
        """The setting `server`."""
        assert isinstance(self.server, ServerStep)
        return self.server

    def check(self, clients: Clients, cohort_limit: int, weighting: Weighting) -> None:
        """Raise `ConfigError` if the aggregation has no meaning with this weighting.

        Args:
            clients: all N clients.
            cohort_limit: M.
            weighting: the rule of the weights w_k.
        """

    def start(self, parameters: torch.Tensor, clients: Clients) -> Vectors:
        """The vectors before round 0; those of the server step by default.

        Args:
            parameters: (P,) theta^0.
            clients: all N clients.
        """
        return self.server_step.start(parameters)

    def corrections(self, round: Round) -> Corrections:
        """How the cohort's local training is changed; not at all by default."""
        return Corrections()

    def folds(self, round: Round) -> tuple[AnyFold, ...]:
        """The folds that reduce the local models; their results are given to `step`."""
        raise TypeError(f"{type(self).__name__} must define folds(round)")

    def step(self, round: Round, results: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, Vectors]:
        """The next parameters and vectors; tensors of the round must not be written to.

        It is called in every round, and once before round 0 as in a round without a cohort.

        Args:
            round: what is known before the local training.
            results: of the folds, in their order; empty in a round without a cohort.

        Returns:
            (P,) float32 theta^{t+1}, and the vectors.
        """
        raise TypeError(f"{type(self).__name__} must define step(round, results)")


def checked_step(aggregation: Aggregation, round: Round, results: tuple[torch.Tensor, ...]) -> Step:
    """The step of an aggregation, checked so that a plug-in's mistake is named.

    Raises:
        UpdateError: the parameters are no float32 vector of P numbers, or a vector is neither a
            tensor nor a `ClientTable`.
    """
    step: object = aggregation.step(round, results)
    begin = f"step of aggregation {aggregation.name or type(aggregation).__name__!r} must return"
    if not (isinstance(step, tuple) and len(step) == 2):
        raise UpdateError(f"{begin} (parameters, vectors), got {shown(step)}")
    parameters, vectors = step
    wanted = round.parameters
    if not isinstance(parameters, torch.Tensor):
        raise UpdateError(f"{begin} parameters as a tensor, got {shown(parameters)}")
    if parameters.shape != wanted.shape or parameters.dtype != wanted.dtype:
        raise UpdateError(
            f"{begin} {len(wanted)} parameters of {wanted.dtype}, "
            f"got {parameters.dtype} of shape {tuple(parameters.shape)}"
        )
    return parameters, checked_vectors(aggregation, vectors)


def checked_vectors(aggregation: Aggregation, vectors: object) -> Vectors:
    """The vectors of an aggregation, if they can be saved.

    Raises:
        UpdateError: not a mapping of names to tensors and `ClientTable`s.
    """
    if isinstance(vectors, Mapping) and all(
        isinstance(key, str) and isinstance(value, torch.Tensor | ClientTable)
        for key, value in vectors.items()
    ):
        return vectors
    raise UpdateError(
        f"vectors of aggregation {aggregation.name or type(aggregation).__name__!r} must be a "
        f"mapping of names to tensors or ClientTables, got {shown(vectors)}"
    )
