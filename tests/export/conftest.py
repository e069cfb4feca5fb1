"""Stored runs for the exports: two methods with two seeds, one run unfinished and one failed."""

from pathlib import Path

import pytest
from tests.report import folders

from fedgs.report.reading import read_runs
from fedgs.report.run_view import Run

ROUNDS = 6


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("study")
    clients = folders.make_clients(5)
    for alpha in (0.5, 2.0):
        for seed in (0, 1):
            folders.write_run(
                out,
                "fedgs",
                seed,
                clients=clients,
                rounds=ROUNDS,
                limit=2,
                method__alpha=alpha,
                done=4 if (alpha, seed) == (2.0, 1) else None,
            )
    failed = folders.write_run(out, "md", 0, clients=clients, rounds=ROUNDS, limit=2, done=3)
    failed.write_failure({"round": 3, "client": None, "error": "ValueError", "traceback": ""})
    return out


@pytest.fixture(scope="session")
def runs(folder: Path) -> list[Run]:
    return read_runs(folder)[0]
