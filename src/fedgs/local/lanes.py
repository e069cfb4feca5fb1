"""Float32 arithmetic in a fixed order: sums in sixteen lanes, and fused multiply-add.

The source fixes the order of the operations. A compiler may reorder additions, or fuse a product
with a sum, only where it is allowed to. Two copies of the same function, one compiled alone and one
inlined into its caller, can then round differently, and which copy runs depends on numba's cache.
Kernels that use the functions of this module need no such permission. Sums in lanes become vector
instructions as they are written, and `fma` rounds once on every processor. A processor without that
instruction calls the C library, which is slower.

Each function exists twice: as an intrinsic for compiled kernels, and in NumPy for kernels that run
as plain Python.
"""

from typing import TYPE_CHECKING

from fedgs.compiling import compiles
from fedgs.local.plain_lanes import LANES

if TYPE_CHECKING or not compiles():
    from fedgs.local.plain_lanes import fma, fma_lanes, load, total, zero_lanes
else:
    from fedgs.local.intrinsics import fma, fma_lanes, load, total, zero_lanes

__all__ = ["LANES", "fma", "fma_lanes", "load", "total", "zero_lanes"]
