"""Models that start from the weights of a file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.models.material import federation

from fedgs.config import Config
from fedgs.errors import ConfigError
from fedgs.experiments.compare import compare
from fedgs.experiments.grid import build_config
from fedgs.experiments.preparing import prepare
from fedgs.models import MLP, FunctionModel, LogisticRegression, ResNet8, check_model

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")
nn = torch.nn

from fedgs.local.parameters import initial_parameters, pack  # noqa: E402
from fedgs.models.weights import write_weights  # noqa: E402


def file_of(module: Any, path: Path, **changed: Any) -> Path:
    """The weights of a module, some of them changed or, where they are None, left out."""
    tensors = {name: tensor.clone() for name, tensor in module.state_dict().items()} | changed
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    safetensors.save_file(kept, path)
    return path


@pytest.mark.parametrize(
    ("model", "shape"),
    [(LogisticRegression, (6,)), (MLP, (6,)), (ResNet8, (3, 8, 8))],
)
def test_a_model_starts_from_the_weights_of_a_file_for_every_seed(
    tmp_path: Path, model: type, shape: tuple[int, ...]
) -> None:
    torch.manual_seed(7)
    module = model().build(shape, 4)
    started = model(start=file_of(module, tmp_path / "w.safetensors"))
    check_model(started, federation(shape))
    for seed in (0, 1):
        assert torch.equal(initial_parameters(started, federation(shape), seed), pack(module))
    assert not torch.equal(initial_parameters(model(), federation(shape), 0), pack(module))


def test_buffers_and_other_precisions_are_taken_over(tmp_path: Path) -> None:
    def build() -> Any:
        return nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4))

    module = build()
    nn.init.constant_(module[1].running_mean, 0.5)
    half = {name: value.half() for name, value in module.state_dict().items() if value.ndim}
    path = file_of(module, tmp_path / "w.safetensors", **half, **{"1.num_batches_tracked": None})
    started = FunctionModel(function=build, start=str(path))
    expected = pack(module.half().float())
    assert torch.equal(initial_parameters(started, federation((6,)), 0), expected)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"bias": None}, "it lacks 'bias'"),
        ({"scale": torch.ones(2)}, "it has 'scale', which the model does not have"),
        (
            {"weight": torch.ones(6, 4)},
            r"'weight' has shape \(6, 4\), the model needs \(4, 6\)",
        ),
        ({"bias": torch.tensor([0.0, 1.0, torch.nan, 0.0])}, "'bias' holds NaN or inf"),
        ({"bias": torch.ones(4, dtype=torch.int64)}, "'bias' holds int64, the model needs float"),
    ],
)
def test_weights_that_do_not_fit_are_refused_by_name(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    path = file_of(nn.Linear(6, 4), tmp_path / "w.safetensors", **changed)
    with pytest.raises(ConfigError, match=f"w.safetensors' does not fit model .*: {message}"):
        check_model(LogisticRegression(start=str(path)), federation((6,)))


def test_files_that_are_missing_or_of_another_format_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pickle.pt").write_bytes(b"\x80\x04 no tensors")
    for name, reason in (("pickle.pt", "which is none"), ("gone", "which cannot be read")):
        model = LogisticRegression(start=str(tmp_path / name))
        with pytest.raises(ConfigError, match=f"model.start must be a safetensors file.*{reason}"):
            check_model(model, federation((6,)))


def test_the_content_of_the_file_is_part_of_the_identity_and_its_place_is_not(
    tmp_path: Path,
) -> None:
    def config(path: Path | None) -> Config:
        model = {"name": "logistic"} if path is None else {"name": "logistic", "start": str(path)}
        tables = {"data": "synthetic", "method": "uniform", "availability": "IDL", "model": model}
        return build_config(tables)

    torch.manual_seed(1)
    module = nn.Linear(60, 10)
    one = file_of(module, tmp_path / "one.safetensors")
    copy = file_of(module, tmp_path / "copy.safetensors")
    other = file_of(module, tmp_path / "other.safetensors", bias=torch.ones(10))
    plain, first, second, third = (
        prepare([config(path)])[0].identity.parts for path in (None, one, copy, other)
    )
    assert first == second
    assert {key for key in first if first[key] != third[key]} == {"model.weights"}
    assert "model.weights" not in plain
    with pytest.raises(ConfigError, match="model.start must be a safetensors file, got .*gone"):
        prepare([config(tmp_path / "gone")])


def test_a_saved_model_is_where_another_study_starts(tmp_path: Path) -> None:
    path, given = tmp_path / "last.safetensors", {"training": {"rounds": 2}}
    first = compare("synthetic", methods=["uniform"], **given)
    first.save_model(first.runs[0], path, "last")
    model = {"name": "logistic", "start": str(path)}
    second = compare("synthetic", methods=["uniform"], model=model, seeds=(0, 1), **given)
    end = first.runs[0].records[-1].test_loss
    assert [run.records[0].test_loss for run in second.runs] == [end, end]


def test_files_are_written_without_a_pickle_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "w.safetensors"
    write_weights(path, {"a": np.arange(6, dtype=np.float32).reshape(2, 3)}, {"round": "3"})
    assert torch.equal(safetensors.load_file(path)["a"], torch.arange(6.0).reshape(2, 3))
    with safetensors.safe_open(path, "np") as file:
        assert file.metadata() == {"round": "3"}
