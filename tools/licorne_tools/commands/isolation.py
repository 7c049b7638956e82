"""`licorne bench neighbour` and `licorne bench manyrms`: what RMs cost each other."""

import argparse
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from licorne_cli.failures import UsageError
from licorne_cli.output.text import print_json, print_table, say, while_read
from licorne_cli.parsing.parser import percent, positive
from licorne_server.commands.server_process import ServerFailed
from licorne_tools.bench.driver import BenchError, Progress
from licorne_tools.bench.installation import this_build
from licorne_tools.bench.isolation import manyrms, neighbour
from licorne_tools.bench.isolation.catalogue import ATTACKS
from licorne_tools.bench.isolation.report import Part, as_json, table
from licorne_tools.bench.report import Run
from licorne_tools.bench.runs import alone
from licorne_tools.commands.outcome import Alone, Outcome, shown

FULL = 100
NEIGHBOUR, MANY_RMS = "neighbour", "manyrms"
ISOLATION = {
    NEIGHBOUR: "latency of one RM beside attacks of another, each in turn",
    MANY_RMS: "latency of 1, 10, 100 and 500 RMs, and beside a flood",
}
"""The scenarios, and what they are about. None of them is one of `all`."""

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
    },
}
"""The columns of the tables, and the measures in them. Times are in milliseconds."""

ALONE = Alone(
    ISOLATION,
    own=("attack", "rms", "percent", "rate"),
    refused=("pods", "batch", "sort", "wire", "against", "report", "pictures"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line that is to be measured."""

    name: str
    about: str
    settings: dict[str, float]
    """How it is measured, for programs."""
    measure: Callable[[], Coroutine[Any, Any, Run]]
    holds: Callable[[Run], bool]


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """The arguments of these two alone."""
    add = group.add_argument
    add("--attack", choices=ATTACKS, metavar="NAME", help=f"one of {', '.join(ATTACKS)}")
    add("--rms", type=positive, metavar="N", help="manyrms: so many RMs only")
    add("--rate", type=positive, metavar="N", help="asks a second of each RM")
    add("--percent", type=percent, metavar="P", help="size of the attacks; 100 unless it is given")


def run(args: argparse.Namespace) -> int:
    """Measure and print; the exit code as that of `licorne bench`.

    What fails is said and left out of the table, and the rest is measured all the same.

    Raises:
        UsageError: the arguments make no sense together.
    """
    progress = Progress()
    lines = chosen(args, progress)
    outcome = Outcome()
    say(str(this_build()))
    with shown(progress):
        parts = measured(lines, args, progress, outcome)
    if parts:
        with while_read():
            show(args, parts)
    return outcome.code


def chosen(args: argparse.Namespace, progress: Progress) -> list[Line]:
    """The lines of the table.

    Raises:
        UsageError: the arguments make no sense together.
    """
    name = args.scenario
    other = "rms" if name == NEIGHBOUR else "attack"
    if getattr(args, other) is not None:
        raise UsageError(f"--{other} cannot be used with {name}")
    lines = list((attacks if name == NEIGHBOUR else crowds)(args, progress))
    if args.profile is not None and (len(lines) > 1 or args.runs > 1):
        raise UsageError("--profile: there would be several servers; choose one line and run")
    return lines


def attacks(args: argparse.Namespace, progress: Progress) -> Iterator[Line]:
    """A line for each attack, or for the one that is wanted."""
    for name in [args.attack] if args.attack else ATTACKS:
        options = neighbour.Beside(
            attack=name,
            seconds=args.seconds,
            nodes=args.nodes or neighbour.NODES,
            rate=args.rate or neighbour.RATE,
            percent=FULL if args.percent is None else args.percent,
            profile=args.profile,
            progress=progress,
        )
        yield Line(
            name=name,
            about=ATTACKS[name].about,
            settings=settings(options),
            measure=partial(neighbour.beside, options),
            holds=neighbour.holds,
        )


def crowds(args: argparse.Namespace, progress: Progress) -> Iterator[Line]:
    """A line for each number of RMs, or for the one that is wanted."""
    for rms in [args.rms] if args.rms else manyrms.COUNTS:
        options = manyrms.Many(
            rms=rms,
            seconds=args.seconds,
            nodes=args.nodes or manyrms.NODES,
            rate=args.rate or manyrms.RATE,
            percent=FULL if args.percent is None else args.percent,
            profile=args.profile,
            progress=progress,
        )
        yield Line(
            name=str(rms),
            about=f"{rms} RMs, one RM with as many asks, and a flood beside them",
            settings=settings(options),
            measure=partial(manyrms.many, options),
            holds=partial(manyrms.holds, rms),
        )


def settings(options: neighbour.Beside | manyrms.Many) -> dict[str, float]:
    """How a line is measured, for programs."""
    names = ("seconds", "rate", "nodes", "percent")
    return {name: getattr(options, name) for name in names}


def measured(lines: list[Line], args: argparse.Namespace, progress: Progress, outcome: Outcome) -> list[Part]:
    """One line after the other: the runs that were done of each."""
    parts: list[Part] = []
    for number, line in enumerate(lines, start=1):
        runs: list[Run] = []
        with outcome:
            progress.begin(f"{args.scenario} {line.name}, {number} of {len(lines)}")
            for _ in range(args.runs):
                runs.append(one_run(line))
        if runs:
            parts.append(
                Part(
                    scenario=args.scenario,
                    name=line.name,
                    about=line.about,
                    settings=line.settings,
                    runs=runs,
                    holds=line.holds,
                )
            )
        if outcome.is_interrupted:
            break
    return parts


def one_run(line: Line) -> Run:
    """One run, announced when it is done; a failure says of which line it is."""
    try:
        result = alone(line.measure())
    except (BenchError, ServerFailed) as error:
        raise BenchError(f"{line.name}: {error}") from None
    say(f"{line.name}: the target {'holds' if line.holds(result) else 'does not hold'}")
    return result


def show(args: argparse.Namespace, parts: list[Part]) -> None:
    """Everything measured: a table, or an array of objects."""
    if args.json:
        print_json([as_json(part) for part in parts])
    else:
        print(f"{args.scenario}: {ISOLATION[args.scenario]} (milliseconds)")
        first = "BESIDE" if args.scenario == NEIGHBOUR else "RMS"
        print_table(*table(first, COLUMNS[args.scenario], parts))
