"""The picture of a federation's labels."""

import sys
from pathlib import Path

import numpy as np
import pytest

from fedgs.data import Federation, describe
from fedgs.data.picture import plot_labels
from fedgs.errors import MissingExtraError, OutputError
from fedgs.palette import label_colours


def federation() -> Federation:
    """Two clients and two labels."""
    x, y = np.zeros((4, 2), dtype=np.float32), np.array([0, 0, 1, 1])
    return Federation.from_arrays(x, y, client=np.array([0, 0, 0, 1]), test=(x, y))


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_picture_is_written(ending: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = plot_labels(describe(federation()), tmp_path / "new folder" / f"labels.{ending}")
    assert path.stat().st_size > 1000
    if ending == "svg":
        assert all(colour.lower() in path.read_text() for colour in label_colours(2))


def test_an_unknown_picture_format_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(OutputError, match="the picture cannot be written"):
        plot_labels(describe(federation()), tmp_path / "labels.docx")


def test_without_matplotlib_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'fedgs\[report\]'"):
        plot_labels(describe(federation()), tmp_path / "labels.png")


def test_a_legend_and_names_are_left_out_where_they_would_not_fit(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    x = np.zeros((41, 2), dtype=np.float32)
    many = Federation.from_arrays(x, np.arange(41), client=np.arange(41), test=(x, np.arange(41)))
    text = plot_labels(describe(many), tmp_path / "many.svg").read_text()
    few = plot_labels(describe(federation()), tmp_path / "few.svg").read_text()
    assert "legend_1" not in text
    assert "legend_1" in few
