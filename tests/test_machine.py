"""Cores and memory from the system's files, with files of both versions of control groups."""

import os
from pathlib import Path

import pytest

from fedgs import machine
from fedgs.machine import cpu_quota, memory_limit, physical_cores

TEN_GB = 10 * 10**9


def laid_out(tmp_path: Path, groups: str, files: dict[str, str]) -> tuple[Path, Path]:
    """(the file of the process's groups, the mount with these files)."""
    (tmp_path / "groups").write_text(groups)
    for name, text in files.items():
        path = tmp_path / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "groups", tmp_path / "mount"


@pytest.mark.parametrize(
    ("groups", "files", "quota"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/\n", {}, None),
        (
            "0::/a/b\n",
            {
                "a/b/cpu.max": "max 100000\n",
                "a/cpu.max": "400000 100000\n",
                "cpu.max": "800000 100000\n",
            },
            4.0,
        ),
        ("0::/host/only\n", {"cpu.max": "50000 100000\n"}, 0.5),  # a path that is not mounted here
        (
            "4:cpu,cpuacct:/job\n",
            {
                "cpu,cpuacct/job/cpu.cfs_quota_us": "200000",
                "cpu,cpuacct/job/cpu.cfs_period_us": "100000",
            },
            2.0,
        ),
        (
            "4:cpu,cpuacct:/host/x\n",
            {"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"},
            3.0,
        ),
        ("4:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ("4:memory:/job\n", {"memory/job/cpu.max": "100000 100000"}, None),  # another controller
        ("nonsense\n", {"cpu.max": "nonsense here\n"}, None),
    ],
)
def test_a_containers_share_of_processor_time_is_found(
    tmp_path: Path, groups: str, files: dict[str, str], quota: float | None
) -> None:
    assert cpu_quota(*laid_out(tmp_path, groups, files)) == quota


def test_a_system_without_control_groups_has_no_quota(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path / "none", tmp_path / "neither") is None


@pytest.mark.parametrize(("quota", "cores"), [(None, 4), (0.5, 1), (1.9, 1), (2.0, 2), (64.0, 4)])
def test_cores_are_no_more_than_the_quota(
    monkeypatch: pytest.MonkeyPatch, quota: float | None, cores: int
) -> None:
    monkeypatch.setattr(machine, "cpu_quota", lambda: quota)
    # Processors that this system does not have, so that none shares a core with another.
    monkeypatch.setattr(
        os, "sched_getaffinity", lambda pid: {9001, 9002, 9003, 9004}, raising=False
    )
    assert physical_cores() == cores


@pytest.mark.parametrize(
    ("groups", "files", "limit"),
    [
        ("0::/a\n", {"a/memory.max": "1000000\n"}, 1_000_000),
        ("0::/a\n", {"a/memory.max": "max\n", "memory.max": "2000000\n"}, 2_000_000),
        ("9:memory:/a\n", {"memory/a/memory.limit_in_bytes": "3000000\n"}, 3_000_000),
        # The number that stands for no limit.
        ("9:memory:/a\n", {"memory/a/memory.limit_in_bytes": "9223372036854771712\n"}, TEN_GB),
        ("0::/\n", {}, TEN_GB),
    ],
)
def test_memory_is_that_of_the_machine_or_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: str, files: dict[str, str], limit: int
) -> None:
    monkeypatch.setattr(
        os, "sysconf", {"SC_PHYS_PAGES": TEN_GB // 1000, "SC_PAGE_SIZE": 1000}.__getitem__
    )
    assert memory_limit(*laid_out(tmp_path, groups, files)) == limit
