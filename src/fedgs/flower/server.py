"""The aggregation of a deployment, on the parameters of a model by name."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedgs.arrays import AnyArray, FloatArray
from fedgs.clients import Clients, Objective
from fedgs.errors import ConfigError, shown
from fedgs.flower.aggregations import RULES, Rule
from fedgs.flower.features import Parameters, parameter_names
from fedgs.registry import Variant, build, table
from fedgs.server_steps import Moments, ServerStep, Sgd
from fedgs.weighting import Weighting

__all__ = ["Server", "flat", "whole"]

_WITH_STEPS = ("FedAvgM", "FedAdagrad", "FedAdam", "FedOpt", "FedYogi")  # of Flower
_SOMEONE = Clients(("client",), np.array([1]))
_START = "start/"  # theta^0, for clients that hold a model of their own


class Server:
    """Applies an aggregation and a server step to the average of a round.

    Args:
        step: the server step.
        parameters: which arrays of the model it moves, see `features.parameter_names`; the others
            are those of the average.
        rule: the aggregation; None: the average.

    >>> server = Server(Sgd(rate=0.5), None)
    >>> server.moved(0, {"w": np.zeros(1)}, {"w": np.ones(1)}, {})
    ({'w': array([0.5])}, {})
    """

    def __init__(
        self, step: ServerStep, parameters: Parameters | None, rule: Rule | None = None
    ) -> None:
        self._step, self._parameters, self.rule = step, parameters, rule
        # The average itself is the next model.
        self.is_plain = rule is None and type(step) is Sgd and step.rate == 1

    @classmethod
    def of(
        cls,
        step: object,
        inner: object,
        parameters: Parameters | None,
        aggregation: object | None = None,
    ) -> "Server":
        """The server with a step and an aggregation as a user writes them.

        Args:
            step: a server step, its name, or a table with `name`.
            inner: the inner strategy.
            parameters: see the class.
            aggregation: likewise; it holds the server step then.

        Raises:
            ConfigError: no server step, an aggregation that cannot be deployed, or an inner
                strategy that has a server step of its own.
        """
        rule = None
        if aggregation is not None:
            if step != "sgd":
                raise ConfigError(
                    "server must be left out beside aggregation, which holds the server step: "
                    f"aggregation = {{'name': ..., 'server': ...}}; got server = {shown(step)}"
                )
            settings = build("aggregation", aggregation)
            rule, step = _rule_of(settings), settings.server  # type: ignore[attr-defined]
        built = build("server", step)
        if not isinstance(built, ServerStep):
            raise ConfigError(f"server must be a server step, got {shown(built)}")
        server = cls(built, parameters, rule)
        kinds = {kind.__name__ for kind in type(inner).__mro__}
        if not server.is_plain and not kinds.isdisjoint(_WITH_STEPS):
            what = f"server = {built.name or type(built).__name__!r}"
            if rule is not None:
                what = f"aggregation = {rule.settings.name!r}"
            raise ConfigError(
                f"{what} does not go with the inner strategy {type(inner).__name__}, which has a "
                "server step of its own; use FedAvg or FedProx, or leave "
                f"{what.split(' ')[0]} out"
            )
        return server

    def check(
        self, weighting: Weighting, objective: Objective, *, reads_training: str | None = None
    ) -> None:
        """Refuse an aggregation that has no meaning with these weights or this sampler.

        Args:
            weighting: of the sampler.
            objective: of the deployment.
            reads_training: the sampler, if it reads what the cohort's training gives; else None.

        Raises:
            ConfigError: another weighting, objective or sampler is needed.
        """
        if self.rule is None:
            return
        settings = self.rule.settings
        # The clients are not known yet, and the aggregations of `RULES` do not read them.
        settings.check(_SOMEONE, 1, weighting)  # type: ignore[attr-defined]
        wanted = settings.objective  # type: ignore[attr-defined]
        if wanted is not None and wanted != objective:
            raise ConfigError(
                f"aggregation {settings.name!r} needs objective = {wanted!r}, got {objective!r}"
            )
        if settings.trains_everyone and reads_training is not None:  # type: ignore[attr-defined]
            raise ConfigError(
                f"aggregation {settings.name!r} trains clients outside of the cohort, and method "
                f"{reads_training!r} reads what the cohort's training gives; use a method such as "
                "'uniform', or 'fedgs' with graph.start = 'all'"
            )

    @property
    def table(self) -> dict[str, object] | None:
        """The step or the aggregation as a table; None: the average itself is the next model."""
        if self.rule is not None:
            return table(self.rule.settings)
        return None if self.is_plain else table(self._step)

    @property
    def aggregation_table(self) -> dict[str, object] | None:
        """The aggregation as a table, as in a configuration; None: the default one."""
        if self.rule is not None or self.table is None:
            return self.table
        return {"name": "mean", "server": self.table}

    def names(self, model: Mapping[str, AnyArray]) -> list[str]:
        """The parameters of a model by name."""
        return parameter_names(model, self._parameters)

    def begun(self, sent: Mapping[str, AnyArray], moments: Moments) -> Moments:
        """The vectors of step and aggregation, made before the first round with theta^0.

        Args:
            sent: theta^t by name.
            moments: those of earlier rounds; empty before round 0.
        """
        if self.is_plain or moments:
            return moments
        theta = flat(sent, self.names(sent))
        vectors = {**self._step.start(theta)}
        if self.rule is not None:
            vectors |= self.rule.start(theta)
            if self.rule.is_held:
                vectors |= {f"{_START}{name}": array for name, array in sent.items()}
        return vectors

    def start_model(self, moments: Moments) -> dict[str, AnyArray]:
        """theta^0 by name, where clients hold models of their own."""
        return {
            name.removeprefix(_START): array
            for name, array in moments.items()
            if name.startswith(_START)
        }

    def shared(self, sent: Mapping[str, AnyArray], moments: Moments) -> dict[str, AnyArray] | None:
        """What goes to the cohort with the model, by name, in the types of the parameters."""
        vector = None if self.rule is None else self.rule.shared(moments)
        return None if vector is None else _unflat(vector, sent, self.names(sent))

    def moved(
        self,
        round: int,
        sent: Mapping[str, AnyArray],
        average: Mapping[str, AnyArray] | None,
        moments: Moments,
        sums: Mapping[str, FloatArray] | None = None,
    ) -> tuple[Mapping[str, AnyArray] | None, Moments]:
        """The next model, None where it stays, and the moments.

        Args:
            round: t.
            sent: theta^t by name.
            average: theta^t + U by name; None: the round has no average.
            moments: of the step and the aggregation; empty before round 0.
            sums: of the aggregation's terms.
        """
        if self.is_plain:
            return average, moments
        names = self.names(sent)
        theta = flat(sent, names)
        target = None if average is None else flat(average, names)
        moments = self.begun(sent, moments)
        with np.errstate(over="ignore", invalid="ignore"):  # the model is checked afterwards
            if self.rule is not None:
                target, moments = self.rule.target(theta, target, sums or {}, moments)
            if self.rule is not None and self.rule.is_held:  # the clients apply the rate
                moved = theta if target is None else target
            else:
                moved, moments = self._step.step(round, theta, target, moments)
        if average is None and moved is theta:
            return None, moments
        others = sent if average is None else average
        return {**others, **_unflat(moved, sent, names)}, moments


def _rule_of(settings: Variant) -> Rule | None:
    """The server's half of an aggregation; None: the mean."""
    # A subclass may change any part of the method.
    own = not type(settings).__module__.startswith("fedgs.aggregation.")
    name = type(settings).__name__ if own or not settings.name else settings.name
    if not own and name == "mean":
        return None
    if not own and name in RULES:
        return RULES[name](settings)
    raise ConfigError(
        f"aggregation {name!r} cannot be deployed, since its clients have no half of it; use one "
        f"of mean, {', '.join(RULES)}"
    )


def whole(average: AnyArray, kind: np.dtype[Any]) -> AnyArray:
    """An average of arrays of integers or Booleans in their type again, rounded.

    >>> whole(np.array([4.6, 300.0]), np.dtype(np.uint8))
    array([  5, 255], dtype=uint8)
    """
    if average.dtype == kind:
        return average
    if kind.kind == "b":
        return np.asarray(average >= 0.5)
    least, most = np.iinfo(kind).min, np.iinfo(kind).max
    with np.errstate(invalid="ignore"):  # numbers out of range are replaced
        rounded = np.rint(average).astype(kind)
    rounded = np.where(average <= least, kind.type(least), rounded)
    return np.asarray(np.where(average >= most, kind.type(most), rounded))


def flat(model: Mapping[str, AnyArray], names: list[str]) -> FloatArray:
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
