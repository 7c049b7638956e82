"""`licorne bench growth`: what an allocation costs while one thing grows tenfold, twice."""

import argparse
from functools import partial
from pathlib import Path

from licorne_server.bench.driver import BenchError
from licorne_server.bench.growth.catalogue import DIMENSIONS
from licorne_server.bench.growth.dimension import Dimension
from licorne_server.bench.growth.measure import Growth, Point, grown
from licorne_server.bench.growth.picture import draw
from licorne_server.bench.growth.report import HEADERS, as_json, page, table
from licorne_server.build_info import build_info
from licorne_server.cli.connection import UsageError
from licorne_server.cli.output import print_json, print_table, say

OK = 0
FAILED = 2
INTERRUPTED = 130
NAME = "growth"
GROWTH = {NAME: "cost per allocation while one thing grows tenfold, twice"}
"""The scenario, and what it is about. It is not one of `all`."""

NOT_HERE = (
    *("nodes", "pods", "batch", "sort", "wire", "profile"),
    *("untagged", "refuse", "answer_after", "table"),
)
PAGE, PICTURE = "growth.md", "growth.svg"


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """The arguments of this one alone."""
    add = group.add_argument
    add("--only", metavar="NAME[,NAME]", help=f"of {', '.join(DIMENSIONS)}")
    add("--report", type=Path, metavar="DIR", help=f"write {PAGE} and {PICTURE} there")


def refuse_elsewhere(args: argparse.Namespace) -> None:
    """Refuse arguments of this one in any other scenario.

    Raises:
        UsageError: one is given.
    """
    for name in ("only", "report"):
        if getattr(args, name) is not None:
            raise UsageError(f"--{name} is for {NAME} only")


def run(args: argparse.Namespace) -> int:
    """Measure and print; the exit code as that of `licorne bench`.

    What fails is said and left out of the table, and the rest is measured all the same.

    Raises:
        UsageError: the arguments make no sense together.
    """
    dimensions = chosen(args)
    growths: list[Growth] = []
    say(str(build_info()))
    code = measure(dimensions, args.runs, growths)
    if growths:
        show(growths, as_data=args.json)
        if args.report is not None:
            code = max(code, report(growths, args.report))
    return code


def chosen(args: argparse.Namespace) -> list[Dimension]:
    """What is to be measured, in the order of the catalogue.

    Raises:
        UsageError: the arguments make no sense together.
    """
    for given in NOT_HERE:
        if getattr(args, given) is not None:
            raise UsageError(f"--{given.replace('_', '-')} cannot be used with {NAME}")
    if args.only is None:
        return list(DIMENSIONS.values())
    names = args.only.split(",")
    for name in names:
        if name not in DIMENSIONS:
            raise UsageError(f"--only: {name!r} is none of {', '.join(DIMENSIONS)}")
    return [dimension for dimension in DIMENSIONS.values() if dimension.name in names]


def measure(dimensions: list[Dimension], runs: int, growths: list[Growth]) -> int:
    """Measure one dimension after the other; the exit code."""
    code = OK
    try:
        for dimension in dimensions:
            try:
                growths.append(grown(dimension, runs, partial(tell, dimension)))
            except BenchError as error:
                say(f"licorne: {error}")
                code = FAILED
    except KeyboardInterrupt:
        say("stopped")
        return INTERRUPTED
    return code


def tell(dimension: Dimension, point: Point) -> None:
    """Say what was measured just now."""
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


def report(growths: list[Growth], folder: Path) -> int:
    """Write the page and its picture; the exit code."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / PAGE).write_text(page(growths, PICTURE))
        draw(growths, folder / PICTURE)
    except (OSError, BenchError) as error:
        say(f"licorne: {error}")
        return FAILED
    return OK
