"""Pages of figures in Markdown: sections with tables and pictures, each of which is replaced separately.

A section names the measured builds, the machine (Linux), and the command that repeats the measurement.
"""

import os
import platform
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from licorne_server.process.build_info import COMPILED
from licorne_tools.bench.installation import Build
from licorne_tools.bench.report import NOTHING, Pairs, Run, Spread, brief, setting_texts, times
from licorne_tools.bench.scenarios import Scenario, ScenarioKind

PAGE = "performance.md"
PAGE_TITLE = "# Performance\n"
HEADING = re.compile(r"## +(.+)")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
"""The first or last line of a fenced code block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section in Markdown, and its pictures by file name."""

    title: str
    text: str
    pictures: Mapping[str, str] = field(default_factory=dict)


def put_section(folder: Path, section: Section) -> Path:
    """Write a section into its page in a folder, with its pictures beside it; returns the page.

    The section replaces the first section with the same title, or is appended. The rest of the page is
    retained. A missing folder or page is created. Files are replaced atomically.
    """
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / PAGE
    known = page.read_text(encoding="utf-8") if page.exists() else PAGE_TITLE
    for name, picture in section.pictures.items():
        exchange(folder / name, picture)
    exchange(page, replaced(known, section))
    return page


def exchange(file: Path, text: str) -> None:
    """Replace a file atomically."""
    new = file.with_name(f"{file.name}.new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, file)


def replaced(page: str, section: Section) -> str:
    """The text of a page in which the section is inserted or replaced."""
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
    """Line numbers and titles of the headings of sections, outside code blocks."""
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
    """A table whose columns are right-aligned except the first."""
    rules = ["---", *["---:"] * (len(headers) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headers, rules, *rows))


def plain_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose columns are all left-aligned."""
    rules = ["---"] * len(headers)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headers, rules, *rows))


CPU_MODEL = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)
MEMORY = re.compile(r"^MemTotal:\s*(\d+) kB$", re.MULTILINE)
KIB_PER_GIB = 1024**2
UNKNOWN = "unknown"


def machine() -> dict[str, str]:
    """The properties of the machine by name, such as CPU and memory."""
    cpu = CPU_MODEL.search(Path("/proc/cpuinfo").read_text())
    memory = MEMORY.search(Path("/proc/meminfo").read_text())
    kernel = ".".join(platform.release().split(".")[:2])
    return {
        "CPU": f"{cpu[1].strip() if cpu else platform.machine()}, {os.cpu_count()} cores",
        "Memory": f"{int(memory[1]) / KIB_PER_GIB:.1f} GiB" if memory else UNKNOWN,
        "System": f"{distribution()}, {platform.system()} {kernel}",
    }


def measured_on(builds: Mapping[str, Build]) -> str:
    """The machine and the named builds, as a table in Markdown."""
    rows = [*machine().items(), *((name, str(build)) for name, build in builds.items())]
    return plain_table(("", "Measured on"), rows)


def distribution() -> str:
    """The name of the operating system."""
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return UNKNOWN


TITLE = "Scenarios"
RATE, CPU = "allocations_per_second", "cpu_us_per_allocation"
CLIENT_CPU = "client_cpu_us_per_allocation"
HOW = "A figure is the median of the runs, with the least and the greatest in brackets."
HOW_RATIOS = (
    "Both were measured in turn. A ratio is that of the two runs of a pair, the first column "
    "divided by the second."
)
RATIOS_PICTURE = "performance-ratios.svg"


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of the page: its heading with the unit, and the file of its picture, if there is one."""

    name: str
    heading: str
    picture: str = ""


MEASURES = (
    Measure(RATE, "Allocations a second", "performance-allocations.svg"),
    Measure(CPU, "CPU of the server per allocation, µs", "performance-cpu.svg"),
    Measure(CLIENT_CPU, "CPU of the client per allocation, µs"),
    Measure("latency_p50_ms", "Latency, median, ms"),
    Measure("latency_p99_ms", "Latency, 99th percentile, ms"),
    Measure("peak_rss_mib", "Peak memory of the server, MiB"),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """The runs of a scenario, for one server or for two in turn."""

    scenario: Scenario
    sides: Sequence[Sequence[Run]]

    def spreads(self, measure: str) -> list[Spread]:
        """The spread of a measure for each server; empty if not measured, or an input of the scenario."""
        if measure == RATE and self.scenario.kind in (ScenarioKind.LATENCY, ScenarioKind.WIRE_LATENCY):
            return []  # an input of the scenario
        if any(measure not in run for runs in self.sides for run in runs):
            return []
        return [Spread.of(run[measure] for run in runs) for runs in self.sides]

    def ratios(self, measure: str) -> list[float]:
        """The ratios of the pairs; empty for a single server."""
        if len(self.sides) == 1 or not self.spreads(measure):
            return []
        this, other = self.sides
        return Pairs([*this], [*other]).ratios(measure)


def section(
    results: Sequence[Measured], builds: Sequence[Build], command: str, *, drawn: bool = False
) -> Section:
    """The section about one server or two; `command` repeats the measurement.

    `drawn` adds pictures, for which matplotlib is needed.
    """
    sides = labels(builds)
    named = dict(zip(names([found.scenario for found in results]), results, strict=True))
    pictures: dict[str, str] = {}
    parts = [
        measured_on(dict(zip(sides, builds, strict=True))),
        again(builds[0], command),
        shapes(named),
        HOW if len(sides) == 1 else f"{HOW} {HOW_RATIOS}",
    ]
    for measure in MEASURES:
        parts += part(measure, sides, named, pictures if drawn else None)
    if drawn and len(sides) > 1:
        pictures[RATIOS_PICTURE] = ratio_picture(sides, named)
        parts += [
            f"### Ratios of the pairs, {sides[0]} by {sides[1]}",
            f"![Ratios of the pairs]({RATIOS_PICTURE})",
        ]
    return Section(title=TITLE, text="\n\n".join(parts), pictures=pictures)


def labels(builds: Sequence[Build]) -> list[str]:
    """Labels that distinguish the builds: forms, commits or interpreters, otherwise `this` and `other`."""
    for tell in (
        [build.form for build in builds],
        [build.commit for build in builds],
        [build.python for build in builds],
    ):
        if all(tell) and len({*tell}) == len(builds):
            return tell
    return ["this", "other"]


def names(scenarios: Iterable[Scenario]) -> list[str]:
    """The names of scenarios; differing settings are added to equal names."""
    texts = {
        scenario: [f"{scenario.pods:,} asks", f"{scenario.nodes:,} nodes", *setting_texts(scenario)]
        for scenario in scenarios
    }
    alike = Counter(scenario.name for scenario in texts)
    common = Counter((scenario.name, text) for scenario in texts for text in texts[scenario])
    found = []
    for scenario, own in texts.items():
        apart = [text for text in own if common[scenario.name, text] < alike[scenario.name]]
        found.append(" ".join([scenario.name, ", ".join(apart)]).strip())
    return found


def again(build: Build, command: str) -> str:
    """The commands that repeat the measurement."""
    made = [f"make {'native' if build.form == COMPILED else 'install'}"] if build.commit else []
    lines = "\n".join([*made, command])
    return f"To measure it again, and write this section:\n\n```sh\n{lines}\n```"


def shapes(named: Mapping[str, Measured]) -> str:
    """A table of the scenarios with their sizes and numbers of runs."""
    rows = [(name, found.scenario.about, *map(brief, sizes(found))) for name, found in named.items()]
    return plain_table(("Scenario", "What", "Asks", "Nodes", "Runs"), rows)


def sizes(found: Measured) -> tuple[int, int, int]:
    """Numbers of asks, of nodes and of runs."""
    return found.scenario.pods, found.scenario.nodes, len(found.sides[0])


def part(
    measure: Measure,
    sides: Sequence[str],
    named: Mapping[str, Measured],
    pictures: dict[str, str] | None,
) -> list[str]:
    """Heading, picture and table of a measure; empty if no scenario has the measure.

    The picture is added to `pictures`; if that is None, none is drawn.
    """
    spreads = {name: found.spreads(measure.name) for name, found in named.items()}
    shown = {name: each for name, each in spreads.items() if each}
    if not shown:
        return []
    parts = [f"### {measure.heading}"]
    if measure.picture and pictures is not None:
        from licorne_tools.bench.pictures import by_scenario

        series = {
            side: {name: each[place] for name, each in shown.items()} for place, side in enumerate(sides)
        }
        pictures[measure.picture] = by_scenario(measure.heading, list(shown), series)
        parts.append(f"![{measure.heading}]({measure.picture})")
    rows = []
    for name, each in shown.items():
        ratios = named[name].ratios(measure.name)
        cells = [spread.quoted() for spread in each]
        if len(sides) > 1:
            cells.append(Spread.of(ratios).quoted(times) if ratios else NOTHING)
        rows.append([name, *cells])
    headers = ["Scenario", *sides, *["ratio"][: len(sides) - 1]]
    return [*parts, table(headers, rows)]


def ratio_picture(sides: Sequence[str], named: Mapping[str, Measured]) -> str:
    """The picture of the ratios of rate and cost of all pairs."""
    from licorne_tools.bench.pictures import pair_ratios

    series = {
        label: {name: ratios for name, found in named.items() if (ratios := found.ratios(measure))}
        for measure, label in (
            (RATE, "allocations a second (more is better)"),
            (CPU, "CPU per allocation (less is better)"),
        )
    }
    return pair_ratios(f"{sides[0]} / {sides[1]}", list(named), series)
