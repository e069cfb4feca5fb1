"""The interface of models: a frozen variant with `build`, and the wrapper for a user's function."""

import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from pydantic import Field, field_serializer, field_validator

from fedgs.errors import ConfigError, require_extra, shown
from fedgs.machine import memory_limit
from fedgs.registry import Variant, build, check_name, register, stand_for

if TYPE_CHECKING:
    from torch import nn

__all__ = [
    "FunctionModel",
    "Model",
    "as_model",
    "check_size",
    "model",
    "model_title",
    "need_torch",
]

_MOST_PARAMETERS = 2**31  # 8 GB of float32
# A round holds at least the model, a local model and its gradient in float32, and a float64 sum.
_BYTES_PER_PARAMETER = 4 + 4 + 4 + 8

# Returns an `nn.Module`. pydantic resolves the type at run time, where torch may be missing, so
# `check_model` checks what comes.
ModuleFunction = Callable[[], object]


class Model(Variant):
    """Base of all models; torch is imported in `build`, not before.

    Attributes:
        start: a safetensors file with the weights of the first model; none: `build` draws them.

    >>> class OneLayer(Model):
    ...     def build(self, example_shape: tuple[int, ...], num_labels: int) -> "nn.Module":
    ...         from torch import nn
    ...         return nn.Linear(example_shape[0], num_labels)
    >>> OneLayer().build((4,), 2)
    Linear(in_features=4, out_features=2, bias=True)
    """

    family: ClassVar[str] = "model"
    apart_in_identity: ClassVar[frozenset[str]] = frozenset({"start"})
    tasks: ClassVar[tuple[str, ...]] = ()
    """The tasks of `Federation.task` that the model has outputs for; empty: all."""
    start: str | None = None

    @field_validator("start", mode="before")
    @classmethod
    def _as_text(cls, value: object) -> object:
        return str(value) if isinstance(value, Path) else value

    def build(self, example_shape: tuple[int, ...], num_labels: int) -> "nn.Module":
        """A fresh module that maps (b, *example_shape) float32 to (b, num_labels) logits.

        Raises:
            ConfigError: the model cannot take examples of this shape.
        """
        raise TypeError(f"{type(self).__name__} must define build(example_shape, num_labels)")


def check_size(model: Model, parameters: int) -> None:
    """Refuse a model with more parameters than one vector may have, or than memory can hold.

    Memory counts for the least that a round takes, so a model that is not refused can be too large.

    Raises:
        ConfigError: it has 2^31 or more, or a round takes more memory than this process may use.

    >>> check_size(Model(), 10**6)
    """
    if parameters >= _MOST_PARAMETERS:
        raise ConfigError(
            f"model {model_title(model)} must have fewer than {_MOST_PARAMETERS:,} parameters, "
            f"got {parameters:,}; use smaller layers"
        )
    limit, needed = memory_limit(), _BYTES_PER_PARAMETER * parameters
    if limit is not None and needed > limit:
        raise ConfigError(
            f"model {model_title(model)} must have at most {limit // _BYTES_PER_PARAMETER:,} "
            f"parameters, since this process may use {limit / 1e9:.1f} GB and a round takes at "
            f"least {needed / 1e9:.1f} GB, got {parameters:,}; use smaller layers"
        )


class FunctionModel(Model):
    """A user's function without arguments that returns an `nn.Module`."""

    name: ClassVar[str] = "function"
    function: ModuleFunction

    @field_serializer("function")
    def _qualified_name(self, function: ModuleFunction) -> str:
        name = getattr(function, "__qualname__", type(function).__qualname__)
        return f"{function.__module__}.{name}"

    @property
    def content_digest(self) -> str | None:
        """The function's own `content_digest` if it has one, for content that cannot be hashed."""
        return getattr(self.function, "content_digest", None)

    def build(self, example_shape: tuple[int, ...], num_labels: int) -> "nn.Module":
        """What the function returns; it does not get the shapes.

        `check_model` refuses anything but a module.
        """
        return cast("nn.Module", self.function())


ModelFunction = TypeVar("ModelFunction", bound=ModuleFunction)


def model(name: str) -> Callable[[ModelFunction], ModelFunction]:
    """Register a function without arguments that returns an `nn.Module` as a model.

    Raises:
        ConfigError: the name is missing, empty or taken, or it is not a function without arguments.

    >>> @model("tiny")
    ... def tiny():
    ...     from torch import nn
    ...     return nn.Linear(4, 2)
    >>> type(build("model", "tiny").build((4,), 2)).__name__
    'Linear'
    """
    check_name(name, decorator="fedgs.model")

    def add(function: ModelFunction) -> ModelFunction:
        _check_function(name, function)
        given = function

        class Registered(FunctionModel):
            function: ModuleFunction = Field(default=given, exclude=True)  # its name stands for it

        Registered.__name__ = Registered.__qualname__ = function.__name__
        Registered.__module__ = function.__module__
        register("model", name)(Registered)
        stand_for(function, Registered)
        return function

    return add


def _check_function(name: str, function: object) -> None:
    """Refuse what cannot be called without arguments; a class or a built module is no function."""
    if not inspect.isfunction(function):
        given = type(function).__name__
        if isinstance(function, type):
            given = f"the class {function.__name__}"
        raise ConfigError(
            f"fedgs.model({name!r}) takes a function without arguments that returns an nn.Module, "
            f"got {given}"
        )
    free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    needed = [
        p.name for p in parameters if p.default is inspect.Parameter.empty and p.kind not in free
    ]
    if needed:
        raise ConfigError(
            f"fedgs.model({name!r}) takes a function without arguments; this one needs "
            f"{', '.join(needed)}"
        )


def model_title(model: Model) -> str:
    """The name of a model in messages, in quotes: its own, or that of the user's function."""
    function = getattr(model, "function", None)
    if function is None or model.name != "function":
        return repr(model.name)
    return repr(getattr(function, "__name__", "function"))


def need_torch() -> None:
    """Raise `MissingExtraError` where PyTorch is not installed."""
    if importlib.util.find_spec("torch") is None:
        raise require_extra("torch", "sim")


def as_model(value: object) -> Model:
    """A model from a name, a table, a variant, or a function that returns an `nn.Module`.

    Raises:
        ConfigError: it is none of these, for instance a module that is already built.

    >>> as_model("logistic").name
    'logistic'
    """
    is_variant = isinstance(value, Variant) or (
        isinstance(value, type) and issubclass(value, Variant)
    )
    if callable(value) and not is_variant and not hasattr(value, "__fedgs_variant__"):
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.nn.Module):
            raise ConfigError(
                "model must be a function or a class that builds an nn.Module, got a "
                f"{type(value).__name__} that is built; each run builds its own from its seed, for "
                "instance with lambda: nn.Linear(60, 10)"
            )
        return FunctionModel(function=value)
    built = build("model", value)
    if not isinstance(built, Model):
        raise ConfigError(f"model must be a model, got {shown(built)}")
    return built
