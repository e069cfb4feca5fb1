"""The weights that a model starts from: a file of the safetensors format, checked by name."""

import importlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedgs.arrays import AnyArray
from fedgs.errors import ConfigError, require_extra
from fedgs.file_writing import errors_named

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["load_weights", "write_weights"]

_NAMED = 3  # tensors that a message names


def load_weights(module: "nn.Module", path: Path, title: str) -> None:
    """Set the parameters and buffers of a module to those of a safetensors file.

    The file must hold every parameter and every floating-point buffer under its name, in its shape,
    as finite floating-point numbers of any precision, and nothing else. Integer buffers, such as
    batch counters, are taken over where the file has them.

    Args:
        module: changed in place.
        path: of the file.
        title: of the model, for messages.

    Raises:
        ConfigError: the file cannot be read, or does not fit; the message names the first tensors.
        MissingExtraError: safetensors is not installed.
    """
    import torch

    given = _tensors(path)
    known: dict[str, Tensor] = {
        **module.state_dict(keep_vars=True),
        **dict(module.named_parameters()),
    }
    needed = [name for name, _ in module.named_parameters()]
    needed += [name for name, buffer in module.named_buffers() if buffer.is_floating_point()]
    faults = []
    if missing := [name for name in needed if name not in given]:
        faults.append(f"it lacks {_listed(missing)}")
    if foreign := [name for name in given if name not in known]:
        faults.append(f"it has {_listed(foreign)}, which the model does not have")
    for name, tensor in given.items():
        fault = None if name in foreign else _fault(name, tensor, known[name])
        if fault is not None:
            faults.append(fault)
    if faults:
        raise ConfigError(f"model.start {str(path)!r} does not fit model {title}: {faults[0]}")
    with torch.no_grad():
        for name, tensor in given.items():
            known[name].copy_(tensor)


def write_weights(
    path: Path, tensors: Mapping[str, AnyArray], metadata: Mapping[str, str] | None = None
) -> None:
    """Write arrays by name to a file of the safetensors format; PyTorch is not needed.

    Args:
        path: of the file, which is replaced; its folder is made.
        tensors: name -> array.
        metadata: texts that the file holds besides.

    Raises:
        MissingExtraError: safetensors is not installed.
        OutputError: the file cannot be written.
    """
    library = _library("safetensors.numpy")
    content: bytes = library.save(dict(tensors), metadata=dict(metadata or {}))
    with errors_named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _fault(name: str, tensor: "Tensor", own: "Tensor") -> str | None:
    """Why a tensor of the file cannot take the place of the model's own; None: it can."""
    import torch

    if tensor.shape != own.shape:
        return f"{name!r} has shape {tuple(tensor.shape)}, the model needs {tuple(own.shape)}"
    if tensor.is_floating_point() != own.is_floating_point():
        kind = "floating-point numbers" if own.is_floating_point() else "integers"
        return f"{name!r} holds {str(tensor.dtype).removeprefix('torch.')}, the model needs {kind}"
    if not bool(torch.isfinite(tensor.float() if tensor.is_floating_point() else tensor).all()):
        return f"{name!r} holds NaN or inf"
    return None


def _tensors(path: Path) -> "dict[str, Tensor]":
    """The tensors of a file by name, read once; nothing may write to them."""
    try:
        status = path.stat()
        return _read(path, status.st_mtime_ns, status.st_size)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"model.start must be a safetensors file, got {str(path)!r}, which cannot be read "
            f"({reason})"
        ) from None


@lru_cache(maxsize=2)
def _read(path: Path, changed: int, size: int) -> "dict[str, Tensor]":
    library, errors = _library("safetensors.torch"), _library("safetensors").SafetensorError
    try:
        tensors: dict[str, Tensor] = library.load(path.read_bytes())
    except (errors, ValueError, KeyError) as error:
        raise ConfigError(
            f"model.start must be a safetensors file, got {str(path)!r}, which is none ({error})"
        ) from None
    return tensors


def _library(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "safetensors":
            raise
        raise require_extra("safetensors", "sim") from None


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(repr, names[:_NAMED])) + more
