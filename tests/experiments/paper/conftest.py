"""A small federation as a file, and Table 2 on it."""

from pathlib import Path

import pytest
from tests.experiments.paper.helpers import FAST, LDF, CarriedOut, carry_out, request_of

from fedgs.data import export
from fedgs.data.federation import Federation
from fedgs.experiments.paper.frame.conditions import Mode


@pytest.fixture(scope="session")
def toy_file(toy_federation: Federation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(toy_federation, tmp_path_factory.mktemp("data") / "toy.npz")


@pytest.fixture(scope="session")
def table2(toy_file: Path, tmp_path_factory: pytest.TempPathFactory) -> CarriedOut:
    """Table 2 with IDL and LDF, all rows and ours, two seeds."""
    out = tmp_path_factory.mktemp("paper")
    request = request_of("table2", toy_file, modes=(Mode("IDL"), *LDF), ours=True, overrides=FAST)
    return request, out, carry_out(request, out)
