"""Cohorts and availability are equal in every process, whatever else draws random numbers."""

import subprocess
import sys

import numpy as np
import pytest

from fedgs import Clients
from fedgs.availability import LessDataFirst, LogNormal, activity
from fedgs.sampling import MD, FedGS, Uniform

# N = 100, M = 10, 15 rounds under LN; a noisy process also draws from the global generators.
PROGRAM = """
import random, sys
import numpy as np
from fedgs import Clients, View
from fedgs.availability import LogNormal, draw_available
from fedgs.registry import build
from fedgs.rng import stream

noisy = len(sys.argv) > 1
clients = Clients(tuple(range(100)), np.arange(1, 101), features=np.eye(100, 5))
for name in ("uniform", "md", "fedgs"):
    method, counts = build("method", name), np.zeros(100, dtype=np.int64)
    memory = method.start(clients) if name == "fedgs" else {}
    for t in range(15):
        if noisy:
            random.seed(), np.random.seed(t), np.random.rand(t), stream(0, "noise").random(t)
        available, _ = draw_available(LogNormal(), clients, t)
        view = View(t, clients, available, counts, cohort_limit=10, memory=memory)
        cohort = method.select(view, stream(0, "select", t)).clients
        counts[cohort] += 1
        print(name, t, cohort.tolist())
assert "torch" not in sys.modules
"""


def cohorts(*arguments: str) -> list[str]:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True
    )
    return run.stdout.splitlines()


@pytest.mark.long
def test_fresh_processes_select_the_same_cohorts_and_load_no_torch() -> None:
    quiet = cohorts()
    assert len(quiet) == 45
    assert cohorts("noisy") == quiet


@pytest.mark.parametrize("mode", [LogNormal(), LessDataFirst()])
def test_the_availability_matrix_is_the_same_whoever_selects(
    mode: LogNormal | LessDataFirst,
) -> None:
    clients = Clients(tuple(range(20)), np.arange(1, 21), features=np.eye(20, 4))
    before = activity(mode, clients, 20)
    for sampler in (Uniform(), MD(), FedGS()):
        if isinstance(sampler, FedGS):
            sampler.start(clients)
        np.testing.assert_array_equal(activity(mode, clients, 20), before)
