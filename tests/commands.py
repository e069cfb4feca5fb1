"""Commands, programs and pages in a process of their own, forked from one that is prepared.

A new interpreter imports PyTorch and loads the compiled kernels for seconds. A forked process
begins with both. Folder, environment, output, signals and exit code are those of a new process.
What depends on the start of an interpreter is tested with `subprocess`.
"""

import doctest
import io
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL

Done = subprocess.CompletedProcess[str]


def fedgs(folder: Path, *arguments: str, timeout: float = 240, **environment: str) -> Done:
    """`fedgs ARGUMENTS` in a folder."""
    return forked(folder, command, arguments, timeout=timeout, **environment)


def python(folder: Path, program: Path | str, *arguments: str, **environment: str) -> Done:
    """`python PROGRAM ARGUMENTS` in a folder."""
    return forked(folder, run_program, (str(program), *arguments), **environment)


def page(folder: Path, blocks: Sequence[tuple[str, str]], **environment: str) -> Done:
    """The blocks of a page in a folder, see `run_blocks`."""
    return forked(folder, run_blocks, blocks, timeout=600, **environment)


def forked(
    folder: Path,
    function: Callable[[Any], None],
    argument: Any,
    *,
    timeout: float = 240,
    **environment: str,
) -> Done:
    """`function(argument)` in a forked process: what it printed, and its exit code.

    Raises:
        TimeoutExpired: the process was killed after `timeout` seconds.
    """
    with tempfile.TemporaryDirectory() as outputs:
        files = [Path(outputs) / name for name in ("stdout", "stderr")]
        variables = {**os.environ, **ENVIRONMENT, **environment}
        process = _context().Process(
            target=_carry_out, args=(function, argument, folder, variables, files)
        )
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(str(argument), timeout)
        code = process.exitcode
        process.close()
        texts = [file.read_text(encoding="utf-8") for file in files]
        return subprocess.CompletedProcess(argument, code, *texts)


def command(arguments: Sequence[str]) -> None:
    """Carry out `fedgs ARGUMENTS`."""
    from fedgs.cli.main import main

    sys.argv = ["fedgs", *arguments]
    main()


def run_program(arguments: Sequence[str]) -> None:
    """Carry out `python ARGUMENTS`, of which the first is a file."""
    sys.argv = list(arguments)
    sys.path[0] = str(Path(arguments[0]).resolve().parent)
    runpy.run_path(arguments[0], run_name="__main__")


def run_blocks(blocks: Sequence[tuple[str, str]]) -> None:
    """Carry out the blocks of a page in their order, with one set of names.

    Args:
        blocks: ("shell", commands) or ("python", a program or examples with `>>>`).
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, (kind, text) in enumerate(blocks):
        where = f"block {number}"
        if kind == "shell":
            subprocess.run(["bash", "-euo", "pipefail", "-c", text], check=True)
        elif text.lstrip().startswith(">>> "):
            runner = doctest.DocTestRunner(optionflags=FLAGS)
            test = doctest.DocTestParser().get_doctest(text, names, where, where, 0)
            runner.run(test, clear_globs=False)
            names = test.globs
            if runner.failures:
                sys.exit(1)
        else:
            exec(compile(text, where, "exec"), names)


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.prepared"])
    # The server finds `tests` by its path, and a process with threads of OpenMP cannot be forked.
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path)
        patch.setenv("OMP_NUM_THREADS", "1")
        forkserver.ensure_running()
    return context


def _carry_out(
    function: Callable[[Any], None],
    argument: Any,
    folder: Path,
    variables: dict[str, str],
    files: Sequence[Path],
) -> None:
    for number, path in enumerate(files, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(os.fdopen(number, "wb"), "utf-8", line_buffering=True) for number in (1, 2)
    )
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    function(argument)
