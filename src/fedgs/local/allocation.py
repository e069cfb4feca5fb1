"""How the C library treats the memory of freed tensors."""

import torch

__all__ = ["keep_freed_memory"]

_LARGEST = 31 << 20  # bytes; glibc does not adapt to blocks of 32 MiB or more


def keep_freed_memory() -> None:
    """Let the C library use the memory of freed tensors of up to 31 MiB again.

    By default glibc returns large freed blocks to the system, which has to clear every page when
    the next tensor of this size is filled. When a block is freed that was mapped on its own, glibc
    keeps blocks of up to its size, and up to twice its size of free memory (mallopt(3),
    M_MMAP_THRESHOLD). The block of this function is never written, so it takes no memory. Other C
    libraries are not affected.
    """
    torch.empty(_LARGEST, dtype=torch.uint8)
