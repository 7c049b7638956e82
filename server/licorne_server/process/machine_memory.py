"""Memory as the system reports it: in all, available, and resident in this process."""

import ctypes
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

USUAL_PERCENT = 80
"""Percentage of the memory that the process takes by default."""

PROCESS = Path("/proc/self")
CONTROL_GROUPS = Path("/sys/fs/cgroup")
MACHINE = Path("/proc/meminfo")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def resident() -> int:
    """Bytes of resident memory of the process; 0 if unknown."""
    try:
        return int((PROCESS / "statm").read_text().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


def usual_limit() -> int:
    """A share of the memory that the process may have, in bytes."""
    machine = os.sysconf("SC_PHYS_PAGES") * _PAGE
    return min([machine, *group_limits()]) * USUAL_PERCENT // 100


def available(groups: Path = CONTROL_GROUPS, process: Path = PROCESS, machine: Path = MACHINE) -> int | None:
    """Bytes still available, here and in the control groups; None if unknown.

    Memory that the system would free, such as the page cache, counts as available.
    """
    rooms = [limit - _taken(group) for group, limit in _limited(groups, process)]
    try:
        for line in machine.read_text().splitlines():
            name, _, size = line.partition(":")
            if name == "MemAvailable":
                rooms.append(int(size.split()[0]) * 1024)
    except (OSError, ValueError, IndexError):
        pass
    return max(0, min(rooms)) if rooms else None


def group_limits(groups: Path = CONTROL_GROUPS, process: Path = PROCESS) -> Iterator[int]:
    """The limits of the control groups that the process is in, in bytes, of version 2 and 1."""
    for _, limit in _limited(groups, process):
        yield limit


def _limited(groups: Path, process: Path) -> Iterator[tuple[Path, int]]:
    """The control groups that the process is in that have a limit, and the limit in bytes.

    A limit holds for all groups below. Inside a container the group's own path may not be there,
    and its limit is found at the top. A group without a limit says ``max``, or a huge number.
    """
    try:
        lines = (process / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            top, name = groups, "memory.max"
        elif "memory" in controllers.split(","):
            top, name = groups / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = top / path.lstrip("/")
        for place in (group, *group.parents):
            limit = _number(place / name)
            if limit is not None:
                yield place, limit
            if place == top:
                break


def _taken(group: Path) -> int:
    """Bytes used by a group, without inactive file pages."""
    used = _number(group / "memory.current") or _number(group / "memory.usage_in_bytes") or 0
    try:
        entries = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        files = int(entries.get("total_inactive_file", entries.get("inactive_file", "0")))
    except (OSError, ValueError):
        return used
    return max(0, used - files)


def _number(file: Path) -> int | None:
    """The number in a file; None where there is none."""
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def give_back() -> None:
    """Return freed memory to the system.

    The C library caches freed memory. Other threads wait if they want memory from it meanwhile.
    Where it has no `malloc_trim` nothing is done.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> "ctypes._NamedFuncPointer | None":
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
