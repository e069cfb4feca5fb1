"""Folders that belong to something else are refused."""

from pathlib import Path

import pytest
from tests.experiments.paper.helpers import carry_out, request_of

from fedgs.errors import OutputError


def test_folders_that_hold_something_else_are_not_touched(toy_file: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(OutputError, match="holds something else"):
        carry_out(request_of("gamma", toy_file), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    run = tmp_path / "runs-of-fedgs-run" / "a-run"
    run.mkdir(parents=True)
    (run / "config.toml").write_text("")
    with pytest.raises(OutputError, match="holds runs of fedgs run"):
        carry_out(request_of("gamma", toy_file), run.parent)
