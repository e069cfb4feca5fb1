"""The loop engine: one client after another, plain SGD. The reference that every other engine is tested against."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from fedgs.aggregation import all_finite
from fedgs.arrays import IntArray
from fedgs.errors import ClientError, UpdateError
from fedgs.local.batches import client_keys, local_batches
from fedgs.local.bounds import training_sizes
from fedgs.local.evaluation import measure
from fedgs.local.memory import filled_batch_size
from fedgs.local.objective import cross_entropy, proximal_step
from fedgs.local.threads import one_thread_if
from fedgs.local.workbench import Workbench, workbench_key
from fedgs.requests import Failure, Request, Train, Work
from fedgs.rng import kept_generators, seed_generators

__all__ = ["NUMERICS", "LoopEngine", "client_error", "not_finite"]

NUMERICS = 1
"""Version of the numbers that the loop engine computes, part of a run's identity.

Raise it in every change that gives a trained model, a loss or an accuracy other bits.
"""


class LoopEngine:
    """Answers requests one by one, training one client after another.

    Args:
        device: where modules and data live, such as "cpu" or "cuda".
    """

    name = "loop"

    def __init__(self, device: str = "cpu") -> None:
        self.device = torch.device(device)
        self._workbenches: dict[Any, Workbench] = {}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Any]]:
        """See `fedgs.requests.Engine`."""
        for position, request in enumerate(requests):
            yield position, self.reply(request)

    def reply(self, request: Request) -> Any:
        """The reply to one request, or a `Failure`."""
        try:
            workbench = self.workbench(request.work)
            if isinstance(request, Train):
                with one_thread_if(workbench.is_small(request.work.batch_size)):
                    return _train(workbench, request)
            return measure(workbench, request)
        except ClientError as error:
            return Failure(error.client, error)
        except Exception as error:
            return Failure(None, error)

    def workbench(self, work: Work) -> Workbench:
        """The module and the data for a kind of work, set up when first asked for."""
        key = workbench_key(work)
        if key not in self._workbenches:
            self._workbenches[key] = Workbench(
                work, self.device
            )  # holds the work, so that the ids stay taken
        return self._workbenches[key]


def client_error(work: Work, client: int, error: Exception) -> ClientError:
    """What went wrong at a client, with the original exception as its cause."""
    wrapped = ClientError(
        client, f"client {work.federation.clients.names[client]!r}: {type(error).__name__}: {error}"
    )
    wrapped.__cause__ = error
    return wrapped


def not_finite(work: Work, client: int) -> UpdateError:
    """The error for a local model with NaN or inf."""
    name = work.federation.clients.names[client]
    return UpdateError(
        f"the local model of client {name!r} is not finite (NaN or inf) after {work.local_steps} steps"
    )


def _train(workbench: Workbench, request: Train) -> Any:
    """Train the clients one by one; each local model goes into the folds and is forgotten."""
    work, clients = request.work, request.clients
    start = request.parameters.to(workbench.device)
    sizes = training_sizes(work.federation, clients)
    keys = client_keys(request.key, clients)
    batches = local_batches(
        keys, sizes, local_steps=work.local_steps, batch_size=filled_batch_size(work)
    )
    kept = [fold.start() for fold in request.folds]
    finite: list[
        torch.Tensor
    ] = []  # read once, at the end, so that a GPU is not waited for after each client
    seed, round_index = request.key
    with kept_generators():
        for row, client in enumerate(clients.tolist()):
            seed_generators(
                seed, "torch", round_index, client
            )  # so that dropout is a function of seed, round and client
            try:
                _descend(
                    workbench, request, start, client, batches.indices[row], batches.sizes[row]
                )
            except Exception as error:
                raise client_error(work, client, error) from error
            finite.append(all_finite(workbench.flat.vector))
            models = workbench.flat.vector.unsqueeze(0)  # (1, P)
            kept = [
                fold.add(k, clients[row : row + 1], models)
                for fold, k in zip(request.folds, kept, strict=True)
            ]
    broken = [
        client
        for client, fine in zip(clients.tolist(), torch.stack(finite).tolist(), strict=True)
        if not fine
    ]
    if broken:
        return Failure(broken[0], not_finite(work, broken[0]))
    return tuple(fold.finish(k) for fold, k in zip(request.folds, kept, strict=True))


def _descend(
    workbench: Workbench,
    request: Train,
    start: torch.Tensor,
    client: int,
    indices: IntArray,
    sizes: IntArray,
) -> None:
    """E steps theta -= eta·(gradient + mu·(theta - theta^t)) from theta^t, on one client's batches."""
    flat, examples, mu, rate = (
        workbench.flat,
        workbench.examples("train"),
        request.work.mu,
        request.learning_rate,
    )
    flat.module.train()
    flat.load(start)
    rows = torch.from_numpy(indices + int(request.work.federation.train.offsets[client])).to(
        workbench.device
    )
    for step, size in enumerate(sizes.tolist()):
        x, y = examples.gather(rows[step, :size])
        loss = cross_entropy(workbench.forward(x), y)
        gradients = torch.autograd.grad(
            loss, flat.trained, allow_unused=True, materialize_grads=True
        )
        with torch.no_grad():
            pull = proximal_step(flat.parameters, start[: len(flat.parameters)], mu) if mu else None
            torch._foreach_add_(flat.trained, gradients, alpha=-rate)
            if pull is not None:
                flat.parameters.add_(pull, alpha=-rate)
