"""The example with CIFAR10 and ResNet-8, at a small size with generated images."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from fedgs.experiments.grid import expand, parse_override, read_config
from fedgs.experiments.study import prepare_study
from fedgs.models import ResNet8

FOLDER = Path(__file__).parents[1] / "examples" / "cifar10_resnet8"


@pytest.mark.long
def test_the_study_runs_on_generated_images_and_is_summarised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(140) % 10
    x = rng.integers(0, 256, (140, 3, 8, 8)).astype(np.float32) / 255
    path = tmp_path / "images.npz"
    np.savez(path, x=x, y=y, split=np.where(np.arange(140) < 120, 0, 2))
    partition = 'partition={name="dirichlet_over_clients", concentration=5.0}'
    data = f'{{name="file", path="{path}", classes=10, clients=5, validation_fraction=0.2'
    given = (
        f"data={data}, {partition}}}",
        "training.rounds=2",
        "training.local_steps=1",
        "training.batch_size=4",
        "evaluation.every=1",
    )
    grid = expand(read_config(FOLDER / "study.toml"), [parse_override(one) for one in given])
    assert [config.model for config in grid.configs] == [ResNet8()] * 2
    out = tmp_path / "runs"
    results = prepare_study(grid.configs).run(out=out)
    assert all(run.finished for run in results.runs)
    spec = importlib.util.spec_from_file_location("resnet8_summary", FOLDER / "summary.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.main(str(out), str(tmp_path / "clients.png"))
    printed = capsys.readouterr().out
    assert "worst decile" in printed and "uniform seed 0: accuracy by round 0: " in printed
    assert (tmp_path / "clients.png").stat().st_size > 1000
    assert [round for round, _ in script.accuracies(results.runs[0])] == [0, 1, 2]


def test_the_study_has_the_size_that_its_page_gives() -> None:
    configs = expand(read_config(FOLDER / "study.toml")).configs
    assert [config.training.rounds for config in configs] == [60, 60]
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert "2 methods, 1 seed, 60 rounds" in text and "clients.png" in text
