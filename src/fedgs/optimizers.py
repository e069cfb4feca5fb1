"""Optimisers of local training: the direction of a step from its gradient.

Every step is theta <- theta - eta_t·d with the learning rate eta_t of the round and a direction d.
The state of an optimiser is reset for every client and round, or kept from a client's participation
to its next one (`training.optimizer_state`). The steps are those of `torch.optim`. PyTorch is
imported when a direction is computed, not before.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from pydantic import Field, ValidationInfo, field_validator

from fedgs.errors import ConfigError
from fedgs.registry import Variant, register

if TYPE_CHECKING:
    from torch import Tensor

    Tensors: TypeAlias = list[Tensor]
    State: TypeAlias = dict[str, Tensors]

__all__ = ["Adam", "AdamW", "Optimizer", "SGD"]

_FLOAT32_MIN, _FLOAT32_MAX = 1.5e-45, 3.4e38  # beyond them float32 has 0 or infinity


class Optimizer(Variant):
    """Base of all optimisers.

    `directions` gets the tensors that are trained as lists. The stacked engine trains r clients in
    one list of tensors (r, *shape), so a direction may depend on numbers entry by entry only.

    Attributes:
        weight_decay: lambda >= 0, within float32's range; how it enters is said in each class.
        starts_at_zero: whether a state whose `memory` is all 0 is a new one, whatever else it
            holds. The stacked engine then uses the memory of an earlier round's state again. A
            subclass, which may hold more, states it again.
    """

    family: ClassVar[str] = "optimizer"
    starts_at_zero: ClassVar[bool] = False
    weight_decay: float = Field(default=0.0, ge=0, allow_inf_nan=False)

    @field_validator("weight_decay", "epsilon", check_fields=False)
    @classmethod
    def _in_float32(cls, value: float, info: ValidationInfo) -> float:
        if value > _FLOAT32_MAX or 0 < value < _FLOAT32_MIN:
            bound = "at most 3.4e38" if value > 1 else "at least 1.5e-45"
            raise ValueError(
                f"training.optimizer.{info.field_name} must be within float32's range, {bound}, "
                f"got {value:g}"
            )
        return value

    @property
    def memory(self) -> tuple[str, ...]:
        """The entries of the state that later steps depend on.

        Each is a list with one tensor of the shape of each trained one. `training.optimizer_state =
        "client"` keeps them and nothing else; it is refused for an optimiser that names none.
        """
        return ()

    def directions(
        self, step: int, gradients: "Tensors", parameters: "Tensors", state: "State"
    ) -> "Tensors":
        """The directions of a step.

        Args:
            step: how many steps the state has seen: 0 for the first step of a client, in a round or
                in the run.
            gradients: of the local objective. Two of them may share memory, so neither they nor
                the parameters may be written to.
            parameters: before the step.
            state: empty at the first step; what is stored in it is there at the next. At the first
                step of a later round it has the entries that `memory` names alone.

        Returns:
            One direction for each gradient. It is read before the next step, which may overwrite
            it.
        """
        raise TypeError(
            f"{type(self).__name__} must define directions(step, gradients, parameters, state)"
        )


@register("optimizer", "sgd")
class SGD(Optimizer):
    """Stochastic gradient descent, with momentum b: v <- b v + g + lambda theta, d = v.

    v is g + lambda theta at the first step. With Nesterov's form d = g + lambda theta + b v.

    Reference: Sutskever et al. (2013): On the Importance of Initialization and Momentum in Deep
    Learning. ICML.

    Attributes:
        momentum: b, in [0, 1).
        nesterov: whether d is Nesterov's, which needs a momentum.

    >>> import torch
    >>> sgd, state = SGD(momentum=0.5), {}
    >>> theta = [torch.zeros(1)]
    >>> [sgd.directions(step, [torch.ones(1)], theta, state)[0].item() for step in (0, 1)]
    [1.0, 1.5]
    """

    starts_at_zero: ClassVar[bool] = True
    momentum: float = Field(default=0.0, ge=0, lt=1)
    nesterov: bool = False

    def model_post_init(self, context: object) -> None:
        """Refuse Nesterov's form without momentum."""
        if self.nesterov and self.momentum == 0:
            raise ConfigError("training.optimizer.nesterov needs a momentum > 0; got momentum = 0")

    @property
    def memory(self) -> tuple[str, ...]:
        """The velocity v, where there is momentum."""
        return ("velocity",) if self.momentum else ()

    def directions(
        self, step: int, gradients: "Tensors", parameters: "Tensors", state: "State"
    ) -> "Tensors":
        """See the class."""
        import torch

        decay, momentum, nesterov = self.weight_decay, self.momentum, self.nesterov
        if not decay and not momentum:
            return gradients
        if momentum and "velocity" not in state:
            state["velocity"] = _zeros(parameters)
        if (decay or nesterov) and "total" not in state:
            state["total"] = _zeros(parameters)
        directions = []
        for place, total in enumerate(gradients):
            if decay or nesterov:
                gradient, total = total, state["total"][place]
                torch.add(gradient, parameters[place], alpha=decay, out=total)
            if momentum:
                velocity = state["velocity"][place]
                torch.add(total, velocity, alpha=momentum, out=velocity)
                total = total.add_(velocity, alpha=momentum) if nesterov else velocity
            directions.append(total)
        return directions


class _Adaptive(Optimizer):
    """Adam's moments and direction.

    Attributes:
        beta1: b1, of the mean of gradients, in [0, 1).
        beta2: b2, of the mean of squared gradients, in [0, 1).
        epsilon: e, > 0 and within float32's range.
    """

    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.999, ge=0, lt=1)
    epsilon: float = Field(default=1e-8, gt=0, allow_inf_nan=False)

    @property
    def memory(self) -> tuple[str, ...]:
        """The means of gradients and of squared gradients."""
        return ("mean", "square")

    def _moved(self, step: int, gradients: "Tensors", state: "State") -> "Tensors":
        """m^ / (sqrt(v^) + e), with m^ and v^ the means corrected for their start at 0."""
        import torch

        for name in (*self.memory, "direction"):
            if name not in state:
                state[name] = _zeros(gradients)
        of_mean, of_square = 1 - self.beta1 ** (step + 1), 1 - self.beta2 ** (step + 1)
        for place, gradient in enumerate(gradients):
            mean, square, direction = (state[n][place] for n in ("mean", "square", "direction"))
            mean.lerp_(gradient, 1 - self.beta1)
            square.mul_(self.beta2).addcmul_(gradient, gradient, value=1 - self.beta2)
            torch.sqrt(square, out=direction).div_(of_square**0.5).add_(self.epsilon)
            torch.div(mean, direction, out=direction).div_(of_mean)
        return state["direction"]


@register("optimizer", "adam")
class Adam(_Adaptive):
    """Adam: d = m^ / (sqrt(v^) + e), whose gradients contain lambda theta.

    m <- b1 m + (1 - b1) g and v <- b2 v + (1 - b2) g² start at 0; m^ = m / (1 - b1^s) and
    v^ = v / (1 - b2^s) in step s = 1, 2, ...

    Reference: Kingma and Ba (2015): Adam: A Method for Stochastic Optimization. ICLR.

    >>> import torch
    >>> direction, = Adam().directions(0, [torch.tensor([4.0])], [torch.zeros(1)], {})
    >>> direction.round(decimals=3)  # the sign of the gradient at the first step
    tensor([1.])
    """

    starts_at_zero: ClassVar[bool] = True

    def directions(
        self, step: int, gradients: "Tensors", parameters: "Tensors", state: "State"
    ) -> "Tensors":
        """See the class."""
        import torch

        if self.weight_decay:
            gradients = [
                torch.add(gradient, parameter, alpha=self.weight_decay)
                for gradient, parameter in zip(gradients, parameters, strict=True)
            ]
        return self._moved(step, gradients, state)


@register("optimizer", "adamw")
class AdamW(_Adaptive):
    """Adam with decoupled weight decay: d = m^ / (sqrt(v^) + e) + lambda theta.

    Reference: Loshchilov and Hutter (2019): Decoupled Weight Decay Regularization. ICLR.

    Attributes:
        weight_decay: lambda >= 0.

    >>> import torch
    >>> AdamW(weight_decay=0.5).directions(0, [torch.ones(1)], [torch.tensor([2.0])], {})[0].round(
    ...     decimals=3
    ... )
    tensor([2.])
    """

    starts_at_zero: ClassVar[bool] = True
    weight_decay: float = Field(default=0.01, ge=0, allow_inf_nan=False)

    def directions(
        self, step: int, gradients: "Tensors", parameters: "Tensors", state: "State"
    ) -> "Tensors":
        """See the class."""
        directions = self._moved(step, gradients, state)
        if self.weight_decay:
            for direction, parameter in zip(directions, parameters, strict=True):
                direction.add_(parameter, alpha=self.weight_decay)
        return directions


def _zeros(tensors: "Sequence[Tensor]") -> "Tensors":
    """Tensors of these shapes, in the memory order of each."""
    import torch

    return [torch.zeros_like(tensor) for tensor in tensors]
