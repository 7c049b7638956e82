"""A cluster as flat records: no totals, and no references."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from licorne_core.config.schema import QueueSettings
from licorne_core.model.apps.requests import BOOKED, VICTIMS, RequestState

Size = Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class QueueRecord:
    """A queue; amounts are None where they are not set."""

    path: str
    guaranteed: Size | None = None
    max: Size | None = None
    settings: QueueSettings = field(default_factory=QueueSettings)
    is_leaf: bool = True


@dataclass(frozen=True, kw_only=True)
class NodeRecord:
    """A node. `refused` has the RM's refusals of allocations (True) and reservations (False)."""

    name: str
    capacity: Size
    occupied: Size = field(default_factory=dict)
    schedulable: bool = True
    refused: frozenset[bool] = frozenset()
    starts: tuple[tuple[str, str], ...] = ()
    """Application and key of the asks with a planned start on it, without the ask of the search."""
    in_the_way: tuple[tuple[str, str], ...] = ()
    """Those for which the ask would leave too little room at their start."""
    closed: tuple[tuple[str, str], ...] = ()
    """Those of leaves that are closed now."""


@dataclass(frozen=True, kw_only=True)
class Hold:
    """A node that is reserved for a pending request."""

    node: str
    time: float
    required: bool = False
    provisional: bool = False
    exclusive: bool = False

    @property
    def is_alone(self) -> bool:
        """True if the request does not share the node."""
        return self.required or self.exclusive


@dataclass(frozen=True, kw_only=True)
class RequestRecord:
    """A request; times are in Unix seconds."""

    app: str
    key: str
    leaf: str
    size: Size
    state: RequestState = RequestState.PENDING
    node: str | None = None
    priority: int = 0
    created: float = 0.0
    started: float = 0.0
    brought: bool = False
    """True if the RM has placed it."""
    originator: bool = False
    opted_in: bool = True
    required_node: str | None = None
    predicate: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    triggered: bool = False
    hold: Hold | None = None
    checkpoint: float | None = None
    is_member: bool = False
    """True for a member of an elastic gang."""

    @property
    def counts(self) -> bool:
        """True if its queues count it as used."""
        return self.state in BOOKED

    @property
    def promised(self) -> Size:
        """True if amounts are promised to the request: it has victims, and is not placed yet."""
        waits = self.triggered and self.state is RequestState.PENDING and self.hold is not None
        return self.size if waits else {}


@dataclass(frozen=True, kw_only=True)
class LossRecord:
    """The loss of a leaf by preemption at one time."""

    leaf: str
    time: float
    size: Size
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The whole cluster."""

    queues: tuple[QueueRecord, ...]
    nodes: tuple[NodeRecord, ...]
    requests: tuple[RequestRecord, ...]
    losses: tuple[LossRecord, ...] = ()
    now: float = 0.0
    elastic: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Minimum and step of elastic gangs, by application. Their requests are in the order of booking."""

    def queue(self, path: str) -> QueueRecord:
        """The queue of that path; root has the total of all nodes."""
        (found,) = [queue for queue in self.queues if queue.path == path]
        return found

    def inside(self, path: str) -> Iterator[RequestRecord]:
        """All requests in a queue and the queues below it."""
        return (one for one in self.requests if path in lineage(one.leaf))

    def settled(self, path: str, name: str) -> int:
        """The usage of the queue once all victims have ended and all promised amounts are used."""
        stays = [one for one in self.inside(path) if one.counts and one.state not in VICTIMS]
        promised = sum(one.promised.get(name, 0) for one in self.inside(path))
        return total(stays, name) + promised

    def free(self, node: NodeRecord, name: str) -> int:
        """The free amount on a node after all its victims have ended."""
        there = [one for one in self.requests if one.node == node.name and one.state not in VICTIMS]
        return node.capacity.get(name, 0) - node.occupied.get(name, 0) - total(there, name)

    def most(self, path: str, name: str) -> int | None:
        """The maximum of a queue; None for no bound.

        The maximum of root is the total of the nodes; an overbooked node counts with its allocated amounts.
        """
        if path == "root":
            return sum(max(node.capacity.get(name, 0), self._booked(node, name)) for node in self.nodes)
        return (self.queue(path).max or {}).get(name)

    def _booked(self, node: NodeRecord, name: str) -> int:
        return total((one for one in self.requests if one.node == node.name), name)


def lineage(path: str) -> list[str]:
    """The queue itself, its parent and so on up to root."""
    parts = path.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]


def total(requests: Iterable[RequestRecord], name: str) -> int:
    """The total of one type."""
    return sum(one.size.get(name, 0) for one in requests)


def guarantees(cluster: Cluster, path: str) -> dict[str, int]:
    """The guarantee of a queue, without amounts of zero."""
    return {k: v for k, v in (cluster.queue(path).guaranteed or {}).items() if v > 0}
