"""`licorne bench growth`: the cost of an allocation while one dimension grows tenfold, twice."""

import argparse
from functools import partial

from licorne_cli.failures import UsageError
from licorne_cli.output.text import print_json, print_table, say, while_read
from licorne_tools.bench.driver import Progress
from licorne_tools.bench.growth.catalogue import DIMENSIONS
from licorne_tools.bench.growth.measure import Dimension, Growth, Point, grown
from licorne_tools.bench.growth.report import HEADERS, as_json, section, table
from licorne_tools.bench.installation import this_build
from licorne_tools.commands.outcome import OK, Alone, Outcome, each, shown
from licorne_tools.commands.report import Report, wanted

NAME = "growth"
GROWTH = {NAME: "cost per allocation while one thing grows tenfold, twice"}
"""The scenario and its description; `all` does not include it."""

ALONE = Alone(
    GROWTH,
    own=("only",),
    refused=("nodes", "pods", "batch", "sort", "wire", "profile", "against"),
)


def run(args: argparse.Namespace) -> int:
    """Measure and print; returns the exit code of `licorne bench`.

    A failed dimension is reported and left out of the table; the others are measured. A report is
    written only if all have succeeded.

    Raises:
        UsageError: the arguments contradict each other.
    """
    dimensions = chosen(args)
    report = wanted(args)
    outcome = Outcome()
    say(str(this_build()))
    progress = Progress()
    growths: list[Growth] = []
    with shown(progress):
        for dimension in each(NAME, dimensions, progress, outcome):
            with outcome:
                progress.step("sizes", args.runs * len(dimension.sizes))
                growths.append(grown(dimension, args.runs, partial(tell, dimension, progress)))
    if growths:
        with while_read():
            show(growths, as_data=args.json)
    if report is not None and outcome.code == OK:
        with outcome:
            write(report, growths)
    return outcome.code


def chosen(args: argparse.Namespace) -> list[Dimension]:
    """The dimensions to measure, in the order of the catalogue.

    Raises:
        UsageError: a dimension is unknown, or a report is requested for only some dimensions.
    """
    if args.only is None:
        return list(DIMENSIONS.values())
    if args.report is not None:
        raise UsageError("--report has all dimensions: leave out --only")
    names = args.only.split(",")
    for name in names:
        if name not in DIMENSIONS:
            raise UsageError(f"--only: {name!r} is none of {', '.join(DIMENSIONS)}")
    return [dimension for dimension in DIMENSIONS.values() if dimension.name in names]


def tell(dimension: Dimension, progress: Progress, point: Point) -> None:
    """Print a measured point."""
    progress.advance()
    asks = f", {point.us_per_ask:.1f} µs per ask" if point.asks else ""
    cost = f"{point.us_per_allocation:.1f} µs per allocation{asks}"
    say(f"{dimension.name} {point.size:,}: {cost}")


def show(growths: list[Growth], *, as_data: bool) -> None:
    """Print a table or, with `as_data`, an array of JSON objects."""
    if as_data:
        print_json([as_json(growth) for growth in growths])
        return
    print(f"{NAME}: {GROWTH[NAME]} (microseconds of CPU)")
    print_table(HEADERS, table(growths))


def write(report: Report, growths: list[Growth]) -> None:
    """Write the section to the page.

    Raises:
        BenchError: the section cannot be written.
    """
    report.put(section(growths, this_build(), report.command, drawn=report.drawn))
