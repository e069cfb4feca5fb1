"""The loop engine: plain SGD, one client after another. Every other engine is tested against it."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch

from fedgs.aggregation import all_finite
from fedgs.arrays import AnyArray, FloatArray, IntArray
from fedgs.errors import ClientError, UpdateError
from fedgs.local.batches import client_keys, local_batches, steps_of
from fedgs.local.bounds import training_sizes
from fedgs.local.descent import Descent, is_plain, sums
from fedgs.local.evaluation import measure
from fedgs.local.memory import filled_batch_size
from fedgs.local.objective import proximal_step, scaled_losses
from fedgs.local.terms import Trained, joined_reports, reports_of, wants_losses
from fedgs.local.threads import one_thread_if
from fedgs.local.workbench import Workbench, workbench_key
from fedgs.losses import loss_of
from fedgs.requests import Failure, OptimizerState, Request, Train, Work
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
        self._workbenches: dict[Hashable, Workbench] = {}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, object]]:
        """See `fedgs.requests.Engine`."""
        for position, request in enumerate(requests):
            yield position, self.reply(request)

    def reply(self, request: Request) -> object:
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
        """The module and the data for a kind of work, set up at first use."""
        key = workbench_key(work)
        if key not in self._workbenches:
            # The workbench holds the work, so no other object gets the ids in the key.
            self._workbenches[key] = Workbench(work, self.device)
        return self._workbenches[key]


def client_error(work: Work, client: int, error: Exception) -> ClientError:
    """The error that names a client, with the original exception as its cause."""
    name = work.federation.clients.names[client]
    wrapped = ClientError(client, f"client {name!r}: {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped


def not_finite(work: Work, client: int) -> UpdateError:
    """The error for a local model with NaN or inf."""
    clients = work.federation.clients
    steps = np.max(steps_of(work, clients.data_sizes[[client]]))
    return UpdateError(
        f"the local model of client {clients.names[client]!r} is not finite (NaN or inf) "
        f"after {steps} steps"
    )


def _train(workbench: Workbench, request: Train) -> tuple[object, ...] | Failure:
    """Train the clients one by one; each local model goes into the folds and is not kept."""
    work, clients = request.work, request.clients
    start = request.parameters.to(workbench.device)
    sizes = training_sizes(work.federation, clients)
    keys = client_keys(request.key, clients)
    batches = local_batches(
        keys,
        sizes,
        local_steps=steps_of(work, sizes),
        batch_size=filled_batch_size(work),
        drop_last=work.drop_last,
    )
    accumulators = [fold.start() for fold in request.folds]
    # Read once, at the end: to read a flag after each client would wait for the GPU each time.
    finite: list[torch.Tensor] = []
    reports: list[Mapping[str, FloatArray]] = []
    states: list[OptimizerState] = []
    seed, round_index = request.key
    with kept_generators():
        for row, client in enumerate(clients.tolist()):
            # So dropout is a function of seed, round and client.
            seed_generators(seed, "torch", round_index, client)
            try:
                rows = batches.indices[row] + int(work.federation.train.offsets[client])
                if request.starts is not None:
                    start = request.starts[row].to(workbench.device)
                steps = _Steps(row, start, rows, batches.sizes[row])
                losses, state = _descend(workbench, request, steps)
            except Exception as error:
                raise client_error(work, client, error) from error
            if state is not None:
                states.append(state)
            finite.append(all_finite(workbench.flat.vector))
            models = workbench.flat.vector.unsqueeze(0)  # (1, P)
            if request.reports:
                place = slice(row, row + 1)
                of_client = Trained(models, losses)
                reports.append(reports_of(request, place, of_client, batches.sizes[place]))
            accumulators = [
                fold.add(accumulator, clients[row : row + 1], models)
                for fold, accumulator in zip(request.folds, accumulators, strict=True)
            ]
    broken = [
        client
        for client, fine in zip(clients.tolist(), torch.stack(finite).tolist(), strict=True)
        if not fine
    ]
    if broken:
        return Failure(broken[0], not_finite(work, broken[0]))
    results = [
        fold.finish(accumulator)
        for fold, accumulator in zip(request.folds, accumulators, strict=True)
    ]
    kept = [] if request.states is None else [tuple(states)]
    return (*results, *joined_reports(request, reports), *kept)


class _Steps(NamedTuple):
    """What one client does.

    Attributes:
        place: of the client among the request's.
        start: (P,) where it starts.
        rows: (E, B) rows of the training part.
        sizes: (E,) how many of the B are used; 0 after the last step.
    """

    place: int
    start: torch.Tensor
    rows: IntArray
    sizes: IntArray


def _descend(
    workbench: Workbench, request: Train, steps: _Steps
) -> tuple[AnyArray | None, OptimizerState | None]:
    """E steps theta -= eta·d on one client's batches.

    The direction d is that of the optimiser for gradient + offset + mu·(theta - start), which it is
    itself for plain SGD.

    Args:
        workbench: its module holds theta afterwards.
        request: offsets, mu, eta and the state of the client's optimiser.
        steps: the client's start and batches.

    Returns:
        (1, E, B) losses of the examples before each step, 0 where a batch is short, None unless a
        report needs them; and the state of the optimiser, None unless the request has states.
    """
    flat, examples = workbench.flat, workbench.examples("train")
    mu, rate = request.work.mu, request.learning_rate
    place, start, rows, sizes = steps
    offset = None
    if request.offsets is not None:
        offset = flat.trained_part(request.offsets[place].to(workbench.device))
    losses = torch.zeros(1, *rows.shape, device=start.device) if wants_losses(request) else None
    objective = loss_of(request.work)
    flat.module.train()
    flat.load(start)
    batches = torch.from_numpy(rows).to(workbench.device)
    descent = None
    if request.states is not None:
        descent = Descent(request.work, flat.trained, stacked=False, state=request.states[place])
    elif not is_plain(request.work):
        descent = Descent(request.work, flat.trained, stacked=False)
    for step, size in enumerate(sizes[sizes > 0].tolist()):
        x, y = examples.gather(batches[step, :size])
        outputs = workbench.forward(x)
        loss = objective.mean(outputs.float(), y)
        if losses is not None:
            losses[0, step, :size] = scaled_losses(objective, outputs.detach(), y)
        gradients = torch.autograd.grad(
            loss, flat.trained, allow_unused=True, materialize_grads=True
        )
        with torch.no_grad():
            pull = proximal_step(flat.parameters, start[: len(flat.parameters)], mu) if mu else None
            if descent is not None:
                for term in (pull, offset):
                    if term is not None:
                        gradients = sums(gradients, flat.trained_views(term))
                gradients = tuple(descent.directions(gradients))
            for tensor, direction in zip(flat.trained, gradients, strict=True):
                tensor.add_(direction, alpha=-rate)
            if descent is not None:
                continue
            if pull is not None:
                flat.parameters.add_(pull, alpha=-rate)
            if offset is not None:
                flat.parameters.add_(offset, alpha=-rate)
    state = None if descent is None or request.states is None else descent.state()
    return None if losses is None else losses.cpu().numpy(), state
