"""The studies of hospitals and speakers: their generated data, and small runs with a picture."""

import csv
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from matplotlib import pyplot as plt

from fedgs.data import Leaf, Quantiles, TableFile

EXAMPLES = Path(__file__).parents[1] / "examples"


def program(folder: str, name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A program of an example, which imports `make` beside it."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "make", raising=False)
    path = EXAMPLES / folder / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"{folder}_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.delitem(sys.modules, "make", raising=False)
    return module


def test_patients_are_the_same_for_one_seed_and_a_regression(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = program("hospitals", "make", monkeypatch)
    path = make.write(tmp_path / "a.csv", hospitals=4, patients=200)
    assert path.read_bytes() == make.write(tmp_path / "b.csv", 4, 200).read_bytes()
    assert path.read_bytes() != make.write(tmp_path / "c.csv", 4, 200, seed=1).read_bytes()
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert min(float(row["stay"]) for row in rows) >= 0.5
    federation = TableFile(
        path=str(path),
        label="stay",
        client="hospital",
        one_hot="admission",
        task="regression",
        groups=Quantiles(4),
    ).load()
    assert federation.clients.names == tuple(f"hospital {number}" for number in range(1, 5))
    total = sum(map(len, (federation.train, federation.validation or [], federation.test)))
    assert total == len(rows)
    assert federation.facts["features"] == [
        "age",
        "severity",
        "pressure",
        "admission=emergency",
        "admission=planned",
        "admission=transfer",
    ]


def test_speakers_say_the_same_for_one_seed_in_the_format_of_leaf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = program("speakers", "make", monkeypatch)
    folder = make.write(tmp_path / "a", speakers=3, words=200)
    again = make.write(tmp_path / "b", speakers=3, words=200)
    for part in ("train", "test"):
        name = Path(part, "speakers.json")
        assert (folder / name).read_bytes() == (again / name).read_bytes()
    federation = Leaf(path=str(folder), task="sequence", client_test=True).load()
    assert federation.clients.names == ("speaker 1", "speaker 2", "speaker 3")
    assert federation.example_shape == (20,)
    vocabulary = str(federation.facts["vocabulary"])
    assert set(vocabulary) <= set("abcdefghijklmnopqrstuvwxyz .")
    assert federation.client_test is not None
    assert (np.diff(federation.client_test.offsets) > 0).all()


@pytest.mark.long
@pytest.mark.parametrize(
    ("folder", "small"),
    [
        ("hospitals", {"rounds": 2, "seeds": 1, "hospitals": 6, "patients": 150}),
        ("speakers", {"rounds": 1, "seeds": 1, "hidden": 4, "speakers": 3, "words": 60}),
    ],
)
def test_a_small_study_draws_its_picture(
    folder: str, small: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = program(folder, "study", monkeypatch)
    results = study.study(**small)
    assert {run.label for run in results.runs} == set(study.METHODS)
    picture = tmp_path / "picture.png"
    study.draw(results, str(picture))
    assert picture.read_bytes().startswith(b"\x89PNG")
    bars = plt.gcf().axes[0]
    assert bars.get_xticks().tolist() == [int(tick) for tick in bars.get_xticks()]  # of clients
    plt.close("all")
    for run in results.runs:
        last = run.records[-1]
        assert last.test_loss is not None and np.isfinite(last.test_loss)
        if folder == "hospitals":
            assert set(last.test_metrics or {}) == {"mean_absolute_error"}
            assert last.test_accuracy is None
