"""What was measured as a section of a page: where, how to do it again, tables, and pictures if wanted."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from licorne_server.process.build_info import COMPILED
from licorne_tools.bench.installation import Build
from licorne_tools.bench.markdown import Section, measured_on, plain_table, table
from licorne_tools.bench.pairs import Pairs
from licorne_tools.bench.report import NOTHING, Run, Spread, brief, setting_texts, times
from licorne_tools.bench.scenarios import Kind, Scenario

TITLE = "Scenarios"
RATE, CPU = "allocations_per_second", "cpu_us_per_allocation"
HOW = "A figure is the median of the runs, with the least and the greatest in brackets."
HOW_RATIOS = (
    "Both were measured in turn. A ratio is that of the two runs of a pair, the first column "
    "divided by the second."
)
RATIOS_PICTURE = "performance-ratios.svg"


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure that is shown: its heading with the unit, and the file of its picture, if any."""

    name: str
    heading: str
    picture: str = ""


MEASURES = (
    Measure(RATE, "Allocations a second", "performance-allocations.svg"),
    Measure(CPU, "CPU of the server per allocation, µs", "performance-cpu.svg"),
    Measure("latency_p50_ms", "Latency, median, ms"),
    Measure("latency_p99_ms", "Latency, 99th percentile, ms"),
    Measure("peak_rss_mib", "Peak memory of the server, MiB"),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """The runs of a scenario: of one server, or of two in turn."""

    scenario: Scenario
    sides: Sequence[Sequence[Run]]

    def spreads(self, measure: str) -> list[Spread]:
        """A measure of each side; nothing if it was not measured, or says nothing here."""
        if measure == RATE and self.scenario.kind is Kind.LATENCY:
            return []  # it is the rate at which asks are sent
        if any(measure not in run for runs in self.sides for run in runs):
            return []
        return [Spread.of(run[measure] for run in runs) for runs in self.sides]

    def ratios(self, measure: str) -> list[float]:
        """The ratios of the pairs; none of a single server."""
        if len(self.sides) == 1 or not self.spreads(measure):
            return []
        this, other = self.sides
        return Pairs([*this], [*other]).ratios(measure)


def section(
    results: Sequence[Measured], builds: Sequence[Build], command: str, *, drawn: bool = False
) -> Section:
    """All that was measured of one server or of two. The command is the one to do it again with.

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
    """What tells the builds apart: the form, the commit, the interpreter, or else the order."""
    for tell in (
        [build.form for build in builds],
        [build.commit for build in builds],
        [build.python for build in builds],
    ):
        if all(tell) and len({*tell}) == len(builds):
            return tell
    return ["this", "other"]


def names(scenarios: Iterable[Scenario]) -> list[str]:
    """The names of scenarios; those that are alike with what tells them apart."""
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
    """How to do it again."""
    made = [f"make {'native' if build.form == COMPILED else 'install'}"] if build.commit else []
    lines = "\n".join([*made, command])
    return f"To measure it again, and write this section:\n\n```sh\n{lines}\n```"


def shapes(named: Mapping[str, Measured]) -> str:
    """What the scenarios are, and how often each was run."""
    rows = [(name, found.scenario.about, *map(brief, sizes(found))) for name, found in named.items()]
    return plain_table(("Scenario", "What", "Asks", "Nodes", "Runs"), rows)


def sizes(found: Measured) -> tuple[int, int, int]:
    """Asks, nodes and runs."""
    return found.scenario.pods, found.scenario.nodes, len(found.sides[0])


def part(
    measure: Measure,
    sides: Sequence[str],
    named: Mapping[str, Measured],
    pictures: dict[str, str] | None,
) -> list[str]:
    """One measure: its heading, its picture and its table; nothing if no scenario has it.

    The picture is put among `pictures`; without these none is drawn.
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
    """The ratios of all pairs in the rate and in the cost."""
    from licorne_tools.bench.pictures import pair_ratios

    series = {
        label: {name: ratios for name, found in named.items() if (ratios := found.ratios(measure))}
        for measure, label in (
            (RATE, "allocations a second (more is better)"),
            (CPU, "CPU per allocation (less is better)"),
        )
    }
    return pair_ratios(f"{sides[0]} / {sides[1]}", list(named), series)
