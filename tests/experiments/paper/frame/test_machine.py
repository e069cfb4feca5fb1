"""The hardware and the versions of an experiment."""

import os
import platform
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import fedgs
from fedgs.experiments.paper.frame import machine as module
from fedgs.experiments.paper.frame.machine import machine


def test_the_machine_names_processor_memory_and_versions() -> None:
    described = machine()
    versions = described["versions"]
    assert isinstance(versions, dict)
    assert versions["fedgs"] == fedgs.__version__ and {"numpy", "torch", "python"} <= set(versions)
    assert described["processor"] and described["gpu"] is None
    assert described["cores"] == os.cpu_count()


def test_a_system_without_these_facts_leaves_them_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def unknown(name: str) -> str:
        raise PackageNotFoundError(name)

    def unsupported(name: str) -> int:
        raise ValueError(name)

    monkeypatch.setattr(module, "version", unknown)
    monkeypatch.setattr(module, "Path", lambda path: tmp_path / "nowhere")
    monkeypatch.setattr(os, "sysconf", unsupported)
    monkeypatch.setattr(platform, "processor", lambda: "")
    described = machine()
    assert described["processor"] == platform.machine() and described["memory_gib"] is None
    assert described["versions"] == {
        "fedgs": fedgs.__version__,
        "python": platform.python_version(),
    }


def test_a_gpu_is_named_if_it_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"GPU of {device}")
    assert machine("cuda:0")["gpu"] == "GPU of cuda:0"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert machine("cuda")["gpu"] is None
