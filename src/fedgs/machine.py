"""The cores and the memory that this process may use, with the limits of a container."""

import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["cpu_quota", "memory_limit", "physical_cores"]

_CGROUPS = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")
_UNLIMITED = 1 << 60  # version 1 of the control groups writes a number near 2^63 for "no limit"


def physical_cores() -> int:
    """The number of physical cores that this process may use, >= 1.

    Two hardware threads of a core count once. A container's quota of processor time is a limit.

    >>> physical_cores() >= 1
    True
    """
    usable = (
        os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    )
    siblings = set()
    for cpu in usable:
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        siblings.add(path.read_text().strip() if path.is_file() else str(cpu))
    quota = cpu_quota()
    cores = len(siblings) if quota is None else min(len(siblings), int(quota))
    return max(1, cores)


def cpu_quota(groups: Path = _CGROUPS, mount: Path = _MOUNT) -> float | None:
    """The processor time that a container may use, in cores; None where there is no limit.

    Args:
        groups: the file that names the process's control groups.
        mount: where the control groups are mounted.
    """
    quotas: list[float] = []
    for folder in _folders(groups, mount, "cpu"):
        quota, period = _cpu_limit(folder)
        if quota > 0 and period > 0:
            quotas.append(quota / period)
    return min(quotas, default=None)


def memory_limit(groups: Path = _CGROUPS, mount: Path = _MOUNT) -> int | None:
    """The bytes that this process can use at most; None where no limit is known.

    That is the machine's memory, or the limit of a container.

    Args:
        groups: as for `cpu_quota`.
        mount: as for `cpu_quota`.
    """
    limits: list[int] = []
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for folder in _folders(groups, mount, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limits += [int(number) for number in _numbers(folder / name) if 0 < number < _UNLIMITED]
    return min((limit for limit in limits if limit > 0), default=None)


def _folders(groups: Path, mount: Path, controller: str) -> Iterator[Path]:
    """The folders that limit this process: its control group and all above it, in both versions.

    In a container the path may be that of the host, which is not mounted; the root of the mount is
    included in any case.
    """
    try:
        lines = groups.read_text().splitlines()
    except OSError:
        lines = []
    for line in [*lines, "0::/"]:
        _, names, path = [*line.split(":", 2), "", ""][:3]
        if names and controller not in names.split(","):
            continue
        roots = [mount] if not names else [mount / names, mount / controller]
        for root in roots:
            group = root / path.lstrip("/")
            yield from (
                folder
                for folder in (group, *group.parents)
                if folder == root or root in folder.parents
            )


def _cpu_limit(folder: Path) -> tuple[float, float]:
    """The quota and its period in microseconds; 0 for no limit."""
    both = _numbers(folder / "cpu.max")  # version 2: "150000 100000" or "max 100000"
    if len(both) == 2:
        return both[0], both[1]
    quota, period = _numbers(folder / "cpu.cfs_quota_us"), _numbers(folder / "cpu.cfs_period_us")
    return (quota[0], period[0]) if quota and period else (0.0, 0.0)


def _numbers(path: Path) -> list[float]:
    """The numbers in a file; none where it cannot be read or says "max"."""
    try:
        return [float(word) for word in path.read_text().split()]
    except (OSError, ValueError):
        return []
