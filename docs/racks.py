"""Draw docs/topology.svg: a gang that waits until it fits into one rack, and is then placed there.

    python docs/racks.py            write the picture
    python docs/racks.py --check    compare only; exit 1 where it differs

A real server schedules the gang. The nodes are drawn while the gang waits, and again after the end of one
other allocation.
"""

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from licorne import TaskGroup
from licorne_server.telemetry.logs import set_up
from licorne_server.testing import FakeRM, serve

PICTURE = Path(__file__).with_name("topology.svg")
CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        properties: {topology.levels: rack}
        queues:
          - name: default
"""
CORES, NODES = 3, 4
FREE = {"rack-1": (1, 1, 1, 0), "rack-2": (2, 0, 1, 0), "rack-3": (0, 1, 0, 1)}
"""Free cores on the nodes of each rack before the gang is submitted."""

GANG = "train"
WORKERS = TaskGroup(name="workers", members=4, resources={"vcore": 1000})

WIDTH, MARGIN, GAP, PAD = 880, 14, 14, 14
CARD = (WIDTH - 2 * MARGIN - (len(FREE) - 1) * GAP) // len(FREE)
HEAD, NODE, SLOT, BETWEEN = 36, 32, 20, 6
SLOTS_AT = 96
STEP = HEAD + NODES * NODE + PAD

STYLE = """\
text { font: 12px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
.rm { font-size: 14px; font-weight: 600 }
.dim { fill: #59636e }
.end { text-anchor: end }
.card { fill: #ffffff; stroke: #d0d7de }
.free { fill: none; stroke: #8c959f; stroke-dasharray: 3 2 }
.other { fill: #b6c2cf }
.gang { fill: #2da44e }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .dim { fill: #9198a1 }
  .card { fill: #0d1117; stroke: #3d444d }
  .free { stroke: #6e7681 }
  .other { fill: #57748f }
  .gang { fill: #3fb950 }
}"""

Taken = Mapping[str, tuple[int, int]]
"""By node: cores that others use, and cores that the gang uses."""


async def looks() -> list[tuple[str, Taken]]:
    """Both states: the server's explanation, and the nodes."""
    async with serve(CONFIG) as server, FakeRM(server.target, patience=240.0) as rm:
        for rack in FREE:
            await rm.add_nodes(NODES, prefix=rack, attributes={"rack": rack}, vcore=CORES * 1000)
        await rm.submit("others")
        keys: list[str] = []
        for rack, free in FREE.items():
            for number, left in enumerate(free, 1):
                node = f"{rack}-{number}"
                keys += await rm.ask("others", CORES - left, required_node=node, vcore=1000)
        before = await rm.allocated(len(keys))
        await rm.submit(GANG, task_groups=[WORKERS], topology="required=rack")
        waits = await explained(rm)
        found = [(waits, taken(before))]
        ends = next(key for key in keys if before[key] == "rack-2-2")
        await rm.release([ends])
        after = await rm.allocated(len(keys) - 1 + WORKERS.members)
        starts = f"{ends} of {before[ends]} ends: all {WORKERS.members} start in that rack, in one turn"
        return [*found, (starts, taken(after))]


async def explained(rm: FakeRM) -> str:
    """The check that blocks the gang, in the words of `licorne explain`."""
    while True:
        report = await rm.client.state.explain(application_id=GANG)
        for check in report.checks:
            if check.kind == "topology" and not check.passed:
                return check.message
        await asyncio.sleep(0.01)


def taken(allocations: Mapping[str, str]) -> Taken:
    """Cores in use on each node, from the node of each allocation key."""
    others = Counter(node for key, node in allocations.items() if not key.startswith(GANG))
    gang = Counter(node for key, node in allocations.items() if key.startswith(GANG))
    return {node: (others[node], gang[node]) for node in {*others, *gang}}


def text(x: float, y: float, content: str, kind: str = "") -> str:
    """A text element with its baseline at `y`."""
    mark = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{mark}>{escape(content)}</text>'


def slots(x: float, y: float, others: int, gang: int) -> Iterator[str]:
    """A square for each core: used by others, used by the gang, or free."""
    kinds = ["other"] * others + ["gang"] * gang
    for number in range(CORES):
        kind = kinds[number] if number < len(kinds) else "free"
        left = x + number * (SLOT + BETWEEN)
        yield f'<rect x="{left:g}" y="{y:g}" width="{SLOT}" height="{SLOT}" rx="3" class="{kind}"/>'


def rack(name: str, nodes: Taken, x: float, y: float) -> Iterator[str]:
    """A card with the nodes of a rack."""
    yield f'<g transform="translate({x:g} {y:g})">'
    yield f'<rect width="{CARD}" height="{HEAD + NODES * NODE + PAD - GAP:g}" rx="6" class="card"/>'
    yield text(PAD, 23, name, "rm")
    free = sum(CORES - sum(nodes.get(f"{name}-{number}", (0, 0))) for number in range(1, NODES + 1))
    yield text(CARD - PAD, 23, f"{free} free", "dim end")
    for number in range(1, NODES + 1):
        node, top = f"{name}-{number}", HEAD + (number - 1) * NODE
        yield text(PAD, top + 15, node, "dim")
        yield from slots(SLOTS_AT, top, *nodes.get(node, (0, 0)))
    yield "</g>"


def draw(found: Sequence[tuple[str, Taken]]) -> str:
    """The picture as SVG: the racks before and after, each with the server's explanation above."""
    lines: list[str] = []
    y: float = MARGIN
    for sentence, nodes in found:
        lines.append(text(MARGIN, y + 14, sentence))
        y += 28
        for number, name in enumerate(FREE):
            lines += rack(name, nodes, MARGIN + number * (CARD + GAP), y)
        y += STEP
    height = y + 22
    for number, (kind, meaning) in enumerate(
        (("gang", "member of the gang"), ("other", "other work"), ("free", "free core"))
    ):
        left = MARGIN + number * 180
        lines.append(f'<rect x="{left}" y="{y:g}" width="12" height="12" rx="2" class="{kind}"/>')
        lines.append(text(left + 20, y + 11, meaning, "dim"))
    size = f'viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}"'
    title = "A gang of four waits until one rack has room for all of it"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    return (
        "\n".join((head, f"<title>{title}</title>", f"<style>\n{STYLE}\n</style>", *lines, "</svg>")) + "\n"
    )


def main() -> int:
    """Write or compare the picture; returns 1 if it differs."""
    parser = argparse.ArgumentParser(description="Draw docs/topology.svg.")
    parser.add_argument("--check", action="store_true", help="compare only")
    check: bool = parser.parse_args().check
    set_up("warning")
    fresh = draw(asyncio.run(looks()))
    if not check:
        PICTURE.write_text(fresh, encoding="utf-8")
        return 0
    if PICTURE.is_file() and PICTURE.read_text(encoding="utf-8") == fresh:
        return 0
    print(f"{PICTURE.name} is not what the server does: run make picture", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
