"""The requests of an algorithm to its engine, and the protocol of engines.

A round of federated learning is a generator that yields requests and receives replies. It does not
depend on how they are answered: by a loop over clients, a stacked tensor program over clients of
many runs, or a pool of processes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from fedgs.arrays import IntArray
from fedgs.clients import Objective

if TYPE_CHECKING:
    import torch

    from fedgs.data.federation import Federation
    from fedgs.models import Model

__all__ = [
    "AnyFold",
    "Engine",
    "Evaluate",
    "Failure",
    "Fold",
    "Losses",
    "Metrics",
    "Reply",
    "Request",
    "Split",
    "Train",
    "Work",
]

Split = Literal["train", "validation", "test"]
Precision = Literal["float32", "bf16"]

# The answer to a request: a tuple with the result of each fold (`Train`), (m,) losses (`Losses`),
# `Metrics` (`Evaluate`) or a `Failure`.
Reply: TypeAlias = Any

Accumulator = TypeVar("Accumulator")
Result = TypeVar("Result", covariant=True)


@dataclass(frozen=True)
class Work:
    """What clients do when they train.

    Requests with equal work may be answered by one tensor program.

    Attributes:
        federation: the data (compared by identity).
        model: the variant that builds the `nn.Module`.
        mu: weight of the proximal term (mu/2)·|theta - theta^t|², >= 0.
        local_steps: E, SGD steps a client makes.
        batch_size: B.
        precision: arithmetic of the forward and backward pass.
        objective: the weights of the clients in the objective, by which validation parts are
            averaged: "data_size": n_k / n; "equal": 1/N.
    """

    federation: "Federation"
    model: "Model"
    mu: float
    local_steps: int
    batch_size: int
    precision: Precision = "float32"
    objective: Objective = "data_size"


class Fold(Protocol[Accumulator, Result]):
    """Reduces local models as they arrive, so that no engine has to hold all of them.

    The result must not depend on how the m clients were cut into blocks. A fold holds settings
    only: what it has gathered is in the accumulator, which the engine passes along.
    """

    def start(self) -> Accumulator:
        """The accumulator of no models."""
        ...

    def add(
        self, accumulator: Accumulator, clients: IntArray, models: "torch.Tensor"
    ) -> Accumulator:
        """The accumulator with the (b, P) models of the next b clients, in ascending order."""
        ...

    def finish(self, accumulator: Accumulator) -> Result:
        """The result of all m models."""
        ...


AnyFold: TypeAlias = Fold[Any, object]


@dataclass(frozen=True, eq=False)
class Train:
    """Train clients from the same parameters; the reply is a tuple with each fold's result.

    Attributes:
        parameters: (P,) float32, theta^t.
        clients: (m,) ascending, distinct.
        learning_rate: eta of this round.
        key: (seed, round); local randomness is keyed by it and the client.
        folds: how the local models are reduced.
    """

    work: Work
    parameters: "torch.Tensor"
    clients: IntArray
    learning_rate: float
    key: tuple[int, int]
    folds: tuple[AnyFold, ...]


@dataclass(frozen=True, eq=False)
class Losses:
    """Compute the mean loss of the model on each client's part `split`.

    The reply is an (m,) float64 array, NaN for an empty part. `key` is (seed, round), for models
    that draw random numbers.
    """

    work: Work
    parameters: "torch.Tensor"
    clients: IntArray
    split: Split
    key: tuple[int, int] = (0, 0)


@dataclass(frozen=True, eq=False)
class Evaluate:
    """Compute loss and accuracy on the server's test set, or over the clients' validation parts.

    Validation parts are weighted by the work's objective. The reply is `Metrics`. `key` is
    (seed, round), for models that draw random numbers.
    """

    work: Work
    parameters: "torch.Tensor"
    split: Split
    key: tuple[int, int] = (0, 0)


Request = Train | Losses | Evaluate


@dataclass(frozen=True)
class Metrics:
    """Mean cross-entropy (nats), and the accuracy in [0, 1]."""

    loss: float
    accuracy: float


@dataclass(frozen=True)
class Failure:
    """The reply to a request that failed.

    Attributes:
        client: index of the client that failed, or None if it was not a client.
        exception: the cause.
    """

    client: int | None
    exception: Exception


@runtime_checkable
class Engine(Protocol):
    """Answers requests, in any order.

    A failing client fails its own request only. A reply depends on its request alone, never on the
    others in the call.
    """

    name: str

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        """Yield (position in `requests`, reply) for each request; a reply may be a `Failure`."""
        ...
