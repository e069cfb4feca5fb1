"""Table 1 on a small federation."""

from pathlib import Path

import numpy as np
import pytest
from tests.experiments.paper.helpers import carry_out, request_of, rows


def test_rates_and_activity_of_table1(toy_file: Path, tmp_path: Path) -> None:
    request = request_of("table1", toy_file, rounds=400)
    carry_out(request, tmp_path)
    table = {row["mode"]: row for row in rows(tmp_path / f"{request.stem}.csv")}
    assert list(table) == ["IDL", "LN 0.5", "SLN 0.5", "LDF 0.7", "MDF 0.7", "YMF 0.9", "YC 0.9"]
    assert float(table["IDL"]["measured"]) == 1.0 and table["IDL"]["rounds_below_limit"] == "0"
    sizes = np.array([9, 4, 7, 12, 5, 8])
    assert float(table["MDF 0.7"]["rate_mean"]) == pytest.approx(np.mean((sizes / 12) ** 0.7))
    # Seven normal deviates beyond 4 with odds of 1 in 2000 for a fixed seed: a bias of the draws
    # shows.
    assert all(abs(float(row["standard_errors"])) < 4 for row in table.values())
