"""The module of a model, built identically in every process from one seed."""

import contextlib
import copy
from pathlib import Path
from typing import TYPE_CHECKING

from fedgs.errors import ConfigError, user_code
from fedgs.models.base import Model, model_title, need_torch
from fedgs.models.weights import load_weights
from fedgs.rng import cuda_is_started, seeded

if TYPE_CHECKING:
    from torch import nn

__all__ = ["difference", "fresh_module"]


def fresh_module(
    model: Model, example_shape: tuple[int, ...], num_labels: int, seed: int
) -> object:
    """What the model builds under seeded global generators of PyTorch, NumPy and `random`.

    The state of these generators is restored. The module is copied if it can be, so that a function
    that always returns the same module does not see it trained. With `model.start`, its weights are
    those of the file.

    Args:
        model: any variant, a user's function included.
        example_shape: of one example, without the batch.
        num_labels: C, the number of logits.
        seed: the experiment's, >= 0.

    Raises:
        ConfigError: the model cannot be built, `model.start` does not fit it, or layers that take
            their sizes from the first examples, such as `nn.LazyLinear`, do not fit the examples.
    """
    need_torch()
    import torch

    started = cuda_is_started()
    with seeded(seed, "init"):
        built = _built(model, example_shape, num_labels)
    if cuda_is_started() and not started:
        # The model has started CUDA, whose generators can be seeded only now.
        with seeded(seed, "init"):
            built = _built(model, example_shape, num_labels)
    if isinstance(built, torch.nn.Module):
        _refuse_meta(built, model)
        with contextlib.suppress(Exception):  # some tensors cannot be copied
            built = copy.deepcopy(built)
        if isinstance(built, torch.nn.Module) and isinstance(model.start, str):
            load_weights(built, Path(model.start).expanduser(), model_title(model))
    return built


def _refuse_meta(module: "nn.Module", model: Model) -> None:
    if any(tensor.is_meta for tensor in [*module.parameters(), *module.buffers()]):
        raise ConfigError(
            f"model {model_title(model)} must have parameters with values, got some on the device "
            "'meta'"
        )


def _built(model: Model, example_shape: tuple[int, ...], num_labels: int) -> object:
    """What the model builds; lazy layers are initialised with two examples of zeros."""
    import torch
    from torch.nn.parameter import is_lazy

    with user_code(f"model {model_title(model)}"):
        built: object = model.build(example_shape, num_labels)
    if not isinstance(built, torch.nn.Module) or not any(
        map(is_lazy, [*built.parameters(), *built.buffers()])
    ):
        return built
    training = built.training
    try:
        with torch.no_grad():
            built.eval()(torch.zeros(2, *example_shape))
    except Exception as error:
        raise ConfigError(
            f"model {model.name!r} has layers that take their sizes from the first examples, and "
            f"cannot take examples of shape {example_shape}: {error}"
        ) from error
    return built.train(training)


def difference(first: "nn.Module", second: "nn.Module") -> str | None:
    """The name of a parameter or buffer that is not bit-identical in two modules, or None."""
    import torch

    left, right = (
        {**dict(m.named_parameters()), **dict(m.named_buffers())} for m in (first, second)
    )
    for name in [*left, *(name for name in right if name not in left)]:
        a, b = left.get(name), right.get(name)
        if a is None or b is None or a.shape != b.shape or a.dtype != b.dtype:
            return name
        bits = [
            tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8) for tensor in (a, b)
        ]
        if not torch.equal(*bits):
            return name
    return None
