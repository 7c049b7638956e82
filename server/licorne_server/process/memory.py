"""Memory limit of the process: new work is refused before the kernel ends the process.

The memory of the whole process is measured: core, outboxes, interpreter and libraries. The event
loop's timer starts each measurement.

This module also has the number of cores, which control groups may limit.
"""

import asyncio
import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import structlog

from licorne_core.messages.commands import Command, RefuseNewWork
from licorne_core.values.rm_caps import MemoryShortage

log = structlog.get_logger("core.memory")

INTERVAL = 0.25
"""Seconds between two measurements."""

MARGIN = 8
"""Divisor of the limit: once usage exceeds the limit by the quotient, existing RMs are refused too."""

ENOUGH_PERCENT = 95
"""Percentage of the limit below which all work is accepted again. With 100 the level could change with every
ask and every release."""

LOOKS_BETWEEN_RETURNS = 20
"""Measurements between two calls that return memory to the system: 5 s. A call takes 0.1 s per gigabyte
cached by the C library, and much of that memory is soon in use again."""


LOOKS_BETWEEN_TELLINGS = 4
"""Measurements between two reports to the core: one second."""


COPY_BYTES = 16 * 1024 * 1024
"""Minimum number of bytes estimated for a copy of the process; a small copy took 5 MiB."""

COPY_PERCENT = 150
"""Memory of a copy that plans for an RM, in percent of the RM's estimate; at most half of the process. For
20,000 to 100,000 asks, 60 to 110 % were measured.
"""


USUAL_PERCENT = 80
"""Default limit, in percent of the memory available to the process."""

PROCESS = Path("/proc/self")
CONTROL_GROUPS = Path("/sys/fs/cgroup")
MACHINE = Path("/proc/meminfo")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class System:
    """The memory of the machine, of the process's control groups, and of the process."""

    def __init__(
        self, process: Path = PROCESS, groups: Path = CONTROL_GROUPS, machine: Path = MACHINE
    ) -> None:
        """Read the kernel's files below these paths."""
        self._process = process
        self._groups = groups
        self._machine = machine

    def resident(self) -> int:
        """Bytes of resident memory of the process; 0 if unknown."""
        try:
            return int((self._process / "statm").read_text().split()[1]) * _PAGE
        except (OSError, ValueError, IndexError):
            return 0

    def usual_limit(self) -> int:
        """Default limit in bytes: a share of the memory available to the process."""
        machine = os.sysconf("SC_PHYS_PAGES") * _PAGE
        return min([machine, *self.group_limits()]) * USUAL_PERCENT // 100

    def available(self) -> int | None:
        """Bytes still available on the machine and in the control groups; None if unknown.

        Memory that the system can reclaim, such as the page cache, counts as available.
        """
        rooms = [limit - _taken(group) for group, limit in self._limited()]
        try:
            for line in self._machine.read_text().splitlines():
                name, _, size = line.partition(":")
                if name == "MemAvailable":
                    rooms.append(int(size.split()[0]) * 1024)
        except (OSError, ValueError, IndexError):
            pass
        return max(0, min(rooms)) if rooms else None

    def group_limits(self) -> list[int]:
        """Limits of the control groups of the process, in bytes, of versions 2 and 1."""
        return [limit for _, limit in self._limited()]

    def give_back(self) -> None:
        """Return freed memory to the system.

        The C library caches freed memory. Other threads wait if they allocate memory meanwhile.
        Does nothing without the function `malloc_trim`.
        """
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)

    def _limited(self) -> Iterator[tuple[Path, int]]:
        """Control groups of the process that have a limit, each with its limit in bytes.

        A limit applies to all groups below. In a container the path of the group may be missing; then the top
        group has the limit. A group without a limit has ``max``, or a huge number.
        """
        try:
            lines = (self._process / "cgroup").read_text().splitlines()
        except OSError:
            return
        for line in lines:
            _, controllers, path = line.split(":", 2)
            if not controllers:
                top, name = self._groups, "memory.max"
            elif "memory" in controllers.split(","):
                top, name = self._groups / "memory", "memory.limit_in_bytes"
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
    """Bytes of memory used by a group, without inactive file pages."""
    used = _number(group / "memory.current") or _number(group / "memory.usage_in_bytes") or 0
    try:
        entries = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        files = int(entries.get("total_inactive_file", entries.get("inactive_file", "0")))
    except (OSError, ValueError):
        return used
    return max(0, used - files)


def _number(file: Path) -> int | None:
    """The number in a file; None if the file has none."""
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


class Memory:
    """The memory of the process, and its limit."""

    limit: int
    """The limit in bytes; 0 if there is none."""
    level: MemoryShortage
    """Kinds of work refused for lack of memory."""
    returning: asyncio.Future[None] | None
    """Done once memory was returned to the system; None before the first time."""

    def __init__(self, limit: int, post: Callable[[Command], None], system: System | None = None) -> None:
        """Limit the process to `limit` bytes; 0 for no limit. `post` queues a command for the engine."""
        self.limit = limit
        self.level = MemoryShortage.NONE
        self._post = post
        self._system = system or System()
        self._reason = ""
        self._timer: asyncio.TimerHandle | None = None
        self.returning = None
        self._looks_to_return = 0
        self._looks_to_tell = 0

    @property
    def resident(self) -> int:
        """Bytes of resident memory now; 0 if unknown."""
        return self._system.resident()

    @property
    def shortage(self) -> str:
        """Reason for refusing new work; empty if there is none."""
        return self._reason

    def shortage_for_copy(self, reckoned: int) -> str:
        """The reason why the process must not be copied; empty if there is room.

        `reckoned` is the core's estimate for the RM of the copy, in bytes. The copy shares all pages until
        one of the two processes writes. As Python counts references, even reading writes: so all pages of the
        RM are duplicated.
        """
        if self._reason:
            return self._reason
        resident = self.resident
        needed = COPY_BYTES + min(reckoned * COPY_PERCENT // 100, resident // 2)
        if self.limit and resident + needed > self.limit:
            return (
                f"it may take {needed} bytes of memory beside the {resident} of the process, and "
                f"bounds.max_memory is {self.limit}"
            )
        available = self._system.available()
        if available is not None and needed > available:
            return f"it may take {needed} bytes of memory, and {available} are free"
        return ""

    def start(self) -> None:
        """Begin to measure, if there is a limit."""
        if self.limit:
            self._timer = asyncio.get_running_loop().call_later(INTERVAL, self._beat)

    def stop(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()

    def look(self) -> None:
        """Compare the memory with the limit once, and act on the result."""
        resident = self.resident
        level = self._level_at(resident)
        self._looks_to_tell -= 1
        if level is not self.level:
            self._log(level, resident)
        if level is not self.level or (level is not MemoryShortage.NONE and self._looks_to_tell <= 0):
            self._report(level, resident)
        self._looks_to_return -= 1
        if level is not MemoryShortage.NONE and self._looks_to_return <= 0:
            self._give_back()

    def _beat(self) -> None:
        try:
            self.look()
        except Exception:
            log.exception("memory is not watched")
        self.start()

    def _level_at(self, resident: int) -> MemoryShortage:
        """The level for a number of bytes. A level that has begun ends only well below its threshold."""
        if resident > self.limit + self.limit // MARGIN:
            return MemoryShortage.ALL
        if resident > self.limit:
            return self.level if self.level is MemoryShortage.ALL else MemoryShortage.NEW
        if resident * 100 < self.limit * ENOUGH_PERCENT:
            return MemoryShortage.NONE
        return MemoryShortage.NONE if self.level is MemoryShortage.NONE else MemoryShortage.NEW

    def _log(self, level: MemoryShortage, resident: int) -> None:
        about = {"resident_bytes": resident, "limit_bytes": self.limit}
        if level is MemoryShortage.NONE:
            log.warning("memory suffices again", **about)
        else:
            log.warning("memory is short", refused=level.name.lower(), **about)

    def _report(self, level: MemoryShortage, resident: int) -> None:
        """Pass the level to the core, which recomputes the RMs above an equal share of memory."""
        self.level = level
        self._looks_to_tell = LOOKS_BETWEEN_TELLINGS
        self._reason = ""
        if level is not MemoryShortage.NONE:
            self._reason = (
                f"the process takes {resident} bytes of memory, and bounds.max_memory is {self.limit}"
            )
        self._post(RefuseNewWork(shortage=level, reason=self._reason))

    def _give_back(self) -> None:
        """Return memory to the system, in a thread, as it may take long; one call at a time."""
        if self.returning is None or self.returning.done():
            self._looks_to_return = LOOKS_BETWEEN_RETURNS
            loop = asyncio.get_running_loop()
            self.returning = loop.run_in_executor(None, self._system.give_back)


MAX_WORKERS = 256
"""Maximum number of workers of one host."""

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

    A quota applies to all groups below. In a container the top group has the quota.
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
    """Quota of a group in cores, from ``cpu.max`` (microseconds per period, and the period), if any."""
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
