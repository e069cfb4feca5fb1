"""What local training may have beyond theta^t: own starts, offsets, and numbers to report."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch

from fedgs.arrays import AnyArray, FloatArray, IntArray
from fedgs.requests import Train

__all__ = [
    "PLAIN",
    "Terms",
    "Trained",
    "joined_reports",
    "kind_of",
    "reports_of",
    "starts_of",
    "terms_of",
    "wants_losses",
]


class Terms(NamedTuple):
    """What r clients that are trained together have beyond the parameters of their runs.

    Attributes:
        start: (r,) the row of `starts` for each client; None: that of its run.
        offsets: (r, P) float32, added to the gradient of every step; None: nothing.
        losses: whether the losses of the examples are returned.
    """

    start: IntArray | None = None
    offsets: torch.Tensor | None = None
    losses: bool = False

    def part(self, clients: IntArray | slice) -> "Terms":
        """The terms of some of the clients."""
        start, offsets = self.start, self.offsets
        return self._replace(
            start=None if start is None else start[clients],
            offsets=None if offsets is None else offsets[clients],
        )


PLAIN = Terms()


class Trained(NamedTuple):
    """The result of training r clients.

    Attributes:
        models: (r, P) float32, the local models.
        losses: (r, E, B) float32, the loss of each example in each batch before the step, 0 where a
            batch is short; None if they were not wanted.
    """

    models: torch.Tensor
    losses: AnyArray | None = None

    def part(self, clients: slice) -> "Trained":
        """The result of some of the clients."""
        return Trained(self.models[clients], None if self.losses is None else self.losses[clients])


def terms_of(members: Sequence[tuple[Train, slice]]) -> tuple[torch.Tensor, Terms]:
    """Where the clients of several requests start, and their terms.

    Args:
        members: requests that have all of starts, offsets and reports or none, see `kind_of`, with
            the clients of each.

    Returns:
        (R, P) starts, and the terms that refer to their rows.
    """
    request = members[0][0]
    starts = torch.cat([starts_of(request, clients) for request, clients in members])
    offsets = [
        request.offsets[clients] for request, clients in members if request.offsets is not None
    ]
    return starts, Terms(
        None if request.starts is None else np.arange(len(starts)),
        torch.cat(offsets) if offsets else None,
        wants_losses(request),
    )


def kind_of(request: Train) -> tuple[bool, bool, bool]:
    """Whether a request has starts, offsets and reports from losses.

    Only requests of one kind share a stack.
    """
    return request.starts is not None, request.offsets is not None, wants_losses(request)


def wants_losses(request: Train) -> bool:
    """Whether a report of the request is computed from the losses of examples."""
    return "mean_loss" in request.reports or "rms_loss" in request.reports


def starts_of(request: Train, clients: slice) -> torch.Tensor:
    """(b, P) where some of the request's clients start; (1, P) where all start at theta^t."""
    return request.parameters[None] if request.starts is None else request.starts[clients]


def reports_of(
    request: Train, clients: slice, trained: Trained, sizes: IntArray
) -> Mapping[str, FloatArray]:
    """The numbers that a request wants of some of its clients, each (b,) float64.

    Sums are taken in float64, client by client, so that a number has the same bits in every stack.

    Args:
        request: names the numbers.
        clients: which of the request's clients were trained.
        trained: their b models and losses.
        sizes: (b, E) examples in each batch; 0 after a client's last step.
    """
    reports: dict[str, FloatArray] = {}
    losses = np.empty(0)
    if trained.losses is not None:
        losses = np.ascontiguousarray(trained.losses, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        for name in request.reports:
            if name == "mean_loss":
                means = np.add.reduce(losses, axis=2) / np.maximum(sizes, 1)
                reports[name] = np.add.reduce(means, axis=1) / np.count_nonzero(sizes, axis=1)
            elif name == "rms_loss":
                squares = np.add.reduce(np.square(losses), axis=2)
                reports[name] = np.sqrt(np.add.reduce(squares, axis=1) / sizes.sum(axis=1))
            else:
                reports[name] = _distances(trained.models, starts_of(request, clients))
    return reports


def joined_reports(
    request: Train, pieces: Sequence[Mapping[str, FloatArray]]
) -> list[Mapping[str, FloatArray]]:
    """What the reply ends with: the reports of all clients, or nothing if none are wanted."""
    if not request.reports:
        return []
    return [{name: np.concatenate([piece[name] for piece in pieces]) for name in request.reports}]


def _distances(models: torch.Tensor, starts: torch.Tensor) -> FloatArray:
    """(b,) float64 Euclidean distances of (b, P) models to (b, P) or (1, P) starts."""
    starts = starts.to(models.device)
    if models.device.type != "cpu":
        moves = models.double() - starts.double()
        norms: FloatArray = torch.linalg.vector_norm(moves, dim=1).cpu().numpy()
        return norms
    rows = zip(models.numpy(), np.broadcast_to(starts.numpy(), models.shape), strict=True)
    return np.array(
        [
            np.sqrt(np.add.reduce(np.square(np.subtract(model, start, dtype=np.float64))))
            for model, start in rows
        ]
    )
