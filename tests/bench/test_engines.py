import sys
from pathlib import Path

import pytest

from fedgs.bench.engines import SETTINGS, Setting, bare_loop, machine, measure_setting, random_work
from fedgs.errors import ConfigError
from fedgs.models import FashionCNN, LogisticRegression


def test_measures_are_positive_and_say_which_engine_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = Setting(LogisticRegression(), (12, 20, 15), (6,), 2, 4, 0.1, 20, 3, local_steps=2)
    monkeypatch.setitem(SETTINGS, "tiny", tiny)
    found = measure_setting("tiny", repeats=1)
    assert found.engine == "stacked: a model that torch.func accepts, on cpu"
    seconds = (found.round_seconds, found.floor_seconds, found.evaluation_seconds)
    assert min(*seconds, found.run_rounds_per_second) > 0
    assert found.ratio == found.round_seconds / found.floor_seconds
    assert measure_setting("tiny", engine="loop", repeats=1).engine.startswith("loop")


def test_floor_takes_as_many_steps_as_a_round() -> None:
    import torch

    setting = Setting(FashionCNN(), (4, 5), (1, 8, 8), 2, 2, 0.1, 20, 1, local_steps=3)
    calls = []

    class Counting(FashionCNN):
        def build(self, example_shape, num_labels):
            module = super().build(example_shape, num_labels)
            module.register_forward_hook(lambda *_: calls.append(1))
            return module

    setting = Setting(
        Counting(), *[getattr(setting, field) for field in list(setting.__dataclass_fields__)[1:]]
    )
    bare_loop(setting, random_work(setting, "float32"), torch.device("cpu"))()
    assert len(calls) == 2 * 3  # cohort x local steps


def test_settings_are_the_papers() -> None:
    found = {
        name: (len(s.data_sizes), s.cohort, s.batch_size, s.local_steps, s.learning_rate)
        for name, s in SETTINGS.items()
    }
    assert found == {
        "synthetic": (30, 6, 10, 10, 0.1),
        "fashion_mnist": (100, 10, 32, 10, 0.1),
        "cifar10": (100, 10, 32, 10, 0.03),
    }


def test_unknown_setting_is_refused() -> None:
    with pytest.raises(
        ConfigError,
        match=r"setting must be one of synthetic, fashion_mnist, cifar10; got 'cifar'; "
        r"did you mean 'cifar10'\?",
    ):
        measure_setting("cifar")


def test_machine_names_threads() -> None:
    assert "threads, PyTorch" in machine()


def test_machine_without_a_list_of_processors_names_the_platform(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unreadable(self: Path, encoding: str) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", unreadable)
    assert machine().startswith(f"{sys.platform}, ")
