"""Theorem 1 from stored results."""

from pathlib import Path

import numpy as np
import pytest

from fedgs.experiments.paper import theorem1
from fedgs.experiments.paper.frame.experiment import Computation, Computed, ExperimentRecords
from fedgs.experiments.paper.frame.request import ExperimentRequest
from fedgs.experiments.paper.frame.run import checked, reproduce
from fedgs.experiments.paper.theorem1_cones import rank_correlation


def test_theorem1_is_rendered_from_stored_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(theorem1, "SETS", 40)
    monkeypatch.setattr(theorem1, "DIRECTIONS", 500)
    monkeypatch.setattr(theorem1, "POINTS", 20)
    request = checked(ExperimentRequest("theorem1"))
    outcome = reproduce(request, out=tmp_path)
    again = reproduce(request, out=tmp_path)
    assert again.reused == 1 and again.rendering.verdict == outcome.rendering.verdict
    assert any(
        "H = R does not hold" in sentence and "1.172" in sentence
        for sentence in outcome.rendering.verdict
    )
    arrays = outcome.records.computed[""].arrays
    # At C = 2 both probabilities are functions of the angle alone, so the ranks agree but for Monte
    # Carlo ties.
    assert rank_correlation(arrays["2/distance"], arrays["2/solid_angle"]) > 0.99
    swapped = {**arrays, "further_but_smaller": arrays["further_but_smaller"][::-1]}
    records = ExperimentRecords(computed={"": Computed(swapped, {})})
    assert (
        "Among 400 drawn cohorts of C = 3 none has a larger mean distance and a smaller "
        "probability than another."
    ) in theorem1.render(request, records).verdict
    assert np.array_equal(
        theorem1.compute(request, Computation("", None, {}), None)["3/determinant"],
        arrays["3/determinant"],
    )
