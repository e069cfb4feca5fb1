"""The requests of an algorithm to its engine, and the protocol of engines.

A round of federated learning is a generator that yields requests and receives replies. It does not
depend on how they are answered: by a loop over clients, a stacked tensor program over clients of
many runs, or a pool of processes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Protocol,
    TypeAlias,
    TypeVar,
    get_args,
    runtime_checkable,
)

from fedgs.arrays import FloatArray, IntArray
from fedgs.clients import Objective
from fedgs.errors import ConfigError, DataError

if TYPE_CHECKING:
    import torch

    from fedgs.data.federation import Federation
    from fedgs.losses import Loss
    from fedgs.metrics import Metric
    from fedgs.models import Model
    from fedgs.optimizers import Optimizer

__all__ = [
    "AnyFold",
    "ClientMetrics",
    "Engine",
    "Evaluate",
    "Failure",
    "Fold",
    "Losses",
    "MergingFold",
    "Metrics",
    "OptimizerState",
    "Reply",
    "ReportName",
    "Request",
    "Split",
    "Train",
    "Work",
    "check_batch",
    "check_reports",
]

Split = Literal["train", "validation", "test"]
ReportName = Literal["mean_loss", "rms_loss", "update_norm"]
Precision = Literal["float32", "bf16"]
StateLifetime = Literal["round", "client"]

# The answer to a request: a tuple with the result of each fold (`Train`), (m,) losses (`Losses`),
# `Metrics` or `ClientMetrics` (`Evaluate`) or a `Failure`.
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
        local_steps: E, steps a client makes.
        batch_size: B.
        precision: arithmetic of the forward and backward pass.
        objective: the weights of the clients in the objective, by which validation parts are
            averaged: "data_size": n_k / n; "equal": 1/N.
        loss: what a batch's loss is; None: the default of the federation's task.
        optimizer: the direction of a step; None: the gradient, as by plain SGD.
        clip: the largest norm of the gradient of a step, > 0; None: any.
        local_epochs: passes over its examples that a client makes instead of E steps; None: E.
        drop_last: whether the short batch that ends a pass is left out, see
            `fedgs.local.batches`.
        optimizer_state: how long the state of an optimiser lasts: "round": one participation of a
            client; "client": all of them.
    """

    federation: "Federation"
    model: "Model"
    mu: float
    local_steps: int
    batch_size: int
    precision: Precision = "float32"
    objective: Objective = "data_size"
    loss: "Loss | None" = None
    optimizer: "Optimizer | None" = None
    clip: float | None = None
    local_epochs: int | None = None
    drop_last: bool = False
    optimizer_state: StateLifetime = "round"


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


@runtime_checkable
class MergingFold(Fold[Accumulator, Result], Protocol[Accumulator, Result]):
    """A fold whose models may be added in several places, block by block.

    Accumulators of neighbouring blocks are merged, however the blocks were dealt out, and the
    result has the bits of one accumulator to which all models were added. Blocks begin at multiples
    of `fedgs.aggregation.BLOCK` models.
    """

    def part(self, start: int, stop: int) -> "MergingFold[Accumulator, Result]":
        """The fold that gathers the models at the places start..stop-1 of this one's."""
        ...

    def merge(self, one: Accumulator, other: Accumulator) -> Accumulator:
        """The accumulator of the models of both, of which the second ones follow the first."""
        ...


AnyFold: TypeAlias = Fold[Any, object]


def check_reports(names: Sequence[object]) -> None:
    """Raise `ConfigError` unless the names are distinct reports of `Train`.

    >>> check_reports(("mean_loss", "loss"))
    Traceback (most recent call last):
    fedgs.errors.ConfigError: a report must be 'mean_loss', 'rms_loss' or 'update_norm', got 'loss'
    """
    known = get_args(ReportName)
    for name in names:
        if name not in known:
            *others, last = map(repr, known)
            raise ConfigError(f"a report must be {', '.join(others)} or {last}, got {name!r}")
    if len(set(names)) < len(names):
        raise ConfigError(f"reports must be distinct, got {', '.join(map(repr, names))}")


def check_batch(batch: object, setting: str) -> None:
    """Raise `ConfigError` unless the size of a mini-batch is None or an integer >= 1.

    >>> check_batch(0, "batch")
    Traceback (most recent call last):
    fedgs.errors.ConfigError: batch must be an integer >= 1 or None, got 0
    """
    if batch is None:
        return
    if isinstance(batch, Integral) and not isinstance(batch, bool) and int(batch) >= 1:
        return
    raise ConfigError(f"{setting} must be an integer >= 1 or None, got {batch!r}")


@dataclass(frozen=True, eq=False)
class OptimizerState:
    """What an optimiser of one client remembers.

    Attributes:
        steps: that it has made.
        entries: (K,) float32, the entries that `Optimizer.memory` names, one after another. It must
            not be written to.
    """

    steps: int
    entries: "torch.Tensor"


@dataclass(frozen=True, eq=False)
class Train:
    """Train clients; the reply is a tuple with each fold's result, and the reports if any.

    A step of client k with parameters theta' follows the gradient
    grad F_k(theta') + offsets_k + mu (theta' - starts_k).

    Starts and offsets draw no random numbers, and reports change no model. Starts equal to theta^t
    and offsets of 0 give the same bits as none. Buffers and frozen parameters have no offset.

    Attributes:
        parameters: (P,) float32, theta^t.
        clients: (m,) ascending, distinct.
        learning_rate: eta of this round.
        key: (seed, round); local randomness is keyed by it and the client.
        folds: how the local models are reduced.
        starts: (m, P) float32, where each client starts; None: theta^t.
        offsets: (m, P) float32, added to the gradient of every step; None: nothing.
        reports: numbers of each client that come at no extra pass. They are the last entry of the
            reply, a mapping of name to (m,) float64: "mean_loss": mean over the E steps of the
            batch's mean loss; "rms_loss": root mean square of the losses of all examples of the
            batches; "update_norm": the Euclidean norm of theta_k - starts_k, all P numbers.
        states: the state with which each client's optimiser begins, None for a new one. The reply
            then ends with the m states after the last steps, a tuple. None: all begin anew, and the
            reply has no states.

    Raises:
        DataError: starts or offsets that are no (m, P) float32 tensors; states of other than m
            clients.
        ConfigError: a report that does not exist, or one that is named twice.
    """

    work: Work
    parameters: "torch.Tensor"
    clients: IntArray
    learning_rate: float
    key: tuple[int, int]
    folds: tuple[AnyFold, ...]
    starts: "torch.Tensor | None" = None
    offsets: "torch.Tensor | None" = None
    reports: tuple[ReportName, ...] = ()
    states: tuple[OptimizerState | None, ...] | None = None

    def __post_init__(self) -> None:
        if self.states is not None and len(self.states) != len(self.clients):
            raise DataError(
                f"states must be one for each of {len(self.clients)} clients, "
                f"got {len(self.states)}"
            )
        for name, rows in (("starts", self.starts), ("offsets", self.offsets)):
            if rows is None:
                continue
            wanted = (len(self.clients), len(self.parameters))
            if tuple(rows.shape) != wanted or str(rows.dtype) != "torch.float32":
                raise DataError(
                    f"{name} must be float32 of shape {wanted}, one row for each client, "
                    f"got {rows.dtype} of shape {tuple(rows.shape)}"
                )
        if self.reports:
            check_reports(self.reports)


@dataclass(frozen=True, eq=False)
class Losses:
    """Compute the mean loss of the model on each client's part `split`.

    With `batch`, the loss is that of one mini-batch of so many examples, drawn without replacement
    by seed, round and client; all examples where a client has no more. The draw is independent of
    the batches of the local training.

    The reply is an (m,) float64 array, NaN for an empty part. `key` is (seed, round), for models
    that draw random numbers and for the draw of mini-batches.

    Raises:
        ConfigError: a batch that is no integer >= 1.
    """

    work: Work
    parameters: "torch.Tensor"
    clients: IntArray
    split: Split
    key: tuple[int, int] = (0, 0)
    batch: int | None = None

    def __post_init__(self) -> None:
        check_batch(self.batch, "batch")


@dataclass(frozen=True, eq=False)
class Evaluate:
    """Compute loss and accuracy on the server's test set, or over the clients' validation parts.

    Validation parts are weighted by the work's objective. The reply is `Metrics`. `key` is (seed,
    round), for models that draw random numbers. `metrics` are computed from the outputs for all
    examples of the part, in the order of its rows.

    With `by_client`, the reply is `ClientMetrics`: those of each client on its own examples of the
    part. Test examples must then have owners.

    With `clients`, (s,) ascending indices, only these are evaluated, on validation parts or by
    client.
    """

    work: Work
    parameters: "torch.Tensor"
    split: Split
    key: tuple[int, int] = (0, 0)
    metrics: "tuple[Metric, ...]" = ()
    by_client: bool = False
    clients: IntArray | None = None


Request = Train | Losses | Evaluate


@dataclass(frozen=True)
class Metrics:
    """Figures of a model.

    Attributes:
        loss: mean loss.
        accuracy: share of right answers; None where no answer is right or wrong, as in regression.
        others: name -> value of further metrics; None: none were asked for.
    """

    loss: float
    accuracy: float | None
    others: Mapping[str, float] | None = None


@dataclass(frozen=True, eq=False)
class ClientMetrics:
    """Figures of a model on the examples of each client.

    Attributes:
        losses: (N,) mean losses; NaN for clients without examples.
        accuracies: (N,) shares of right answers, NaN likewise; None where no answer is right or
            wrong, as in regression.
    """

    losses: FloatArray
    accuracies: FloatArray | None


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
