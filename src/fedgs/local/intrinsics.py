"""The functions of `fedgs.local.lanes` for compiled kernels: intrinsics that generate LLVM code.

They use numba's documented low-level extension interface (`numba.extending`,
`cgutils.create_struct_proxy`) and llvmlite's IR builder. The module is imported only where kernels
are compiled.

numba's cache does not notice a change in this module: change `kernels.py` with it.
"""

from collections.abc import Callable
from typing import Protocol

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import Signature
from numba.extending import intrinsic, models, register_model

from fedgs.local.plain_lanes import LANES

__all__ = ["fma", "fma_lanes", "load", "total", "zero_lanes"]

# An intrinsic's signature, and the function that generates its code.
Typed = tuple[object, Callable[..., object]]
Values = tuple[object, ...]
_VECTOR = ir.VectorType(ir.FloatType(), LANES)
_INDEX = ir.IntType(32)


class Lanes(types.Type):
    """The type of sixteen float32 numbers in one vector register."""

    def __init__(self) -> None:
        super().__init__(name=f"Lanes({LANES})")


_lanes = Lanes()


class _Array(Protocol):
    """An array inside generated code."""

    data: object


_struct_of: Callable[[object], Callable[..., _Array]] = cgutils.create_struct_proxy


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):
    """How the type is represented: as one LLVM vector."""

    def __init__(self, manager: object, numba_type: object) -> None:
        super().__init__(manager, numba_type, _VECTOR)  # type: ignore[no-untyped-call]


@intrinsic
def fma(typing_context: object, a: object, b: object, c: object) -> Typed:
    """See `fedgs.local.plain_lanes.fma`."""

    def generate(
        context: object, builder: ir.IRBuilder, signature: Signature, values: Values
    ) -> object:
        return builder.fma(*values)

    return types.float32(types.float32, types.float32, types.float32), generate


@intrinsic
def fma_lanes(typing_context: object, a: object, b: object, c: object) -> Typed:
    """See `fedgs.local.plain_lanes.fma_lanes`."""

    def generate(
        context: object, builder: ir.IRBuilder, signature: Signature, values: Values
    ) -> object:
        of_vectors = ir.FunctionType(_VECTOR, [_VECTOR] * 3)  # `builder.fma` accepts no vectors
        function = builder.module.declare_intrinsic(f"llvm.fma.v{LANES}f32", fnty=of_vectors)
        return builder.call(function, values)

    return _lanes(_lanes, _lanes, _lanes), generate


@intrinsic
def zero_lanes(typing_context: object) -> Typed:
    """See `fedgs.local.plain_lanes.zero_lanes`."""

    def generate(
        context: object, builder: ir.IRBuilder, signature: Signature, values: Values
    ) -> object:
        return ir.Constant(_VECTOR, None)

    return _lanes(), generate


@intrinsic
def load(typing_context: object, row: object, start: object) -> Typed | None:
    """See `fedgs.local.plain_lanes.load`."""

    def generate(
        context: object, builder: ir.IRBuilder, signature: Signature, values: Values
    ) -> object:
        data = _struct_of(signature.args[0])(context, builder, values[0]).data
        place = builder.bitcast(builder.gep(data, [values[1]]), _VECTOR.as_pointer())
        return builder.load(place, align=4)

    wanted = (types.float32, 1, True)
    if not isinstance(row, types.Array) or (row.dtype, row.ndim, row.is_c_contig) != wanted:
        return None  # numba then reports that no signature fits
    return _lanes(row, types.intp), generate


@intrinsic
def total(typing_context: object, summands: object) -> Typed:
    """See `fedgs.local.plain_lanes.total`."""

    def generate(
        context: object, builder: ir.IRBuilder, signature: Signature, values: Values
    ) -> object:
        lanes, half = values[0], LANES // 2
        while half > 0:
            lower, upper = (
                ir.Constant(ir.VectorType(_INDEX, half), list(range(k, k + half)))
                for k in (0, half)
            )
            low, high = (builder.shuffle_vector(lanes, lanes, places) for places in (lower, upper))
            lanes = builder.fadd(low, high)
            half //= 2
        return builder.extract_element(lanes, _INDEX(0))

    return types.float32(_lanes), generate
