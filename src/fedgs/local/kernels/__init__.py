"""Compiled kernels (numba), imported only where numba is installed.

The modules are loaded by `fedgs.compiling.load_kernels`, which returns None without numba. Each
kernel has a counterpart in plain Python that it is tested against. One thread computes each client
and each run, in an order of additions that depends on nothing else. So a result has the same bits
alone, among others, and with any number of threads. The source fixes every rounding: no kernel
allows the compiler to reorder or fuse operations, and sums and fused products are written with
`fedgs.local.lanes`. So a result also has the same bits whether its kernel was compiled in this
process or read from numba's cache, and for any processor that it was compiled for.
"""
