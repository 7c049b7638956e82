"""`licorne bench targets`: all measures with a target, compared with the bare wire and the older core."""

import argparse
from collections.abc import Sequence
from typing import Any

from licorne_cli.output.text import print_json, print_table, say, while_read
from licorne_tools.bench.driver import Progress
from licorne_tools.bench.installation import this_build
from licorne_tools.bench.load import Options
from licorne_tools.bench.older_core import BENCHMARKS, SHAPES, Shape, benchmarked, built, go
from licorne_tools.bench.report import Pairs, Run, Side, as_json, environment, runs_as_json, turns
from licorne_tools.bench.scenarios import SCENARIOS, Scenario, over
from licorne_tools.bench.targets import TARGETS, section, tables
from licorne_tools.commands.outcome import OK, Alone, Outcome, shown
from licorne_tools.commands.report import wanted
from licorne_tools.commands.scenarios import one_run

NAME = "targets"
ALONE = Alone(
    {NAME: "all that has a target, beside the bare wire and the older core"},
    own=(),
    refused=("batch", "sort", "wire", "profile", "against", "pictures"),
)


def run(args: argparse.Namespace) -> int:
    """Measure and print; returns the exit code of `licorne bench`.

    A report is written only if everything was measured. Without Go it lacks the benchmarks of the older core.

    Raises:
        UsageError: the report cannot be written.
    """
    report = wanted(args)
    outcome, progress = Outcome(), Progress()
    options = Options(idle_seconds=args.seconds, bare=False, progress=progress)
    build = this_build()
    say(str(build))
    results: dict[Scenario, list[Run]] = {}
    compared: dict[Shape, Pairs] = {}
    with shown(progress), outcome:
        measure(chosen(args), args.runs, options, results)
        shapes = [shape for shape in SHAPES if args.pods is None or shape.pods <= args.pods]
        compare(shapes, args.runs, progress, compared)
    complete = {shape: pairs for shape, pairs in compared.items() if pairs.complete}
    if results:
        with while_read():
            show(results, complete, as_data=args.json)
    if report is not None and outcome.code == OK:
        with outcome:
            report.put(section(results, complete, build, report.command))
    return outcome.code


def chosen(args: argparse.Namespace) -> list[Scenario]:
    """The scenarios of all targets, each over its wires."""
    named = [SCENARIOS[name] for target in TARGETS for name in target.scenarios]
    return [each for one in named for each in over(one.scaled(nodes=args.nodes, pods=args.pods), None)]


def measure(
    scenarios: Sequence[Scenario], runs: int, options: Options, results: dict[Scenario, list[Run]]
) -> None:
    """Run all scenarios in turn, so that changes of the machine affect server and echo equally."""
    for number in range(1, runs + 1):
        for scenario in scenarios:
            found = one_run(scenario, options, f"run {number} of {runs}")
            results.setdefault(scenario, []).append(found)


def compare(shapes: Sequence[Shape], pairs: int, progress: Progress, results: dict[Shape, Pairs]) -> None:
    """Measure both cores in turn in each shape; if Go is not installed, only print a note."""
    command = go()
    if command is None:
        say("without the older core: its benchmarks need Go, and no program go is on the PATH")
    if command is None or not shapes:
        return
    progress.begin("building the benchmarks of the older core")
    with built(command, *BENCHMARKS) as program:
        for shape in shapes:
            found = results.setdefault(shape, Pairs())
            unit, rate = shape.benchmark.rate
            for number, side in turns(pairs):
                which = f"{shape.title}, pair {number} of {pairs}, {shape.benchmark.cores[side]}"
                progress.begin(which)
                one = benchmarked(program, shape, side)
                found.add(side, one)
                say(f"{which}: {one[rate]:,.0f} {unit}")


def show(results: dict[Scenario, list[Run]], compared: dict[Shape, Pairs], *, as_data: bool) -> None:
    """Print the tables or, with `as_data`, an array with a JSON object for each scenario and shape."""
    if as_data:
        of_scenarios = [as_json(scenario, runs) for scenario, runs in results.items()]
        print_json([*of_scenarios, *(shape_as_json(shape, pairs) for shape, pairs in compared.items())])
        return
    for number, each in enumerate(tables(results, compared)):
        print(f"{chr(10) if number else ''}{each.title}")
        print_table(each.headers, each.rows)


def shape_as_json(shape: Shape, pairs: Pairs) -> dict[str, Any]:
    """A shape as JSON, with the runs of both cores in order."""
    sides = {Side.THIS: pairs.this, Side.OTHER: pairs.other}
    return {
        "scenario": shape.benchmark.scenario,
        "shape": shape.title,
        "pods": shape.pods,
        "nodes": shape.nodes,
        **{shape.benchmark.cores[side]: runs_as_json(runs) for side, runs in sides.items()},
        "environment": environment(),
    }
