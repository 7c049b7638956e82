"""What has grown as a section of the page of figures."""

from collections.abc import Sequence

from licorne_tools.bench.growth.measure import Growth
from licorne_tools.bench.growth.report import HEADERS, table
from licorne_tools.bench.installation import Build
from licorne_tools.bench.machine import measured_on
from licorne_tools.bench.markdown import Section
from licorne_tools.bench.markdown import table as markdown_table
from licorne_tools.bench.page import again

TITLE = "Growth"
PICTURE = "performance-growth.svg"
INTRODUCTION = """\
Microseconds of CPU for each allocation while one thing grows, and for taking in each ask. A size is
measured in a process of its own, in several rounds, and that as often as the command has runs. A
figure is the least of all rounds and runs, so the table does not show how far they differ. The
factor is from the first size to the last. It has a `!` if the cost grows faster than log n up to
one of the sizes: by more than half of the first cost with each tenfold, which is what log n does
from 100 on."""


def section(growths: Sequence[Growth], build: Build, command: str, *, drawn: bool = False) -> Section:
    """The table, and a note on what grows. The command is the one to do it again.

    `drawn` adds a picture, for which matplotlib is needed.
    """
    pictures = {}
    if drawn:
        from licorne_tools.bench.growth.picture import drawing

        pictures[PICTURE] = drawing(growths)
    parts = [
        measured_on({build.form: build}),
        again(build, command),
        INTRODUCTION,
        *(f"![The cost of an allocation against the size of each dimension]({name})" for name in pictures),
        markdown_table(HEADERS, table(growths)),
        "\n".join(f"- `{each.dimension.name}`: {each.dimension.about}." for each in growths),
    ]
    notes = [
        f"- `{each.dimension.name}`: {each.dimension.note}"
        for each in growths
        if each.dimension.note and not each.holds
    ]
    if notes:
        parts += ["### What grows faster, and why", "\n".join(notes)]
    return Section(title=TITLE, text="\n\n".join(parts), pictures=pictures)
