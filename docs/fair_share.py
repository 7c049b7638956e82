"""Draw docs/fair-share.svg: three queues of a real scheduler, ordered by their decayed usage.

    python docs/fair_share.py            write the picture
    python docs/fair_share.py --check    compare only; exit 1 where it differs

A core in virtual time gets asks in three queues. Each allocation ends after five to seven minutes. The same
source gives the same picture.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from pathlib import Path

from licorne_core.config import load
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

PICTURE = Path(__file__).with_name("fair-share.svg")
RM, DEFAULT = RmId("cluster"), PartitionName("[cluster]default")
TEXT = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        properties: {fairshare.half-life: 1h}
        queues:
          - name: research
          - name: trading
          - name: adhoc
            properties: {fairshare.weight: "0.5"}
"""
QUEUES = ("research", "trading", "adhoc")
COMES = {"research": 0, "trading": 90, "adhoc": 180}
"""Minute from which each queue has pending asks."""

CORES, JOB, MINUTES, BEGIN = 30, 5, 420, 1_704_067_200.0

Samples = dict[str, list[tuple[float, float]]]
"""By queue, for each minute: cores in use, and decayed usage by weight in hours of the whole cluster."""


def played() -> Samples:
    """Simulate seven hours, minute by minute."""
    core, now, number = Scheduler(), BEGIN, 0
    core.views.now = lambda: now
    ends: list[tuple[float, str, AllocationKey]] = []
    samples: Samples = {name: [] for name in QUEUES}
    node = NodeUpdate(node_id=NodeId("n1"), action=NodeAction.CREATE, capacity={"vcore": CORES * 1000})
    core.handle(RegisterRm(rm_id=RM, config=load(TEXT)), now)
    core.handle(UpdateNodes(rm_id=RM, nodes=[node]), now)
    apps = [NewApplication(app_id=AppId(q), queue_name=f"root.{q}", user=UserGroup("ann")) for q in QUEUES]
    core.handle(UpdateApplications(rm_id=RM, new=apps), now)
    for minute in range(MINUTES + 1):
        now = BEGIN + minute * 60.0
        gone = [heappop(ends) for _ in ends[:] if ends[0][0] <= now]
        over = [ReleaseRequest(app_id=AppId(name), key=key) for _, name, key in gone]
        wanted = [name for name, comes in COMES.items() if comes <= minute]
        asks = []
        for name in wanted:
            for _ in range(len(gone) or CORES):
                number += 1
                key = AllocationKey(f"job-{number:05}")
                asks.append(Ask(key=key, app_id=AppId(name), ask_class=AskClass.of({"vcore": 1000})))
        core.handle(UpdateAllocations(rm_id=RM, asks=asks, releases=over), now)
        for effect in decided(core, now):
            for made in effect.allocations:
                # Runtimes vary by a minute or two, because equal jobs would always end together.
                length = JOB + (len(ends) + number) % 3
                heappush(ends, (now + length * 60, made.ask.app_id, made.key))
        for name in QUEUES:
            report = core.views.queue(DEFAULT, f"root.{name}")
            assert report.extended["fair_share"] is not None
            samples[name].append(
                (report.allocated.get("vcore", 0) / 1000, report.extended["fair_share"].share)
            )
    return samples


def decided(core: Scheduler, now: float) -> Iterator[AllocationsMade]:
    """The allocations that the core makes until nothing is due at `now`."""
    while (due := core.next_deadline()) is not None and due <= now:
        for effect in core.handle(Tick(decisions=64), now):
            if isinstance(effect, AllocationsMade):
                yield effect


WIDTH, LEFT, RIGHT, HEIGHT, TOP, BETWEEN = 880, 56, 14, 130, 52, 58
LABEL = 'aria-label="Cores in use and decayed usage of three queues over seven hours"'
TONES = ("one", "two", "three")
STYLE = """\
text { font: 12px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
.dim { fill: #59636e }
.end { text-anchor: end }
.middle { text-anchor: middle }
.axis { stroke: #d0d7de }
polyline { fill: none; stroke-width: 1.6 }
polyline.one { stroke: #0969da } rect.one { fill: #0969da }
polyline.two { stroke: #bc4c00 } rect.two { fill: #bc4c00 }
polyline.three { stroke: #1a7f37 } rect.three { fill: #1a7f37 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .dim { fill: #9198a1 }
  .axis { stroke: #3d444d }
  polyline.one { stroke: #58a6ff } rect.one { fill: #58a6ff }
  polyline.two { stroke: #f0883e } rect.two { fill: #f0883e }
  polyline.three { stroke: #3fb950 } rect.three { fill: #3fb950 }
}"""


def picture(samples: Samples) -> str:
    """The picture as SVG: cores in use and decayed usage over time."""
    height = TOP + 2 * HEIGHT + BETWEEN + 30
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" {LABEL}>',
        f"<style>{STYLE}</style>",
    ]
    for number, (name, tone) in enumerate(zip(QUEUES, TONES, strict=True)):
        at = LEFT + number * 150
        lines.append(f'<rect class="{tone}" x="{at}" y="9" width="10" height="10"/>')
        weight = ", weight 0.5" if name == "adhoc" else ""
        lines.append(f'<text x="{at + 16}" y="18">{name}{weight}</text>')
    most = max(share for rows in samples.values() for _, share in rows)
    charts: tuple[tuple[str, float, Callable[[tuple[float, float]], float]], ...] = (
        ("cores in use", float(CORES), lambda row: row[0]),
        ("decayed usage by weight, in hours of the whole cluster", most, lambda row: row[1]),
    )
    for number, (title, scale, value) in enumerate(charts):
        lines += chart(title, scale, value, samples, TOP + number * (HEIGHT + BETWEEN))
    return "\n".join([*lines, "</svg>"]) + "\n"


def chart(
    title: str, scale: float, value: Callable[[tuple[float, float]], float], samples: Samples, top: int
) -> Iterator[str]:
    """One chart with a line for each queue; `value` selects the number of a sample to draw."""
    bottom = top + HEIGHT
    yield f'<text class="dim" x="{LEFT}" y="{top - 6}">{title}</text>'
    yield f'<path class="axis" d="M{LEFT} {top}V{bottom}H{WIDTH - RIGHT}" fill="none"/>'
    yield f'<text class="dim end" x="{LEFT - 6}" y="{top + 10}">{scale:.3g}</text>'
    yield f'<text class="dim end" x="{LEFT - 6}" y="{bottom}">0</text>'
    for hour in range(MINUTES // 60 + 1):
        x = LEFT + (WIDTH - LEFT - RIGHT) * hour * 60 / MINUTES
        yield f'<text class="dim middle" x="{x:.0f}" y="{bottom + 16}">{hour} h</text>'
    for name, tone in zip(QUEUES, TONES, strict=True):
        yield f'<polyline class="{tone}" points="{points(samples[name], value, scale, top)}"/>'


def points(
    rows: Sequence[tuple[float, float]],
    value: Callable[[tuple[float, float]], float],
    scale: float,
    top: int,
) -> str:
    """The points of a line, one for every three minutes."""
    found = []
    for minute in range(0, MINUTES + 1, 3):
        x = LEFT + (WIDTH - LEFT - RIGHT) * minute / MINUTES
        found.append(f"{x:.1f},{top + HEIGHT * (1 - value(rows[minute]) / scale):.1f}")
    return " ".join(found)


def main() -> None:
    """Write or compare the picture."""
    parser = argparse.ArgumentParser(description="Draw the picture of fair shares.")
    parser.add_argument("--check", action="store_true", help="compare only")
    drawn = picture(played())
    if not parser.parse_args().check:
        PICTURE.write_text(drawn, encoding="utf-8")
    elif drawn != PICTURE.read_text(encoding="utf-8"):
        sys.exit(f"{PICTURE.name} is not what a run gives: run make picture")


if __name__ == "__main__":
    main()
