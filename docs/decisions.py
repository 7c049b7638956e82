"""Compare policies on generated loads: writes the tables of docs/policies.md, and docs/decisions.svg.

    python docs/decisions.py               all loads, as on the page
    python docs/decisions.py --jobs 100    fewer jobs, for a quick look; nothing is written
    python docs/decisions.py --traces DIR  SWF files of a folder beside textbook backfill; nothing is written

Every figure is the mean over several seeds, with its sample standard deviation. Policies with properties that
this core does not support are left out.
"""

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from licorne_server.lab.simulation.bars import percent, picture, span, work
from licorne_server.lab.simulation.figures import Figures
from licorne_server.lab.simulation.loads import LOADS, Load
from licorne_server.lab.simulation.policies import POLICIES
from licorne_server.lab.simulation.runs import Config, Run, Setup, TraceSource, play
from licorne_server.lab.simulation.traces.model import TraceError
from licorne_server.lab.simulation.traces.opening import FORMATS

PAGE = Path(__file__).with_name("policies.md")
PICTURE = Path(__file__).with_name("decisions.svg")
SEEDS = (1, 2, 3)
JOBS = {"hpc": 400, "learning": 400, "mixed": 200}
DRAWN = "hpc"
"""The load that the picture shows."""
BESIDE = ("backfill-easy", "backfill-shortest")
"""Policies that are compared with the reference of the tests on traces."""
PUBLISHED = {
    (28_481, 100): {
        "backfill-easy": "6,837 s, 92.58 (EASY of predictsim)",
        "backfill-shortest": "5,904 s, 69.41 (SJBF of predictsim)",
    }
}
"""Published mean wait and slowdown, by jobs and processors: KTH-SP2, jad-darrous/predictsim."""
FIRST = 20
"""Maximum number of differing jobs to print for a trace."""
TABLE = re.compile(r"(<!-- made: (?P<name>[a-z]+) -->\n).*?(?=<!-- end -->)", re.DOTALL)
"""A generated table of the page, between its markers."""

Value = Callable[[Figures], float]
Text = Callable[[float], str]
COLUMNS: Sequence[tuple[str, Value, Text]] = (
    ("Mean wait", lambda one: one.wait_mean, span),
    ("p50", lambda one: one.wait_p50, span),
    ("p99", lambda one: one.wait_p99, span),
    ("Slowdown", lambda one: one.slowdown_mean, lambda value: f"{value:.1f}"),
    ("Used", lambda one: one.utilisation, percent),
    ("Below guarantee", lambda one: one.below_guarantee, span),
    ("Gang timeouts", lambda one: one.gang_timeouts, lambda value: f"{value:.0f}"),
    ("Makespan", lambda one: one.makespan, span),
)
LOST = "Lost work"


def main(words: Sequence[str] | None = None) -> int:
    """Simulate all loads, and write the page and its picture; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--jobs", type=int, default=0, help="of each load or trace; prints only")
    parser.add_argument("--traces", type=Path, help="folder of SWF files to compare with EASY; prints only")
    args = parser.parse_args(words)
    begin = time.process_time()
    if args.traces is not None:
        return beside_easy(args.traces, args.jobs)
    tables = {"policies": policies()}
    for load in LOADS.values():
        jobs = args.jobs or JOBS[load.name]
        found = measured(load, jobs)
        tables[load.name] = table(load, jobs, found)
        print(tables[load.name], flush=True)
        if load.name == DRAWN and not args.jobs:
            means = [(name, mean_of(each)) for name, each in found.items()]
            title = f"load:{load.name}, {jobs} jobs, means over {len(SEEDS)} seeds"
            PICTURE.write_text(picture(title, means), encoding="utf-8")
    if not args.jobs:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), tables), encoding="utf-8")
    print(f"{time.process_time() - begin:.0f} s of CPU", file=sys.stderr)
    return 0


def beside_easy(folder: Path, most: int) -> int:
    """Print a row for each SWF file and cluster shape, and the jobs that differ; returns the exit code."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    # The reference is a part of the tests, which are not installed.
    from support.textbook import compared

    files = sorted(folder.glob("*.swf*")) if folder.is_dir() else []
    if not files:
        print(f"decisions: {folder} has no SWF files (*.swf, *.swf.gz)", file=sys.stderr)
        return 1
    print(
        "| Trace | Policy | Nodes | Jobs | Mean wait, reference | Slowdown, reference | Published | Differ |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for path in files:
        trace = FORMATS["swf"]((path,))
        try:
            source = TraceSource(trace)
        except (OSError, TraceError) as error:
            print(f"decisions: {error}", file=sys.stderr)
            return 1
        if not trace.processors:
            print(f"decisions: {path.name}: its header has no MaxProcs", file=sys.stderr)
            return 1
        for nodes, policy in product((1, trace.processors), BESIDE):
            found = compared(source, trace.processors, nodes=nodes, limit=most, policy=policy)
            figures = found.run.figures
            published = PUBLISHED.get((figures.jobs, trace.processors), {}).get(policy, "-")
            print(
                f"| {path.name} | `{policy}` | {nodes} × {trace.processors // nodes} | {figures.jobs:,} "
                f"| {figures.wait_mean:,.1f}, {found.wait_mean:,.1f} s "
                f"| {figures.slowdown_mean:.2f}, {found.slowdown_mean:.2f} | {published} "
                f"| {len(found.differing):,} |",
                flush=True,
            )
            for one in found.differing[:FIRST]:
                print(f"{path.name}, {policy}, {nodes} nodes: {one}", flush=True)
    return 0


def written(page: str, tables: Mapping[str, str]) -> str:
    """The page with these tables between their markers."""
    return TABLE.sub(lambda found: f"{found[1]}\n{tables[found['name']]}\n", page)


def measured(load: Load, jobs: int) -> dict[str, list[Figures]]:
    """Figures of each seed, by policy. Policies with equal configurations are simulated only once."""
    found: dict[str, list[Figures]] = {}
    config = Config(name="", text=load.config) if load.config else None
    setup = Setup(nodes=[load.nodes], rules=load.rules)
    for seed in SEEDS:
        source = TraceSource(load.trace(seed, jobs))
        played: dict[str, Run] = {}
        for name, policy in POLICIES.items():
            known = len(played)
            one = play(source, setup, policy, config, played)
            if len(played) > known:
                found.setdefault(name, []).append(one.figures)
            print(f"{load.name} {seed} {name}", file=sys.stderr)
    return found


def mean_of(each: Sequence[Figures]) -> Figures:
    """Figures with the mean of each number."""
    names = [one.name for one in fields(Figures) if one.name != "resource"]
    numbers: dict[str, Any] = {name: fmean(getattr(one, name) for one in each) for name in names}
    return replace(each[0], **numbers)


def table(load: Load, jobs: int, found: Mapping[str, Sequence[Figures]]) -> str:
    """The table of a load: means and deviations, with a row for each policy."""
    resource = next(iter(found.values()))[0].resource
    lost: Text = lambda value: work(resource, value)  # noqa: E731
    columns = [*COLUMNS[:-1], (LOST, lambda one: one.lost_work, lost), COLUMNS[-1]]
    names = [column for column, _, _ in columns]
    lines = [f"| Policy | {' | '.join(names)} |", f"|---{'|---' * len(names)}|"]
    for name, each in found.items():
        cells = (cell([value(one) for one in each], text) for _, value, text in columns)
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    size = f"{jobs} jobs on {load.nodes.number} nodes, {len(SEEDS)} seeds; used and lost: `{resource}`."
    return "\n".join([*lines, "", size, ""])


def cell(values: Sequence[float], text: Text) -> str:
    """Mean and sample standard deviation; only the value if all are equal."""
    middle, spread = text(fmean(values)), text(stdev(values))
    return middle if len(set(values)) == 1 else f"{middle} ± {spread}"


def policies() -> str:
    """The table of the policies and their properties."""
    return "\n".join(["| Policy | Meaning | Properties of root |", "|---|---|---|", *_policies(), ""])


def _policies() -> Iterator[str]:
    for policy in POLICIES.values():
        properties = ", ".join(f"`{name}: {value}`" for name, value in policy.properties.items())
        yield f"| `{policy.name}` | {policy.summary} | {properties} |"


if __name__ == "__main__":
    sys.exit(main())
