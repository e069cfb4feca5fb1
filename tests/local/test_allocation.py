"""The memory of freed tensors stays with the process."""

import ctypes
import platform
import subprocess
import sys

import pytest

# The number of blocks that glibc has mapped on their own, the fourth field of mallinfo2(3).
_MAPPED = """
import ctypes, torch
from fedgs.local.allocation import keep_freed_memory
class Mallinfo2(ctypes.Structure):
    _fields_ = [(str(place), ctypes.c_size_t) for place in range(10)]
mallinfo2 = ctypes.CDLL(None).mallinfo2
mallinfo2.restype = Mallinfo2
def mapped():
    return getattr(mallinfo2(), "3")
if {kept}:
    keep_freed_memory()
before = mapped()
tensors = [torch.ones(1 << size) for size in range(18, 23)]  # 1 to 16 MiB
print(mapped() - before)
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or not hasattr(ctypes.CDLL(None), "mallinfo2"),
    reason="needs the counts of glibc 2.33",
)
def test_large_tensors_are_not_mapped_on_their_own() -> None:
    mapped = [
        int(
            subprocess.run(
                [sys.executable, "-c", _MAPPED.format(kept=kept)],
                capture_output=True,
                check=True,
                text=True,
            ).stdout
        )
        for kept in (False, True)
    ]
    assert mapped[0] > 0
    assert mapped[1] == 0
