"""Local steps that are not plain SGD: gradient clipping, and the optimiser's direction."""

from collections.abc import Sequence

import torch

from fedgs.errors import ConfigError
from fedgs.optimizers import SGD, Optimizer
from fedgs.requests import OptimizerState, Work

__all__ = ["Descent", "is_plain", "not_plain", "sgd_of", "sums"]

_PLAIN = SGD()
_SMALL = 1e-6  # added to a norm, as by `torch.nn.utils.clip_grad_norm_`


def is_plain(work: Work) -> bool:
    """Whether every step follows the gradient of the local objective itself.

    >>> from fedgs.data import Synthetic
    >>> from fedgs.models import LogisticRegression
    >>> work = Work(Synthetic(clients=2).load(), LogisticRegression(), 0.0, 5, 10)
    >>> is_plain(work)
    True
    """
    return work.clip is None and (work.optimizer is None or work.optimizer == _PLAIN)


def sgd_of(work: Work) -> SGD | None:
    """The settings of SGD, if every step is one of SGD without clipping."""
    optimizer = _PLAIN if work.optimizer is None else work.optimizer
    return optimizer if type(optimizer) is SGD and work.clip is None else None


def not_plain(work: Work) -> str | None:
    """The setting by which a local update is not the sum of E gradients, weight decay included.

    None: it is this sum.
    """
    optimizer = work.optimizer
    if optimizer is not None and not (type(optimizer) is SGD and optimizer.momentum == 0):
        momentum = f" with momentum = {optimizer.momentum:g}" if type(optimizer) is SGD else ""
        return f"training.optimizer = {optimizer.name!r}{momentum}"
    if work.local_epochs is not None:
        return f"training.local_epochs = {work.local_epochs}, by which clients make different steps"
    return None if work.clip is None else f"training.clip = {work.clip:g}"


class Descent:
    """The steps of one client, or of a stack of clients, in one round.

    Args:
        work: the optimiser and the largest norm of a gradient.
        parameters: the tensors that are trained; (r, *shape) each for a stack of r clients.
        stacked: whether they are those of a stack.
        state: of the optimiser, after earlier rounds; None: it begins anew.
        spare: the state of earlier steps, of any tensors, whose memory may be used again.
    """

    def __init__(
        self,
        work: Work,
        parameters: Sequence[torch.Tensor],
        *,
        stacked: bool,
        state: OptimizerState | None = None,
        spare: dict[str, list[torch.Tensor]] | None = None,
    ) -> None:
        self._optimizer: Optimizer = _PLAIN if work.optimizer is None else work.optimizer
        self._clip, self._stacked = work.clip, stacked
        self._parameters = list(parameters)
        self._state: dict[str, list[torch.Tensor]] = {} if spare is None else spare
        if self._state:
            self._empty(self._state)
        self._step = 0
        if state is not None:
            self._step, self._state = state.steps, self._restored(state.entries)

    def _empty(self, spare: dict[str, list[torch.Tensor]]) -> None:
        """Make a new state of an earlier one: one of zeros where that will do."""
        shapes = [tensor.shape for tensor in self._parameters]
        is_own = "starts_at_zero" in vars(type(self._optimizer))  # a subclass may keep more
        if not (is_own and self._optimizer.starts_at_zero) or any(
            [one.shape for one in tensors] != shapes for tensors in spare.values()
        ):
            spare.clear()
        for name in self._optimizer.memory:
            for tensor in spare.get(name, []):
                tensor.zero_()

    def state(self) -> OptimizerState:
        """The state of the optimiser after the last step, on the CPU.

        Raises:
            ConfigError: an entry that the optimiser names does not fit the trained tensors.
        """
        entries: list[torch.Tensor] = []
        for name in self._optimizer.memory:
            tensors, owner = self._state.get(name, []), self._optimizer
            if [one.shape for one in tensors] != [one.shape for one in self._parameters]:
                raise ConfigError(
                    f"training.optimizer {owner.name or type(owner).__name__!r} must keep in "
                    f"state[{name!r}] one tensor of the shape of each trained one, since its "
                    "memory names it"
                )
            entries += [tensor.flatten() for tensor in tensors]
        return OptimizerState(self._step, torch.cat(entries).cpu())

    def _restored(self, entries: torch.Tensor) -> dict[str, list[torch.Tensor]]:
        """Copies of a state's entries, in the memory order of each trained tensor."""
        names = self._optimizer.memory
        sizes = [tensor.numel() for tensor in self._parameters] * len(names)
        parts = iter(torch.split(entries, sizes))
        return {
            name: [
                torch.empty_like(tensor).copy_(next(parts).view(tensor.shape))
                for tensor in self._parameters
            ]
            for name in names
        }

    def directions(self, gradients: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The directions of the next step.

        Args:
            gradients: of the local objective, proximal term and offsets included.
        """
        own = list(gradients)
        if self._clip is not None:
            own = self._scaled(own, self._clip)
        directions = self._optimizer.directions(self._step, own, self._parameters, self._state)
        self._step += 1
        return directions

    def _scaled(self, gradients: list[torch.Tensor], largest: float) -> list[torch.Tensor]:
        """The gradients; those of a client whose norm is above `largest` are scaled to it."""
        lead = 1 if self._stacked else 0
        squares = [torch.square(gradient.double()).flatten(lead).sum(-1) for gradient in gradients]
        norms = torch.stack(squares).sum(0).sqrt().float()
        factors = (largest / (norms + _SMALL)).clamp(max=1.0)
        if not lead:
            return [gradient * factors for gradient in gradients]
        return [gradient * factors.view(-1, *[1] * (gradient.ndim - 1)) for gradient in gradients]


def sums(
    tensors: Sequence[torch.Tensor], others: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """New tensors: each one plus the other.

    >>> sums([torch.ones(1)], [torch.ones(1)])
    (tensor([2.]),)
    """
    return tuple(one + other for one, other in zip(tensors, others, strict=True))
