"""`licorne bench`: how fast the core is here, over gRPC between two processes."""

import argparse
import asyncio
import gc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from licorne_server.bench.driver import BenchError
from licorne_server.bench.load import Options
from licorne_server.bench.report import (
    HEADERS,
    Result,
    Run,
    as_json,
    as_rows,
    overview,
    setting_texts,
    title,
)
from licorne_server.bench.runs import run_once
from licorne_server.bench.scenarios import (
    SCENARIOS,
    Kind,
    Scenario,
    Wire,
    over,
    predicate_table,
)
from licorne_server.bench.server_process import ServerFailed
from licorne_server.build_info import build_info
from licorne_server.cli import bench_growth, bench_isolation
from licorne_server.cli.arguments import percent, positive, seconds
from licorne_server.cli.connection import USAGE, UsageError
from licorne_server.cli.output import print_json, print_table, say

OK = 0
FAILED = 2
INTERRUPTED = 130
IDLE_SECONDS = 10.0
ALL = "all"
FAIR = "fair"
FOR_PREDICATES = ("untagged", "refuse", "answer_after", "table")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne bench`."""
    about = {item.name: item.about for item in SCENARIOS.values()}
    about |= bench_isolation.ISOLATION | bench_growth.GROWTH
    scenarios = "\n".join(f"  {name:<11} {text}" for name, text in about.items())
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        f"scenarios:\n{scenarios}\n  {ALL:<11} each but the last three, one line for each"
    )
    add = parser.add_argument
    names = (*about, ALL)
    add("scenario", choices=names, metavar="SCENARIO", help="see below")
    add("--nodes", type=positive, metavar="N", help="so many nodes instead")
    add("--pods", type=positive, metavar="N", help="so many asks instead")
    add("--batch", type=positive, metavar="N", help="so many items in each request instead")
    add("--sort", choices=("fifo", FAIR), help="order of applications")
    add(
        "--wire",
        choices=[wire.value for wire in Wire],
        help="the three streams of si.v1, or a session",
    )
    add("--runs", type=positive, default=1, metavar="N", help="repetitions (%(default)s)")
    add(
        "--seconds",
        type=seconds(0.1),
        default=IDLE_SECONDS,
        metavar="S",
        help="how long to look at an idle server, and to send asks in each phase of neighbour "
        "and manyrms (%(default)s)",
    )
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
    bench_growth.add_arguments(parser.add_argument_group("growth only"))


def add_predicate_arguments(group: argparse._ArgumentGroup) -> None:
    """What can be said about an RM that is asked about nodes."""
    add = group.add_argument
    add("--untagged", action="store_true", default=None, help="each ask is of a class of its own")
    add("--refuse", type=percent, metavar="P", help="the RM refuses so many nodes of a hundred")
    add(
        "--answer-after",
        type=seconds(0.0),
        metavar="S",
        help="the RM answers each check so many seconds after its receipt",
    )
    add(
        "--table",
        action="store_true",
        default=None,
        help="five shapes, or the named one, tagged and not, answered at once and late",
    )


def run(args: argparse.Namespace) -> int:
    """Measure and print; 0, or 2 when the server did not do its part, 130 when interrupted.

    1 when the arguments make no sense together. What was measured before a failure is printed.
    """
    try:
        if args.scenario in bench_growth.GROWTH:
            bench_isolation.refuse_elsewhere(args)
            return bench_growth.run(args)
        bench_growth.refuse_elsewhere(args)
        if args.scenario in bench_isolation.ISOLATION:
            return bench_isolation.run(args)
        scenarios = chosen(args)
    except UsageError as error:
        say(f"licorne: {error}")
        return USAGE
    results: list[Result] = []
    code = measure(scenarios, args, results)
    if results:
        show(results, as_data=args.json, several=len(scenarios) > 1)
    return code


def measure(scenarios: Sequence[Scenario], args: argparse.Namespace, results: list[Result]) -> int:
    """Measure one scenario after the other, up to the first failure; the exit code."""
    options = Options(idle_seconds=args.seconds, profile=args.profile)
    say(str(build_info()))
    try:
        for scenario in scenarios:
            results.append((scenario, measured(scenario, options, args.runs)))
    except (BenchError, ServerFailed) as error:
        say(f"licorne: {error}")
        return FAILED
    except KeyboardInterrupt:
        say("stopped")
        return INTERRUPTED
    return OK


def chosen(args: argparse.Namespace) -> Sequence[Scenario]:
    """What is to be measured, in order.

    Raises:
        UsageError: the arguments make no sense together.
    """
    bench_isolation.refuse_elsewhere(args)
    names = list(SCENARIOS) if args.scenario == ALL else [args.scenario]
    if args.sort == FAIR:
        # Placeholders are refused in a queue that shares out evenly (spec § 6.1).
        names = [name for name in names if SCENARIOS[name].kind is not Kind.GANG]
        if not names:
            raise UsageError("--sort: gangs need applications in fifo order")
    wire = Wire(args.wire) if args.wire else None
    found = [
        each
        for name in names
        for each in over(
            SCENARIOS[name].scaled(
                nodes=args.nodes, pods=args.pods, sort=args.sort, batch=args.batch
            ),
            wire,
        )
    ]
    if not found:
        raise UsageError(f"--wire: {args.scenario} cannot be run over {args.wire}")
    if args.profile is not None and (len(found) > 1 or args.table):
        raise UsageError("--profile: there would be several servers; choose one scenario and wire")
    given = [name for name in FOR_PREDICATES if getattr(args, name) is not None]
    if given and found[0].kind is not Kind.ASKED:
        raise UsageError(f"--{given[0].replace('_', '-')} is for predicates only")
    return list(asked(found[0], args)) if given else found


def asked(scenario: Scenario, args: argparse.Namespace) -> Iterator[Scenario]:
    """The scenario with predicate checks as it is wanted, or the whole table of it.

    Raises:
        UsageError: the table is wanted, and one of the ways that are all in it.
    """
    asking = scenario.asking
    if not args.table:
        yield replace(
            scenario,
            asking=replace(
                asking,
                tagged=not args.untagged,
                refused_percent=asking.refused_percent if args.refuse is None else args.refuse,
                delay=args.answer_after or 0.0,
            ),
        )
        return
    for name in ("untagged", "answer_after"):
        if getattr(args, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')}: the table has both ways")
    base = replace(scenario, asking=replace(asking, refused_percent=args.refuse or 0))
    if args.nodes or args.pods:
        yield from predicate_table(base, [(base.pods, base.nodes)])
    else:
        yield from predicate_table(base)


def measured(scenario: Scenario, options: Options, runs: int) -> list[Run]:
    """All runs of a scenario."""
    return [one_run(scenario, options, number, runs) for number in range(1, runs + 1)]


def one_run(scenario: Scenario, options: Options, number: int, of: int) -> Run:
    """One run, announced; our own collector is kept out of it."""
    gc.collect()
    gc.disable()
    try:
        result = asyncio.run(run_once(scenario, options))
    finally:
        gc.enable()
    rate = result["allocations_per_second"]
    how = ", ".join(setting_texts(scenario))
    say(f"{scenario.name} ({how}), run {number} of {of}: {rate:,.0f} allocations/s")
    return result


def show(results: Sequence[Result], *, as_data: bool, several: bool) -> None:
    """Everything measured: of one scenario in full, of several a line each.

    As data it is complete either way: an object, or an array of them.
    """
    if as_data:
        objects = [as_json(scenario, runs) for scenario, runs in results]
        print_json(objects if several else objects[0])
    elif several:
        print_table(*overview(results))
    else:
        [(scenario, runs)] = results
        print(title(scenario))
        print_table(HEADERS, as_rows(runs))
