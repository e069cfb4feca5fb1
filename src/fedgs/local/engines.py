"""The engines that a configuration can name, and the rule by which "auto" chooses one.

An engine is registered like every other variant, so a plug-in can add one:

    @register("engine", "mine")
    class Mine(EngineVariant):
        def make(self, device):
            return MyEngine(device)

Nothing of PyTorch is imported before an engine is chosen.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from fedgs.errors import ConfigError
from fedgs.local.on_demand import OnDemandEngine
from fedgs.registry import Variant, register, variant_class, variant_names
from fedgs.requests import Engine, Work

if TYPE_CHECKING:
    from fedgs.local.model_facts import ModelFacts

__all__ = [
    "EngineChoice",
    "EngineVariant",
    "choose_engine",
    "make_engine",
    "new_engine",
    "numerics_by_rule",
    "numerics_of",
    "numerics_with",
    "program_of",
]


class EngineVariant(Variant):
    """Base of the engines that `execution.engine` can name."""

    keeps_states: ClassVar[bool] = False
    """Whether the engine takes the states of optimisers that a request for training has, and
    replies with those after it. Without it, `training.optimizer_state = "client"` is refused."""

    def can(self, work: Work) -> str | None:
        """Why the engine cannot carry out this work; None: it can.

        The reason is the second half of a sentence about the model, such as "cannot be stacked: it
        draws random numbers".
        """
        return None

    def make(self, device: str) -> Engine:
        """An engine whose tensors live on `device`: "cpu", "cuda" or "cuda:0"."""
        raise TypeError(f"{type(self).__name__} must define make(device)")

    def versions(self) -> Mapping[str, int]:
        """Program -> version of its numbers, for all programs of the engine.

        A stored run whose program has another version now is neither resumed nor reused.
        """
        return {}

    def program(self, work: Work, device: str) -> str:
        """The program that carries out this work, a key of `versions`."""
        return self.name


@register("engine", "loop")
class Loop(EngineVariant):
    """One client after another; any module."""

    keeps_states: ClassVar[bool] = True

    def make(self, device: str) -> Engine:
        from fedgs.local.loop import LoopEngine

        return LoopEngine(device)

    def versions(self) -> Mapping[str, int]:
        from fedgs.local import loop

        return {"loop": loop.NUMERICS}


@register("engine", "stacked")
class Stacked(EngineVariant):
    """The clients of many runs in one tensor program; modules that torch.func accepts."""

    def can(self, work: Work) -> str | None:
        obstacle = _facts(work).obstacle
        return None if obstacle is None else f"cannot be stacked: {obstacle}"

    def make(self, device: str) -> Engine:
        from fedgs.local.stacked import StackedEngine

        return StackedEngine(device)

    def versions(self) -> Mapping[str, int]:
        from fedgs.local import linear, stacked

        return {"stacked": stacked.NUMERICS, "linear": linear.NUMERICS}

    def program(self, work: Work, device: str) -> str:
        from fedgs.local.linear import takes_kernels

        by_kernels = device == "cpu" and _facts(work).linear and takes_kernels(work)
        return "linear" if by_kernels else "stacked"


class EngineChoice(NamedTuple):
    """The engine of a run.

    Attributes:
        name: as registered.
        reason: one sentence that says which engine and why.
    """

    name: str
    reason: str


def choose_engine(name: str, *, device: str, work: Work) -> EngineChoice:
    """The engine for a kind of work.

    "auto" is a fixed rule of model and device. On the CPU, convolutional models are trained by the
    loop engine and others by the stacked one; on CUDA, all by the stacked one. A model that cannot
    be stacked is trained by the loop engine everywhere, and so is every model whose clients keep
    the state of their optimiser.

    Args:
        name: "auto" or a registered engine.
        device: "cpu", "cuda" or "cuda:0".
        work: what is to be trained.

    Raises:
        ConfigError: no such engine or device, or an engine that cannot carry out this work.
    """
    from fedgs.local.devices import checked_device

    where = checked_device(device)
    keeps_states = work.optimizer_state == "client"
    if name != "auto":
        if keeps_states and not _variant(name).keeps_states:
            raise ConfigError(
                f"execution.engine is {name!r}, which does not keep the states of optimisers that "
                "training.optimizer_state = 'client' asks for; use 'auto' or 'loop'"
            )
        obstacle = _variant(name).can(work)
        if obstacle is not None:
            raise ConfigError(
                f"execution.engine is {name!r}, but this model {obstacle}; use 'auto' or 'loop'"
            )
        return EngineChoice(name, f"{name}: execution.engine asks for it")
    if keeps_states:
        return EngineChoice("loop", "loop: training.optimizer_state = 'client'")
    obstacle = _variant("stacked").can(work)
    if obstacle is not None:
        return EngineChoice("loop", f"loop: the model {obstacle}")
    if where.type == "cpu" and _facts(work).convolutional:
        return EngineChoice("loop", "loop: a convolutional model on the CPU")
    return EngineChoice("stacked", f"stacked: a model that torch.func accepts, on {where.type}")


def new_engine(name: str, device: str) -> Engine:
    """A new engine of a registered name, for federations that hold their examples.

    Raises:
        ConfigError: no such engine.
    """
    return _variant(name).make(device)


def make_engine(name: str, device: str, work: Work) -> tuple[Engine, str]:
    """The engine for a kind of work and the sentence that says why, see `choose_engine`.

    It also answers requests on federations that make their examples on demand.
    """
    choice = choose_engine(name, device=device, work=work)
    return OnDemandEngine(partial(new_engine, choice.name, device)), choice.reason


def numerics_by_rule(work: Work) -> dict[str, int]:
    """The program that "auto" chooses for this work on a CPU, and the version of its numbers.

    It is part of a run's identity. The rule looks at the model and the data alone, so that a run is
    the same run on every engine and device.
    """
    return numerics_with(
        choose_engine("auto", device="cpu", work=work).name, device="cpu", work=work
    )


def numerics_with(engine: str, *, device: str, work: Work) -> dict[str, int]:
    """The program by which an engine carries out this work, and the version of its numbers."""
    return numerics_of(program_of(engine, device=device, work=work))


def program_of(engine: str, *, device: str, work: Work) -> str:
    """The program by which an engine carries out this work, see `EngineVariant.program`."""
    return _variant(engine).program(work, device)


def numerics_of(program: str) -> dict[str, int]:
    """The version of a program's numbers; empty for a program that no registered engine has.

    >>> list(numerics_of("loop")), numerics_of("abacus")
    (['loop'], {})
    """
    for name in variant_names("engine"):
        versions = _variant(name).versions()
        if program in versions:
            return {program: versions[program]}
    return {}


def _variant(name: str) -> EngineVariant:
    cls = variant_class("engine", name)
    if not issubclass(cls, EngineVariant):
        raise ConfigError(
            f"engine {name!r} must be a subclass of EngineVariant; {cls.__qualname__} is not"
        )
    return cls()


def _facts(work: Work) -> "ModelFacts":
    from fedgs.local.model_facts import model_facts

    return model_facts(work)
