"""No input makes a compiled kernel read or write outside its arrays: callers refuse bad input.

The attempts run in a process of their own, with numba's check of every index, so that an access
that is out of bounds is an IndexError there, and a crash is a failed test.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")

ROOT = Path(__file__).parents[1]


@pytest.mark.long
@pytest.mark.parametrize("kernels", ["training", "selecting"])
def test_bad_input_is_refused_before_a_kernel_sees_it(kernels: str, tmp_path: Path) -> None:
    checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-m", f"tests.bounds.{kernels}"],
        cwd=ROOT,
        env={**os.environ, **checked},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-4000:]
