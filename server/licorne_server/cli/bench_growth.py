"""`licorne bench growth`: what an allocation costs while one thing grows tenfold, twice."""

import argparse
import shlex
from functools import partial

from licorne_server.bench.driver import BenchError
from licorne_server.bench.growth.catalogue import DIMENSIONS
from licorne_server.bench.growth.dimension import Dimension
from licorne_server.bench.growth.measure import Growth, Point, grown
from licorne_server.bench.growth.report import HEADERS, as_json, table
from licorne_server.bench.installation import this_build
from licorne_server.bench.markdown import put_section
from licorne_server.bench.progress import Progress
from licorne_server.cli.bench_progress import shown
from licorne_server.cli.bench_report import need_matplotlib
from licorne_server.cli.connection import UsageError
from licorne_server.cli.output import print_json, print_table, say

OK = 0
FAILED = 2
INTERRUPTED = 130
NAME = "growth"
GROWTH = {NAME: "cost per allocation while one thing grows tenfold, twice"}
"""The scenario, and what it is about. It is not one of `all`."""

NOT_HERE = (
    *("nodes", "pods", "batch", "sort", "wire", "profile", "against"),
    *("untagged", "refuse", "answer_after", "table"),
)


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """The arguments of this one alone."""
    add = group.add_argument
    add("--only", metavar="NAME[,NAME]", help=f"of {', '.join(DIMENSIONS)}")


def refuse_elsewhere(args: argparse.Namespace) -> None:
    """Refuse arguments of this one in any other scenario.

    Raises:
        UsageError: one is given.
    """
    if args.only is not None:
        raise UsageError(f"--only is for {NAME} only")


def run(args: argparse.Namespace) -> int:
    """Measure and print; the exit code as that of `licorne bench`.

    What fails is said and left out of the table, and the rest is measured all the same.

    Raises:
        UsageError: the arguments make no sense together.
    """
    dimensions = chosen(args)
    if args.report is not None:
        need_matplotlib()
    growths: list[Growth] = []
    say(str(this_build()))
    progress = Progress()
    with shown(progress):
        code = measure(dimensions, args.runs, growths, progress)
    if growths:
        show(growths, as_data=args.json)
        if args.report is not None:
            code = max(code, report(growths, args))
    return code


def chosen(args: argparse.Namespace) -> list[Dimension]:
    """What is to be measured, in the order of the catalogue.

    Raises:
        UsageError: the arguments make no sense together.
    """
    for given in NOT_HERE:
        if getattr(args, given) is not None:
            raise UsageError(f"--{given.replace('_', '-')} cannot be used with {NAME}")
    if args.more:
        raise UsageError(f"{NAME} is measured alone, without {args.more[0]}")
    if args.only is None:
        return list(DIMENSIONS.values())
    names = args.only.split(",")
    for name in names:
        if name not in DIMENSIONS:
            raise UsageError(f"--only: {name!r} is none of {', '.join(DIMENSIONS)}")
    return [dimension for dimension in DIMENSIONS.values() if dimension.name in names]


def measure(
    dimensions: list[Dimension], runs: int, growths: list[Growth], progress: Progress
) -> int:
    """Measure one dimension after the other; the exit code."""
    code = OK
    try:
        for number, dimension in enumerate(dimensions, start=1):
            progress.begin(f"{NAME} {dimension.name}, {number} of {len(dimensions)}")
            progress.step("sizes", runs * len(dimension.sizes))
            try:
                growths.append(grown(dimension, runs, partial(tell, dimension, progress)))
            except BenchError as error:
                say(f"licorne: {error}")
                code = FAILED
    except KeyboardInterrupt:
        say("stopped")
        return INTERRUPTED
    return code


def tell(dimension: Dimension, progress: Progress, point: Point) -> None:
    """Say what was measured just now."""
    progress.advance()
    asks = f", {point.us_per_ask:.1f} µs per ask" if point.asks else ""
    cost = f"{point.us_per_allocation:.1f} µs per allocation{asks}"
    say(f"{dimension.name} {point.size:,}: {cost}")


def show(growths: list[Growth], *, as_data: bool) -> None:
    """Everything measured: a table, or an array of objects."""
    if as_data:
        print_json([as_json(growth) for growth in growths])
        return
    print(f"{NAME}: {GROWTH[NAME]} (microseconds of CPU)")
    print_table(HEADERS, table(growths))


def report(growths: list[Growth], args: argparse.Namespace) -> int:
    """Write the section of the page, and its picture; the exit code."""
    from licorne_server.bench.growth.section import section

    try:
        page = put_section(args.report, section(growths, this_build(), shlex.join(command(args))))
    except OSError as error:
        say(f"licorne: {error}")
        return FAILED
    say(f"written: {page}")
    return OK


def command(args: argparse.Namespace) -> list[str]:
    """The command that measures the same."""
    words = ["licorne", "bench", NAME, "--runs", str(args.runs)]
    if args.only is not None:
        words += ["--only", args.only]
    return [*words, "--report", str(args.report)]
