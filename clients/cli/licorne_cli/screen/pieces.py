"""Parts of a screen: bars, percentages and marks.

A bar shows the used part of a maximum, and the end of the guarantee. Marks are short texts about problems
of a queue, a partition or an RM.
"""

from collections.abc import Iterable, Iterator, Mapping

from rich.text import Text

from licorne_cli.output.text import human_amount, is_in_bytes, printable, shown_time
from licorne_cli.screen.tree import Cluster, QueueNode

USED, OVER, FREE, GUARANTEE, PARTS = "█", "▒", "·", "│", "▏▎▍▌▋▊▉"
"""Characters of bars: used, over the guarantee, free, end of the guarantee, and partially filled cells."""

ACTIVE = "Active"


def queue_marks(node: QueueNode, resource: str) -> Iterator[str]:
    """The marks of a queue, the most severe first; `resource` is that of the bar."""
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


def _maximum(node: QueueNode, resource: str) -> Iterator[str]:
    """The mark for a reached maximum, with the resource unless it is that of the bar."""
    reached = reached_maxima(node)
    if not reached:
        return
    word = "full" if node.parent is None else "at max"
    if any(node.queue.allocated.get(name, 0) > node.queue.max[name] for name in reached):
        word = "over max"
    yield word if resource in reached else f"{word} {label(reached[0])}"


def reached_maxima(node: QueueNode) -> list[str]:
    """The resources for which a queue has reached its own maximum.

    A maximum of zero counts as reached if the queue has pending asks for the resource.
    """
    queue = node.queue
    return [
        name
        for name, most in sorted(queue.max.items())
        if queue.allocated.get(name, 0) >= most and (most or queue.pending.get(name, 0))
    ]


def _is_full_parent(node: QueueNode) -> bool:
    return node.parent is not None and bool(reached_maxima(node))


def amount(resources: Mapping[str, int], shown: str) -> str:
    """An amount of the displayed resource, or if there is none, of another resource with its name."""
    if resources.get(shown):
        return human_amount(shown, resources[shown])
    name = min(name for name, value in resources.items() if value)
    return f"{human_amount(name, resources[name])} {label(name)}"


def label(resource: str) -> str:
    """The usual name of a resource: ``cores``, ``memory``, ``pods``."""
    return "cores" if resource == "vcore" else printable(resource)


def unit(resource: str) -> str:
    """The displayed unit of a resource: ``cores``, ``bytes``, ``count``."""
    if resource == "vcore":
        return "cores"
    return "bytes" if is_in_bytes(resource) else "count"


def cluster_marks(cluster: Cluster) -> Iterator[str]:
    """The marks of a partition and of its RM, as sentences."""
    rm, partition = cluster.rm, cluster.partition
    if rm is not None and not rm.connected:
        yield f"RM lost: no stream since {shown_time(rm.since)}, its books are kept"
    if partition.holds:
        yield f"on hold: {printable(', '.join(partition.holds))}"
    if partition.state != ACTIVE:
        yield f"partition {partition.state.lower()}"


def all_marks(clusters: Iterable[Cluster]) -> list[str]:
    """The marks of all partitions, each with its name."""
    return [f"! {printable(one.name)}: {mark}" for one in clusters for mark in cluster_marks(one)]


WITHIN, BEYOND, PLAIN, FULL, ROOM = "green", "yellow", "cyan", "red", "dim"
EIGHTHS = 8


def bar(used: int, guaranteed: int, whole: int, cells: int) -> Text:
    """A bar of `cells` cells, with a resolution of eighths.

    Usage beyond the guarantee is hatched. A mark shows the end of a guarantee that is not used up.
    The bar is full only if the maximum is reached, and empty only if nothing is used.
    """
    steps = _steps(used, whole, cells * EIGHTHS)
    mark = _mark(guaranteed, whole, cells)
    full, rest = divmod(steps, EIGHTHS)
    borrows = 0 < guaranteed < used
    # Usage beyond a guarantee, however small, must be visible even without colours.
    within = min(mark, full - 1) if borrows and full else full
    colour = _colour(used, guaranteed, whole)
    found = Text()
    found.append(USED * within, WITHIN if borrows and used < whole else colour)
    found.append(OVER * (full - within), colour)
    if rest:
        found.append(PARTS[rest - 1], colour)
    start = full + bool(rest)
    free = (GUARANTEE if at == mark and not borrows else FREE for at in range(start, cells))
    return found.append("".join(free), ROOM)


def _steps(used: int, whole: int, steps: int) -> int:
    """The number of steps for an amount: all only for the whole, none only for zero."""
    if used <= 0:
        return 0
    if used >= whole:
        return steps
    return min(max(used * steps // whole, 1), steps - 1)


def _mark(guaranteed: int, whole: int, cells: int) -> int:
    """The cell at the end of the guarantee; outside the bar if there is no guarantee."""
    if not guaranteed or not whole:
        return cells
    return min(guaranteed * cells // whole, cells - 1)


def _colour(used: int, guaranteed: int, whole: int) -> str:
    if used >= whole:
        return FULL
    if not guaranteed:
        return PLAIN
    return BEYOND if used > guaranteed else WITHIN


def percent(used: int, whole: int) -> str:
    """The used share: 100 % only if the maximum is reached; a dash if `whole` is zero."""
    if not whole:
        return "-" if not used else "over"
    share = 100 * used // whole
    return f"{share}%" if share or not used else "<1%"


def legend() -> Text:
    """The meaning of the parts of a bar."""
    parts = (
        (USED, WITHIN, "within its guarantee"),
        (OVER, BEYOND, "beyond it"),
        (GUARANTEE, ROOM, "guaranteed"),
        (USED, PLAIN, "no guarantee"),
        (FREE, ROOM, "free"),
    )
    return Text("  ").join(Text.assemble((glyph, colour), f" {meaning}") for glyph, colour, meaning in parts)
