"""``licorne simulate TRACE...``: policies and configurations compared on a workload, in virtual time."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import Final

from licorne_cli.config.files import located
from licorne_cli.failures import OK, REFUSED, USAGE, RefusedError, UsageError
from licorne_cli.output.text import (
    NOTHING,
    counted,
    folded,
    human_resources,
    print_json,
    print_table,
    say,
    terminal_width,
    while_read,
)
from licorne_core.config.caps import MAX_BYTES
from licorne_core.values.errors import ConfigError
from licorne_server.lab.simulation.bars import percent, picture, span, work
from licorne_server.lab.simulation.cluster import EXAMPLE, NodeKind, parse_nodes, recorded, total
from licorne_server.lab.simulation.figures import quantile, recorded_waits
from licorne_server.lab.simulation.loads import DEFAULT_JOBS, LOADS, Load
from licorne_server.lab.simulation.playing import DEFAULT_GANG_TIMEOUT, SimulationError
from licorne_server.lab.simulation.policies import POLICIES
from licorne_server.lab.simulation.rules import load_rules
from licorne_server.lab.simulation.runs import Config, Run, Setup, TraceSource, play
from licorne_server.lab.simulation.traces.model import Trace, TraceError
from licorne_server.lab.simulation.traces.opening import FORMATS, open_trace

MADE = "load:"
"""Prefix of the name of a generated load."""
EXAMPLES = (
    ("licorne simulate jobs.swf", "a trace of a batch system, under the usual policies"),
    (
        "licorne simulate jobs.swf --nodes 64xvcore=32,memory=128Gi --policy fifo --policy fair",
        "two policies on nodes of your own",
    ),
    (
        "licorne simulate jobs.swf --map map.yaml --config now.yaml --config new.yaml",
        "two configurations of yours; the map names the queue of each job",
    ),
    (f"licorne simulate {MADE}hpc --limit 300 --picture hpc.svg", "a made load, and a picture"),
)
USUAL = ("fifo", "priority", "fair", "fair-preempting", "backfill-easy")
"""Policies that are compared by default, if this core supports them."""
HEADERS = ("RUN", "WAIT", "P50", "P99", "SLOWDOWN", "USED", "MAKESPAN", "CHANGE")
RECORDED = "as recorded"


MOST: Final = 1e6
"""Upper bound of factors and times in arguments."""
MOST_REASONS: Final = 3
"""Maximum number of reasons for rejections that are shown for a run."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `licorne simulate`."""
    add = parser.add_argument
    add(
        "traces",
        nargs="+",
        metavar="TRACE",
        help=f"files or folders of one trace, plain or by gzip, or a made load: "
        f"{', '.join(MADE + name for name in LOADS)}",
    )
    add("--format", choices=FORMATS, help="of the files (default: found in them)")
    add(
        "--nodes",
        action="append",
        type=_nodes,
        metavar="NODES",
        help=f"of the cluster, such as {EXAMPLE}; repeatable (default: the size that the trace names)",
    )
    add("--map", type=Path, metavar="FILE", help="rules: queues of jobs, and sizes of the trace's units")
    add("--config", action="append", type=Path, default=[], metavar="FILE", help="queues; repeatable")
    add(
        "--policy",
        action="append",
        choices=POLICIES,
        default=[],
        metavar="NAME",
        help=f"settings to compare; repeatable: {', '.join(POLICIES)} "
        f"(default: {', '.join(_usual())}, or none with --config)",
    )
    add("--seed", type=int, default=1, metavar="N", help="of a made load (%(default)s)")
    add(
        "--load", type=_factor, default=1.0, metavar="FACTOR", help="submit jobs so much faster (%(default)g)"
    )
    add(
        "--limit",
        type=_count,
        default=0,
        metavar="N",
        help=f"play the first N jobs ({DEFAULT_JOBS:,} of a made load)",
    )
    add(
        "--gang-timeout",
        type=_factor,
        default=DEFAULT_GANG_TIMEOUT,
        metavar="SECONDS",
        help="that a gang keeps room for some of its members, before it gives up and is submitted "
        "again (%(default)g)",
    )
    add("--json", action="store_true", help="print JSON with raw numbers")
    add("--picture", type=Path, metavar="FILE", help="write a picture of the comparison (SVG)")


def run(args: argparse.Namespace) -> int:
    """Play all runs and print their figures; returns the exit code.

    0: all were played; 1: a file or an argument cannot be used; 4: the core refuses a configuration or
    every job.
    """
    try:
        load, trace = _trace(args)
        source = TraceSource(trace)
        setup = _setup(args, load, source)
        runs = list(_runs(args, source, setup, _configs(args, load)))
        if args.picture:
            title = f"{_title(args)}: {counted(runs[0].figures.jobs, 'job')}"
            drawn = picture(title, [(one.name, one.figures) for one in runs])
            args.picture.write_text(drawn, encoding="utf-8")
    except UsageError as error:
        say(str(error))
        return USAGE
    except OSError as error:
        say(f"licorne simulate: {error.filename}: {error.strerror}")
        return USAGE
    except (TraceError, ValueError) as error:
        say(f"licorne simulate: {error}")
        return USAGE
    except RefusedError as error:
        for line in error.lines:
            say(line)
        return REFUSED
    with while_read():
        if args.json:
            print_json(_as_json(args, setup, runs))
        else:
            _print(args, setup, runs)
    return OK


# Arguments, workload and runs.


def _nodes(text: str) -> NodeKind:
    try:
        return parse_nodes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _factor(text: str) -> float:
    value = float(text)
    if not 0 < value < MOST:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and {MOST:g}")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return value


def _usual() -> list[str]:
    return [name for name in USUAL if name in POLICIES]


def _trace(args: argparse.Namespace) -> tuple[Load | None, Trace]:
    """The trace, and the load from which it was generated, or None."""
    names = [word for word in args.traces if word.startswith(MADE)]
    if not names:
        return None, open_trace([Path(word) for word in args.traces], args.format or "")
    if len(args.traces) > 1:
        raise UsageError(f"licorne simulate: {names[0]} is a trace by itself")
    load = LOADS.get(names[0].removeprefix(MADE))
    if load is None:
        known = ", ".join(MADE + name for name in LOADS)
        raise UsageError(f"licorne simulate: there is no load {names[0]}, only {known}")
    return load, load.trace(args.seed, args.limit or DEFAULT_JOBS)


def _setup(args: argparse.Namespace, load: Load | None, source: TraceSource) -> Setup:
    nodes = args.nodes or []
    if not nodes and load is not None:
        nodes = [load.nodes]
    if not nodes:
        of_trace = recorded(source.trace.nodes, source.trace.processors)
        if of_trace is None:
            raise UsageError(
                f"licorne simulate: the trace does not name its nodes: give them, as --nodes {EXAMPLE}"
            )
        nodes = [of_trace]
    rules = None if load is None else load.rules
    if args.map is not None:
        try:
            rules = load_rules(_text(args.map))
        except ConfigError as error:
            raise UsageError("\n".join(located(str(args.map), error.problems))) from None
    return Setup(nodes=nodes, rules=rules, gang_timeout=args.gang_timeout, load=args.load, limit=args.limit)


def _configs(args: argparse.Namespace, load: Load | None) -> list[Config]:
    if not args.config and load is not None and load.config:
        return [Config(name="", text=load.config)]
    return [Config(name=str(path), text=_text(path)) for path in args.config]


def _text(path: Path) -> str:
    with path.open("rb") as stream:
        content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise UsageError(f"{path}: more than {MAX_BYTES} bytes")
    return content.decode("utf-8", "surrogateescape")


def _runs(
    args: argparse.Namespace, source: TraceSource, setup: Setup, configs: Sequence[Config]
) -> Iterator[Run]:
    """Play every configuration under every policy; a line on stderr reports the end of each run.

    Raises:
        RefusedError: the core refuses a configuration, or all jobs.
    """
    names = args.policy or ([] if args.config else _usual())
    policies = [POLICIES[name] for name in names]
    played: dict[str, Run] = {}
    for config, policy in product(configs or (None,), policies or (None,)):
        begin = perf_counter()
        try:
            one = play(source, setup, policy, config, played)
        except ConfigError as error:
            file = "licorne simulate" if config is None else config.name
            raise RefusedError(located(file, error.problems)) from None
        except SimulationError as error:
            raise RefusedError([f"licorne simulate: {error}"]) from None
        _judge(one)
        seconds, jobs = max(perf_counter() - begin, 1e-6), one.figures.jobs
        say(f"{one.name}: {counted(jobs, 'job')} in {seconds:.1f} s, {jobs / seconds:,.0f} a second")
        yield one


def _judge(one: Run) -> None:
    """Raise RefusedError if no job of the run could be played, or all were rejected."""
    if not one.figures.jobs:
        reasons = ", ".join(_left_out(one)) or "the trace is empty"
        raise RefusedError([f"licorne simulate: no job can be played: {reasons}"])
    if one.figures.rejected == one.figures.jobs:
        reason = next(iter(one.outcome.rejections))
        raise RefusedError([f"{one.name}: every job is rejected, the first ones as: {reason}"])


# Output.


def _title(args: argparse.Namespace) -> str:
    return " ".join(Path(word).name if not word.startswith(MADE) else word for word in args.traces)


def _left_out(one: Run) -> list[str]:
    return [
        f"{counted(number, 'job')} ({reason})" for reason, number in sorted(one.workload.left_out.items())
    ]


def _print(args: argparse.Namespace, setup: Setup, runs: Sequence[Run]) -> None:
    workload = runs[0].workload
    seconds = workload.jobs[-1].submit - workload.jobs[0].submit
    users = counted(len({job.user for job in workload.jobs}), "user")
    nodes = ", ".join(f"{kind.number} nodes with {human_resources(kind.capacity)}" for kind in setup.nodes)
    print(f"{counted(len(workload.jobs), 'job')} of {_title(args)}, submitted in {span(seconds)} by {users}")
    print(f"on {nodes}")
    for line in _left_out(runs[0]):
        print(f"left out: {line}")
    print()
    rows = [_row(one, runs[0]) for one in runs]
    waits = recorded_waits(runs[0].outcome.courses)
    if waits:
        of_trace = (fmean(waits), quantile(waits, 0.5), quantile(waits, 0.99))
        rows.insert(0, [RECORDED, *map(span, of_trace), *[NOTHING] * (len(HEADERS) - 4)])
    print_table(HEADERS, rows)
    print()
    for note in _notes(runs):
        print("\n  ".join(folded(note, terminal_width(), terminal_width() - 2)))


def _row(one: Run, first: Run) -> list[str]:
    figures, before = one.figures, first.figures.wait_mean
    return [
        one.name,
        span(figures.wait_mean),
        span(figures.wait_p50),
        span(figures.wait_p99),
        f"{figures.slowdown_mean:,.1f}",
        percent(figures.utilisation),
        span(figures.makespan),
        f"{(figures.wait_mean - before) / before:+,.0%}" if one is not first and before else NOTHING,
    ]


def _notes(runs: Sequence[Run]) -> Iterator[str]:
    """Notes on the columns and runs, and on failures."""
    resource, first = runs[0].figures.resource, runs[0]
    yield "WAIT: mean by job, submission to end without the run time; P50 and P99 of it."
    yield "SLOWDOWN: mean of (wait + run) / run."
    yield f"USED: of {resource}, while jobs were submitted. MAKESPAN: until the last job ended."
    yield f"CHANGE: of WAIT, compared with {first.name}."
    if first.workload.ignores_memory:
        yield "The memory that jobs requested is ignored, as the nodes have none: --nodes gives them some."
    for one in runs:
        policy = POLICIES.get(one.name.rpartition(" ")[2])
        if policy is not None:
            made = f"; {policy.of_made}" if one.name == policy.name and one.is_made else ""
            yield f"{one.name}: {policy.summary}{made}"
        figures = one.figures
        if figures.gang_timeouts:
            times = counted(figures.gang_timeouts, "time")
            yield f"{one.name}: gangs with room for only some members gave it up {times} (--gang-timeout)"
        if figures.below_guarantee:
            below = span(figures.below_guarantee)
            yield f"{one.name}: queues with waiting asks had less than their guarantee for {below}"
        if figures.preempted:
            lost = work(figures.resource, figures.lost_work)
            victims = counted(figures.preempted, "member")
            yield f"{one.name}: {victims} stopped for others, after {lost} of {resource}, which is lost"
        if figures.waiting:
            yield f"{one.name}: {counted(figures.waiting, 'job')} never started, or never ended"
        for reason, number in one.outcome.rejections.most_common(MOST_REASONS):
            yield f"{one.name}: rejected {counted(number, 'job')}: {reason}"


def _as_json(args: argparse.Namespace, setup: Setup, runs: Sequence[Run]) -> dict[str, object]:
    waits = recorded_waits(runs[0].outcome.courses)
    return {
        "trace": _title(args),
        "seed": args.seed,
        "load": args.load,
        "nodes": [{"count": kind.number, "capacity": dict(kind.capacity)} for kind in setup.nodes],
        "capacity": dict(total(setup.nodes)),
        "leftOut": {reason.name: number for reason, number in sorted(runs[0].workload.left_out.items())},
        "recordedWaits": waits and {"jobs": len(waits), "mean": fmean(waits), "p50": quantile(waits, 0.5)},
        "runs": [
            {"name": one.name, **_camel(asdict(one.figures)), "rejections": dict(one.outcome.rejections)}
            for one in runs
        ],
    }


def _camel(fields: dict[str, object]) -> dict[str, object]:
    def name(field: str) -> str:
        first, *others = field.split("_")
        return first + "".join(map(str.capitalize, others))

    return {name(field): value for field, value in fields.items()}
