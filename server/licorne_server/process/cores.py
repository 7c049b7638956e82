"""The cores that this process may use: those that it may run on, within the quota of its control groups."""

import os
from collections.abc import Iterator
from pathlib import Path

from licorne_server.process.memory import CONTROL_GROUPS, PROCESS

MAX_WORKERS = 256
"""Workers of one host, at most."""

_UNLIMITED = "max"


def usual_workers() -> int:
    """Number of workers for all cores."""
    return min(cores(), MAX_WORKERS)


def cores(process: Path = PROCESS, groups: Path = CONTROL_GROUPS) -> int:
    """Number of cores, at least 1. `process` and `groups` are the paths of the kernel's files."""
    allowed = len(os.sched_getaffinity(0))
    return max(1, int(min([allowed, *_quotas(process, groups)])))


def _quotas(process: Path, groups: Path) -> Iterator[float]:
    """Cores that each of the process's control groups may use, of versions 2 and 1.

    A quota applies to all groups below. In a container the top group has it.
    """
    try:
        lines = (process / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = groups / "cpu" if controllers else groups
        group = top / path.lstrip("/")
        for place in (group, *group.parents):
            quota = _of_version_1(place) if controllers else _of_version_2(place)
            if quota is not None:
                yield quota
            if place == top:
                break


def _of_version_2(group: Path) -> float | None:
    """Quota of a group in cores, from ``cpu.max`` (microseconds per period, and the period); None without."""
    try:
        quota, period = (group / "cpu.max").read_text().split()
        return None if quota == _UNLIMITED else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _of_version_1(group: Path) -> float | None:
    try:
        quota = int((group / "cpu.cfs_quota_us").read_text())
        return None if quota < 0 else quota / int((group / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError, ZeroDivisionError):
        return None
