"""Results are computed, stored and reused."""

import shutil
from pathlib import Path

import pytest
from tests.conftest import make_federation
from tests.experiments.paper.helpers import carry_out, request_of

from fedgs.data import export
from fedgs.experiments.paper.frame.conditions import Source
from fedgs.experiments.paper.frame.request import ExperimentRequest
from fedgs.experiments.paper.frame.run import checked
from fedgs.experiments.paper.frame.store import read_manifests


@pytest.mark.parametrize("name", ["table1", "fig8", "fig3", "fig7", "gamma", "table3"])
def test_computed_parts_are_kept_and_made_twice_the_same(
    name: str, toy_file: Path, tmp_path: Path
) -> None:
    request = request_of(
        name,
        toy_file,
        **({"overrides": (("training.local_steps", 1),)} if name == "table3" else {}),
    )
    outcome = carry_out(request, tmp_path)
    assert outcome.rendering.verdict and outcome.problems == []
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert carry_out(request, tmp_path).reused == 1
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_damaged_computed_figures_are_computed_anew(toy_file: Path, tmp_path: Path) -> None:
    request = request_of("gamma", toy_file)
    first = carry_out(request, tmp_path)
    (stored,) = (tmp_path / "computed").iterdir()
    stored.write_bytes(b"PK rubbish")
    again = carry_out(request, tmp_path)
    assert again.reused == 0 and again.rendering.verdict == first.rendering.verdict


def test_results_of_some_federations_are_reused(toy_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.npz"
    shutil.copy(toy_file, other)
    request = checked(
        ExperimentRequest("gamma", (Source("toy", str(toy_file)), Source("other", str(other))))
    )
    out = tmp_path / "out"
    first = carry_out(request, out)
    # Equal federations share one result.
    assert (first.reused, first.total, len(list((out / "computed").iterdir()))) == (1, 2, 1)
    assert set(first.records.computed) == {"toy", "other"}
    assert carry_out(request, out).reused == 2


def test_a_result_that_was_removed_is_computed_beside_the_others(
    toy_file: Path, tmp_path: Path
) -> None:
    other = export(make_federation((3, 8, 5)), tmp_path / "other.npz")
    request = checked(
        ExperimentRequest("gamma", (Source("toy", str(toy_file)), Source("other", str(other))))
    )
    out = tmp_path / "out"
    first = carry_out(request, out)
    ((before,), _) = read_manifests(out)
    (out / "computed" / before.computed["other"]).unlink()
    again = carry_out(request, out)
    assert (first.reused, again.reused, again.total) == (0, 1, 2)
    assert again.rendering.verdict == first.rendering.verdict
    ((after,), _) = read_manifests(out)
    assert after.seconds >= before.seconds, "the time of all starts together"
