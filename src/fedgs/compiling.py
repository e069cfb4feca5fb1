"""Compiling kernels with numba where it is installed: lazily, cached on disk where that is possible."""

import gc
import logging
import threading
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

__all__ = ["compiled", "compiled_bare", "compiles", "inlined", "larger_of_two", "load_kernels", "numba_installed"]

_log = logging.getLogger("fedgs")
_lock = threading.RLock()
_warned: list[bool] = []
_announced: list[bool] = []
F = TypeVar("F", bound=Callable[..., Any])


@cache
def numba_installed() -> bool:
    """Whether kernels can be compiled; without numba the NumPy routines do the work.

    >>> isinstance(numba_installed(), bool)
    True
    """
    return find_spec("numba") is not None


def compiled(function: F, **options: Any) -> F:
    """Compile a kernel when it is first called (numba's nopython mode), and keep the result in numba's cache.

    A cache folder that cannot be written is survived: one warning, and the kernel is compiled in every process. Without numba the
    function stays plain Python.
    """
    if not numba_installed():
        return function
    import numba

    options = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, **options}  # nobody calls kernels from C
    with _lock:
        try:
            kernel = numba.njit(function, cache=True, **options)
            _load_quickly(kernel, counts_references=options.get("_nrt", True))
        except RuntimeError as error:  # "no locator available": nowhere to write
            if "cannot cache" not in str(error):
                raise
            if not _warned:
                _warned.append(True)
                warnings.warn(
                    "numba finds no writable cache folder, so kernels are compiled again in every process (some seconds); "
                    "set NUMBA_CACHE_DIR to a writable folder",
                    RuntimeWarning,
                )
            kernel = numba.njit(function, **options)
    _compile_uncollected(kernel)
    return kernel  # type: ignore[no-any-return]


def _load_quickly(kernel: Any, counts_references: bool) -> None:
    """Let a kernel that lies in the cache be loaded without all that numba imports for compiling, SciPy's linear algebra too.

    numba prepares its compiler before it looks into the cache, which takes half a second; a kernel that is not there prepares
    it anyway. The code that counts references is compiled anew in every process; a kernel that counts none does without. Where
    numba is built differently, its own way is taken.
    """
    cache = getattr(kernel, "_cache", None)
    names = ("load_overload", "_load_overload", "_guard_against_spurious_io_errors")
    slow, load, guard = (getattr(cache, name, None) for name in names)
    if cache is None or slow is None or load is None or guard is None:
        return

    def quick(signature: Any, context: Any) -> Any:
        try:
            if counts_references:
                from numba.core.runtime.nrt import rtsys

                rtsys.initialize(context)
            with guard():
                return load(signature, context)
        except Exception:  # another version of numba: its own way says what is wrong, if anything
            return slow(signature, context)
        return None  # what could not be read is compiled

    cache.load_overload = quick


def _compile_uncollected(kernel: Any) -> None:
    """Let no garbage be collected while a kernel is compiled or loaded: numba makes a million objects, and a tenth of the time
    would go into looking through them.
    """
    compile_or_load = getattr(kernel, "compile", None)
    if compile_or_load is None:  # numba is told to compile nothing
        return

    def uncollected(signature: Any) -> Any:
        enabled = gc.isenabled()
        gc.disable()
        try:
            return compile_or_load(signature)
        finally:
            if enabled:
                gc.enable()

    kernel.compile = uncollected


def compiled_bare(function: F, **options: Any) -> F:
    """Compile a kernel that makes no arrays, without counting references: a fifth less time to compile, half the time to load."""
    return compiled(function, _nrt=False, **options)


def compiles() -> bool:
    """Whether kernels are compiled, and not run as plain Python: without numba, or where `NUMBA_DISABLE_JIT` is set.

    >>> numba_installed() or not compiles()
    True
    """
    if not numba_installed():
        return False
    from numba.core import config

    return not getattr(config, "DISABLE_JIT", False)


def larger_of_two() -> Any:
    """A function for kernels: the larger of two floats, neither of them NaN, from which loops become vector instructions.

    A comparison written in Python does not: numba says only of the comparison, not of the choice, that nothing is NaN.
    """
    if not compiles():
        return max
    from numba.core import types
    from numba.extending import intrinsic

    def larger(typing_context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            flags = ("nnan", "nsz")
            return builder.select(builder.fcmp_ordered(">", *values, flags=flags), *values, flags=flags)

        return types.float64(types.float64, types.float64), generate

    return intrinsic(larger)


def inlined(function: F) -> F:
    """A part of one other kernel, compiled with it and not by itself, which saves time."""
    return compiled(function, inline="always")


@cache
def load_kernels(name: str) -> ModuleType | None:
    """The module of kernels `name`, or None where numba is not there or does not work.

    Says, once in a process, that compiling takes seconds.

    >>> load_kernels("fedgs.graph.kernels") is None or numba_installed()
    True
    """
    if not numba_installed():
        return None
    try:
        kernels = import_module(name)
    except ImportError as error:
        warnings.warn(f"numba is installed but does not work here, so NumPy does the work: {error}", RuntimeWarning)
        return None
    if not _in_cache(kernels) and not _announced:
        _announced.append(True)
        _log.warning("compiling %s, and what else is needed, with numba: some seconds, once", name)
    return kernels


def _in_cache(kernels: ModuleType) -> bool:
    """Whether numba has compiled any kernel of the module before. A guess where numba does not say where its cache is."""
    for kernel in vars(kernels).values():
        folder = getattr(getattr(kernel, "_cache", None), "cache_path", None)
        if folder and getattr(kernel, "__module__", "") == kernels.__name__:
            return any(Path(folder).glob(f"{Path(str(kernels.__file__)).stem}.*.nbi"))
    return False
