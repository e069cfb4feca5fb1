"""What an algorithm asks of its engine, and the protocol of those who answer.

A round of federated learning is a generator that yields requests and receives replies. Who answers
(a loop over clients, a stacked tensor program over clients of many runs, a pool of processes) is
not its business.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from fedgs.arrays import IntArray

if TYPE_CHECKING:
    import torch

    from fedgs.data.federation import Federation
    from fedgs.models import Model

__all__ = [
    "Engine",
    "Evaluate",
    "Failure",
    "Fold",
    "Losses",
    "Metrics",
    "Request",
    "Split",
    "Train",
    "Work",
]

Split = Literal["train", "validation", "test"]
Precision = Literal["float32", "bf16"]


@dataclass(frozen=True)
class Work:
    """What clients do when they train: requests with equal work may be answered by one tensor program.

    Attributes:
        federation: the data (compared by identity).
        model: the variant that builds the `nn.Module`.
        mu: weight of the proximal term (mu/2)·|theta - theta^t|², >= 0.
        local_steps: E, SGD steps a client makes.
        batch_size: B.
        precision: arithmetic of the forward and backward pass.
    """

    federation: "Federation"
    model: "Model"
    mu: float
    local_steps: int
    batch_size: int
    precision: Precision = "float32"


class Fold(Protocol):
    """Reduces local models as they come, so that no engine has to hold all of them.

    `add` gets b clients in ascending order with their (b, P) models; the result must not depend on
    how the m clients were cut into blocks. A fold is settings only: what it has gathered is the
    value passed along.
    """

    def start(self) -> Any: ...
    def add(self, kept: Any, clients: IntArray, models: "torch.Tensor") -> Any: ...
    def finish(self, kept: Any) -> Any: ...


@dataclass(frozen=True, eq=False)
class Train:
    """Train clients from the same parameters; the reply is a tuple with each fold's result.

    Attributes:
        parameters: (P,) float32, theta^t.
        clients: (m,) ascending, distinct.
        learning_rate: eta of this round.
        key: (seed, round); local randomness is keyed by it and the client.
        folds: what to do with the local models.
    """

    work: Work
    parameters: "torch.Tensor"
    clients: IntArray
    learning_rate: float
    key: tuple[int, int]
    folds: tuple[Fold, ...]


@dataclass(frozen=True, eq=False)
class Losses:
    """Mean loss of the model on each client's part `split`; the reply is an (m,) float64 array, NaN for an empty part.

    `key` is (seed, round), for models that draw random numbers.
    """

    work: Work
    parameters: "torch.Tensor"
    clients: IntArray
    split: Split
    key: tuple[int, int] = (0, 0)


@dataclass(frozen=True, eq=False)
class Evaluate:
    """Loss and accuracy on the server's test set, or over the clients' validation parts weighted by n_k; replies `Metrics`.

    `key` is (seed, round), for models that draw random numbers.
    """

    work: Work
    parameters: "torch.Tensor"
    split: Split
    key: tuple[int, int] = (0, 0)


Request = Train | Losses | Evaluate


@dataclass(frozen=True)
class Metrics:
    """Mean cross-entropy (nats) and the share of right answers in [0, 1]."""

    loss: float
    accuracy: float


@dataclass(frozen=True)
class Failure:
    """A reply that did not come: which client (index, or None when no client is to blame) and the exception."""

    client: int | None
    exception: Exception


@runtime_checkable
class Engine(Protocol):
    """Answers requests, in any order.

    `answer` yields (position in `requests`, reply); the reply is the value or a `Failure`. A
    failing client fails its own request only. A reply depends on its request alone, never on the
    others in the call.
    """

    name: str

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Any]]: ...
