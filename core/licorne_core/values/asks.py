"""Asks, allocations and reservations.

An `Ask` never changes, and an `Allocation` is an ask with its node. So one object represents an ask from
arrival to release, which makes a million asks affordable.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

from licorne_core.values.ids import AllocationKey, AppId, NodeId, QueuePath
from licorne_core.values.resources import Items, Resources, has_negative

NO_TAGS: Mapping[str, str] = {}


class Shape:
    """Resources and required node of an ask. Asks of one shape fit the same nodes.

    If an extension holds room for later starts, asks that end before may use it, so the declared `runtime` in
    seconds is part of the shape. It is infinite without such an extension or a declaration.
    """

    __slots__ = ("_hash", "has_negative", "items", "required_node", "resources", "runtime")

    def __init__(
        self, resources: Resources, required_node: NodeId | None = None, runtime: float = inf
    ) -> None:
        """Create a shape; resources are in bytes, milli-cores or counts."""
        self.resources = resources
        self.required_node = required_node
        self.runtime = runtime
        self.items = tuple(sorted((name, value) for name, value in resources.items() if value))
        self.has_negative = has_negative(resources)
        self._hash = hash((self.items, required_node, runtime))

    def __hash__(self) -> int:
        """Computed once, because each ask looks up its shape."""
        return self._hash

    def __eq__(self, other: object) -> bool:
        """True for equal resources, zeros ignored, equal required nodes and equal runtimes."""
        if self is other:
            return True
        if not isinstance(other, Shape):
            return NotImplemented
        alike = self.items == other.items and self.required_node == other.required_node
        return alike and self.runtime == other.runtime

    def __lt__(self, other: "Shape") -> bool:
        """Order of reports, independent of hashes."""
        return self._order < other._order

    @property
    def _order(self) -> tuple[Items, str, float]:
        return self.items, self.required_node or "", self.runtime

    def __repr__(self) -> str:
        """``Shape(memory=10, vcore=100 @node-1)``."""
        amounts = ", ".join(f"{name}={value}" for name, value in self.items)
        return f"Shape({amounts}{f' @{self.required_node}' if self.required_node else ''})"


class AskClass:
    """Shape and predicate of an ask: asks of one class fit the same nodes.

    With a predicate the RM decides about nodes, and its answers are equal for equal texts. Creators of many
    asks share one object among asks with equal resources.
    """

    __slots__ = ("_hash", "items", "predicate", "required_node", "runtime", "shape")

    def __init__(self, shape: Shape, predicate: str | None = None) -> None:
        """Create the class of a shape; without a `predicate` the RM is not asked about nodes."""
        self.shape = shape
        self.predicate = predicate
        self.items: Items = shape.items
        self.required_node = shape.required_node
        self.runtime = shape.runtime
        self._hash = hash(shape) if predicate is None else hash((shape, predicate))

    @classmethod
    def of(
        cls,
        resources: Resources,
        required_node: NodeId | None = None,
        predicate: str | None = None,
        runtime: float = inf,
    ) -> "AskClass":
        """The class of these resources, for callers without a shape."""
        return cls(Shape(resources, required_node, runtime), predicate)

    @property
    def resources(self) -> Resources:
        """Resources of the ask."""
        return self.shape.resources

    def __hash__(self) -> int:
        """Computed once, because each ask looks up its class."""
        return self._hash

    def __eq__(self, other: object) -> bool:
        """True for equal shapes and equal predicates."""
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
    """A request for one allocation (spec § 5.3); immutable.

    `create_time` is in unix seconds; None means the time of arrival. `node_id` is set if the RM names the
    node, for an existing allocation that it replays or has placed itself.

    The class is not a frozen dataclass, because freezing doubles the cost of creation. `__init__` is written
    out, because mypyc does not compile the one of a dataclass, which takes seven times as long.
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
    """Bytes of memory of its names, tags and amounts, as the creator estimates them."""
    read_time: float
    """Time of arrival, in unix seconds; 0 if it is not measured. No decision depends on it."""

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

    def in_class(self, ask_class: AskClass) -> "Ask":
        """The same ask in another class; written out, as `dataclasses.replace` takes three times longer."""
        return Ask(
            self.key,
            self.app_id,
            ask_class,
            self.priority,
            self.create_time,
            self.node_id,
            self.partition,
            self.originator,
            self.allow_preempt_self,
            self.allow_preempt_other,
            self.placeholder,
            self.task_group,
            self.tags,
            self.footprint,
            self.read_time,
        )


class Passed(NamedTuple):
    """A claim that an allocation passed: it was placed while an ask before it in the order held the claim.

    `kind` is the extension that made the claim. `app_id` and `key` name the holder; the key is empty for a
    gang. The holder's planned start is `start`, in unix seconds.
    """

    kind: str
    app_id: AppId
    key: AllocationKey
    start: float

    @property
    def holder(self) -> str:
        """The holder in words."""
        return f"ask {self.key} of application {self.app_id}" if self.key else f"gang {self.app_id}"

    @property
    def text(self) -> str:
        """How the allocation began, in words, without the time."""
        return f"started by {self.kind}: it passed {self.holder}"


@dataclass(slots=True, init=False, eq=False)
class Allocation:
    """An ask on a node; immutable. Times are in unix seconds.

    Compared by identity, because two applications may use the same key. `__init__` is written out for the
    reason that is given in `Ask`.
    """

    ask: Ask
    node_id: NodeId
    request_time: float
    allocation_time: float
    placeholder_used: bool
    """True if it replaced a placeholder; then its request time is that of the placeholder (spec § 6.6)."""
    passed: Passed | None
    """The claim that it passed; None also for a replacement, and if the RM placed it."""
    expected_runtime: float
    """Seconds that it is expected to run, as of its beginning; 0, so that it is overdue from then on, if they
    are unknown, and for a placeholder, whose room another ask uses afterwards."""

    def __init__(
        self,
        ask: Ask,
        node_id: NodeId,
        request_time: float,
        allocation_time: float,
        expected_runtime: float | None = None,
        *,
        placeholder_used: bool = False,
        passed: Passed | None = None,
    ) -> None:
        """Create an allocation; the fields document the arguments."""
        self.ask = ask
        self.node_id = node_id
        self.request_time = request_time
        self.allocation_time = allocation_time
        self.placeholder_used = placeholder_used
        self.passed = passed
        self.expected_runtime = 0.0 if expected_runtime is None or ask.placeholder else expected_runtime

    @property
    def key(self) -> AllocationKey:
        """Key of the ask and of its allocation."""
        return self.ask.key


GRACE: Final = 5.0
"""Seconds that an end or a start may be overdue: the RM has to detect an end, and to report it."""


def extended(end: float, now: float) -> float:
    """Expected end of an allocation overdue since `end`: soon, but the later the longer it is overdue."""
    if end > now:
        return end
    more = GRACE
    while end + more <= now:
        more *= 2
    return end + more


@dataclass(slots=True, eq=False)
class Reservation:
    """Room on a node that is reserved for an ask, since `time` in unix seconds.

    An ask has at most one reservation. A node has at most one too, except that it may be shared by asks that
    require it (`required`) and by asks with promises of room that its victims free. A reservation with a
    promise may have lost its node: then `node_id` is None (`ledger/promises.py`). Compared by identity.
    """

    app_id: AppId
    key: AllocationKey
    node_id: NodeId | None
    time: float
    required: bool
    items: Items
    """Amounts on the node that other asks must not use."""
    exclusive: bool = False
    """True if other asks must not use the node at all (property ``reservation.exclusive``)."""
    idle_since: float | None = None
    """Time since which reviews have found the reservation idle, in unix seconds; None if it is not
    (`standard/reservations/review.py`)."""
    gives_way: bool = False
    """True if the last review found that the reservation yields to asks within their queue's guarantee."""
    provisional: bool = False
    """True if the cluster was full at the reservation: other asks may stop the victims on its node."""


class HolderReason(NamedTuple):
    """Reason why the ask of a reservation does not run on its node.

    `code` is the code of the check that the ask fails, or ``WAITS_FOR_ROOM``, ``NODE_REFUSED``,
    ``WAITS_FOR_TURN``, ``WAITS_FOR_ANSWER`` or ``RESERVATION_ENDED``. With ``WAITS_FOR_ROOM``, `lacks`
    has the amounts missing on the node.
    """

    code: str
    text: str
    lacks: Resources


NO_REASON = HolderReason("", "", {})
"""The value for a reason that was not determined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReservations:
    """Reservations of one queue's asks on nodes that were refused to another ask.

    `nodes` is the number of these nodes, `idle` the number of those with an idle reservation. `kept` is the
    total of the reserved amounts; on a node with very many reservations, only the first ones count. `reason`
    is the reason of one reservation, if possible of an idle one.
    """

    queue: QueuePath
    nodes: int
    idle: int
    kept: Resources
    reason: HolderReason


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationBound:
    """A bound on reserved nodes was reached: `most` nodes for `whom`, set by the configuration key `key`."""

    whom: str
    reserved: int
    most: int
    key: str

    def message(self) -> str:
        """The bound in one sentence."""
        counts = f"{self.reserved} of {self.most}"
        return f"no further node may be reserved: {counts} {self.whom} ({self.key})"
