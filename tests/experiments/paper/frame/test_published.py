"""The published figures agree with the text of the paper."""

import pytest

from fedgs.experiments.paper.frame.published import MODES, TABLE2, TABLE4
from fedgs.experiments.paper.table2_losses import degradations


def test_the_published_figures_are_those_of_the_paper() -> None:
    assert [len(modes) for modes in MODES.values()] == [5, 5, 3]
    assert all(len(rows) == 9 for modes in TABLE2.values() for rows in modes.values())
    assert (
        TABLE2["synthetic"]["MDF"]["fedprox"] == 0.410
        and TABLE2["fashion_mnist"]["YC"]["fedgs-5"] == 0.307
    )
    assert TABLE4["cifar10"]["LDF"] == {"oracle": 0.966, "functional": 0.975, "update": 0.967}
    uniform = {mode: rows["uniform"] for mode, rows in TABLE2["synthetic"].items()}
    # The text says 19.8 %, cut off rather than rounded.
    assert max(degradations(uniform).values()) == pytest.approx(0.1987, abs=1e-4)
    for alpha in ("0", "0.5", "1", "2", "5"):
        row = {mode: rows[f"fedgs-{alpha}"] for mode, rows in TABLE2["synthetic"].items()}
        assert max(degradations(row).values()) < 0.05
