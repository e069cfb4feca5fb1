import logging
import os
import platform
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from fedgs import compiling as module

FUNCTION = """
from fedgs.compiling import compiled

@compiled
def double(x):
    return 2 * x
"""


def run(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), **environment},
        capture_output=True,
        text=True,
    )


@pytest.mark.long
def test_the_first_compilation_is_announced_in_one_line(tmp_path: Path) -> None:
    for name in ("kern", "other"):
        (tmp_path / f"{name}.py").write_text(FUNCTION)
    code = (
        "from fedgs.compiling import load_kernels as l\n"
        "print(l('kern').double(4), l('kern').double(5), l('other').double(6))"
    )
    first = run(code, tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert first.stdout == "8 10 12\n"
    assert (
        first.stderr
        == "compiling kern and other kernels with numba: only on first use, 5 to 60 s\n"
    )
    assert run(code, tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache")).stderr == ""


def test_nowhere_to_write_is_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    plain = numba.njit

    def refuse(function: object, **options: object) -> object:
        if options.pop("cache", False):
            raise RuntimeError(
                "cannot cache function 'double': no locator available for file 'kern.py'"
            )
        return plain(function, **options)

    monkeypatch.setattr(numba, "njit", refuse)
    monkeypatch.setattr(module, "_warned", [])

    def double(x: int) -> int:
        return 2 * x

    with pytest.warns(RuntimeWarning, match="no writable cache folder.*set NUMBA_CACHE_DIR"):
        first = module.compiled(double)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = module.compiled(double)
    assert first(3) == second(3) == 6


def test_other_faults_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    def fail(function: object, **options: object) -> object:
        raise RuntimeError("something else")

    monkeypatch.setattr(numba, "njit", fail)
    with pytest.raises(RuntimeError, match="something else"):
        module.compiled(lambda x: x)


def test_without_numba_a_kernel_is_plain_python(
    without_numba: None, caplog: pytest.LogCaptureFixture
) -> None:
    def double(x: int) -> int:
        return 2 * x

    with caplog.at_level(logging.INFO):
        assert module.compiled(double) is double
        assert module.load_kernels("fedgs.graph.kernels") is None
    assert not caplog.records


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"),
    reason="looks for instructions of one kind of processor",
)
def test_the_largest_of_many_is_found_with_vector_instructions() -> None:
    numba = pytest.importorskip("numba")
    from fedgs.solver.kernels import search as kernels

    again = numba.njit(kernels.highest.py_func, nogil=True, error_model="numpy")
    assert again(np.array([1.0, 5.0, -np.inf]), np.zeros((1, 3)), 0, 3) == 5.0
    assert "maxpd" in next(iter(again.inspect_asm().values()))


SELECT = """
import numpy as np
from fedgs.solver import SelectionProblem, solve
places = np.random.default_rng(0).random((CLIENTS, 2))
distance = np.sqrt(((places[:, None] - places[None]) ** 2).sum(axis=2))
distance = np.maximum(distance, distance.T)
print(solve(SelectionProblem(distance, np.zeros(CLIENTS), SIZE, 1.0)).cohort)
"""


def test_kernels_run_as_plain_python_for_whoever_looks_for_a_fault(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    code = SELECT.replace("CLIENTS", "30").replace("SIZE", "6")
    plain = run(code, tmp_path, NUMBA_DISABLE_JIT="1")
    assert plain.returncode == 0, plain.stderr
    assert plain.stdout == run(code, tmp_path).stdout


@pytest.mark.long
def test_compiling_is_announced_only_where_something_is_compiled(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    # 495 choices: no search
    code, cache = SELECT.replace("CLIENTS", "12").replace("SIZE", "4"), str(tmp_path / "cache")
    assert (
        "compiling fedgs.solver.kernels.small" in run(code, tmp_path, NUMBA_CACHE_DIR=cache).stderr
    )
    assert run(code, tmp_path, NUMBA_CACHE_DIR=cache).stderr == ""
    rows = """
import sys
import numpy as np
from fedgs.solver import SelectionProblem, solve

class Line:
    maximum, tree = 1.0, None

    def __len__(self):
        return 4500

    def rows(self, clients):
        return np.abs(clients[:, None] - np.arange(4500)) / 4499

print(solve(SelectionProblem(Line(), np.zeros(4500), 5, 1.0)).status, "numba" in sys.modules)
"""
    done = run(rows, tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "other"))
    assert (done.stdout, done.stderr) == ("feasible False\n", "")
