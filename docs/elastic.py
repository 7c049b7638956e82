"""Draw docs/elastic.svg: an elastic gang that grows into free nodes, and shrinks for a guaranteed queue.

    python docs/elastic.py            write the picture
    python docs/elastic.py --check    compare only; exit 1 where it differs

A core in virtual time has five nodes of four cores, jobs in one queue, and a gang in another. The RM submits
a new ask for each stopped member. The same source gives the same picture.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import count, groupby
from pathlib import Path
from typing import NamedTuple

from licorne_core.config import load
from licorne_core.extensions.elastic.terms import GANG_MAX, GANG_MIN, GANG_STEP
from licorne_core.messages.commands import (
    NewApplication,
    NodeAction,
    NodeUpdate,
    RegisterRm,
    ReleaseRequest,
    Tick,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from licorne_core.messages.effects import AllocationsMade, AllocationsReleased, Happened
from licorne_core.scheduler import Scheduler
from licorne_core.values.asks import Ask, AskClass
from licorne_core.values.ids import AllocationKey, AppId, NodeId, PartitionName, RmId, UserGroup

PICTURE = Path(__file__).with_name("elastic.svg")
RM, DEFAULT, BEGIN = RmId("cluster"), PartitionName("[cluster]default"), 1_704_067_200.0
TEXT = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: service
            resources: {guaranteed: {vcore: 12}}
            properties: {preemption.delay: 1m}
          - name: research
"""
NODES, CORES, MINUTES, QUARTERS = 5, 4, 60, 4
GANG, GANG_AT, LEAST, MOST, STEP = AppId("train"), 2, 4, 16, 4
JOBS = AppId("jobs")
ONE = AskClass.of({"vcore": 1000})
SHRUNK = "ELASTIC_SHRUNK: "
RUNS = (
    *((0, runs) for runs in (3, 4, 6, 7, 9, 10, 11, 12, 14, 15, 16, 18, 19, 99)),
    *((28, runs) for runs in (12, 12, 13, 14, 15, 15)),
    *((36, runs) for runs in (5, 6, 7)),
)
"""Minute when a job of one core is submitted, and its runtime in minutes."""


class Moment(NamedTuple):
    """Numbers of cores in use: by members of the gang, and by jobs."""

    members: int
    jobs: int


class Cluster:
    """The core, with an RM that ends jobs after their runtimes and submits stopped members again."""

    def __init__(self) -> None:
        """Register the RM, with all nodes free."""
        self.core = Scheduler()
        self._numbers = count()
        self._ends: list[tuple[float, AllocationKey]] = []
        self._lengths: dict[AllocationKey, int] = {}
        self.shrinks: list[tuple[float, str]] = []
        self.core.handle(RegisterRm(rm_id=RM, config=load(TEXT)), BEGIN)
        nodes = [
            NodeUpdate(
                node_id=NodeId(f"n{number}"), action=NodeAction.CREATE, capacity={"vcore": CORES * 1000}
            )
            for number in range(NODES)
        ]
        self.core.handle(UpdateNodes(rm_id=RM, nodes=nodes), BEGIN)
        self._submit(JOBS, "root.service")

    def _submit(self, app_id: AppId, queue: str, **tags: int) -> None:
        new = NewApplication(
            app_id=app_id,
            queue_name=queue,
            user=UserGroup("ann"),
            tags={name: str(value) for name, value in tags.items()},
        )
        self.core.handle(UpdateApplications(rm_id=RM, new=[new]), BEGIN)

    def _ask(self, app_id: AppId, many: int, now: float) -> list[AllocationKey]:
        keys = [AllocationKey(f"{app_id}-{next(self._numbers):03}") for _ in range(many)]
        asks = [
            Ask(
                key=key,
                app_id=app_id,
                ask_class=ONE,
                task_group="workers" if app_id == GANG else "",
                allow_preempt_self=app_id == GANG,
                allow_preempt_other=app_id == JOBS,
            )
            for key in keys
        ]
        self.core.handle(UpdateAllocations(rm_id=RM, asks=asks), now)
        return keys

    def play(self, quarter: int) -> Moment:
        """Simulate a quarter of a minute; `quarter` counts them from 0. Returns the cores in use."""
        minute = quarter / QUARTERS
        now = BEGIN + minute * 60
        ended = [heappop(self._ends)[1] for _ in self._ends[:] if self._ends[0][0] <= minute]
        self._release(JOBS, ended, now)
        if minute == GANG_AT:
            self._submit(GANG, "root.research", **{GANG_MIN: LEAST, GANG_MAX: MOST, GANG_STEP: STEP})
            self._ask(GANG, MOST, now)
        come = [runs for at, runs in RUNS if at == minute]
        self._lengths |= zip(self._ask(JOBS, len(come), now), come, strict=True)
        self._decide(minute, now)
        views = self.core.views
        gang = views.application(DEFAULT, GANG).allocation_count if minute >= GANG_AT else 0
        return Moment(gang, views.application(DEFAULT, JOBS).allocation_count)

    def _decide(self, minute: float, now: float) -> None:
        while (due := self.core.next_deadline()) is not None and due <= now:
            for effect in self.core.handle(Tick(decisions=64), now):
                if isinstance(effect, AllocationsMade):
                    for made in effect.allocations:
                        if made.ask.app_id == JOBS:
                            heappush(self._ends, (minute + self._lengths[made.key], made.key))
                elif isinstance(effect, AllocationsReleased):
                    stopped = [one.key for one in effect.releases if one.app_id == GANG]
                    self._release(GANG, stopped, now)
                    self._ask(GANG, len(stopped), now)
                elif isinstance(effect, Happened):
                    said = [record.message for fact in effect.facts for record in fact.records()]
                    self.shrinks += [(minute, text) for text in said if text.startswith(SHRUNK)]

    def _release(self, app_id: AppId, keys: Sequence[AllocationKey], now: float) -> None:
        releases = [ReleaseRequest(app_id=app_id, key=key) for key in keys]
        self.core.handle(UpdateAllocations(rm_id=RM, releases=releases), now)


WIDTH, LEFT, RIGHT, TOP, ROW = 880, 36, 14, 54, 9
BOTTOM = TOP + NODES * CORES * ROW
STYLE = """\
text { font: 12px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
.dim { fill: #59636e }
.end { text-anchor: end }
.middle { text-anchor: middle }
.free { fill: #eff2f5 }
.least { fill: #bc4c00 }
.growth { fill: #f2a56b }
.jobs { fill: #6cb6ff }
.shrinks { stroke: #bc4c00; stroke-width: 1.6; stroke-dasharray: 4 3 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .dim { fill: #9198a1 }
  .free { fill: #262c36 }
  .least { fill: #f0883e }
  .growth { fill: #9a5a2c }
  .jobs { fill: #316dca }
  .shrinks { stroke: #f0883e }
}"""
WORDS = (
    ("least", f"the minimum, {LEAST} members", 0),
    ("growth", f"growth, in steps of {STEP}", 190),
    ("jobs", "jobs of the queue with a guarantee of 12 cores", 360),
    ("free", "free cores", 680),
)


def picture() -> str:
    """The picture as SVG: the cores of the cluster over an hour, by use."""
    cluster = Cluster()
    moments = [cluster.play(quarter) for quarter in range(MINUTES * QUARTERS)]
    label = 'aria-label="An elastic gang grows into free cores, and shrinks by whole steps"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {BOTTOM + 30}" role="img" {label}>',
        f"<style>{STYLE}</style>",
    ]
    for tone, words, x in WORDS:
        lines.append(f'<rect class="{tone}" x="{LEFT + x}" y="9" width="10" height="10"/>')
        lines.append(f'<text x="{LEFT + x + 16}" y="18">{words}</text>')
    lines.append(box("free", 0, MINUTES, 0, NODES * CORES))
    lines += areas(moments)
    for minute, text in cluster.shrinks:
        words = text.removeprefix(SHRUNK).partition(" members")[0]
        lines.append(f'<path class="shrinks" d="M{at(minute):.1f} {TOP - 8}V{BOTTOM}"/>')
        lines.append(f'<text class="dim middle" x="{at(minute):.1f}" y="{TOP - 12}">{words}</text>')
    for cores in range(0, NODES * CORES + 1, CORES):
        y = BOTTOM - cores * ROW + 4
        lines.append(f'<text class="dim end" x="{LEFT - 8}" y="{y}">{cores}</text>')
    for minute in range(0, MINUTES + 1, 10):
        lines.append(f'<text class="dim middle" x="{at(minute):.0f}" y="{BOTTOM + 18}">{minute}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def areas(moments: Sequence[Moment]) -> Iterator[str]:
    """A box for each use of cores and period without change, with the gang below and the jobs above."""
    uses = {
        "least": [(0, min(moment.members, LEAST)) for moment in moments],
        "growth": [(LEAST, moment.members - LEAST) for moment in moments],
        "jobs": [(NODES * CORES - moment.jobs, moment.jobs) for moment in moments],
    }
    for tone, cores in uses.items():
        begin = 0
        for (foot, height), same in groupby(cores):
            end = begin + len(list(same))
            if height > 0:
                yield box(tone, begin / QUARTERS, end / QUARTERS, foot, height)
            begin = end


def box(tone: str, begin: float, end: float, foot: int, height: int) -> str:
    """A box of `height` cores from `foot` upward, between two minutes."""
    y, width = BOTTOM - (foot + height) * ROW, at(end) - at(begin)
    return f'<rect class="{tone}" x="{at(begin):.1f}" y="{y}" width="{width:.1f}" height="{height * ROW}"/>'


def at(minute: float) -> float:
    """The x coordinate of a minute."""
    return LEFT + (WIDTH - LEFT - RIGHT) * minute / MINUTES


def main() -> None:
    """Write or compare the picture."""
    parser = argparse.ArgumentParser(description="Draw the picture of an elastic gang.")
    parser.add_argument("--check", action="store_true", help="compare only")
    drawn = picture()
    if not parser.parse_args().check:
        PICTURE.write_text(drawn, encoding="utf-8")
    elif drawn != PICTURE.read_text(encoding="utf-8"):
        sys.exit(f"{PICTURE.name} is not what a run gives: run make picture")


if __name__ == "__main__":
    main()
