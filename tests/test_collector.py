"""The garbage collector of commands and workers; a library's user keeps their own."""

import subprocess
import sys


def thresholds(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.strip()


def test_importing_the_library_leaves_the_collector_alone() -> None:
    code = "import gc; before = gc.get_threshold(); import fedgs, fedgs.experiments.runner; print(gc.get_threshold() == before)"
    assert thresholds(code) == "True"


def test_commands_look_for_garbage_rarely_and_not_at_the_end() -> None:
    code = """
import atexit, gc, sys
from fedgs.cli.main import main
sys.argv = ["fedgs", "config", "--help"]
atexit.register(lambda: print("frozen" if gc.get_freeze_count() else "not frozen", gc.get_threshold()[0], gc.isenabled()))
try:
    main()
except SystemExit:
    pass
atexit.register(lambda: print("before", gc.get_freeze_count()))
"""
    lines = thresholds(code).splitlines()
    assert lines[-2:] == ["before 0", "frozen 50000 True"]


def test_a_worker_imports_nothing_large_before_it_collects_rarely() -> None:
    code = """
import pickle, sys
from fedgs.collector import work_rarely_collecting
from tests.test_collector import tell
work_rarely_collecting(None, pickle.dumps((tell, "x")))
"""
    assert thresholds(code) == "50000 x False"


def tell(pipe: None, argument: str) -> None:
    import gc

    print(gc.get_threshold()[0], argument, "torch" in sys.modules)
