"""Draw docs/backfill.svg: a gang on six nodes, with and without backfill, as a real scheduler places it.

    python docs/backfill.py            write the picture
    python docs/backfill.py --check    compare only; exit 1 where it differs

A core in virtual time gets jobs for one node each, and a gang of four. Each ends after its declared runtime.
The same source gives the same picture.
"""

import argparse
import sys
from collections.abc import Iterator
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple

from licorne_core.config import load
from licorne_core.extensions.backfill.extension import starts_of
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
from licorne_core.messages.effects import AllocationsMade
from licorne_core.scheduler import Scheduler
from licorne_core.values.asks import Ask, AskClass
from licorne_core.values.ids import AllocationKey, AppId, NodeId, PartitionName, RmId, UserGroup
from licorne_core.values.tags import RUNTIME

PICTURE = Path(__file__).with_name("backfill.svg")
RM, DEFAULT, BEGIN = RmId("cluster"), PartitionName("[cluster]default"), 1_704_067_200.0
TEXT = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        properties: {{backfill: "{mode}"}}
        queues: [{{name: jobs}}]
"""
NODES, MINUTES, GANG, GANG_AT, MEMBERS, GANG_RUNS = 6, 60, "gang", 5, 4, 20
JOBS = (12, 18, 25, 9, 15, 7, 10, 22, 8, 14, 11, 6, 17, 9, 13, 10, 8, 12, 7, 16)
"""Runtimes of the jobs in minutes. Six are submitted at the start, then one every two minutes."""


class Bar(NamedTuple):
    """A use of a node: its kind, and begin and end in minutes."""

    node: int
    begin: float
    end: float
    tone: str


class Run(NamedTuple):
    """The result of an hour: the bars, the minute of the gang's start, and that of its first shadow start."""

    bars: list[Bar]
    whole: int
    told: float | None


def played(mode: str) -> Run:
    """Simulate an hour with a backfill mode. The gang starts when all its placeholders are allocated."""
    core, bars, told, whole = Scheduler(), list[Bar](), None, 0
    held: list[tuple[int, int, str]] = []
    ends: list[tuple[float, str, str]] = []
    size = {"vcore": 1000}
    core.handle(RegisterRm(rm_id=RM, config=load(TEXT.format(mode=mode))), BEGIN)
    core.handle(
        UpdateNodes(
            rm_id=RM,
            nodes=[
                NodeUpdate(node_id=NodeId(f"n{number}"), action=NodeAction.CREATE, capacity=size)
                for number in range(NODES)
            ],
        ),
        BEGIN,
    )
    for minute in range(MINUTES + 1):
        now = BEGIN + minute * 60.0
        gone = [heappop(ends) for _ in ends[:] if ends[0][0] <= minute]
        releases = [ReleaseRequest(app_id=AppId(app), key=AllocationKey(key)) for _, app, key in gone]
        core.handle(UpdateAllocations(rm_id=RM, releases=releases), now)
        for app, runs, members in coming(minute):
            submit(core, app, runs, members, now)
        for made in decided(core, now):
            for one in made.allocations:
                end, place = minute + int(one.ask.tags[RUNTIME]) / 60, int(one.node_id[1:])
                if one.ask.app_id == GANG:
                    held.append((place, minute, one.key))
                else:
                    heappush(ends, (end, one.ask.app_id, one.key))
                    passes = minute >= GANG_AT and not whole
                    bars.append(Bar(place, minute, end, "passes" if passes else "job"))
        if len(held) == MEMBERS and not whole:
            whole = minute
            for place, begin, key in held:
                heappush(ends, (whole + GANG_RUNS, GANG, key))
                bars.append(Bar(place, begin, whole, "held"))
                bars.append(Bar(place, whole, whole + GANG_RUNS, "gang"))
        for shadow in starts_of(core.partitions[DEFAULT]).shadows:
            if told is None and shadow.app.app_id == GANG:
                told = (shadow.first_told - BEGIN) / 60
    return Run(bars, whole, told)


def coming(minute: int) -> Iterator[tuple[str, int, int]]:
    """The applications of a minute: name, runtime in minutes, and number of members, 0 for a single job."""
    if minute == GANG_AT:
        yield GANG, GANG_RUNS, MEMBERS
    for number, runs in enumerate(JOBS):
        if minute == max(0, 2 * (number - NODES + 1)):
            yield f"job-{number}", runs, 0


def submit(core: Scheduler, name: str, runs: int, members: int, now: float) -> None:
    """Submit an application with its asks; `runs` is the runtime in minutes."""
    tags = {RUNTIME: str(runs * 60)}
    app = NewApplication(
        app_id=AppId(name),
        queue_name="root.jobs",
        user=UserGroup("ann"),
        tags=tags,
        placeholder_ask={"vcore": 1000 * members} if members else {},
    )
    core.handle(UpdateApplications(rm_id=RM, new=[app]), now)
    asks = [
        Ask(
            key=AllocationKey(f"{name}-{number}"),
            app_id=AppId(name),
            ask_class=AskClass.of({"vcore": 1000}),
            placeholder=members > 0,
            task_group="members" if members else "",
            tags=tags,
        )
        for number in range(max(1, members))
    ]
    core.handle(UpdateAllocations(rm_id=RM, asks=asks), now)


def decided(core: Scheduler, now: float) -> Iterator[AllocationsMade]:
    """The allocations that the core makes until nothing is due at `now`."""
    while (due := core.next_deadline()) is not None and due <= now:
        for effect in core.handle(Tick(decisions=64), now):
            if isinstance(effect, AllocationsMade):
                yield effect


WIDTH, LEFT, RIGHT, ROW, TOP, BETWEEN = 880, 46, 14, 20, 50, 62
LABEL = 'aria-label="A gang of four on six nodes, without and with backfill"'
STYLE = """\
text { font: 12px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
.dim { fill: #59636e }
.end { text-anchor: end }
.middle { text-anchor: middle }
.row { fill: #eff2f5 }
.job { fill: #6cb6ff }
.passes { fill: #4ac26b }
.gang { fill: #bc4c00 }
.held { fill: #f2c4a6 }
.told { stroke: #bc4c00; stroke-width: 1.6; stroke-dasharray: 4 3 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .dim { fill: #9198a1 }
  .row { fill: #262c36 }
  .job { fill: #316dca }
  .passes { fill: #347d39 }
  .gang { fill: #f0883e }
  .held { fill: #6b4023 }
  .told { stroke: #f0883e }
}"""
WORDS = (
    ("job", "jobs", 0),
    ("passes", "jobs that pass the waiting gang", 80),
    ("held", "held, and idle", 310),
    ("gang", "a gang of four", 440),
)


def picture() -> str:
    """The picture as SVG: the nodes over an hour, without and with backfill."""
    height = TOP + 2 * NODES * ROW + BETWEEN + 30
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" {LABEL}>',
        f"<style>{STYLE}</style>",
    ]
    for tone, words, x in WORDS:
        lines.append(f'<rect class="{tone}" x="{LEFT + x}" y="9" width="10" height="10"/>')
        lines.append(f'<text x="{LEFT + x + 16}" y="18">{words}</text>')
    for number, mode in enumerate(("off", "easy")):
        lines += chart(mode, TOP + number * (NODES * ROW + BETWEEN))
    return "\n".join([*lines, "</svg>"]) + "\n"


def chart(mode: str, top: int) -> Iterator[str]:
    """The chart of one run, with a row for each node."""
    bars, whole, told = played(mode)
    text = f"backfill: {mode}; the gang comes in minute {GANG_AT} and starts in minute {whole}"
    if told is not None:
        text += f"; it was told minute {told:.0f}"
    yield f'<text class="dim" x="{LEFT}" y="{top - 8}">{text}</text>'
    for node in range(NODES):
        y = top + node * ROW
        yield f'<text class="dim end" x="{LEFT - 8}" y="{y + 14}">n{node}</text>'
        yield f'<rect class="row" x="{LEFT}" y="{y + 2}" width="{WIDTH - LEFT - RIGHT}" height="{ROW - 4}"/>'
    for bar in bars:
        width = at(min(bar.end, MINUTES)) - at(bar.begin) - 1
        if width > 0:
            y = top + bar.node * ROW + 2
            yield (
                f'<rect class="{bar.tone}" x="{at(bar.begin):.1f}" y="{y}" '
                f'width="{width:.1f}" height="{ROW - 4}"/>'
            )
    bottom = top + NODES * ROW
    if told is not None:
        yield f'<path class="told" d="M{at(told):.1f} {top - 4}V{bottom + 4}"/>'
    for minute in range(0, MINUTES + 1, 10):
        yield f'<text class="dim middle" x="{at(minute):.0f}" y="{bottom + 18}">{minute}</text>'


def at(minute: float) -> float:
    """The x coordinate of a minute."""
    return LEFT + (WIDTH - LEFT - RIGHT) * minute / MINUTES


def main() -> None:
    """Write or compare the picture."""
    parser = argparse.ArgumentParser(description="Draw the picture of backfill.")
    parser.add_argument("--check", action="store_true", help="compare only")
    drawn = picture()
    if not parser.parse_args().check:
        PICTURE.write_text(drawn, encoding="utf-8")
    elif drawn != PICTURE.read_text(encoding="utf-8"):
        sys.exit(f"{PICTURE.name} is not what a run gives: run make picture")


if __name__ == "__main__":
    main()
