"""`licorne bench --against`: scenarios measured in turn with another checkout or form."""

import argparse
from collections.abc import Sequence
from dataclasses import replace

from licorne_cli.output.text import print_json, print_table, say, while_read
from licorne_server.commands.server_process import ServerFailed
from licorne_tools.bench.driver import BenchError
from licorne_tools.bench.installation import HERE, Build, Installation, NotUsable, build_of, compared
from licorne_tools.bench.load import Options
from licorne_tools.bench.pairs import Compared, Pairs, Side, as_json, table, turns
from licorne_tools.bench.report import Run, title
from licorne_tools.bench.scenarios import Scenario
from licorne_tools.commands.outcome import OK, Outcome, shown
from licorne_tools.commands.report import Report
from licorne_tools.commands.scenarios import one_run

WHAT = (
    "measure in turn with another server, pair by pair: a checkout (its .venv runs it, or this "
    "Python where it has none), a Python or a licorne command to run it with, or `pure`, this "
    "source as it is where this one is compiled. The load is always of this checkout, and bare "
    "servers are left out"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The argument that names the other server."""
    parser.add_argument("--against", metavar="WHAT", help=WHAT)


def run(
    scenarios: Sequence[Scenario],
    options: Options,
    what: str,
    pairs: int,
    report: Report | None,
    *,
    as_data: bool,
) -> int:
    """Measure so many pairs of each scenario, and print what came of it; the exit code."""
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
            show(complete, this, other, as_data=as_data, several=len(scenarios) > 1)
    if report is not None and outcome.code == OK:
        measured = [(scenario, [found.this, found.other]) for scenario, found in results]
        with outcome:
            report.write(measured, [this, other])
    return outcome.code


def both(what: str) -> tuple[Build, Installation, Build]:
    """What runs here, and what is compared with it and runs there.

    Raises:
        BenchError: one of them cannot be used.
    """
    try:
        return build_of(HERE), *compared(what)
    except NotUsable as error:
        raise BenchError(f"--against: {error}") from None


def one_of_pair(scenario: Scenario, options: Options, side: Side, which: str) -> Run:
    """One run, announced; a failure says on which side it was."""
    try:
        return one_run(scenario, options, which)
    except (BenchError, ServerFailed) as error:
        raise BenchError(f"{scenario.name}, {side.value}: {error}") from None


def builds(this: Build, other: Build) -> list[str]:
    """What runs on both sides, a line for each."""
    lines = [
        f"{side.value + ':':<6} {build} ({build.folder})"
        for side, build in ((Side.THIS, this), (Side.OTHER, other))
    ]
    if this == other:
        lines.append("Both are the same: their ratios show how far figures of one sitting differ.")
    return lines


def show(results: Sequence[Compared], this: Build, other: Build, *, as_data: bool, several: bool) -> None:
    """The builds, and a table: of one scenario in full, of several the measures of an overview.

    As data it is complete either way: an object, or an array of them.
    """
    if as_data:
        objects = [as_json(scenario, found, this, other) for scenario, found in results]
        print_json(objects if several else objects[0])
        return
    if len(results) == 1:
        print(title(results[0][0]))
    print("\n".join(builds(this, other)))
    print_table(*table(results))
