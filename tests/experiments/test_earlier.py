"""Folders with stored runs that are no longer the same run as a requested one.

Nothing is reused, nothing is deleted, and one sentence is logged.
"""

import logging
import socket
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from torch import nn

import fedgs
from fedgs import solver
from fedgs.data import Federation
from fedgs.experiments.compare import compare
from fedgs.experiments.study import Results
from fedgs.local import linear, loop
from fedgs.report.reading import read_runs


def study(federation: Federation, out: Path, **settings: Any) -> Results:
    values: dict[str, Any] = {
        "methods": ["uniform"],
        "training": {"rounds": 3, "proportion": 0.5, "local_steps": 2, "batch_size": 4},
        "execution": {"workers": 1},
    }
    return compare(federation, out=out, **{**values, **settings})


def folders(out: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in sorted(out.glob("*/rounds.jsonl"))}


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    messages = [
        record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING
    ]
    caplog.clear()
    return messages


def test_models_of_one_name_do_not_get_each_others_figures(
    toy_federation: Federation, tmp_path: Path
) -> None:
    alone = [
        study(toy_federation, tmp_path / str(width), model=net(width)).runs[0].records
        for width in (2, 8)
    ]
    together = [
        study(toy_federation, tmp_path / "out", model=net(width)).runs[0].records
        for width in (2, 8)
    ]
    assert [list(records) for records in together] == [list(records) for records in alone]
    assert list(alone[0]) != list(alone[1])
    assert len(folders(tmp_path / "out")) == 2


def net(width: int) -> Any:
    return lambda: nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 3))


def test_samplers_of_one_name_do_not_get_each_others_figures(
    toy_federation: Federation, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for first in (0, 1):
        study(toy_federation, tmp_path, methods=[bound(first)])
    assert len(folders(tmp_path)) == 2
    (sentence,) = said(caplog)
    assert sentence == (
        "1 run starts afresh next to an earlier one of the same configuration, "
        f"which stays in {tmp_path}: the code of method 'earlier-test' changed"
    )


def bound(first: int) -> Any:
    @fedgs.sampler("earlier-test")
    def chosen(view: fedgs.View, rng: object) -> fedgs.Selection:
        return fedgs.Selection(view.available[first : first + 2])

    return chosen


def test_what_cannot_be_identified_is_trained_again_each_time_and_said_once(
    toy_federation: Federation, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    thing = socket.socket()

    @fedgs.sampler("earlier-unknown")
    def chosen(view: fedgs.View, rng: object) -> fedgs.Selection:
        return fedgs.Selection(view.available[: 2 if thing else 1])

    for start in (1, 2):
        results = study(toy_federation, tmp_path, methods=[chosen], seeds=(0, 1))
        assert all(run.finished for run in results.runs)
        assert len(folders(tmp_path)) == 2 * start
        (sentence,) = said(caplog)
        assert sentence.startswith(
            "method 'earlier-unknown' refers to thing (socket.socket), "
            "whose content cannot be identified"
        )
    compare(toy_federation, methods=[chosen], training={"rounds": 1, "proportion": 0.5})
    assert said(caplog) == []  # nothing is kept, so nothing is said


@pytest.mark.parametrize(
    ("part", "method", "words"), [(linear, "uniform", "linear"), (solver, "fedgs", "solver")]
)
def test_runs_of_another_numerics_version_start_anew(
    part: Any,
    method: str,
    words: str,
    toy_federation: Federation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    study(toy_federation, tmp_path, methods=[method], seeds=(0, 1))
    before = folders(tmp_path)
    monkeypatch.setattr(part, "NUMERICS", part.NUMERICS + 1)
    longer = {"rounds": 5, "proportion": 0.5, "local_steps": 2, "batch_size": 4}
    study(toy_federation, tmp_path, methods=[method], seeds=(0, 1), training=longer)
    after = folders(tmp_path)
    assert len(after) == 4 and before.items() <= after.items()
    (sentence,) = said(caplog)
    assert sentence.startswith(
        "2 runs start afresh next to earlier ones of the same configuration, which stay in"
    )
    assert f"{words} {part.NUMERICS - 1}" in sentence and f"{words} {part.NUMERICS}" in sentence
    runs, _ = read_runs(tmp_path)
    assert len(runs) == 4 and all(run.finished for run in runs)


def test_a_run_is_not_gone_on_with_by_an_engine_that_computes_other_numbers(
    toy_federation: Federation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A stored run of the loop engine starts anew once the numerics of that engine change.

    The rule gives its logistic model to the linear program, which did not change.
    """
    study(toy_federation, tmp_path, execution={"engine": "loop", "workers": 1})
    before = folders(tmp_path)
    study(toy_federation, tmp_path)
    assert folders(tmp_path) == before  # another engine is no other run
    monkeypatch.setattr(loop, "NUMERICS", loop.NUMERICS + 1)
    for _ in range(2):  # the second start finds the run of the first
        study(toy_federation, tmp_path)
        assert len(folders(tmp_path)) == 2 and before.items() <= folders(tmp_path).items()
    (sentence,) = said(caplog)
    assert sentence.endswith(f"its program computed other numbers then (loop {loop.NUMERICS - 1})")


def test_runs_of_an_earlier_version_are_read_and_new_ones_start_beside_them(
    toy_federation: Federation, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    study(toy_federation, tmp_path, seeds=(0, 1, 2))
    for path in [
        path for path in tmp_path.iterdir() if path.is_dir()
    ]:  # as an earlier version wrote them
        tables = tomllib.loads((path / "config.toml").read_text())
        old = f"{int(tables['run']['fingerprint'], 16) ^ 1:016x}"
        tables["run"] = {
            key: value
            for key, value in tables["run"].items()
            if key not in ("identity", "numerics")
        }
        tables["run"]["fingerprint"] = old
        (path / "config.toml").write_text(tomli_w.dumps(tables))
        path.rename(path.with_name(path.name.rpartition("-")[0] + "-" + old))
    before = folders(tmp_path)
    assert len(read_runs(tmp_path)[0]) == 3
    study(toy_federation, tmp_path, seeds=(0, 1, 2))
    assert len(folders(tmp_path)) == 6 and before.items() <= folders(tmp_path).items()
    assert said(caplog) == [
        "3 runs start afresh next to earlier ones of the same configuration, "
        f"which stay in {tmp_path}: made by an earlier version of fedgs"
    ]
    study(toy_federation, tmp_path, seeds=(0, 1, 2))
    assert said(caplog) == []  # finished


def test_other_settings_are_other_runs_and_nothing_is_said(
    toy_federation: Federation, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    study(toy_federation, tmp_path)
    study(toy_federation, tmp_path, seeds=(1,))
    study(toy_federation, tmp_path, methods=["md"])
    study(toy_federation, tmp_path, evaluation={"every": 2})
    assert len(folders(tmp_path)) == 4 and said(caplog) == []
