"""`licorne bench workers` and `licorne bench failover`: several members, and the failure of an owner."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from licorne_cli.failures import UsageError
from licorne_cli.output.text import print_json, print_table, say, while_read
from licorne_cli.parsing.parser import positive
from licorne_server.commands.server_process import ServerFailed
from licorne_tools.bench.driver import BenchError, Progress
from licorne_tools.bench.failover import failover
from licorne_tools.bench.installation import this_build
from licorne_tools.bench.members import shared
from licorne_tools.bench.report import NOTHING, Run, environment, runs_as_json, summary
from licorne_tools.bench.runs import alone
from licorne_tools.bench.scenarios import Scenario
from licorne_tools.commands.outcome import Alone, Outcome, each, shown

WORKERS, FAILOVER = "workers", "failover"
COUNTS = {WORKERS: (1, 2, 4), FAILOVER: (2,)}
"""Default numbers of workers, or of members that may own the RM."""

LOCAL, ETCD = "local", "etcd"

RMS = 8
KILLS = 10
MEMBERS = {
    WORKERS: f"{RMS} RMs on 1, 2 and 4 workers",
    FAILOVER: "time from the death of an owner on, of an RM with 20,000 allocations",
}
"""The scenarios and their descriptions; `all` does not include them."""

COLUMNS = {
    WORKERS: {
        "RATE": "allocations_per_second",
        "CPU US": "cpu_us_per_allocation",
        "BUSIEST S": "worker_1_cpu_seconds",
        "2ND": "worker_2_cpu_seconds",
        "3RD": "worker_3_cpu_seconds",
        "4TH": "worker_4_cpu_seconds",
        "SUPERVISOR S": "supervisor_cpu_seconds",
        "WITH A CORE EACH": "with_a_core_each_per_second",
    },
    FAILOVER: {
        "KILLS": "kills",
        "WELCOME P50 MS": "welcome_p50_ms",
        "WELCOME P99": "welcome_p99_ms",
        "WELCOME WORST": "welcome_worst_ms",
        "REPLAYED P50": "replayed_p50_ms",
        "REPLAYED P99": "replayed_p99_ms",
        "REPLAYED WORST": "replayed_worst_ms",
        "ALLOCATION P50": "failover_p50_ms",
        "ALLOCATION P99": "failover_p99_ms",
        "ALLOCATION WORST": "failover_worst_ms",
    },
}
"""The columns of the tables, and their measures."""

ALONE = Alone(
    MEMBERS,
    own=("workers", "kills", "store"),
    refused=("batch", "sort", "wire", "profile", "against", "report", "pictures"),
)


@dataclass(frozen=True, slots=True)
class WorkersLine:
    """A row of a table, for a number of workers."""

    workers: int

    @property
    def name(self) -> str:
        """The name of the row in messages."""
        return f"on {self.workers}"


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """Add the arguments that only these scenarios have."""
    add = group.add_argument
    add("--workers", type=positive, metavar="N", help="so many workers only, or so many members with --store")
    add("--kills", type=positive, metavar="N", help=f"failover: deaths of owners ({KILLS})")
    add(
        "--store",
        choices=(LOCAL, ETCD),
        help="failover: of the workers of a supervisor, or of members with an etcd of their own (local)",
    )


def run(args: argparse.Namespace) -> int:
    """Measure and print; returns the exit code of `licorne bench`.

    A failed row is reported and left out of the table; other rows are measured.
    """
    if args.scenario == WORKERS and args.store is not None:
        raise UsageError(f"--store is for {FAILOVER} only")
    progress, outcome = Progress(), Outcome()
    lines = [WorkersLine(workers) for workers in ([args.workers] if args.workers else COUNTS[args.scenario])]
    say(str(this_build()))
    results: dict[WorkersLine, list[Run]] = {}
    with shown(progress):
        for line in each(args.scenario, lines, progress, outcome):
            with outcome:
                for _ in range(args.runs):
                    run = one_run(args, line, progress)
                    results.setdefault(line, []).append(run)
    if results:
        with while_read():
            show(args, results)
    return outcome.code


def scenario_of(args: argparse.Namespace) -> Scenario:
    """The load of each RM."""
    usual = {WORKERS: (500, 10_000), FAILOVER: (1_000, 20_000)}
    nodes, pods = usual[args.scenario]
    shape = Scenario(args.scenario, MEMBERS[args.scenario], queues=2, apps=5, asks=pods // 10, nodes=nodes)
    return shape.scaled(nodes=args.nodes, pods=args.pods)


def one_run(args: argparse.Namespace, line: WorkersLine, progress: Progress) -> Run:
    """Make one run of a row; a failure names the row."""
    scenario = scenario_of(args)
    work = (
        shared(line.workers, RMS, scenario, progress)
        if args.scenario == WORKERS
        else failover(args.store or LOCAL, line.workers, args.kills or KILLS, scenario, progress)
    )
    try:
        return alone(work)
    except (BenchError, ServerFailed) as error:
        raise BenchError(f"{args.scenario} {line.name}: {error}") from None


def show(args: argparse.Namespace, results: Mapping[WorkersLine, Sequence[Run]]) -> None:
    """Print a table or, with `--json`, an array of objects."""
    if args.json:
        print_json([as_json(args, line, runs) for line, runs in results.items()])
        return
    columns = COLUMNS[args.scenario]
    print(f"{args.scenario}: {MEMBERS[args.scenario]}")
    print_table(
        ["MEMBERS" if args.store == ETCD else "WORKERS", *columns],
        [[str(one.workers), *cells(columns, runs)] for one, runs in results.items()],
    )


def cells(columns: Mapping[str, str], runs: Sequence[Run]) -> Iterator[str]:
    """The figures of a row: medians, with their spread if there were several runs."""
    found = summary(runs)
    for measure in columns.values():
        yield found[measure].quoted() if measure in found else NOTHING


def as_json(args: argparse.Namespace, line: WorkersLine, runs: Sequence[Run]) -> dict[str, Any]:
    """A row as JSON."""
    scenario = scenario_of(args)
    return {
        "scenario": args.scenario,
        "name": line.name,
        "about": scenario.about,
        "store": args.store or LOCAL,
        "workers": line.workers,
        "nodes": scenario.nodes,
        "pods": scenario.pods,
        **runs_as_json(runs),
        "environment": environment(),
    }
