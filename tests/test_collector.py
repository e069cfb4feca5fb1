"""The garbage collector of commands and workers; a library's user keeps their own."""

import subprocess
import sys


def thresholds(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.strip()


def test_importing_the_library_leaves_the_collector_alone() -> None:
    code = """
import gc
before = gc.get_threshold()
import fedgs, fedgs.experiments.runner
print(gc.get_threshold() == before)
"""
    assert thresholds(code) == "True"


def test_commands_look_for_garbage_rarely_and_not_at_the_end() -> None:
    code = """
import atexit, gc, sys
from fedgs.cli.main import main
sys.argv = ["fedgs", "config", "--help"]
def report():
    frozen = "frozen" if gc.get_freeze_count() else "not frozen"
    print(frozen, gc.get_threshold()[0], gc.isenabled())
atexit.register(report)
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
import gc, json, os, pathlib, socket, sys, tempfile
from fedgs import collector
from fedgs.experiments import start_worker
def report():
    large = [name for name in ("torch", "numpy", "pydantic") if name in sys.modules]
    print(gc.get_threshold()[0], large)
    sys.stdout.flush()
    os._exit(0)
def collect(original=collector.collect_rarely):
    original()
    report()
collector.collect_rarely = collect
_, worker_end = socket.socketpair()
folder = pathlib.Path(tempfile.mkdtemp())
start = {"path": sys.path, "argv": ["x"], "scratch": str(folder), "order": "none"}
(folder / "start").write_text(json.dumps(start))
sys.argv = ["start_worker", str(worker_end.detach()), str(folder / "start")]
start_worker.main()
"""
    assert thresholds(code) == "50000 []"
