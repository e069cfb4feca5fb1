"""`fedgs model`: files of the best and the last models."""

from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fedgs.cli.model import model
from fedgs.errors import OutputError
from fedgs.experiments.compare import compare

pytest.importorskip("safetensors")
app = typer.Typer()
app.command("model")(model)


def invoke(*words: object) -> Any:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0
    return result


def test_models_of_an_output_folder_are_written(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    out = tmp_path / "out"
    results = compare(
        "synthetic", methods=["uniform", "md"], training={"rounds": 3, "local_steps": 1}, out=out
    )
    printed = invoke(out).stdout
    for run in results.runs:
        assert run.path is not None
        for which in ("best", "last"):
            path = run.path / f"{which}.safetensors"
            assert f"{path}: {run.label} seed 0, round" in printed
            kept = results.model(run, which).state_dict()  # type: ignore[arg-type]
            stored = load_file(path)
            assert list(stored) == sorted(kept)
            assert all(torch.equal(stored[name], kept[name]) for name in kept)
    path = results.runs[0].path
    assert path is not None
    invoke(path, "--which", "last", "--out", tmp_path / "files")
    assert [p.name for p in (tmp_path / "files").iterdir()] == [f"{path.name}-last.safetensors"]
    assert invoke(out, "--which", "best").stdout.count("round") == 2


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    compare("synthetic", methods=["md"], training={"rounds": 1, "local_steps": 1}, out=tmp_path)
    (run,) = (path for path in tmp_path.iterdir() if (path / "config.toml").is_file())
    (run / "checkpoint.npz").unlink()
    with pytest.raises(OutputError, match="holds no model that could be written"):
        invoke(tmp_path)
