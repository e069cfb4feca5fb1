import pytest

from fedgs.cli.bench_solver import solver
from fedgs.errors import SelectionError


def test_sizes_outside_the_benchmark_are_refused() -> None:
    with pytest.raises(SelectionError, match="clients must be among 30, .*, got 31"):
        solver([31], rounds=1, seed=0)
