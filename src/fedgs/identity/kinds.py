"""Kinds of values with a hash of their own.

They are arrays, tensors, paths, descriptors, and objects that a library offers by name.
"""

import functools
import inspect
import logging
import random
import sys
import threading
import types
import weakref
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from fedgs.arrays import AnyArray
from fedgs.identity.hashing import joined
from fedgs.identity.sources import origin_of, version_of

if TYPE_CHECKING:
    from torch import Tensor

    from fedgs.identity.digest import Walk

__all__ = ["PLAIN", "by_name", "is_module", "special"]

PLAIN = frozenset(
    {type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented)}
)
_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_CACHES = (weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet)
_GENERATORS = (random.Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator)
_CACHED = type(functools.lru_cache(len))
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)
_METHODS = (
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
)


def special(walk: "Walk", value: object, where: str) -> bytes | None:
    """The hash of a value of one of these kinds; None for all others."""
    name = by_name(value)
    if name is not None:
        return name
    if isinstance(value, np.ndarray | np.generic | np.dtype):
        return _array(walk, value, where)
    if _is_tensor(value):
        return _tensor(walk, value, where)
    if isinstance(value, PurePath):
        return joined("path", str(value))
    if isinstance(value, bytearray | memoryview):
        return joined("bytes", bytes(value))
    if isinstance(value, types.MappingProxyType):
        return walk.value(dict(value), where)
    if isinstance(value, types.CodeType):
        return joined("code", value.co_code, repr(value.co_names), repr(value.co_varnames))
    if isinstance(value, _LOCKS):
        return joined("lock")
    if isinstance(value, weakref.ref):  # such as those of recurrent layers to their own parameters
        return joined("weak", walk.value(value(), where))
    if isinstance(value, _CACHES):
        return joined("cache")
    if isinstance(value, logging.Logger):
        return joined("logger", value.name)
    if (
        isinstance(value, types.GenericAlias | types.UnionType)
        or type(value).__module__ == "typing"
    ):
        return joined("type", repr(value))
    if isinstance(value, _SLOTS):
        return joined("slot", value.__name__)
    if isinstance(value, _METHODS):
        return joined("method", value.__qualname__)
    hashed = _wrapper(walk, value, where)
    if hashed is None and _has_hidden_state(value):
        return walk.named(value, where)
    return hashed


def _wrapper(walk: "Walk", value: object, where: str) -> bytes | None:
    """Descriptors, bound methods and functions that a library has wrapped."""
    if isinstance(value, staticmethod | classmethod):
        return joined(type(value).__name__, walk.value(value.__func__, where))
    if isinstance(value, property):
        functions = (value.fget, value.fset, value.fdel)
        return joined("property", *(walk.value(function, where) for function in functions))
    if isinstance(value, functools.cached_property):
        return joined("cached_property", walk.value(value.func, where))
    if isinstance(value, types.MethodType):
        return joined("bound", walk.value(value.__func__, where), walk.value(value.__self__, where))
    if isinstance(value, _CACHED):
        parts = (value.__wrapped__, value.cache_parameters())
        return joined("lru_cache", *(walk.value(part, where) for part in parts))
    if type(value).__module__.startswith("numba.") and hasattr(value, "py_func"):
        options = getattr(value, "targetoptions", {})
        return joined("numba", walk.value(value.py_func, where), walk.value(dict(options), where))
    return None


def by_name(value: object) -> bytes | None:
    """The hash of an object that a library offers by name, such as `torch.nn.Linear`.

    It consists of the name and the library's version. None for all other objects.
    """
    module: object = None
    name: object = None
    if isinstance(value, types.ModuleType):
        module, name = value.__name__, ""
    elif (isinstance(value, type) or callable(value)) and not inspect.ismethod(value):
        module = _attribute(value, "__module__")
        name = _attribute(value, "__qualname__") or _attribute(value, "__name__")
    if not (isinstance(module, str) and isinstance(name, str)):
        return None
    origin = origin_of(module)
    if origin == "own" or (name and _at(module, name) is not value):
        return None
    version = version_of(module.partition(".")[0]) if origin == "installed" else ""
    return joined("name", module, name, version, _numerics(module) if origin == "fedgs" else "")


def _attribute(value: object, name: str) -> object:
    try:
        return getattr(value, name, None)
    except Exception:  # an object that makes up its attributes
        return None


def _at(module: str, name: str) -> object:
    place: object = sys.modules.get(module)
    for part in name.split("."):
        place = getattr(place, part, None)
    return place


def _numerics(module: str) -> str:
    """The numerics version of the part of this package that a module belongs to."""
    parts = module.split(".")
    for count in range(len(parts), 1, -1):
        version = getattr(sys.modules.get(".".join(parts[:count])), "NUMERICS", None)
        if isinstance(version, int):
            return str(version)
    return ""


def _array(walk: "Walk", value: AnyArray | np.generic | np.dtype[np.generic], where: str) -> bytes:
    if isinstance(value, np.dtype):
        described = str(value) if value.hasobject else repr(np.lib.format.dtype_to_descr(value))
        return joined("dtype", described)
    if value.dtype.hasobject:
        elements = np.asarray(value).ravel().tolist()
        return joined("objects", repr(value.shape), walk.value(elements, where))

    def content() -> bytes:
        plain = np.ascontiguousarray(np.asarray(value))
        kind = type(value).__name__
        return joined("array", kind, repr(plain.dtype), repr(plain.shape), plain.tobytes())

    if isinstance(value, np.ma.MaskedArray):
        parts = (np.asarray(value.data), np.ma.getmaskarray(value))
        return joined("masked", *(walk.value(part, where) for part in parts))
    return _with_attributes(walk, value, walk.digester.once(value, content), where)


def _is_tensor(value: object) -> "TypeGuard[Tensor]":
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_module(value: object) -> bool:
    """Whether it is a `torch.nn.Module` whose state is held in Python, so not a scripted one."""
    torch = sys.modules.get("torch")
    return (
        torch is not None
        and isinstance(value, torch.nn.Module)
        and not isinstance(value, torch.jit.ScriptModule)
    )


def _tensor(walk: "Walk", value: "Tensor", where: str) -> bytes:
    import torch

    def content() -> bytes:
        plain = value.detach().cpu().contiguous()
        numbers = plain.view(-1).view(torch.uint8).numpy().tobytes()
        return joined("tensor", str(plain.dtype), repr(tuple(plain.shape)), numbers)

    try:
        hashed = walk.digester.once(value, content)
    except (RuntimeError, TypeError, NotImplementedError):  # sparse, quantised, lazy
        return walk.named(value, where)
    if isinstance(value, torch.nn.Parameter) and not value.requires_grad:
        hashed = joined("not trained", hashed)
    return _with_attributes(walk, value, hashed, where)


def _with_attributes(walk: "Walk", value: object, numbers: bytes, where: str) -> bytes:
    """The hash of an array or a tensor, with attributes that its class or the user has set."""
    attributes = getattr(value, "__dict__", None)
    if not attributes:
        return numbers
    return joined("with attributes", numbers, walk.value(dict(attributes), where))


def _has_hidden_state(value: object) -> bool:
    """Whether it is a random generator, an iterator, or stands for something outside Python."""
    if isinstance(value, _GENERATORS):
        return True
    kind = type(value)
    if hasattr(kind, "__next__") or kind.__name__ in ("coroutine", "async_generator"):
        return origin_of(kind.__module__) != "own"
    torch = sys.modules.get("torch")
    return kind.__module__.partition(".")[0] == "ctypes" or (
        torch is not None and isinstance(value, torch.Generator)
    )
