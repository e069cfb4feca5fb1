"""Float32 arithmetic with an order of operations that the source fixes: sums in sixteen lanes, and fused multiply-add.

A compiler may reorder additions, or fuse a product with a sum, only where it is allowed to. Two copies of the same function, one
compiled alone and one inlined into its caller, can then round differently, and which copy runs depends on numba's cache. Kernels
that use the functions of this module need no such permission. Sums in lanes become vector instructions as they are written, and
`fma` rounds once on every processor. A processor without that instruction calls the C library, which is slower.

numba's cache does not notice a change in this module: change `kernels.py` with it.

Each function exists twice: as an intrinsic for compiled kernels, and in NumPy for kernels that run as plain Python.
"""

from typing import Any

import numpy as np

from fedgs.compiling import compiles

__all__ = ["LANES", "fma", "fma_lanes", "load", "total", "zero_lanes"]

LANES = 16


def _plain_fma(a: Any, b: Any, c: Any) -> Any:
    """a·b + c, rounded once (in NumPy twice, of which the first is to float64)."""
    return np.float32(np.float64(a) * np.float64(b) + np.float64(c))


def _plain_fma_lanes(a: Any, b: Any, c: Any) -> Any:
    """`fma`, lane by lane."""
    return (a.astype(np.float64) * b + c).astype(np.float32)


def _plain_zero_lanes() -> Any:
    """Sixteen zeros."""
    return np.zeros(LANES, dtype=np.float32)


def _plain_load(row: Any, start: int) -> Any:
    """row[start : start + 16] of a contiguous float32 vector that has so many entries."""
    return row[start : start + LANES].copy()


def _plain_total(lanes: Any) -> Any:
    """The sum of the lanes: the upper half is added to the lower half, until one lane is left."""
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = lanes[:half] + lanes[half:]
    return lanes[0]


def _intrinsics() -> tuple[Any, ...]:
    """The five functions above for compiled kernels."""
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba import types
    from numba.extending import intrinsic, models, register_model

    class Lanes(types.Type):
        def __init__(self) -> None:
            super().__init__(name=f"Lanes({LANES})")

    lanes, vector, index = Lanes(), ir.VectorType(ir.FloatType(), LANES), ir.IntType(32)

    @register_model(Lanes)
    class LanesModel(models.PrimitiveModel):
        def __init__(self, manager: Any, numba_type: Any) -> None:
            super().__init__(manager, numba_type, vector)  # type: ignore[no-untyped-call]

    def fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return builder.fma(*values)

        return types.float32(types.float32, types.float32, types.float32), generate

    def fma_lanes(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            of_vectors = ir.FunctionType(vector, [vector] * 3)  # `builder.fma` accepts no vectors
            return builder.call(builder.module.declare_intrinsic(f"llvm.fma.v{LANES}f32", fnty=of_vectors), values)

        return lanes(lanes, lanes, lanes), generate

    def zero_lanes(typing_context: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return ir.Constant(vector, None)

        return lanes(), generate

    def load(typing_context: Any, row: Any, start: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            data = context.make_helper(builder, signature.args[0], values[0]).data
            place = builder.bitcast(builder.gep(data, [values[1]]), vector.as_pointer())
            return builder.load(place, align=4)

        if isinstance(row, types.Array) and row.dtype == types.float32 and row.ndim == 1 and row.is_c_contig:
            return lanes(row, types.intp), generate
        return None  # numba then says that no signature fits

    def total(typing_context: Any, summands: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            left, half = values[0], LANES // 2
            while half > 0:
                lower, upper = (ir.Constant(ir.VectorType(index, half), list(range(first, first + half))) for first in (0, half))
                left = builder.fadd(builder.shuffle_vector(left, left, lower), builder.shuffle_vector(left, left, upper))
                half //= 2
            return builder.extract_element(left, index(0))

        return types.float32(lanes), generate

    return tuple(intrinsic(function) for function in (fma, fma_lanes, zero_lanes, load, total))


_plain = (_plain_fma, _plain_fma_lanes, _plain_zero_lanes, _plain_load, _plain_total)
fma, fma_lanes, zero_lanes, load, total = _intrinsics() if compiles() else _plain
