"""`licorne bench kube`: pods on a control plane, bound by Licorne, the older core, and kube-scheduler."""

import argparse
import asyncio
from collections.abc import Callable, Mapping

from licorne_cli.failures import UsageError
from licorne_cli.output.text import print_json, print_table, say, while_read
from licorne_tools.bench.driver import BenchError, Progress
from licorne_tools.bench.installation import this_build
from licorne_tools.bench.kube.lines import FLOOD, LINES, SHAPES, TURN, Line, every, lines, turns
from licorne_tools.bench.kube.measure import Found, one_run, prepared
from licorne_tools.bench.kube.report import NAMES, Results, as_json, section, tables
from licorne_tools.commands.outcome import OK, Alone, Outcome, each, shown
from licorne_tools.commands.report import wanted
from licorne_tools.kube.programs import check
from licorne_tools.kube.schedulers import SchedulerKind

NAME, ALL = "kube", "all"
ALONE = Alone(
    {NAME: "pods on a real control plane, beside kube-scheduler and the older core"},
    own=("shape", "rate", "only"),
    refused=("batch", "sort", "wire", "profile", "against", "pictures"),
)


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """Add the arguments that only this scenario has."""
    group.add_argument(
        "--shape",
        choices=(*SHAPES, ALL),
        metavar="NAME",
        help=f"of the pods: {', '.join(SHAPES)}; or {ALL}, at the sizes and rates that have a goal "
        f"({LINES[0].shape})",
    )


def run(args: argparse.Namespace) -> int:
    """Measure and print; returns the exit code of `licorne bench`.

    A failed row is reported, and printed with its runs so far; other rows are measured. A report is written
    only if all rows have succeeded.

    Raises:
        UsageError: the arguments contradict each other.
    """
    chosen, kinds = lines_of(args), kinds_of(args)
    report = wanted(args)
    outcome, progress = Outcome(), Progress()
    build = this_build()
    say(str(build))
    results: dict[Line, dict[SchedulerKind, list[Found]]] = {}
    with shown(progress), outcome:
        check()
        for line in each(NAME, chosen, progress, outcome):
            with outcome:
                found = results.setdefault(line, {kind: [] for kind in kinds})
                asyncio.run(measure(line, kinds, args, found, progress))
    complete = {line: found for line, found in results.items() if all(found.values())}
    if complete:
        with while_read():
            show(complete, as_data=args.json)
    if report is not None and outcome.code == OK:
        with outcome:
            report.put(section(complete, build, report.command))
    return outcome.code


def lines_of(args: argparse.Namespace) -> list[Line]:
    """The rows to measure.

    Raises:
        UsageError: the arguments contradict each other.
    """
    if args.shape != ALL:
        return lines(args.shape or LINES[0].shape, args.rate or FLOOD, args.nodes, args.pods)
    if args.rate is not None:
        raise UsageError(f"--rate: {ALL} shapes have rates of their own")
    return every(args.nodes, args.pods)


def kinds_of(args: argparse.Namespace) -> tuple[SchedulerKind, ...]:
    """The schedulers to measure, in the order of the first run.

    Raises:
        UsageError: a name is unknown.
    """
    if args.only is None:
        return TURN
    names = args.only.split(",")
    known = [kind.value for kind in TURN]
    for name in names:
        if name not in known:
            raise UsageError(f"--only: {name!r} is none of {', '.join(known)}")
    return tuple(kind for kind in TURN if kind.value in names)


async def measure(
    line: Line,
    kinds: tuple[SchedulerKind, ...],
    args: argparse.Namespace,
    results: Mapping[SchedulerKind, list[Found]],
    progress: Progress,
) -> None:
    """Make all runs of a row on one control plane; adds each to `results`, and prints it.

    Raises:
        BenchError: a run fails; earlier runs are in `results`.
    """
    async with prepared(line, progress) as bench:
        for number, kind in turns(kinds, args.runs):
            which = f"{line.name}, run {number} of {args.runs}, {NAMES[kind]}"
            progress.begin(which)
            try:
                found = await one_run(
                    bench, line, kind, f"load-{number}-{kind.value}", args.seconds, progress
                )
            except BenchError as error:
                raise BenchError(f"{which}: {error}") from None
            results[kind].append(found)
            say(f"{which}: {told(found)}")


def told(found: Found) -> str:
    """The main figures of a run, as one line of text."""
    one: Callable[[str], float] = found.figures.__getitem__
    missing = f", {one('not_bound'):,.0f} not bound" if one("not_bound") else ""
    return (
        f"bound after {one('bound_seconds'):.1f} s{missing}, "
        f"p50 {one('latency_p50_ms'):,.0f} ms, p99 {one('latency_p99_ms'):,.0f} ms, "
        f"CPU {one('scheduler_cpu_seconds'):.1f} + {one('api_server_cpu_seconds'):.1f} s, "
        f"{one('calls_per_pod'):.2f} calls a pod"
    )


def show(results: Mapping[Line, Results], *, as_data: bool) -> None:
    """Print the tables or, with `as_data`, an array with a JSON object for each row."""
    if as_data:
        print_json([as_json(line, found) for line, found in results.items()])
        return
    both = [table for line, found in results.items() for table in tables(line, found)]
    for number, one in enumerate(both):
        print(f"{chr(10) if number else ''}{one.title}")
        print_table(one.headers, one.rows)
