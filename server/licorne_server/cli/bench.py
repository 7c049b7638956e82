"""`licorne bench`: how fast the core is here, over gRPC between two processes."""

import argparse
import asyncio
import gc
from pathlib import Path

from licorne_server.bench.driver import BenchError
from licorne_server.bench.report import HEADERS, Run, as_json, as_rows
from licorne_server.bench.runs import Options, run_once
from licorne_server.bench.scenarios import SCENARIOS, Scenario
from licorne_server.bench.server_process import ServerFailed
from licorne_server.cli.arguments import positive, seconds
from licorne_server.cli.output import print_json, print_table, say

FAILED = 2
INTERRUPTED = 130
IDLE_SECONDS = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne bench`."""
    scenarios = "\n".join(f"  {item.name:<11} {item.about}" for item in SCENARIOS.values())
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = f"scenarios:\n{scenarios}"
    parser.add_argument("scenario", choices=SCENARIOS, metavar="SCENARIO", help="see below")
    parser.add_argument("--nodes", type=positive, metavar="N", help="so many nodes instead")
    parser.add_argument("--pods", type=positive, metavar="N", help="so many asks instead")
    parser.add_argument("--sort", choices=("fifo", "fair"), help="order of applications")
    parser.add_argument(
        "--runs", type=positive, default=1, metavar="N", help="repetitions (%(default)s)"
    )
    parser.add_argument(
        "--seconds",
        type=seconds(0.1),
        default=IDLE_SECONDS,
        metavar="S",
        help="how long to look at an idle server (%(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--profile",
        type=Path,
        metavar="FILE",
        help="profile the server and write FILE for pstats; the rates mean nothing then",
    )


def run(args: argparse.Namespace) -> int:
    """Measure and print; 0, or 2 when the server did not do its part, 130 when interrupted."""
    scenario = SCENARIOS[args.scenario].scaled(nodes=args.nodes, pods=args.pods, sort=args.sort)
    options = Options(idle_seconds=args.seconds, profile=args.profile)
    try:
        runs = [measured(scenario, options, at, args.runs) for at in range(1, args.runs + 1)]
    except (BenchError, ServerFailed) as error:
        say(f"licorne: {error}")
        return FAILED
    except KeyboardInterrupt:
        say("stopped")
        return INTERRUPTED
    if args.json:
        print_json(as_json(scenario, runs))
        return 0
    print(
        f"{scenario.name}: {scenario.about}"
        f" ({scenario.pods:,} asks, {scenario.nodes:,} nodes, {scenario.sort})"
    )
    print_table(HEADERS, as_rows(runs))
    return 0


def measured(scenario: Scenario, options: Options, number: int, of: int) -> Run:
    """One run, announced; our own collector is kept out of it."""
    gc.collect()
    gc.disable()
    try:
        result = asyncio.run(run_once(scenario, options))
    finally:
        gc.enable()
    rate = result["allocations_per_second"]
    say(f"{scenario.name}, run {number} of {of}: {rate:,.0f} allocations/s")
    return result
