"""Snapshots of a server: their queues as a tree, and the rows of it that are to be seen."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from licorne.v1.state_pb2 import Application, ExplainResponse, Partition, Queue, ResourceManager
from licorne_cli.output.text import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One partition with its queues, root first, the RM that it belongs to, and what to call it."""

    partition: Partition
    queues: Sequence[Queue]
    rm: ResourceManager | None = None
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The queue that the viewer has opened, and the application chosen there: empty, the first."""

    partition: str
    path: str
    application: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """The contents of an opened queue.

    The applications that have asks waiting come first, in order of their submission. If
    `is_partial` the queue has more of them. The explanation is that of the first waiting ask of
    the chosen application, None if nothing of it waits.
    """

    opened: Opened
    applications: Sequence[Application]
    is_partial: bool
    explanation: ExplainResponse | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that was seen. `time` is in unix seconds by the clock of whoever looked."""

    time: float
    clusters: Sequence[Cluster]
    inside: Inside | None = None


def totals(snapshot: Snapshot) -> str:
    """All partitions at one time."""
    partitions = [cluster.partition for cluster in snapshot.clusters]
    nodes = sum(partition.nodes for partition in partitions)
    allocations = sum(partition.allocations for partition in partitions)
    waiting = sum(partition.pending_asks for partition in partitions)
    return f"{nodes:,} nodes, {allocations:,} allocations, {waiting:,} asks waiting"


Key = tuple[str, str]
"""A queue of all: its partition, and its path."""

FIRST_RESOURCES = ("vcore", "memory")
"""Resources that people name first."""


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """One queue in its tree.

    `limit` is what it can have at most of each resource: its own maximum, that of a queue above,
    or the size of the cluster, whichever is least.
    """

    key: Key
    name: str
    depth: int
    cluster: Cluster
    queue: Queue
    limit: Mapping[str, int]
    parent: "Node | None" = None
    children: list["Node"] = field(default_factory=list)

    def above(self) -> Iterator["Node"]:
        """The queues above it, the nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def has(self, text: str) -> bool:
        """True if a text is in its path or in its partition's name, in capitals or not."""
        return any(text.casefold() in printable(part).casefold() for part in self.key)

    def below(self) -> int:
        """The number of queues below it."""
        return sum(1 + child.below() for child in self.children)

    def whole(self, resource: str) -> int:
        """The whole of its bar; 0 if there is none of the resource in the cluster."""
        return self.limit.get(resource, 0)

    def use(self, resource: str) -> float:
        """The used share of that."""
        used, whole = self.queue.allocated.get(resource, 0), self.whole(resource)
        return used / whole if whole else 0.0

    def dominant(self) -> str:
        """The resource of which it uses the largest share; without use, that which it waits for."""
        queue = self.queue
        for amounts in (queue.allocated, queue.pending):
            shares = [(amounts[name] / whole, name) for name, whole in self._wholes(amounts)]
            if any(share for share, _ in shares):
                return min(shares, key=lambda item: (-item[0], *rank(item[1])))[1]
        return min(self.limit, key=rank, default=FIRST_RESOURCES[0])

    def _wholes(self, amounts: Mapping[str, int]) -> Iterator[tuple[str, int]]:
        return ((name, self.limit[name]) for name in amounts if self.limit.get(name))


def rank(resource: str) -> tuple[int, str]:
    """Resources that people name first, then the others by name."""
    known = resource in FIRST_RESOURCES
    return FIRST_RESOURCES.index(resource) if known else len(FIRST_RESOURCES), resource


def grow(snapshot: Snapshot) -> list[Node]:
    """The trees of all partitions: their roots, in the order of the snapshot."""
    return [root for cluster in snapshot.clusters for root in _tree(cluster)]


def _tree(cluster: Cluster) -> Iterator[Node]:
    found: dict[str, Node] = {}
    for queue in cluster.queues:
        # One that came between two pages may lack its parent: it is there at the next look.
        parent = found.get(queue.parent) if queue.parent else None
        if queue.parent and parent is None:
            continue
        node = _node(cluster, queue, parent)
        found[queue.path] = node
        if parent is None:
            yield node
        else:
            parent.children.append(node)


def _node(cluster: Cluster, queue: Queue, parent: Node | None) -> Node:
    limit = dict(parent.limit if parent else cluster.partition.capacity)
    for name, most in queue.max.items():
        limit[name] = min(most, limit.get(name, most))
    name = queue.path.rpartition(".")[2] if parent else cluster.name
    return Node(
        key=(cluster.partition.name, queue.path),
        name=printable(name),
        depth=parent.depth + 1 if parent else 0,
        cluster=cluster,
        queue=queue,
        limit=limit,
        parent=parent,
    )


def resources(roots: Sequence[Node]) -> list[str]:
    """All resources that there are in the clusters or are used, in the order of `rank`."""
    names = {
        name
        for root in roots
        for amounts in (root.limit, root.queue.allocated, root.queue.pending)
        for name in amounts
    }
    return sorted(names, key=rank)


Order = Callable[[Node], tuple[float, str]]


def by_name(_: str) -> Order:
    """Queues by their names."""
    return lambda node: (0.0, node.name)


def by_use(resource: str) -> Order:
    """The fullest first; without a resource by the one that dominates in each."""
    return lambda node: (-node.use(resource or node.dominant()), node.name)


def by_pending(resource: str) -> Order:
    """Those that wait for most first, as a share of what they can have."""

    def order(node: Node) -> tuple[float, str]:
        names = [resource] if resource else list(node.queue.pending)
        shares = (node.queue.pending.get(name, 0) / (node.whole(name) or 1) for name in names)
        return -max(shares, default=0.0), node.name

    return order


def by_applications(_: str) -> Order:
    """Those with most applications first."""
    return lambda node: (-float(node.queue.applications), node.name)


ORDERS: Mapping[str, Callable[[str], Order]] = {
    "name": by_name,
    "use": by_use,
    "pending": by_pending,
    "applications": by_applications,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The visible part of the trees, and its order."""

    order: str = "name"
    resource: str = ""
    text: str = ""
    collapsed: frozenset[Key] = frozenset()

    def next_order(self) -> str:
        """The order after this one, after the last one the first."""
        names = list(ORDERS)
        return names[(names.index(self.order) + 1) % len(names)]

    def next_resource(self, known: Sequence[str]) -> str:
        """From the dominant one of each queue to each that is known, and back."""
        names = ["", *known]
        at = names.index(self.resource) if self.resource in names else 0
        return names[(at + 1) % len(names)]


def rows(roots: Sequence[Node], wanted: Wanted) -> list[Node]:
    """The queues to be seen, parents before children.

    With a text these are the queues that have it in their path or in their partition's name, and
    those above them, whatever is collapsed.
    """
    key = ORDERS[wanted.order](wanted.resource)
    kept = _kept(roots, wanted.text) if wanted.text else None
    found: list[Node] = []
    ahead = list(reversed(roots))
    while ahead:
        node = ahead.pop()
        if kept is not None and node not in kept:
            continue
        found.append(node)
        if kept is not None or node.key not in wanted.collapsed:
            children = node.children
            if wanted.order != "name":
                children = sorted(children, key=key)
            ahead.extend(reversed(children))
    return found


def parents_below(roots: Sequence[Node]) -> frozenset[Key]:
    """All that have queues below them, but for the roots."""
    everything = rows(roots, Wanted())
    return frozenset(node.key for node in everything if node.children and node.parent)


def _kept(roots: Sequence[Node], text: str) -> set[Node]:
    kept: set[Node] = set()
    ahead = list(roots)
    while ahead:
        node = ahead.pop()
        ahead.extend(node.children)
        if node.has(text):
            kept.update((node, *node.above()))
    return kept
