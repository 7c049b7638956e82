"""Pages of figures in Markdown: tables, sections that are written anew one by one, the machine (Linux)."""

import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from licorne_tools.bench.installation import Build

PAGE = "performance.md"
TITLE = "# Performance\n"
HEADING = re.compile(r"## +(.+)")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
"""The first or last line of a block that is shown as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page, in Markdown, and the pictures that it shows, each by its file name."""

    title: str
    text: str
    pictures: Mapping[str, str] = field(default_factory=dict)


def put_section(folder: Path, section: Section) -> Path:
    """Write a section into the page of a folder, with its pictures beside it; returns the page.

    It takes the place of the first section of the same title, or comes last. What stands before the
    first section, and all other sections, stay as they are. A folder or page that is missing is
    made. Each file is exchanged as a whole, so that none is ever found half written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / PAGE
    known = page.read_text(encoding="utf-8") if page.exists() else TITLE
    for name, picture in section.pictures.items():
        exchange(folder / name, picture)
    exchange(page, replaced(known, section))
    return page


def exchange(file: Path, text: str) -> None:
    """Write a file beside the one that is there, and put it in its place."""
    new = file.with_name(f"{file.name}.new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, file)


def replaced(page: str, section: Section) -> str:
    """The text of a page with this section in it."""
    text = f"## {section.title}\n\n{section.text.strip()}\n"
    lines = page.splitlines(keepends=True)
    found = headings(lines)
    ends = [*(begin for begin, _ in found[1:]), len(lines)]
    for (begin, title), end in zip(found, ends, strict=False):
        if title == section.title:
            rest = [text, *["\n"][: len(lines) - end], *lines[end:]]
            return "".join([*lines[:begin], *rest])
    return f"{page.rstrip()}\n\n{text}"


def headings(lines: Sequence[str]) -> list[tuple[int, str]]:
    """The numbers and titles of the lines that begin sections; those in code begin none."""
    found = []
    code = ""
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if code:
            if fence and fence[1].startswith(code) and not fence[2].strip():
                code = ""
        elif fence:
            code = fence[1]
        elif heading := HEADING.match(line):
            found.append((number, heading[1].strip()))
    return found


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; columns after the first one are aligned to the right."""
    rules = ["---", *["---:"] * (len(headers) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headers, rules, *rows))


def plain_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts."""
    rules = ["---"] * len(headers)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headers, rules, *rows))


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
