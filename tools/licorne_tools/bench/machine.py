"""The machine that a benchmark ran on (Linux)."""

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path

from licorne_tools.bench.installation import Build
from licorne_tools.bench.markdown import plain_table

CPU = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)
MEMORY = re.compile(r"^MemTotal:\s*(\d+) kB$", re.MULTILINE)
KIB_PER_GIB = 1024**2
UNKNOWN = "unknown"


def machine() -> dict[str, str]:
    """Its parts by name, for people."""
    cpu = CPU.search(Path("/proc/cpuinfo").read_text())
    memory = MEMORY.search(Path("/proc/meminfo").read_text())
    kernel = ".".join(platform.release().split(".")[:2])
    return {
        "CPU": f"{cpu[1].strip() if cpu else platform.machine()}, {os.cpu_count()} cores",
        "Memory": f"{int(memory[1]) / KIB_PER_GIB:.1f} GiB" if memory else UNKNOWN,
        "System": f"{distribution()}, {platform.system()} {kernel}",
    }


def measured_on(builds: Mapping[str, Build]) -> str:
    """The machine, and the builds that ran on it by their names, as a table in Markdown."""
    rows = [*machine().items(), *((name, str(build)) for name, build in builds.items())]
    return plain_table(("", "Measured on"), rows)


def distribution() -> str:
    """The name that the system has for itself."""
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return UNKNOWN
