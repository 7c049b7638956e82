"""Asks, allocations and reservations: a request of an RM, its node, and the node that is kept for it.

One object serves an ask from the door to the end of its life, so that a million of them
stay cheap: an `Ask` never changes, an `Allocation` is an ask with its node.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from licorne_core.values.ids import AllocationKey, AppId, NodeId, QueuePath
from licorne_core.values.resources import Items, Resources, has_negative

NO_TAGS: Mapping[str, str] = {}


class Shape:
    """Room that an ask needs: its resources, and the only node allowed if any.

    Asks of one shape fit alike as far as only nodes decide.
    """

    __slots__ = ("_hash", "has_negative", "items", "required_node", "resources")

    def __init__(self, resources: Resources, required_node: NodeId | None = None) -> None:
        """Take the resources wanted (bytes, milli-cores, counts) and the only node allowed."""
        self.resources = resources
        self.required_node = required_node
        self.items = tuple(sorted((name, value) for name, value in resources.items() if value))
        self.has_negative = has_negative(resources)
        self._hash = hash((self.items, required_node))

    def __hash__(self) -> int:
        """Computed once: shapes are looked up for every ask."""
        return self._hash

    def __eq__(self, other: object) -> bool:
        """Equal resources and equal required node; zero amounts do not count."""
        if self is other:
            return True
        if not isinstance(other, Shape):
            return NotImplemented
        return self.items == other.items and self.required_node == other.required_node

    def __lt__(self, other: "Shape") -> bool:
        """An order for reports that does not depend on hashes."""
        return (self.items, self.required_node or "") < (other.items, other.required_node or "")

    def __repr__(self) -> str:
        """``Shape(memory=10, vcore=100 @node-1)``."""
        amounts = ", ".join(f"{name}={value}" for name, value in self.items)
        return f"Shape({amounts}{f' @{self.required_node}' if self.required_node else ''})"


class AskClass:
    """Properties of an ask that decide its nodes: its shape and its predicate.

    With a predicate the RM decides about nodes; its answers are equal for equal texts. Bulk
    creators of asks keep the class of equal resources and share the object; equal classes compare
    equal all the same.
    """

    __slots__ = ("_hash", "items", "predicate", "required_node", "shape")

    def __init__(self, shape: Shape, predicate: str | None = None) -> None:
        """Create the class of a shape; without `predicate` the RM is not asked."""
        self.shape = shape
        self.predicate = predicate
        self.items: Items = shape.items
        self.required_node = shape.required_node
        self._hash = hash(shape) if predicate is None else hash((shape, predicate))

    @classmethod
    def of(
        cls,
        resources: Resources,
        required_node: NodeId | None = None,
        predicate: str | None = None,
    ) -> "AskClass":
        """Return the class of these resources; for callers that do not keep the shape."""
        return cls(Shape(resources, required_node), predicate)

    @property
    def resources(self) -> Resources:
        """The resources wanted."""
        return self.shape.resources

    def __hash__(self) -> int:
        """Computed once: classes are looked up for every ask."""
        return self._hash

    def __eq__(self, other: object) -> bool:
        """Equal shape and equal predicate."""
        if self is other:
            return True
        if not isinstance(other, AskClass):
            return NotImplemented
        return self.predicate == other.predicate and self.shape == other.shape

    def __repr__(self) -> str:
        """``AskClass(Shape(memory=10), predicate 'arm')``."""
        predicate = "" if self.predicate is None else f", predicate {self.predicate!r}"
        return f"AskClass({self.shape!r}{predicate})"


@dataclass(slots=True, init=False)
class Ask:
    """A request for one allocation (spec § 5.3); never changed after it was made.

    `create_time` is in unix seconds, None for «when it arrives». `node_id` is set when the RM
    already knows the node: an existing allocation that is replayed, or one that it
    placed itself. Not a frozen dataclass, because a million are made per second or so
    and freezing doubles the cost. `__init__` is written out because that of a dataclass is never
    compiled: it would take seven times as long.
    """

    key: AllocationKey
    app_id: AppId
    ask_class: AskClass
    priority: int
    create_time: float | None
    node_id: NodeId | None
    partition: str
    originator: bool
    allow_preempt_self: bool
    allow_preempt_other: bool
    placeholder: bool
    task_group: str
    tags: Mapping[str, str]
    footprint: int
    """Bytes of memory of its names, tags and amounts, as reckoned by its creator."""
    read_time: float
    """Time of arrival, in unix seconds; 0 where it is not measured. No decision reads it."""

    def __init__(
        self,
        key: AllocationKey,
        app_id: AppId,
        ask_class: AskClass,
        priority: int = 0,
        create_time: float | None = None,
        node_id: NodeId | None = None,
        partition: str = "",
        originator: bool = False,
        allow_preempt_self: bool = False,
        allow_preempt_other: bool = False,
        placeholder: bool = False,
        task_group: str = "",
        tags: Mapping[str, str] = NO_TAGS,
        footprint: int = 0,
        read_time: float = 0.0,
    ) -> None:
        """Create an ask; the fields document the arguments."""
        self.key = key
        self.app_id = app_id
        self.ask_class = ask_class
        self.priority = priority
        self.create_time = create_time
        self.node_id = node_id
        self.partition = partition
        self.originator = originator
        self.allow_preempt_self = allow_preempt_self
        self.allow_preempt_other = allow_preempt_other
        self.placeholder = placeholder
        self.task_group = task_group
        self.tags = tags
        self.footprint = footprint
        self.read_time = read_time


@dataclass(slots=True, init=False, eq=False)
class Allocation:
    """An ask on a node. Times are in unix seconds; never changed after it was made.

    Two are never equal: two applications may use the same key. `__init__` is written out as that of
    `Ask` is.
    """

    ask: Ask
    node_id: NodeId
    request_time: float
    allocation_time: float
    placeholder_used: bool
    """True if it replaced a placeholder, whose request time it then has (spec § 6.6)."""

    def __init__(
        self,
        ask: Ask,
        node_id: NodeId,
        request_time: float,
        allocation_time: float,
        *,
        placeholder_used: bool = False,
    ) -> None:
        """Put the ask on the node."""
        self.ask = ask
        self.node_id = node_id
        self.request_time = request_time
        self.allocation_time = allocation_time
        self.placeholder_used = placeholder_used

    @property
    def key(self) -> AllocationKey:
        """The ask's key, which is the allocation's as well."""
        return self.ask.key


@dataclass(slots=True, eq=False)
class Reservation:
    """Room on a node is reserved for an ask, since `time` in unix seconds.

    An ask has at most one. A node has at most one too, but asks that `require` the node, those
    that may go nowhere else, may share it. One that goes with a promise may have lost its node:
    then `node_id` is None (`scheduling/reservations/promises.py`). Found by identity.
    """

    app_id: AppId
    key: AllocationKey
    node_id: NodeId | None
    time: float
    required: bool
    items: Items
    """Amounts that other asks have to leave free on the node."""
    exclusive: bool = False
    """True if other asks have to leave the whole node (property ``reservation.exclusive``)."""
    idle_since: float | None = None
    """Since when its ask could not have the node if it were empty, as reviews found; None if it
    could (`scheduling/reservations/review.py`)."""
    gives_way: bool = False
    """True if the last review found that it gives way to asks below their queue's guarantee."""


class HolderReason(NamedTuple):
    """Reason that the ask of a reservation does not run on its node.

    `code` is that of the check that stops it, or ``WAITS_FOR_ROOM`` with the amounts that the node
    `lacks`, ``NODE_REFUSED``, ``WAITS_FOR_TURN``, ``WAITS_FOR_ANSWER`` or ``RESERVATION_ENDED``.
    """

    code: str
    text: str
    lacks: Resources


NO_REASON = HolderReason("", "", {})
"""No reason, as none was looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReservations:
    """The nodes, of those an ask was refused, that are reserved for the asks of one queue.

    `kept` is the sum of the reserved amounts; of a node that has very many the first count. The
    asks of `idle` nodes could not have them if they were empty, as the last review found. `reason`
    is that of one ask, an idle one if there is one.
    """

    queue: QueuePath
    nodes: int
    idle: int
    kept: Resources
    reason: HolderReason


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationBound:
    """The bound on reserved nodes is reached: `most` for `whom`, by the configured `key`."""

    whom: str
    reserved: int
    most: int
    key: str

    def message(self) -> str:
        """The reason in one sentence."""
        counts = f"{self.reserved} of {self.most}"
        return f"no further node may be reserved: {counts} {self.whom} ({self.key})"
