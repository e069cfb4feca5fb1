"""Event files, read back with TensorBoard's own reader."""

from pathlib import Path

import pytest

from fedgs.export import export
from fedgs.export.rows import metrics_of, seconds_of
from fedgs.export.titles import titles_of
from fedgs.report.run_view import Run

pytest.importorskip("tensorboard")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the library itself


def test_every_metric_of_every_round_is_a_scalar(runs: list[Run], tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    export(runs, to="tensorboard", out=tmp_path / "board")
    assert sorted(path.name for path in (tmp_path / "board").iterdir()) == sorted(titles_of(runs))
    for run, title in zip(runs, titles_of(runs), strict=True):
        events = EventAccumulator(str(tmp_path / "board" / title), {"tensors": 0}).Reload()
        read = {
            (name, event.step): (event.tensor_proto.float_val[0], event.wall_time)
            for name in events.Tags()["tensors"]
            for event in events.Tensors(name)
        }
        expected = {
            (name, record.round): (pytest.approx(value, rel=1e-6), pytest.approx(seconds))
            for record, seconds in zip(run.records, seconds_of(run), strict=True)
            for name, value in metrics_of(record).items()
        }
        assert read == expected
