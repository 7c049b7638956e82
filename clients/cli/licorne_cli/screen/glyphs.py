"""The characters that a picture is made of, for terminals with and without Unicode.

Also here:

* Marks: the troubles of a queue, a partition and its RM, in words.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from licorne_cli.output.text import BYTE_PREFIX, BYTE_RESOURCES, human_amount, printable, shown_time
from licorne_cli.screen.snapshot import Cluster
from licorne_cli.screen.tree import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """The characters of a bar and of a tree.

    `parts` are the beginnings of a cell, from one eighth on; without them a cell is full or empty.
    """

    used: str
    beyond: str
    room: str
    guarantee: str
    parts: str
    expanded: str
    collapsed: str
    up: str
    down: str


UNICODE = Glyphs(
    used="█",
    beyond="▒",
    room="·",
    guarantee="│",
    parts="▏▎▍▌▋▊▉",
    expanded="▾",
    collapsed="▸",
    up="↑",
    down="↓",
)
ASCII = Glyphs(
    used="#",
    beyond="=",
    room=".",
    guarantee="|",
    parts="",
    expanded="-",
    collapsed="+",
    up="up:",
    down="down:",
)


def glyphs_for(encoding: str) -> Glyphs:
    """Those that a stream of this encoding can carry."""
    try:
        "".join((UNICODE.used, UNICODE.beyond, UNICODE.parts, UNICODE.collapsed)).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


ACTIVE = "Active"


def queue_marks(node: Node, resource: str) -> Iterator[str]:
    """The marks of a queue, the gravest first; `resource` is the one in its bar."""
    queue = node.queue
    if queue.state != ACTIVE:
        yield queue.state.lower()
    yield from _maximum(node, resource)
    if 0 < queue.max_applications <= queue.running_applications:
        yield "at max apps"
    if any(queue.pending.values()) and any(_is_full_parent(above) for above in node.above()):
        yield "parent at max"
    if any(queue.preempting.values()):
        yield f"preempting {amount(queue.preempting, resource)}"
    if any(queue.promised.values()):
        yield f"promised {amount(queue.promised, resource)}"


def _maximum(node: Node, resource: str) -> Iterator[str]:
    """The mark of a reached maximum, with the resource if it is not the one in the bar."""
    reached = reached_maxima(node)
    if not reached:
        return
    word = "full" if node.parent is None else "at max"
    if any(node.queue.allocated.get(name, 0) > node.queue.max[name] for name in reached):
        word = "over max"
    yield word if resource in reached else f"{word} {label(reached[0])}"


def reached_maxima(node: Node) -> list[str]:
    """The resources of which a queue has all that its own maximum allows.

    A maximum of nothing is reached by whoever wants something of it.
    """
    queue = node.queue
    return [
        name
        for name, most in sorted(queue.max.items())
        if queue.allocated.get(name, 0) >= most and (most or queue.pending.get(name, 0))
    ]


def _is_full_parent(node: Node) -> bool:
    return node.parent is not None and bool(reached_maxima(node))


def amount(resources: Mapping[str, int], shown: str) -> str:
    """An amount of one resource: of the one that is shown, or of another, which is named then."""
    if resources.get(shown):
        return human_amount(shown, resources[shown])
    name = min(name for name, value in resources.items() if value)
    return f"{human_amount(name, resources[name])} {label(name)}"


def label(resource: str) -> str:
    """The usual name of a resource: ``cores``, ``memory``, ``pods``."""
    return "cores" if resource == "vcore" else printable(resource)


def unit(resource: str) -> str:
    """The unit of a resource as it is shown: ``cores``, ``bytes``, ``count``."""
    if resource == "vcore":
        return "cores"
    is_bytes = resource in BYTE_RESOURCES or resource.startswith(BYTE_PREFIX)
    return "bytes" if is_bytes else "count"


def cluster_marks(cluster: Cluster) -> Iterator[str]:
    """The marks of a partition and of its RM, a sentence each."""
    rm, partition = cluster.rm, cluster.partition
    if rm is not None and not rm.connected:
        since = shown_time(rm.since).partition(".")[0].replace("T", " ")
        yield f"RM lost: no stream since {since} UTC, its books are kept"
    if partition.holds:
        yield f"on hold: {printable(', '.join(partition.holds))}"
    if partition.state != ACTIVE:
        yield f"partition {partition.state.lower()}"
