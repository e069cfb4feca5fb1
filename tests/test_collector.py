"""The garbage collector of commands and workers; a library's user keeps their own."""

import subprocess
import sys


def thresholds(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
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
import gc, json, os, pathlib, socket, sys, tempfile
from fedgs import collector
from fedgs.experiments import start_worker
def tell():
    print(gc.get_threshold()[0], [name for name in ("torch", "numpy", "pydantic") if name in sys.modules])
    sys.stdout.flush()
    os._exit(0)
def collect(original=collector.collect_rarely):
    original()
    tell()
collector.collect_rarely = collect
here, there = socket.socketpair()
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "start").write_text(json.dumps({"path": sys.path, "argv": ["x"], "scratch": str(folder), "order": "none"}))
sys.argv = ["start_worker", str(there.detach()), str(folder / "start")]
start_worker.main()
"""
    assert thresholds(code) == "50000 []"
