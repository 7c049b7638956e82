"""Snapshots of a server, their queues as a tree, and the visible rows of the tree."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from licorne.v1.state_pb2 import Application, ExplainResponse, Partition, Queue, ResourceManager
from licorne_cli.output.text import counted, printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A partition with its queues (root first), its RM, and its displayed name."""

    partition: Partition
    queues: Sequence[Queue]
    rm: ResourceManager | None = None
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The opened queue, and the application that is chosen in it; empty for the first one."""

    partition: str
    path: str
    application: str = ""

    @property
    def key(self) -> "Key":
        """The identity of the queue."""
        return self.partition, self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """The contents of an opened queue.

    Applications with pending asks are first, in order of submission. If `is_partial` the queue has more
    applications. The explanation is for the first pending ask of the chosen application; None if it has none.
    """

    opened: Opened
    applications: Sequence[Application]
    is_partial: bool
    explanation: ExplainResponse | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of a server. `time` is in unix seconds of the local clock."""

    time: float
    clusters: Sequence[Cluster]
    inside: Inside | None = None


def totals(snapshot: Snapshot) -> str:
    """The totals of a snapshot, in one line."""
    partitions = [cluster.partition for cluster in snapshot.clusters]
    nodes = sum(partition.nodes for partition in partitions)
    allocations = sum(partition.allocations for partition in partitions)
    waiting = sum(partition.pending_asks for partition in partitions)
    counts = (counted(nodes, "node"), counted(allocations, "allocation"), counted(waiting, "ask"))
    return f"{', '.join(counts)} waiting"


Key = tuple[str, str]
"""Identity of a queue: its partition, and its path."""

FIRST_RESOURCES = ("vcore", "memory")
"""Resources that are listed first."""


@dataclass(slots=True, kw_only=True, eq=False)
class QueueNode:
    """A queue in its tree.

    `limit` is the most that the queue can use of each resource: the least of its maximum, the maxima of its
    ancestors, and the size of the cluster.
    """

    key: Key
    name: str
    depth: int
    cluster: Cluster
    queue: Queue
    limit: Mapping[str, int]
    parent: "QueueNode | None" = None
    children: list["QueueNode"] = field(default_factory=list)

    def above(self) -> Iterator["QueueNode"]:
        """The ancestors, the nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def has(self, text: str) -> bool:
        """True if the text is in the path or in the partition's name, ignoring case."""
        return any(text.casefold() in printable(part).casefold() for part in self.key)

    def below(self) -> int:
        """The number of descendants."""
        return sum(1 + child.below() for child in self.children)

    def whole(self, resource: str) -> int:
        """The amount of a full bar; 0 if the cluster does not have the resource."""
        return self.limit.get(resource, 0)

    def use(self, resource: str) -> float:
        """The used share of `whole`."""
        used, whole = self.queue.allocated.get(resource, 0), self.whole(resource)
        return used / whole if whole else 0.0

    def dominant(self) -> str:
        """The resource with the largest used share; without usage, the largest pending share."""
        queue = self.queue
        for amounts in (queue.allocated, queue.pending):
            shares = [(amounts[name] / whole, name) for name, whole in self._wholes(amounts)]
            if any(share for share, _ in shares):
                return min(shares, key=lambda item: (-item[0], *rank(item[1])))[1]
        return min(self.limit, key=rank, default=FIRST_RESOURCES[0])

    def _wholes(self, amounts: Mapping[str, int]) -> Iterator[tuple[str, int]]:
        return ((name, self.limit[name]) for name in amounts if self.limit.get(name))


def rank(resource: str) -> tuple[int, str]:
    """Sort key of resources: the usual ones first, then the others by name."""
    known = resource in FIRST_RESOURCES
    return FIRST_RESOURCES.index(resource) if known else len(FIRST_RESOURCES), resource


def trees(snapshot: Snapshot) -> list[QueueNode]:
    """The roots of the trees of all partitions, in the order of the snapshot."""
    return [root for cluster in snapshot.clusters for root in _tree(cluster)]


def _tree(cluster: Cluster) -> Iterator[QueueNode]:
    found: dict[str, QueueNode] = {}
    for queue in cluster.queues:
        # If a queue was added between two pages, its parent may be missing until the next snapshot.
        parent = found.get(queue.parent) if queue.parent else None
        if queue.parent and parent is None:
            continue
        node = _node(cluster, queue, parent)
        found[queue.path] = node
        if parent is None:
            yield node
        else:
            parent.children.append(node)


def _node(cluster: Cluster, queue: Queue, parent: QueueNode | None) -> QueueNode:
    limit = dict(parent.limit if parent else cluster.partition.capacity)
    for name, most in queue.max.items():
        limit[name] = min(most, limit.get(name, most))
    name = queue.path.rpartition(".")[2] if parent else cluster.name
    return QueueNode(
        key=(cluster.partition.name, queue.path),
        name=printable(name),
        depth=parent.depth + 1 if parent else 0,
        cluster=cluster,
        queue=queue,
        limit=limit,
        parent=parent,
    )


def resources(roots: Sequence[QueueNode]) -> list[str]:
    """All resources that the clusters have or use, in the order of `rank`."""
    names = {
        name
        for root in roots
        for amounts in (root.limit, root.queue.allocated, root.queue.pending)
        for name in amounts
    }
    return sorted(names, key=rank)


Order = Callable[[QueueNode], tuple[float, str]]


def by_name(_: str) -> Order:
    """Order by name."""
    return lambda node: (0.0, node.name)


def by_use(resource: str) -> Order:
    """Order by used share, the highest first; without a resource, each queue by its dominant resource."""
    return lambda node: (-node.use(resource or node.dominant()), node.name)


def by_pending(resource: str) -> Order:
    """Order by pending amount as a share of the limit, the largest first."""

    def order(node: QueueNode) -> tuple[float, str]:
        names = [resource] if resource else list(node.queue.pending)
        shares = (node.queue.pending.get(name, 0) / (node.whole(name) or 1) for name in names)
        return -max(shares, default=0.0), node.name

    return order


def by_applications(_: str) -> Order:
    """Order by number of applications, the largest first."""
    return lambda node: (-float(node.queue.applications), node.name)


ORDERS: Mapping[str, Callable[[str], Order]] = {
    "name": by_name,
    "use": by_use,
    "pending": by_pending,
    "applications": by_applications,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The viewer's choice of visible queues and of their order."""

    order: str = "name"
    resource: str = ""
    text: str = ""
    collapsed: frozenset[Key] = frozenset()

    def next_order(self) -> str:
        """The next order, in a cycle."""
        names = list(ORDERS)
        return names[(names.index(self.order) + 1) % len(names)]

    def next_resource(self, known: Sequence[str]) -> str:
        """The next resource, in a cycle; empty for the dominant resource of each queue."""
        names = ["", *known]
        at = names.index(self.resource) if self.resource in names else 0
        return names[(at + 1) % len(names)]


def rows(roots: Sequence[QueueNode], wanted: Wanted) -> list[QueueNode]:
    """The visible queues, parents before children.

    With a filter, these are the queues that have the text in their path or in their partition's name, and
    their ancestors, even if collapsed.
    """
    key = ORDERS[wanted.order](wanted.resource)
    kept = _kept(roots, wanted.text) if wanted.text else None
    found: list[QueueNode] = []
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


def parents_below(roots: Sequence[QueueNode]) -> frozenset[Key]:
    """All parents except the roots."""
    everything = rows(roots, Wanted())
    return frozenset(node.key for node in everything if node.children and node.parent)


def _kept(roots: Sequence[QueueNode], text: str) -> set[QueueNode]:
    kept: set[QueueNode] = set()
    ahead = list(roots)
    while ahead:
        node = ahead.pop()
        ahead.extend(node.children)
        if node.has(text):
            kept.update((node, *node.above()))
    return kept
