"""The hardware and the versions that an experiment was carried out with."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import fedgs

__all__ = ["machine"]


def machine(device: str = "cpu") -> dict[str, object]:
    """The hardware and the versions, for the page."""
    gpu = None
    if device.startswith("cuda"):
        import torch

        gpu = torch.cuda.get_device_name(device) if torch.cuda.is_available() else None
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": _memory(),
        "gpu": gpu,
        "system": platform.system(),
        "versions": {
            "fedgs": fedgs.__version__,
            "python": platform.python_version(),
            **_versions("numpy", "torch"),
        },
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(
            line.partition(":")[2].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _memory() -> int | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    except (ValueError, OSError, AttributeError):
        return None


def _versions(*names: str) -> dict[str, str]:
    versions = {}
    for name in names:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
