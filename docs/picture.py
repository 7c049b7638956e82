"""Draw docs/picture.svg: the queues of three resource managers (RMs), as a server reports them.

    python docs/picture.py            write the picture
    python docs/picture.py --check    compare only; exit 1 where it differs

The RMs are those of `licorne demo`. Each sends its nodes and its work to a real server over gRPC.
When nothing more can be placed, the queues that the server reports are drawn. Nothing depends on
speed or on the clock, so the same source gives the same picture.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

import grpc

from licorne import Ask, Client
from licorne.v1.state_pb2 import ListPartitionsRequest, ListQueuesRequest, Partition, Queue
from licorne.v1.state_pb2_grpc import StateStub
from licorne_core.config import load
from licorne_core.config.schema import NodeSortType
from licorne_core.partitions.agenda import AT_ONCE
from licorne_core.scheduler import Scheduler
from licorne_server.assembly.server import running
from licorne_server.lab.demo.world import GANG, OWNER, Submission, World, worlds
from licorne_server.process.settings import Address, Settings
from licorne_server.telemetry.logs import set_up

if TYPE_CHECKING:
    from licorne.v1.state_pb2_grpc import StateAsyncStub

PICTURE = Path(__file__).with_name("picture.svg")
SETTINGS = Settings(listen=Address(host="127.0.0.1", port=0), http=None)
PATIENCE = 30.0

# A queue without guarantee and maximum, and the number of its applications that are drawn.
SCARCE_QUEUE, SCARCE_APPLICATIONS = "root.adhoc", 1

WIDTH, MARGIN, GAP = 880, 14, 14
COLUMN = (WIDTH - 2 * MARGIN - GAP) // 2
ROW, HEAD, FOOT, PAD = 22, 34, 10, 14
NAME, BAR_WIDTH, BAR_HEIGHT = 96, 168, 10
BAR_AT = PAD + NAME
USED_AT = BAR_AT + BAR_WIDTH + 36
WAITING_AT = COLUMN - PAD

STYLE = """\
text { font: 12px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
.rm { font-size: 14px; font-weight: 600 }
.dim { fill: #59636e }
.end { text-anchor: end }
.card { fill: #ffffff; stroke: #d0d7de }
.room { fill: #e4e8ec }
.due { fill: #a6e3b4 }
.within { fill: #2da44e }
.beyond { fill: #d99a1c }
.plain { fill: #57748f }
.wall { fill: #cf222e }
.full { fill: #cf222e; font-weight: 600 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .dim { fill: #9198a1 }
  .card { fill: #0d1117; stroke: #3d444d }
  .room { fill: #262c36 }
  .due { fill: #1f5a30 }
  .within { fill: #3fb950 }
  .beyond { fill: #d29922 }
  .plain { fill: #7d99b5 }
  .wall, .full { fill: #ff7b72 }
}"""

LEGEND = (
    ("within", "used, within the guarantee"),
    ("due", "guaranteed, not used"),
    ("beyond", "used beyond the guarantee"),
    ("plain", "used, nothing guaranteed"),
    ("room", "room up to the maximum"),
    ("wall", "the maximum is reached"),
    ("", "All figures are CPU cores. The longest bar is the whole cluster."),
    ("", "Grey names: queues made by a placement rule."),
)
LEGEND_ROWS, LEGEND_ROW, LEGEND_COLUMN = 3, 18, 205
KEYS = 2 * LEGEND_ROWS
"""Number of legend entries in columns; each further entry has its own line."""
WALL = 3
PARTITION = "  - name: default"
"""Its nodes get a constant order, because the usual packing would depend on the speed of the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One RM's partition and its queues, root first."""

    partition: Partition
    queues: Sequence[Queue]


def chosen(work: Sequence[Submission]) -> Iterator[Submission]:
    """Applications of a demo world, in order, with only `SCARCE_APPLICATIONS` of the scarce queue.

    Gangs and preempting applications are left out, because their results depend on when the RM confirms.
    """
    scarce = [item for item in work if item.application.queue == SCARCE_QUEUE]
    left_out = {item.application.application_id for item in scarce[SCARCE_APPLICATIONS:]}
    left_out |= {GANG, OWNER}
    return (item for item in work if item.application.application_id not in left_out)


def timed(asks: Sequence[Ask], second: int) -> list[Ask]:
    """The asks with this creation time (unix seconds) and equal priorities."""
    return [replace(ask, priority=0, tags={"creationTime": str(second)}) for ask in asks]


async def told(target: str, world: World) -> Client:
    """An unconnected client with all objects of a world, which it will send in one replay."""
    config = load(world.config, required=True)
    ordered = world.config
    if config.partitions[0].node_sort.type is NodeSortType.AUTO:
        ordered = ordered.replace(PARTITION, f"{PARTITION}\n    nodesortpolicy: {{type: fair}}", 1)
    client = Client(target, rm_id=world.rm_id, config=ordered)
    await client.add_nodes(world.nodes)
    for second, item in enumerate(chosen(world.submissions), start=1):
        await client.submit_applications([item.application])
        await client.ask(timed(item.asks, second))
    return client


async def look(stub: "StateAsyncStub", rm_id: str) -> Cluster:
    """The server's report of an RM: its partition and queues."""
    partitions = await stub.ListPartitions(ListPartitionsRequest(rm_id=rm_id))
    partition = partitions.partitions[0]
    queues = await stub.ListQueues(ListQueuesRequest(partition=partition.name))
    return Cluster(partition=partition, queues=queues.queues)


async def clusters() -> list[Cluster]:
    """Connect the RMs to a server, one after another; returns the report of each."""
    scheduler = Scheduler()
    found = []
    async with (
        asyncio.timeout(PATIENCE),
        running(SETTINGS, scheduler=scheduler) as server,
        grpc.aio.insecure_channel(server.grpc_address) as channel,
    ):
        for world in worlds():
            async with await told(server.grpc_address, world) as client:
                await client.ready()
                # The core has no event for the end of its work, so it is polled.
                while scheduler.next_deadline() == AT_ONCE:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                found.append(await look(StateStub(channel), world.rm_id))
    return found


def text(x: float, y: float, content: str, kind: str = "") -> str:
    """A text element with its baseline at `y`."""
    mark = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{mark}>{escape(content)}</text>'


def box(x: float, y: float, width: float, kind: str) -> str:
    """A section of a bar."""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:.1f}" height="{BAR_HEIGHT}" rx="2" class="{kind}"/>'


def cores(amount: int) -> str:
    """Milli-cores as rounded cores."""
    return f"{round(amount / 1000):,}"


def bar(queue: Queue, y: float, capacity: int, most: int) -> Iterator[str]:
    """Sections of a queue's bar, up to the queue's maximum.

    The longest bar has the length of the whole cluster.
    """
    scale = BAR_WIDTH / capacity
    used, due = queue.allocated.get("vcore", 0), queue.guaranteed.get("vcore", 0)
    yield box(BAR_AT, y, most * scale, "room")
    if due:
        yield box(BAR_AT, y, due * scale, "due")
    if used:
        yield box(BAR_AT, y, used * scale, "plain" if not due else "beyond" if used > due else "within")
    if 0 < due < used:
        yield box(BAR_AT, y, due * scale, "within")
    if is_full(queue):
        yield wall(BAR_AT + used * scale, y)


def is_full(queue: Queue) -> bool:
    """True if a queue is at its maximum of cores."""
    return 0 < queue.max.get("vcore", 0) <= queue.allocated.get("vcore", 0)


def wall(x: float, y: float) -> str:
    """The mark at the end of a bar that is at its maximum, visible without colours."""
    return (
        f'<rect x="{x:.1f}" y="{y - WALL:g}" width="{WALL}" height="{BAR_HEIGHT + 2 * WALL}" class="wall"/>'
    )


def row(queue: Queue, y: float, capacity: int, most: int) -> Iterator[str]:
    """The line of a queue: name, bar, used and pending cores."""
    depth = queue.path.count(".")
    name = queue.path.rpartition(".")[2]
    base = y + 15
    yield text(PAD + 12 * depth, base, name, "" if queue.is_managed or not depth else "dim")
    yield from bar(queue, y + 6, capacity, most)
    yield text(USED_AT, base, cores(queue.allocated.get("vcore", 0)), "end")
    waiting = queue.pending.get("vcore", 0)
    if waiting and queue.is_leaf:
        yield text(WAITING_AT, base, cores(waiting), "dim end")
    if is_full(queue):
        yield text(USED_AT + 8, base, "at max", "full")


def card(x: float, y: float, height: float, content: Iterator[str]) -> Iterator[str]:
    """A frame around some content, with its own background."""
    yield f'<g transform="translate({x:g} {y:g})">'
    yield f'<rect width="{COLUMN}" height="{height:g}" rx="6" class="card"/>'
    yield from content
    yield "</g>"


def queues_of(cluster: Cluster) -> Iterator[str]:
    """The content of an RM's card: its size, and a line for each queue."""
    capacity = cluster.partition.capacity["vcore"]
    yield text(PAD, 23, cluster.partition.rm_id, "rm")
    size = f"{cluster.partition.nodes} nodes, {cores(capacity)} cores"
    yield text(BAR_AT, 23, size, "dim")
    yield text(USED_AT, 23, "cores used", "dim end")
    yield text(WAITING_AT, 23, "waiting", "dim end")
    most: dict[str, int] = {}
    for number, queue in enumerate(cluster.queues):
        above = most.get(queue.parent, capacity)
        most[queue.path] = min(queue.max.get("vcore", above), above)
        yield from row(queue, HEAD + number * ROW, capacity, most[queue.path])


def height_of(cluster: Cluster) -> int:
    """Height of the card of an RM."""
    return HEAD + len(cluster.queues) * ROW + FOOT


def legend() -> Iterator[str]:
    """Legend of colours and figures."""
    for number, (kind, meaning) in enumerate(LEGEND[:KEYS]):
        across, down = divmod(number, LEGEND_ROWS)
        left, top = PAD + across * LEGEND_COLUMN, PAD + down * LEGEND_ROW
        yield box(left, top, 22, kind) if kind != "wall" else wall(left + 10, top)
        yield text(left + 30, top + 9, meaning, "dim")
    for down, (_, meaning) in enumerate(LEGEND[KEYS:], start=LEGEND_ROWS):
        yield text(PAD, PAD + down * LEGEND_ROW + 15, meaning, "dim")


def draw(found: Sequence[Cluster]) -> str:
    """The picture as SVG: two RMs on the left, the third and the legend on the right."""
    first, second, third = found
    left, right = MARGIN, MARGIN + COLUMN + GAP
    below, beside = (MARGIN + height_of(above) + GAP for above in (first, third))
    legend_lines = LEGEND_ROWS + len(LEGEND) - KEYS
    end = max(below + height_of(second), beside + legend_lines * LEGEND_ROW + 2 * PAD - 4)
    height = end + MARGIN
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        "<title>The queues of three resource managers, scheduled by one server</title>",
        f"<style>\n{STYLE}\n</style>",
        *card(left, MARGIN, height_of(first), queues_of(first)),
        *card(left, below, end - below, queues_of(second)),
        *card(right, MARGIN, height_of(third), queues_of(third)),
        *card(right, beside, end - beside, legend()),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def main() -> int:
    """Write or compare the picture; returns 1 if it differs."""
    parser = argparse.ArgumentParser(description="Draw docs/picture.svg.")
    parser.add_argument("--check", action="store_true", help="compare only")
    check: bool = parser.parse_args().check
    set_up("warning")
    fresh = draw(asyncio.run(clusters()))
    if not check:
        PICTURE.write_text(fresh, encoding="utf-8")
        return 0
    if PICTURE.is_file() and PICTURE.read_text(encoding="utf-8") == fresh:
        return 0
    print(f"{PICTURE.name} is not what the server reports: run make picture", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
