"""`licorne bench neighbour` and `licorne bench manyrms`: latency of RMs during the load of others."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from licorne_cli.failures import UsageError
from licorne_cli.output.text import print_json, print_table, say, while_read
from licorne_cli.parsing.parser import percent, positive
from licorne_server.commands.server_process import ServerFailed
from licorne_tools.bench.driver import BenchError, Progress
from licorne_tools.bench.installation import this_build
from licorne_tools.bench.isolation import crowd
from licorne_tools.bench.isolation.catalogue import ATTACKS
from licorne_tools.bench.isolation.latency import COUNTS, NEIGHBOUR, Setting, TargetLine, attacks, crowds
from licorne_tools.bench.report import Run, environment, runs_as_json, summary
from licorne_tools.bench.runs import alone
from licorne_tools.commands.outcome import Alone, Outcome, each, shown

Result = tuple[TargetLine, list[Run]]
FULL = 100
MANY_RMS = "manyrms"
USUAL = {NEIGHBOUR: (20.0, 100), MANY_RMS: (5.0, 4)}
"""Asks per second, and nodes, of each RM."""
ISOLATION = {
    NEIGHBOUR: "latency of one RM beside attacks of another, each in turn",
    MANY_RMS: "latency of 1, 10, 100, 250 and 500 RMs, and beside a flood",
}
"""The scenarios and their descriptions; `all` does not include them."""

COLUMNS = {
    NEIGHBOUR: {
        "ALONE P50": "alone_p50_ms",
        "P99": "alone_p99_ms",
        "WORST": "alone_worst_ms",
        "BESIDE P50": "beside_p50_ms",
        "BESIDE P99": "beside_p99_ms",
        "BESIDE WORST": "beside_worst_ms",
        "RATIO": "p99_ratio",
        "ACTS": "attack_acts",
        "REFUSED": "attack_refused",
    },
    MANY_RMS: {
        "ONE P50": "one_p50_ms",
        "P99": "one_p99_ms",
        "WORST": "one_worst_ms",
        "MANY P50": "many_p50_ms",
        "MANY P99": "many_p99_ms",
        "MANY WORST": "many_worst_ms",
        "RATIO": "many_p99_ratio",
        "FLOODED P99": "flooded_p99_ms",
        "FLOODED WORST": "flooded_worst_ms",
        "FLOODED RATIO": "flooded_p99_ratio",
        "IDLE %": "idle_percent",
        "SERVER %": "many_percent",
        "US": "many_cpu_us",
        "CLIENT %": "many_client_percent",
        "CLIENT US": "many_client_cpu_us",
    },
}
"""The columns of the tables, and their measures. Times are in milliseconds; US is microseconds of CPU per
ask, and % the share of a core.
"""

ALONE = Alone(
    ISOLATION,
    own=("attack", "rms", "percent", "rate"),
    refused=("pods", "batch", "sort", "wire", "against", "report", "pictures"),
)


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """Add the arguments that only these scenarios have."""
    add = group.add_argument
    add("--attack", choices=ATTACKS, metavar="NAME", help=f"one of {', '.join(ATTACKS)}")
    add("--rms", type=positive, metavar="N", help="manyrms: so many RMs only")
    add("--percent", type=percent, metavar="P", help="size of the attacks; 100 unless it is given")


def run(args: argparse.Namespace) -> int:
    """Measure and print; returns the exit code of `licorne bench`.

    A failed row is reported and left out of the table; other rows are measured.

    Raises:
        UsageError: the arguments contradict each other.
    """
    progress = Progress()
    chosen(args, progress)
    outcome = Outcome()
    say(str(this_build()))
    results: list[Result] = []
    with shown(progress), outcome, rms_of(args.scenario, progress) as path:
        for line in each(args.scenario, chosen(args, progress, path), progress, outcome):
            runs: list[Run] = []
            with outcome:
                for _ in range(args.runs):
                    runs.append(one_run(line))
            if runs:
                results.append((line, runs))
    if results:
        with while_read():
            show(args, results)
    return outcome.code


@contextmanager
def rms_of(scenario: str, progress: Progress) -> Iterator[Path | None]:
    """The program that runs the RMs of `manyrms`; None if this process runs them.

    Raises:
        BenchError: the program cannot be built.
    """
    if scenario != MANY_RMS:
        yield None
        return
    progress.begin("building the RMs in Go")
    with crowd.program() as path:
        if path is None:
            say("the RMs are in Python, which takes much of the CPU: no program go is on the PATH")
        else:
            say("the RMs are in Go")
        yield path


def chosen(args: argparse.Namespace, progress: Progress, path: Path | None = None) -> list[TargetLine]:
    """The rows of the table; the program at `path`, or if None this process, runs the RMs of `manyrms`.

    Raises:
        UsageError: the arguments contradict each other.
    """
    name = args.scenario
    other = "rms" if name == NEIGHBOUR else "attack"
    if getattr(args, other) is not None:
        raise UsageError(f"--{other} cannot be used with {name}")
    rate, nodes = USUAL[name]
    setting = Setting(
        seconds=args.seconds,
        rate=args.rate or rate,
        nodes=args.nodes or nodes,
        percent=FULL if args.percent is None else args.percent,
        profile=args.profile,
        program=path,
        progress=progress,
    )
    if name == NEIGHBOUR:
        lines = list(attacks([args.attack] if args.attack else ATTACKS, setting))
    else:
        lines = list(crowds([args.rms] if args.rms else COUNTS, setting))
    if args.profile is not None and (len(lines) > 1 or args.runs > 1):
        raise UsageError("--profile: there would be several servers; choose one line and run")
    return lines


def one_run(line: TargetLine) -> Run:
    """Make one run of a row, and print it; a failure names the row."""
    try:
        result = alone(line.measure())
    except (BenchError, ServerFailed) as error:
        raise BenchError(f"{line.name}: {error}") from None
    say(f"{line.name}: the target {'holds' if line.holds(result) else 'does not hold'}")
    return result


def show(args: argparse.Namespace, results: Sequence[Result]) -> None:
    """Print a table or, with `--json`, an array of objects."""
    if args.json:
        print_json([as_json(args.scenario, line, runs) for line, runs in results])
        return
    columns = COLUMNS[args.scenario]
    first = "BESIDE" if args.scenario == NEIGHBOUR else "RMS"
    print(f"{args.scenario}: {ISOLATION[args.scenario]} (milliseconds)")
    print_table([first, *columns, "HOLDS"], [row(columns, *result) for result in results])


def row(columns: Mapping[str, str], line: TargetLine, runs: Sequence[Run]) -> list[str]:
    """A row as cells: medians, with their spread if there were several runs."""
    found = summary(runs)
    figures = [found[measure].quoted() for measure in columns.values()]
    return [line.name, *figures, "yes" if holds(line, runs) else "no"]


def as_json(scenario: str, line: TargetLine, runs: Sequence[Run]) -> dict[str, Any]:
    """A row as JSON."""
    return {
        "scenario": scenario,
        "name": line.name,
        "about": line.about,
        **{name: getattr(line.setting, name) for name in ("seconds", "rate", "nodes", "percent")},
        "client": "Python" if line.setting.program is None else "Go",
        **runs_as_json(runs),
        "holds": holds(line, runs),
        "environment": environment(),
    }


def holds(line: TargetLine, runs: Sequence[Run]) -> bool:
    """True if the target holds for the medians of all runs."""
    return line.holds({name: spread.median for name, spread in summary(runs).items()})
