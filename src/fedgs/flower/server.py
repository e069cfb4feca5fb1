"""The server step of a deployment, on the parameters of a model by name."""

from collections.abc import Mapping

import numpy as np

from fedgs.arrays import AnyArray, FloatArray
from fedgs.errors import ConfigError, shown
from fedgs.flower.features import Parameters, parameter_names
from fedgs.registry import build, table
from fedgs.server_steps import Moments, ServerStep, Sgd

__all__ = ["Server"]

_WITH_STEPS = ("FedAvgM", "FedAdagrad", "FedAdam", "FedOpt", "FedYogi")  # of Flower


class Server:
    """Applies a server step to the average of a round.

    Args:
        step: the server step.
        parameters: which arrays of the model it moves, see `features.parameter_names`; the others
            are those of the average.

    >>> server = Server(Sgd(rate=0.5), None)
    >>> server.moved(0, {"w": np.zeros(1)}, {"w": np.ones(1)}, {})
    ({'w': array([0.5])}, {})
    """

    def __init__(self, step: ServerStep, parameters: Parameters | None) -> None:
        self._step, self._parameters = step, parameters
        # The average itself is the next model.
        self.is_plain = type(step) is Sgd and step.rate == 1

    @classmethod
    def of(cls, step: object, inner: object, parameters: Parameters | None) -> "Server":
        """The server with a step as a user writes it.

        Args:
            step: a server step, its name, or a table with `name`.
            inner: the inner strategy.
            parameters: see the class.

        Raises:
            ConfigError: no server step, or an inner strategy that has one of its own.
        """
        built = build("server", step)
        if not isinstance(built, ServerStep):
            raise ConfigError(f"server must be a server step, got {shown(built)}")
        server = cls(built, parameters)
        kinds = {kind.__name__ for kind in type(inner).__mro__}
        if not server.is_plain and not kinds.isdisjoint(_WITH_STEPS):
            raise ConfigError(
                f"server = {built.name or type(built).__name__!r} does not go with the inner "
                f"strategy {type(inner).__name__}, which has a server step of its own; use FedAvg "
                "or FedProx, or leave server out"
            )
        return server

    @property
    def table(self) -> dict[str, object] | None:
        """The step as a table; None: the average itself is the next model."""
        return None if self.is_plain else table(self._step)

    def moved(
        self,
        round: int,
        sent: Mapping[str, AnyArray],
        average: Mapping[str, AnyArray] | None,
        moments: Moments,
    ) -> tuple[Mapping[str, AnyArray] | None, Moments]:
        """The next model, None where it stays, and the moments.

        Args:
            round: t.
            sent: theta^t by name.
            average: theta^t + U by name; None: the round has no average.
            moments: of the step; empty before round 0.
        """
        if self.is_plain:
            return average, moments
        names = parameter_names(sent, self._parameters)
        theta = _flat(sent, names)
        target = None if average is None else _flat(average, names)
        moments = moments or self._step.start(theta)
        with np.errstate(over="ignore", invalid="ignore"):  # the model is checked afterwards
            moved, moments = self._step.step(round, theta, target, moments)
        if average is None and moved is theta:
            return None, moments
        others = sent if average is None else average
        return {**others, **_unflat(moved, sent, names)}, moments


def _flat(model: Mapping[str, AnyArray], names: list[str]) -> FloatArray:
    """The (P,) parameters with these names, in float32 at least."""
    kind = np.result_type(np.float32, *(model[name].dtype for name in names))
    return np.concatenate([model[name].ravel().astype(kind) for name in names])


def _unflat(
    vector: FloatArray, like: Mapping[str, AnyArray], names: list[str]
) -> dict[str, AnyArray]:
    """The arrays of a (P,) vector, with the shapes and types of others of their names."""
    ends = np.cumsum([like[name].size for name in names])[:-1]
    with np.errstate(over="ignore"):  # a model that is not finite is refused by name
        return {
            name: part.reshape(like[name].shape).astype(like[name].dtype)
            for name, part in zip(names, np.split(vector, ends), strict=True)
        }
