"""Compile kernels with numba where it is installed: on their first call, into numba's cache.

Only numba's documented interface is used (`njit`, `config`, `extending`), with one exception: see
`_in_cache`.
"""

import logging
import threading
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Literal, Protocol, TypeVar, cast

__all__ = ["compiled", "compiles", "larger_of_two", "load_kernels", "numba_installed"]

_log = logging.getLogger("fedgs")
_lock = threading.RLock()
_warned: list[bool] = []
_announced: list[bool] = []
F = TypeVar("F", bound=Callable[..., object])


class _Builder(Protocol):
    """What is used of llvmlite's `IRBuilder`."""

    def fcmp_ordered(self, operator: str, *values: object, flags: tuple[str, ...]) -> object: ...
    def select(self, condition: object, *values: object, flags: tuple[str, ...]) -> object: ...


@cache
def numba_installed() -> bool:
    """Whether numba is installed; without it, NumPy implementations are used.

    >>> isinstance(numba_installed(), bool)
    True
    """
    return find_spec("numba") is not None


def compiled(function: F, *, inline: Literal["never", "always"] = "never") -> F:
    """Compile a kernel with numba on its first call, and keep the machine code in numba's cache.

    If no cache folder can be written, one warning is given and every process compiles the kernel.
    Without numba the function stays plain Python.

    Args:
        function: a kernel that numba can compile without Python objects.
        inline: "always" compiles the function into its callers only, which saves time if it has one
            caller.
    """
    if not numba_installed():
        return function
    import numba

    with _lock:
        try:
            kernel = numba.njit(
                function, cache=True, nogil=True, error_model="numpy", inline=inline
            )
        except RuntimeError as error:  # "no locator available": no cache folder can be written
            if "cannot cache" not in str(error):
                raise
            if not _warned:
                _warned.append(True)
                warnings.warn(
                    "numba finds no writable cache folder, so kernels are compiled again "
                    "in every process (some seconds); set NUMBA_CACHE_DIR to a writable folder",
                    RuntimeWarning,
                )
            kernel = numba.njit(function, nogil=True, error_model="numpy", inline=inline)
    return cast(F, kernel)


def compiles() -> bool:
    """Whether kernels are compiled. False without numba, and where `NUMBA_DISABLE_JIT` is set.

    >>> numba_installed() or not compiles()
    True
    """
    if not numba_installed():
        return False
    import numba

    return not getattr(numba.config, "DISABLE_JIT", False)


def larger_of_two() -> Callable[[float, float], float]:
    """The larger of two floats that are not NaN, for loops that become vector instructions.

    A loop with a comparison written in Python does not: numba can declare only the comparison, not
    the selection that follows it, to be free of NaN.
    """
    if not compiles():
        return max
    from numba import types
    from numba.extending import intrinsic

    def larger(
        typing_context: object, a: object, b: object
    ) -> tuple[object, Callable[..., object]]:
        def generate(
            context: object, builder: _Builder, signature: object, values: tuple[object, ...]
        ) -> object:
            flags = ("nnan", "nsz")
            return builder.select(
                builder.fcmp_ordered(">", *values, flags=flags), *values, flags=flags
            )

        return types.float64(types.float64, types.float64), generate

    return cast("Callable[[float, float], float]", intrinsic(larger))


@cache
def load_kernels(name: str) -> ModuleType | None:
    """The module of kernels `name`, or None where numba is not installed or does not work.

    The first module of a process with kernels that are not in numba's cache is announced by a log
    message, because compiling takes seconds.

    >>> load_kernels("fedgs.graph.kernels") is None or numba_installed()
    True
    """
    if not numba_installed():
        return None
    try:
        kernels = import_module(name)
    except ImportError as error:
        warnings.warn(
            f"numba is installed but does not work here, so NumPy does the work: {error}",
            RuntimeWarning,
        )
        return None
    if not _in_cache(kernels) and not _announced:
        _announced.append(True)
        _log.warning(
            "compiling %s and other kernels with numba: only on first use, 5 to 60 s", name
        )
    return kernels


def _in_cache(kernels: ModuleType) -> bool:
    """Whether numba's cache holds a kernel of the module.

    `stats` is a public attribute of a compiled function, but numba's reference does not list it;
    that the cache's index files end in `.nbi` stands in numba's notes for developers. Only a log
    message depends on both: without them it is repeated in every process.
    `test_the_first_compilation_is_announced_in_one_line` fails then.
    """
    for kernel in vars(kernels).values():
        folder = getattr(getattr(kernel, "stats", None), "cache_path", None)
        if folder and getattr(kernel, "__module__", "") == kernels.__name__:
            return any(Path(folder).glob(f"{Path(str(kernels.__file__)).stem}.*.nbi"))
    return False
