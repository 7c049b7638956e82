"""Scenarios that `licorne bench` is to measure, by its arguments, and their runs, announced and printed."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace

from licorne_cli.failures import UsageError
from licorne_cli.output.text import print_json, print_table, say, while_read
from licorne_cli.parsing.parser import percent, seconds
from licorne_tools.bench.installation import this_build
from licorne_tools.bench.load import Options
from licorne_tools.bench.report import HEADERS, Result, Run, as_json, as_rows, overview, setting_texts, title
from licorne_tools.bench.runs import alone, run_once
from licorne_tools.bench.scenarios import SCENARIOS, Kind, Scenario, Wire, over, predicate_table
from licorne_tools.commands.outcome import OF_PREDICATES, OK, Outcome, given, shown
from licorne_tools.commands.report import Report

ALL = "all"
FAIR = "fair"


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


def scenario_name(text: str) -> str:
    """The name of a scenario that can be measured beside others."""
    if text not in SCENARIOS:
        raise argparse.ArgumentTypeError(f"{text} is no scenario that goes with others")
    return text


def chosen(args: argparse.Namespace) -> Sequence[Scenario]:
    """What is to be measured, in order.

    Raises:
        UsageError: the arguments make no sense together.
    """
    names = named(args)
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
            SCENARIOS[name].scaled(nodes=args.nodes, pods=args.pods, sort=args.sort, batch=args.batch),
            wire,
        )
    ]
    if not found:
        raise UsageError(f"--wire: {args.scenario} cannot be run over {args.wire}")
    if args.profile is not None and (len(found) > 1 or args.table or args.against):
        raise UsageError("--profile: there would be several servers; choose one scenario and wire")
    options = given(args, OF_PREDICATES)
    if options and [scenario.kind for scenario in found] != [Kind.ASKED]:
        raise UsageError(f"{options[0]} is for predicates only")
    return list(asked(found[0], args)) if options else found


def named(args: argparse.Namespace) -> list[str]:
    """The names of the scenarios, each once.

    Raises:
        UsageError: others are named beside all of them.
    """
    if args.scenario != ALL:
        return list(dict.fromkeys([args.scenario, *args.more]))
    if args.more:
        raise UsageError(f"{ALL} has {args.more[0]} already")
    return list(SCENARIOS)


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
    for option in given(args, ("untagged", "answer_after")):
        raise UsageError(f"{option}: the table has both ways")
    base = replace(scenario, asking=replace(asking, refused_percent=args.refuse or 0))
    if args.nodes or args.pods:
        yield from predicate_table(base, [(base.pods, base.nodes)])
    else:
        yield from predicate_table(base)


def run(
    scenarios: Sequence[Scenario],
    options: Options,
    runs: int,
    report: Report | None,
    *,
    as_data: bool,
) -> int:
    """Measure each scenario so many times, and print what came of it; the exit code."""
    results: list[tuple[Scenario, list[Run]]] = []
    outcome = Outcome()
    build = this_build()
    say(str(build))
    with shown(options.progress), outcome:
        for scenario in scenarios:
            results.append((scenario, found := []))
            for number in range(1, runs + 1):
                found.append(one_run(scenario, options, f"run {number} of {runs}"))
    measured = [(scenario, found) for scenario, found in results if found]
    if measured:
        with while_read():
            show(measured, as_data=as_data, several=len(scenarios) > 1)
    if report is not None and outcome.code == OK:
        with outcome:
            report.write([(scenario, [found]) for scenario, found in measured], [build])
    return outcome.code


def one_run(scenario: Scenario, options: Options, which: str) -> Run:
    """One run, announced."""
    how = ", ".join(setting_texts(scenario))
    options.progress.begin(f"{scenario.name} ({how}), {which}")
    result = alone(run_once(scenario, options))
    rate = result["allocations_per_second"]
    say(f"{scenario.name} ({how}), {which}: {rate:,.0f} allocations/s")
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
