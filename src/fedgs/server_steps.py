"""Server steps: how the aggregated update U moves the parameters of the server.

The built-in steps compute with PyTorch tensors in simulations and with NumPy arrays in deployments,
which need no PyTorch. On the CPU both give the same bits.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from fedgs.registry import Variant, register

__all__ = ["Adagrad", "Adam", "Amplified", "Momentum", "ServerStep", "Sgd", "Yogi"]

Vector: TypeAlias = Any  # a tensor of PyTorch or an array of NumPy, (P,)
Moments: TypeAlias = Mapping[str, Any]  # an aggregation's vectors: the step replaces its own

_FLOAT32_MAX = 3.4e38  # parameters are float32


def _library(vector: Vector) -> Any:
    """The functions for a vector: those of NumPy for its arrays, else those of PyTorch."""
    if isinstance(vector, np.ndarray):
        return np
    import torch

    return torch


def _roots(vector: Vector) -> Vector:
    """Square roots. On the CPU they are NumPy's.

    Those of PyTorch are not always rounded correctly, and threads that share the work cost more
    than they save for short vectors.
    """
    if isinstance(vector, np.ndarray):
        return np.sqrt(vector)
    if vector.device.type == "cpu":
        return _library(vector).from_numpy(np.sqrt(vector.numpy()))
    return vector.sqrt()


class ServerStep(Variant):
    """Base of all server steps: theta^{t+1} from theta^t and the aggregated update U.

    A step must not write to what it is given. Vectors are tensors in a simulation and NumPy arrays
    in a deployment.

    Attributes:
        rate: eta_g, the server's learning rate, > 0 and within float32's range.
    """

    family: ClassVar[str] = "server"
    rate: float = Field(default=1.0, gt=0, allow_inf_nan=False)

    @field_validator("rate", "factor", check_fields=False)
    @classmethod
    def _in_float32(cls, value: float, info: ValidationInfo) -> float:
        if value > _FLOAT32_MAX:
            raise ValueError(
                f"server.{info.field_name} must be within float32's range, at most 3.4e38, "
                f"got {value:g}"
            )
        return value

    def start(self, parameters: Vector) -> Moments:
        """The moments before round 0, named vectors of (P,) numbers."""
        return {}

    def step(
        self,
        round: int,
        parameters: Vector,
        target: Vector | None,
        moments: Moments,
    ) -> tuple[Vector, Moments]:
        """The next parameters, and the moments.

        Args:
            round: t.
            parameters: (P,) theta^t.
            target: (P,) theta^t + U; None: the round had no cohort.
            moments: the vectors of the aggregation, in which the step's own are replaced.
        """
        if target is None:  # no update: neither the parameters nor the moments move
            return parameters, moments
        return self.moved(parameters, target - parameters, moments)

    def moved(self, parameters: Vector, update: Vector, moments: Moments) -> tuple[Vector, Moments]:
        """The next parameters and moments, from the update U."""
        raise TypeError(f"{type(self).__name__} must define moved(parameters, update, moments)")


@register("server", "sgd")
class Sgd(ServerStep):
    """theta + eta_g U; with rate 1 exactly the aggregated parameters.

    >>> import torch
    >>> Sgd(rate=0.5).step(0, torch.tensor([1.0]), torch.tensor([3.0]), {})[0]
    tensor([2.])
    """

    def step(
        self,
        round: int,
        parameters: Vector,
        target: Vector | None,
        moments: Moments,
    ) -> tuple[Vector, Moments]:
        """The target itself with rate 1: theta + (target - theta) would round twice."""
        if target is not None and self.rate == 1:
            return target, moments
        return super().step(round, parameters, target, moments)

    def moved(self, parameters: Vector, update: Vector, moments: Moments) -> tuple[Vector, Moments]:
        """One step along the update."""
        return parameters + self.rate * update, moments


@register("server", "momentum")
class Momentum(ServerStep):
    """u <- beta u + U, theta + eta_g u (FedAvgM; Hsu et al., 2019).

    Attributes:
        beta: in [0, 1).
        dampened: u <- beta u + (1 - beta) U instead.

    >>> import torch
    >>> step = Momentum(beta=0.5)
    >>> theta, start = torch.tensor([0.0]), step.start(torch.zeros(1))
    >>> theta, moments = step.step(0, theta, theta + 1, start)
    >>> step.step(1, theta, theta + 1, moments)[0]
    tensor([2.5000])
    """

    beta: float = Field(default=0.9, ge=0, lt=1)
    dampened: bool = False

    def start(self, parameters: Vector) -> Moments:
        """U = 0."""
        return {"momentum": _library(parameters).zeros_like(parameters)}

    def moved(self, parameters: Vector, update: Vector, moments: Moments) -> tuple[Vector, Moments]:
        """One step along the momentum."""
        share = 1 - self.beta if self.dampened else 1.0
        momentum = self.beta * moments["momentum"] + share * update
        return parameters + self.rate * momentum, {**moments, "momentum": momentum}


class _Adaptive(ServerStep):
    """Steps scaled by a second moment (Reddi et al., 2021, ICLR): without bias correction.

    m <- beta1 m + (1 - beta1) U; v by the method; theta + eta_g m / (sqrt(v) + tau).

    Attributes:
        rate: eta_g; there is no safe default.
        beta1: in [0, 1).
        tau: the degree of adaptivity, in [1e-19, 1e19], where v_0 = tau^2 is within float32's
            range.
    """

    rate: float = Field(gt=0, allow_inf_nan=False)
    beta1: float = Field(default=0.9, ge=0, lt=1)
    tau: float = Field(default=1e-3, gt=0, allow_inf_nan=False)

    @field_validator("tau")
    @classmethod
    def _square_in_float32(cls, value: float) -> float:
        if not 1e-19 <= value <= 1e19:
            raise ValueError(
                "server.tau must be in [1e-19, 1e19], where its square is within float32's range, "
                f"got {value:g}"
            )
        return value

    def start(self, parameters: Vector) -> Moments:
        """M = 0 and v = tau^2."""
        return {
            "first": _library(parameters).zeros_like(parameters),
            "second": _library(parameters).full_like(parameters, self.tau**2),
        }

    def moved(self, parameters: Vector, update: Vector, moments: Moments) -> tuple[Vector, Moments]:
        """One step along the scaled first moment."""
        first = self.beta1 * moments["first"] + (1 - self.beta1) * update
        second = self.second_moment(moments["second"], update * update)
        moved = parameters + self.rate * first / (_roots(second) + self.tau)
        return moved, {**moments, "first": first, "second": second}

    def second_moment(self, second: Vector, square: Vector) -> Vector:
        """V after the round, from v before it and U^2."""
        raise NotImplementedError


@register("server", "adagrad")
class Adagrad(_Adaptive):
    """v <- v + U^2 (FedAdagrad; Reddi et al., 2021, ICLR); beta1 is 0 by default.

    >>> Adagrad(rate=0.1).beta1
    0.0
    """

    beta1: float = Field(default=0.0, ge=0, lt=1)

    def second_moment(self, second: Vector, square: Vector) -> Vector:
        """V + U^2."""
        return second + square


@register("server", "adam")
class Adam(_Adaptive):
    """v <- beta2 v + (1 - beta2) U^2 (FedAdam; Reddi et al., 2021, ICLR).

    Attributes:
        beta2: in [0, 1).

    >>> Adam(rate=0.1).beta2
    0.99
    """

    beta2: float = Field(default=0.99, ge=0, lt=1)

    def second_moment(self, second: Vector, square: Vector) -> Vector:
        """The moving average of U^2."""
        return self.beta2 * second + (1 - self.beta2) * square


@register("server", "yogi")
class Yogi(_Adaptive):
    """v <- v - (1 - beta2) U^2 sign(v - U^2) (FedYogi; Reddi et al., 2021, ICLR).

    Attributes:
        beta2: in [0, 1).

    >>> Yogi(rate=0.1).tau
    0.001
    """

    beta2: float = Field(default=0.99, ge=0, lt=1)

    def second_moment(self, second: Vector, square: Vector) -> Vector:
        """V moved towards U^2 by a step whose size does not depend on v."""
        return second - (1 - self.beta2) * square * _library(second).sign(second - square)


@register("server", "amplified")
class Amplified(ServerStep):
    """FedAvg whose progress over each period of P rounds is amplified by gamma.

    theta + eta_g U in each round; after every P rounds theta <- anchor + gamma (theta - anchor) and
    anchor <- theta. Rounds without a cohort count (Wang and Ji, 2022, NeurIPS).

    Attributes:
        period: P >= 1, in rounds.
        factor: gamma > 0, within float32's range.

    >>> import torch
    >>> step = Amplified(period=1, factor=3.0)
    >>> step.step(0, torch.tensor([1.0]), torch.tensor([2.0]), step.start(torch.tensor([1.0])))[0]
    tensor([4.])
    """

    period: int = Field(ge=1)
    factor: float = Field(gt=0, allow_inf_nan=False)

    def start(self, parameters: Vector) -> Moments:
        """The anchor is theta^0."""
        return {"anchor": parameters}

    def step(
        self,
        round: int,
        parameters: Vector,
        target: Vector | None,
        moments: Moments,
    ) -> tuple[Vector, Moments]:
        """One step, and the amplification where a period ends."""
        if target is not None:
            parameters = parameters + self.rate * (target - parameters)
        if (round + 1) % self.period:
            return parameters, moments
        anchor = moments["anchor"]
        parameters = anchor + self.factor * (parameters - anchor)
        return parameters, {**moments, "anchor": parameters}
