"""The cores that this process may use: those that it may run on, within the quota of its control groups."""

import os
from argparse import ArgumentTypeError
from collections.abc import Iterator
from pathlib import Path

from licorne_server.process.memory import CONTROL_GROUPS, PROCESS

AUTO = "auto"
"""Stands for as many workers as there are cores."""

MAX_WORKERS = 256
"""Workers of one host, at most."""

_UNLIMITED = "max"


def worker_count(text: str) -> int:
    """A number of workers from an option.

    Raises:
        ArgumentTypeError: the text is none.
    """
    if text == AUTO:
        return cores()
    if not (text.isascii() and text.isdecimal() and int(text) <= MAX_WORKERS):
        raise ArgumentTypeError(f"auto or a number up to {MAX_WORKERS} was expected: {text!r}")
    return int(text)


def cores(process: Path = PROCESS, groups: Path = CONTROL_GROUPS) -> int:
    """Number of cores, at least 1. The kernel's files are below these paths."""
    allowed = len(os.sched_getaffinity(0))
    return max(1, int(min([allowed, *_quotas(process, groups)])))


def _quotas(process: Path, groups: Path) -> Iterator[float]:
    """Cores that each of the process's control groups may use, of versions 2 and 1.

    A quota holds for all groups below. In a container it is found at the top.
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
    """Quota of a group, which has the file ``cpu.max``: microseconds in each period, and the period."""
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
