"""`licorne bench`: its arguments, and the choice of a benchmark."""

import argparse
from pathlib import Path

from licorne_cli.failures import USAGE, UsageError
from licorne_cli.output.text import say
from licorne_cli.parsing.parser import positive, seconds
from licorne_tools.bench.driver import Progress
from licorne_tools.bench.growth.catalogue import DIMENSIONS
from licorne_tools.bench.kube.lines import TURN
from licorne_tools.bench.load import Options
from licorne_tools.bench.scenarios import SCENARIOS, Wire
from licorne_tools.commands import growth as bench_growth
from licorne_tools.commands import isolation as bench_isolation
from licorne_tools.commands import kube as bench_kube
from licorne_tools.commands import members as bench_members
from licorne_tools.commands import report as bench_report
from licorne_tools.commands import targets as bench_targets
from licorne_tools.commands import utilisation as bench_utilisation
from licorne_tools.commands.outcome import chosen_alone
from licorne_tools.commands.scenarios import (
    ALL,
    FAIR,
    add_against_argument,
    add_predicate_arguments,
    chosen,
    run_each,
    run_pairs,
    scenario_name,
)

EXAMPLES = (
    ("licorne bench core", "how many allocations a second the core makes here"),
    ("licorne bench shim --nodes 100 --pods 1000", "over gRPC, at a size of your own"),
    ("licorne bench all --json", "every scenario, for programs"),
)
IDLE_SECONDS = 10.0
MEASURED_ALONE = (
    bench_targets,
    bench_isolation,
    bench_growth,
    bench_utilisation,
    bench_members,
    bench_kube,
)
PAIRS = 3
"""Default number of runs for comparisons and reports."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `licorne bench`."""
    about = {item.name: item.about for item in SCENARIOS.values()}
    for each in MEASURED_ALONE:
        about |= each.ALONE.scenarios
    scenarios = "\n".join(f"  {name:<11} {text}" for name, text in about.items())
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = f"scenarios:\n{scenarios}\n  {ALL:<11} each but the last eight, one line for each"
    add = parser.add_argument
    names = (*about, ALL)
    add("scenario", choices=names, metavar="SCENARIO", help="see below")
    add("more", nargs="*", default=[], type=scenario_name, metavar="SCENARIO", help="and these")
    add_size_arguments(parser)
    add(
        "--runs",
        type=positive,
        metavar="N",
        help=f"repetitions (1; {PAIRS} with --report; {PAIRS} pairs with --against)",
    )
    add_against_argument(parser)
    bench_report.add_arguments(parser)
    add("--json", action="store_true", help="print JSON instead of a table")
    add(
        "--profile",
        type=Path,
        metavar="FILE",
        help="profile the server and write FILE for pstats; the rates mean nothing then",
    )
    add_predicate_arguments(parser.add_argument_group("predicates only"))
    group = parser.add_argument_group("neighbour and manyrms only")
    bench_isolation.add_arguments(group)
    bench_utilisation.add_arguments(parser.add_argument_group("utilisation only"))
    bench_members.add_arguments(parser.add_argument_group("workers and failover only"))
    bench_kube.add_arguments(parser.add_argument_group("kube only"))


def add_size_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the size of a scenario, and the options of its runs."""
    add = parser.add_argument
    add("--nodes", type=positive, metavar="N", help="so many nodes instead")
    add("--pods", type=positive, metavar="N", help="so many asks instead")
    add("--batch", type=positive, metavar="N", help="so many items in each request instead")
    add("--sort", choices=("fifo", FAIR), help="order of applications")
    add(
        "--wire",
        choices=[wire.value for wire in Wire],
        help="the three streams of si.v1, or a session",
    )
    add(
        "--seconds",
        type=seconds(0.1),
        default=IDLE_SECONDS,
        metavar="S",
        help="how long to look at an idle server, and to send asks in each phase of neighbour "
        "and manyrms (%(default)s)",
    )
    add(
        "--rate",
        type=positive,
        metavar="N",
        help="asks a second of each RM of neighbour and manyrms; pods a second of kube, which otherwise "
        "come as fast as the API server takes them",
    )
    add(
        "--only",
        metavar="NAME[,NAME]",
        help=f"growth: of {', '.join(DIMENSIONS)}; kube: of {', '.join(kind.value for kind in TURN)}",
    )


def run(args: argparse.Namespace) -> int:
    """Measure and print; returns 0, 2 after a failure, 130 after an interrupt, or 1 for invalid arguments.

    The results before a failure are printed.
    """
    args.runs = args.runs or (1 if args.against is None and args.report is None else PAIRS)
    try:
        place = chosen_alone(args, [each.ALONE for each in MEASURED_ALONE])
        if place is not None:
            code: int = MEASURED_ALONE[place].run(args)
            return code
        scenarios = chosen(args)
        report = bench_report.wanted(args)
    except UsageError as error:
        say(f"licorne: {error}")
        return USAGE
    options = Options(idle_seconds=args.seconds, profile=args.profile, progress=Progress())
    if args.against is None:
        return run_each(scenarios, options, args.runs, report, as_data=args.json)
    return run_pairs(scenarios, options, args.against, args.runs, report, as_data=args.json)
