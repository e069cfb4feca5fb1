"""Runs that several tests of the report share."""

import pytest
from tests.report import folders
from tests.report.material import run

from fedgs.report.reading import read_runs
from fedgs.report.run_view import Run


@pytest.fixture
def three_seeds() -> list[Run]:
    """Three methods with three seeds; the intervals tell one of the others from the lowest."""
    losses = {
        "uniform": (0.35, 0.36, 0.37),
        "fedgs": (0.32, 0.335, 0.335),
        "md": (0.36, 0.34, 0.36),
    }
    return [
        run(method, seed, loss) for method, row in losses.items() for seed, loss in enumerate(row)
    ]


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Five methods with two seeds and 20 rounds, read from their folders."""
    out = folders.write_study(tmp_path_factory.mktemp("study"), seeds=2, rounds=20)
    return read_runs(out)[0]
