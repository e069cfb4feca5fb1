"""Float32 arithmetic with an order of operations that the source fixes: sums in sixteen lanes, and fused multiply-add.

A compiler may reorder additions, or fuse a product with a sum, only where it is allowed to. Two
copies of the same function, one compiled alone and one inlined into its caller, can then round
differently, and which copy runs depends on numba's cache. Kernels that use the functions of this
module need no such permission. Sums in lanes become vector instructions as they are written, and
`fma` rounds once on every processor. A processor without that instruction calls the C library,
which is slower.

numba's cache does not notice a change in this module: change `kernels.py` with it.

Each function exists twice: as an intrinsic for compiled kernels, and in NumPy for kernels that run
as plain Python.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgs.compiling import compiles

__all__ = ["LANES", "fma", "fma_lanes", "load", "total", "zero_lanes"]

LANES = 16

Vector = npt.NDArray[np.float32]
Typed = tuple[
    object, Callable[..., object]
]  # an intrinsic's signature, and the function that generates its code


def _plain_fma(a: np.float32, b: np.float32, c: np.float32) -> np.float32:
    """a·b + c, rounded once (in NumPy twice, of which the first is to float64)."""
    return np.float32(np.float64(a) * np.float64(b) + np.float64(c))


def _plain_fma_lanes(a: Vector, b: Vector, c: Vector) -> Vector:
    """`fma`, lane by lane."""
    return (a.astype(np.float64) * b + c).astype(np.float32)


def _plain_zero_lanes() -> Vector:
    """Sixteen zeros."""
    return np.zeros(LANES, dtype=np.float32)


def _plain_load(row: Vector, start: int) -> Vector:
    """row[start : start + 16] of a contiguous float32 vector with at least that many entries."""
    return row[start : start + LANES].copy()


def _plain_total(lanes: Vector) -> np.float32:
    """The sum of the lanes: the upper half is added to the lower half, until one lane is left."""
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = lanes[:half] + lanes[half:]
    return np.float32(lanes[0])


def _intrinsics() -> tuple[Callable[..., Any], ...]:
    """The five functions above for compiled kernels.

    They use numba's documented low-level extension interface (`numba.extending`,
    `cgutils.create_struct_proxy`) and llvmlite's IR builder.
    """
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic, models, register_model

    class Lanes(types.Type):
        def __init__(self) -> None:
            super().__init__(name=f"Lanes({LANES})")

    lanes, vector, index = Lanes(), ir.VectorType(ir.FloatType(), LANES), ir.IntType(32)
    struct_of: Callable[..., Any] = cgutils.create_struct_proxy

    @register_model(Lanes)
    class LanesModel(models.PrimitiveModel):
        def __init__(self, manager: object, numba_type: object) -> None:
            super().__init__(manager, numba_type, vector)  # type: ignore[no-untyped-call]

    def fma(typing_context: object, a: object, b: object, c: object) -> Typed:
        def generate(
            context: object, builder: Any, signature: object, values: tuple[object, ...]
        ) -> object:
            return builder.fma(*values)

        return types.float32(types.float32, types.float32, types.float32), generate

    def fma_lanes(typing_context: object, a: object, b: object, c: object) -> Typed:
        def generate(
            context: object, builder: Any, signature: object, values: tuple[object, ...]
        ) -> object:
            of_vectors = ir.FunctionType(vector, [vector] * 3)  # `builder.fma` accepts no vectors
            return builder.call(
                builder.module.declare_intrinsic(f"llvm.fma.v{LANES}f32", fnty=of_vectors), values
            )

        return lanes(lanes, lanes, lanes), generate

    def zero_lanes(typing_context: object) -> Typed:
        def generate(
            context: object, builder: object, signature: object, values: tuple[object, ...]
        ) -> object:
            return ir.Constant(vector, None)

        return lanes(), generate

    def load(typing_context: object, row: object, start: object) -> Typed | None:
        def generate(
            context: object, builder: Any, signature: Any, values: tuple[object, ...]
        ) -> object:
            data = struct_of(signature.args[0])(context, builder, values[0]).data
            place = builder.bitcast(builder.gep(data, [values[1]]), vector.as_pointer())
            return builder.load(place, align=4)

        if not isinstance(row, types.Array) or (row.dtype, row.ndim, row.is_c_contig) != (
            types.float32,
            1,
            True,
        ):
            return None  # numba then reports that no signature fits
        return lanes(row, types.intp), generate

    def total(typing_context: object, summands: object) -> Typed:
        def generate(
            context: object, builder: Any, signature: object, values: tuple[object, ...]
        ) -> object:
            left, half = values[0], LANES // 2
            while half > 0:
                lower, upper = (
                    ir.Constant(ir.VectorType(index, half), list(range(k, k + half)))
                    for k in (0, half)
                )
                low, high = (
                    builder.shuffle_vector(left, left, places) for places in (lower, upper)
                )
                left = builder.fadd(low, high)
                half //= 2
            return builder.extract_element(left, index(0))

        return types.float32(lanes), generate

    return tuple(intrinsic(function) for function in (fma, fma_lanes, zero_lanes, load, total))


_plain = (_plain_fma, _plain_fma_lanes, _plain_zero_lanes, _plain_load, _plain_total)
fma, fma_lanes, zero_lanes, load, total = _intrinsics() if compiles() else _plain
