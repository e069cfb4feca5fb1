"""Check before round 0 that a model fits a federation, so that no traceback comes in round 1."""

from typing import TYPE_CHECKING

import numpy as np

from fedgs.errors import ConfigError
from fedgs.models.base import Model, model_title, need_torch
from fedgs.models.fresh import difference, fresh_module
from fedgs.rng import kept_generators, seed_generators

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fedgs.data.federation import Federation

__all__ = ["check_model", "model_title", "output_shape"]


def check_model(model: Model, federation: "Federation") -> None:
    """Build the model twice and evaluate it on two examples of the federation.

    The state of the global generators of PyTorch, NumPy and `random` is restored.

    Args:
        model: any variant, a user's function included.
        federation: has the examples that the model is to classify.

    Raises:
        ConfigError: the federation has a task that the model has no outputs for; the model is not
            an `nn.Module`, has nothing to train, has different initial parameters when it is built
            again, or cannot take the examples; or its output is not (b, C) finite floating-point
            logits, (b, L, C) for sequences (the message has the shapes), or differs between two
            evaluations.
        MissingExtraError: PyTorch is not installed.

    >>> from fedgs.data import Synthetic
    >>> from fedgs.models import LogisticRegression
    >>> check_model(LogisticRegression(), Synthetic(clients=2).load())
    """
    need_torch()
    import torch

    title = f"model {model_title(model)}"
    if model.tasks and federation.task not in model.tasks:
        raise ConfigError(
            f"{title} needs a federation of task {' or '.join(map(repr, model.tasks))}, got "
            f"{federation.name!r} of task {federation.task!r}"
        )
    module = _built(model, federation)
    x = _two_examples(federation)
    foreign = _not_float32(module)
    with kept_generators(), torch.no_grad():
        try:
            logits, again = (_evaluated(module, x) for _ in range(2))
            if foreign is not None:
                _evaluated(module.float(), x)  # clients train in float32
        except Exception as error:
            if foreign is not None:
                name, dtype = foreign
                raise ConfigError(
                    f"{title} must take and hold float32, in which clients train, got {dtype} in "
                    f"{name!r}; return module.float()"
                ) from error
            raise ConfigError(
                f"{title} cannot take examples of shape {federation.example_shape} "
                f"(a batch is {tuple(x.shape)} float32): {_first_line(error)}"
            ) from error
    _check_logits(title, x, logits, federation)
    if not torch.allclose(logits, again, rtol=1e-3, atol=1e-4):
        raise ConfigError(
            f"{title} must return the same logits when it is evaluated twice with the same seeds; "
            "draw random numbers from the global generators of PyTorch, NumPy or `random`, which "
            "are seeded, and not from one of its own"
        )


def output_shape(federation: "Federation", count: int) -> tuple[int, ...]:
    """The shape of a model's outputs for `count` examples.

    >>> from fedgs.data import Synthetic
    >>> output_shape(Synthetic(clients=2).load(), 8)
    (8, 10)
    """
    places = federation.example_shape[:1] if federation.task == "sequence" else ()
    return (count, *places, federation.num_labels)


def _check_logits(title: str, x: "Tensor", logits: object, federation: "Federation") -> None:
    """Refuse an output that is not finite floating-point logits of the expected shape."""
    import torch

    num_labels, expected = federation.num_labels, output_shape(federation, len(x))
    if not isinstance(logits, torch.Tensor):
        raise ConfigError(
            f"{title} must return a tensor of shape {expected}, got {type(logits).__name__}"
        )
    if tuple(logits.shape) != expected:
        hint = ""
        if logits.ndim == 2 and len(logits) == len(x) and logits.shape[1] > num_labels:
            hint = f"; where the data lack the last labels, give them classes = {logits.shape[1]}"
        raise ConfigError(
            f"{title} must map a batch {tuple(x.shape)} to logits {expected}, one for each of the "
            f"{num_labels} labels; got {tuple(logits.shape)}{hint}"
        )
    if not logits.is_floating_point() or not bool(torch.isfinite(logits).all()):
        raise ConfigError(
            f"{title} must return finite floating-point logits, got {logits.dtype} with NaN or inf"
        )


def _not_float32(module: "nn.Module") -> tuple[str, str] | None:
    """Name and type of the first floating-point parameter or buffer not in float32, or None."""
    import torch

    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if tensor.is_floating_point() and tensor.dtype != torch.float32:
            return name, str(tensor.dtype).removeprefix("torch.")
    return None


def _evaluated(module: "nn.Module", x: "Tensor") -> "Tensor":
    """The logits in evaluation mode, with the global generators freshly seeded."""
    seed_generators(0, "check")
    logits: Tensor = module.eval()(x.clone())
    return logits


def _built(model: Model, federation: "Federation") -> "nn.Module":
    from torch import nn

    built = [
        fresh_module(model, federation.example_shape, federation.num_labels, 0) for _ in range(2)
    ]
    modules = [module for module in built if isinstance(module, nn.Module)]
    if len(modules) < 2:
        other = next(module for module in built if not isinstance(module, nn.Module))
        raise ConfigError(
            f"model {model_title(model)} must build a torch.nn.Module, got {type(other).__name__}"
        )
    module, again = modules
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise ConfigError(f"model {model_title(model)} has no parameter to train")
    name = difference(module, again)
    if name is not None:
        raise ConfigError(
            f"model {model_title(model)} must have the same first parameters whenever it is built "
            f"from one seed, but {name!r} differs between two builds; draw them from the global "
            "generator of PyTorch, NumPy or `random`, which are seeded, and not from a generator "
            "of the model's own"
        )
    return module


def _two_examples(federation: "Federation") -> "Tensor":
    """(2, ...) float32 inputs: the first and the last example, which may be the same."""
    import torch

    from fedgs.data.on_demand import examples_of

    rows = examples_of(federation, np.array([0, len(federation.train) - 1]))
    inputs = (
        rows.astype(np.float32)
        if federation.normalization is None
        else federation.normalization.apply(rows)
    )
    return torch.from_numpy(np.ascontiguousarray(inputs))


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
