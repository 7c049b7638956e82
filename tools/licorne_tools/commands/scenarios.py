"""The scenarios chosen by the arguments of `licorne bench`, and their runs.

With `--against`, each is measured in turn with another checkout or form.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace

from licorne_cli.failures import UsageError
from licorne_cli.output.text import print_json, print_table, say, while_read
from licorne_cli.parsing.parser import percent, seconds
from licorne_server.commands.server_process import ServerFailed
from licorne_tools.bench.driver import BenchError
from licorne_tools.bench.installation import (
    HERE,
    Build,
    Installation,
    NotUsable,
    build_of,
    compared,
    this_build,
)
from licorne_tools.bench.load import Options
from licorne_tools.bench.report import (
    HEADERS,
    Compared,
    Pairs,
    Result,
    Run,
    Side,
    as_json,
    as_rows,
    overview,
    pairs_as_json,
    pairs_table,
    setting_texts,
    title,
    turns,
)
from licorne_tools.bench.runs import alone, run_once
from licorne_tools.bench.scenarios import BARE, SCENARIOS, Scenario, ScenarioKind, Wire, over, predicate_table
from licorne_tools.commands.outcome import OF_PREDICATES, OK, Outcome, given, shown
from licorne_tools.commands.report import Report

ALL = "all"
FAIR = "fair"


def add_predicate_arguments(group: argparse._ArgumentGroup) -> None:
    """Add the options of an RM with predicate checks."""
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
    """Parse the name of a scenario that can be measured together with others."""
    if text not in SCENARIOS:
        raise argparse.ArgumentTypeError(f"{text} is no scenario that goes with others")
    return text


def chosen(args: argparse.Namespace) -> Sequence[Scenario]:
    """The scenarios to measure, in order.

    Raises:
        UsageError: the arguments contradict each other.
    """
    names = named(args)
    if args.sort == FAIR:
        # A fair queue refuses placeholders (spec § 6.1).
        names = [name for name in names if SCENARIOS[name].kind is not ScenarioKind.GANG]
        if not names:
            raise UsageError("--sort: gangs need applications in fifo order")
    if args.against is not None or args.profile is not None:
        names = [name for name in names if SCENARIOS[name].kind not in BARE]
        if not names:
            raise UsageError(f"--against and --profile need a server, and {args.scenario} has none")
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
    if options and [scenario.kind for scenario in found] != [ScenarioKind.ASKED]:
        raise UsageError(f"{options[0]} is for predicates only")
    return list(asked(found[0], args)) if options else found


def named(args: argparse.Namespace) -> list[str]:
    """The names of the scenarios, without duplicates.

    Raises:
        UsageError: other scenarios are named in addition to `all`.
    """
    if args.scenario != ALL:
        return list(dict.fromkeys([args.scenario, *args.more]))
    if args.more:
        raise UsageError(f"{ALL} has {args.more[0]} already")
    return list(SCENARIOS)


def asked(scenario: Scenario, args: argparse.Namespace) -> Iterator[Scenario]:
    """The scenario with the given predicate checks, or the whole table of predicate scenarios.

    Raises:
        UsageError: the table is given with an option that the table varies.
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


def run_each(
    scenarios: Sequence[Scenario],
    options: Options,
    runs: int,
    report: Report | None,
    *,
    as_data: bool,
) -> int:
    """Measure each scenario `runs` times, and print the results; returns the exit code."""
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
    """Make one run, and print it."""
    how = ", ".join(setting_texts(scenario))
    options.progress.begin(f"{scenario.name} ({how}), {which}")
    result = alone(run_once(scenario, options))
    rate = result["allocations_per_second"]
    say(f"{scenario.name} ({how}), {which}: {rate:,.0f} allocations/s")
    return result


def show(results: Sequence[Result], *, as_data: bool, several: bool) -> None:
    """Print all results: all measures of a single scenario, or a row for each of several.

    With `as_data` print all measures as a JSON object, or as an array of objects.
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


WHAT = (
    "measure in turn with another server, pair by pair: a checkout (its .venv runs it, or this "
    "Python where it has none), a Python or a licorne command to run it with, `pure`, this "
    "source as it is where this one is compiled, or `grpc`, this server without the wheel "
    "licorne-transport. The load is always of this checkout, and bare "
    "servers are left out"
)


def add_against_argument(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names the other server."""
    parser.add_argument("--against", metavar="WHAT", help=WHAT)


def run_pairs(
    scenarios: Sequence[Scenario],
    options: Options,
    what: str,
    pairs: int,
    report: Report | None,
    *,
    as_data: bool,
) -> int:
    """Measure each scenario in pairs of runs, and print the results; returns the exit code."""
    outcome = Outcome()
    options.progress.begin("looking at both servers")
    with shown(options.progress), outcome:
        this, installation, other = both(what)
    if outcome.code != OK:
        return outcome.code
    say("\n".join(builds(this, other)))
    sides = {
        Side.THIS: replace(options, bare=False),
        Side.OTHER: replace(options, bare=False, installation=installation),
    }
    results: list[Compared] = []
    with shown(options.progress), outcome:
        for scenario in scenarios:
            results.append((scenario, found := Pairs()))
            for number, side in turns(pairs):
                which = f"pair {number} of {pairs}, {side.value}"
                found.add(side, one_of_pair(scenario, sides[side], side, which))
    complete = [(scenario, found) for scenario, found in results if found.complete]
    if complete:
        with while_read():
            show_pairs(complete, this, other, as_data=as_data, several=len(scenarios) > 1)
    if report is not None and outcome.code == OK:
        measured = [(scenario, [found.this, found.other]) for scenario, found in results]
        with outcome:
            report.write(measured, [this, other])
    return outcome.code


def both(what: str) -> tuple[Build, Installation, Build]:
    """The build of this process, and the other installation with its build.

    Raises:
        BenchError: an installation is unusable.
    """
    try:
        return build_of(HERE), *compared(what)
    except NotUsable as error:
        raise BenchError(f"--against: {error}") from None


def one_of_pair(scenario: Scenario, options: Options, side: Side, which: str) -> Run:
    """Make one run, and print it; a failure names the side."""
    try:
        return one_run(scenario, options, which)
    except (BenchError, ServerFailed) as error:
        raise BenchError(f"{scenario.name}, {side.value}: {error}") from None


def builds(this: Build, other: Build) -> list[str]:
    """Lines of output about the builds of both sides, with a note if they are equal."""
    lines = [
        f"{side.value + ':':<6} {build} ({build.folder})"
        for side, build in ((Side.THIS, this), (Side.OTHER, other))
    ]
    if this == other:
        lines.append("Both are the same: their ratios show how far figures of one sitting differ.")
    return lines


def show_pairs(
    results: Sequence[Compared], this: Build, other: Build, *, as_data: bool, several: bool
) -> None:
    """Print the builds, and all measures of a single scenario, or a row for each of several.

    With `as_data` print all measures as a JSON object, or as an array of objects.
    """
    if as_data:
        objects = [pairs_as_json(scenario, found, this, other) for scenario, found in results]
        print_json(objects if several else objects[0])
        return
    if len(results) == 1:
        print(title(results[0][0]))
    print("\n".join(builds(this, other)))
    print_table(*pairs_table(results))
