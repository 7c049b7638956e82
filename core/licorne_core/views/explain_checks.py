"""Checks of nodes for explanations (spec §§ 7.4, 8.5)."""

from collections import Counter
from collections.abc import Callable, Generator
from functools import cache
from heapq import nsmallest
from itertools import islice

from licorne_core.config.properties import APP_RESERVATION_MAX_NODES, RESERVATION_MAX_NODES
from licorne_core.features import modules
from licorne_core.messages.claims import BehindReservationCheck
from licorne_core.messages.operators import OperatorMark
from licorne_core.messages.reasons import NodesCheck, PreemptionCheck
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import ReservationRequest
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import CLOSED, RESERVED, Node
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.order import ReservedAsks
from licorne_core.values.asks import AskClass, HolderReason, QueueReservations, Reservation, ReservationBound
from licorne_core.values.ids import NodeId, QueuePath
from licorne_core.values.resources import charge

MOST_QUEUES = 5
"""Maximum number of queues that are named; the others are counted."""

MOST_CLOSED = 3
"""Maximum number of closed nodes that are named; the others are counted."""

MOST_ON_A_NODE = 16
"""Maximum number of reservations of one node that are examined; very many asks may require the same node."""

STEP = 500
"""Number of nodes, queues, applications or asks that are examined before the reader may pause."""


class Holders:
    """Counts reserved nodes by the queues of the asks with the reservations.

    Reservations may end during the count.
    """

    def __init__(self, reserved: ReservedAsks) -> None:
        """Start empty; `reserved` gives the asks that hold reservations."""
        self._reserved = reserved
        self._of: dict[QueuePath, OfQueue] = {}

    def __len__(self) -> int:
        """Number of queues."""
        return len(self._of)

    def add(self, node: Node) -> int:
        """Add a node, which counts once for each queue; return its number of reservations."""
        looks = 0
        for reservation in islice(node.reservations.values(), MOST_ON_A_NODE):
            queue = self._reserved.holder(reservation).leaf.path
            found = self._of.get(queue)
            if found is None:
                found = self._of[queue] = OfQueue(queue, reservation)
            found.add(reservation, node)
            looks += 1
        return looks

    def largest(self) -> Generator[None, None, "list[OfQueue]"]:
        """The queues with the most reserved nodes, at most `MOST_QUEUES`, in descending order."""
        first: list[OfQueue] = []
        rest = iter(list(self._of.values()))
        while part := list(islice(rest, STEP)):
            first = nsmallest(MOST_QUEUES, [*first, *part], key=OfQueue.rank)
            yield
        return first


class OfQueue:
    """Reservations for asks of one queue; `shown` is an idle reservation if there is one."""

    def __init__(self, queue: QueuePath, first: Reservation) -> None:
        """Start empty, for a queue and its first reservation."""
        self.shown = first
        self._queue = queue
        self._nodes = 0
        self._idle = 0
        self._kept: dict[str, int] = {}
        self._last: Node | None = None

    def rank(self) -> tuple[int, QueuePath]:
        """Sort key: queues with most nodes first, and then by path."""
        return -self._nodes, self._queue

    def report(self, reason: HolderReason) -> QueueReservations:
        """Report the reservations; `reason` is the reason why the ask of `shown` does not run."""
        return QueueReservations(
            queue=self._queue, nodes=self._nodes, idle=self._idle, kept=self._kept, reason=reason
        )

    def add(self, reservation: Reservation, node: Node) -> None:
        """Add a reservation. The reservations of one node must be added one after the other."""
        is_idle = reservation.idle_since is not None
        if node is not self._last:
            self._last = node
            self._nodes += 1
            self._idle += is_idle
        charge(self._kept, reservation.items)
        if is_idle and self.shown.idle_since is None:
            self.shown = reservation


def nodes_check(partition: Partition, request: Request) -> NodesCheck:
    """Check every node without a pause; an excluded node counts by its first cause (spec § 7.4).

    Holders of reservations are not reported.
    """
    asking = nodes_asked(partition, request)
    while True:
        try:
            next(asking)
        except StopIteration as end:
            check: NodesCheck = end.value
            return check


def nodes_asked(
    partition: Partition, request: Request, holders: Holders | None = None
) -> Generator[None, None, NodesCheck]:
    """Check every node, with pauses; `holders` counts the reservations for other asks."""
    ask_class, reservation = request.ask.ask_class, request.reservation
    required = ask_class.required_node
    own = None if reservation is None else reservation.node_id
    nodes = _asked_nodes(partition, required)
    causes: Counter[str] = Counter()
    closed: list[tuple[NodeId, OperatorMark]] = []
    looks = 0
    for node in nodes:
        refusal = node.refusal(ask_class, reserved=node.node_id == own, holder=request.claim)
        if refusal is not None:
            causes[refusal] += 1
        if refusal == CLOSED and node.closed is not None and len(closed) < MOST_CLOSED:
            closed.append((node.node_id, node.closed))
        looks += 1
        if refusal == RESERVED and holders is not None:
            looks += holders.add(node)
        if looks >= STEP:
            looks = 0
            yield
    return NodesCheck(
        total=len(nodes),
        fitting=len(nodes) - causes.total(),
        required_node=required,
        reserved_node=own,
        causes=dict(sorted(causes.items())),
        closed=tuple(closed),
    )


def behind_checks(partition: Partition, request: Request) -> tuple[BehindReservationCheck, ...]:
    """Check of the first claim whose room the ask would use, on a node with free room; at most one."""
    checks = (claim.check(request) for claim in partition.claims.held)
    return next(((check,) for check in checks if check is not None), ())


def _asked_nodes(partition: Partition, required: NodeId | None) -> list[Node]:
    if required is None:
        return list(partition.nodes.by_id.values())
    node = partition.nodes.by_id.get(required)
    return [] if node is None else [node]


def why_not_there(node: Node, ask_class: AskClass) -> HolderReason:
    """Reason why a pending ask without an obstacle does not run on its reserved node."""
    available = node.available
    lacks = {
        name: value - available.get(name, 0)
        for name, value in ask_class.items
        if available.get(name, 0) < value
    }
    if lacks:
        return HolderReason("WAITS_FOR_ROOM", "waits for room on the node", lacks)
    refusal = node.refusal(ask_class, reserved=True)
    if refusal is None and node.is_refused(ask_class):
        refusal = "the RM refuses the ask there"
    if refusal is not None:
        return HolderReason("NODE_REFUSED", f"the node is out: {refusal}", {})
    return HolderReason("WAITS_FOR_TURN", "waits for its turn", {})


def bound_of(partition: Partition, request: Request) -> ReservationBound | None:
    """The bound on reserved nodes that prevents a reservation for the ask; None if there is none."""
    group = request.group
    if group is None or ReservationRequest not in group.remedy_requests or request.reservation is not None:
        return None
    limits = partition.wakeups.reservation_limits
    owner = limits.full(group.app)
    most = None if owner is None else limits.most(owner)
    if owner is None or most is None:
        return None
    if isinstance(owner, Application):
        whom, key = f"for application {owner.app_id}", APP_RESERVATION_MAX_NODES
    else:
        whom = "in the partition" if owner.parent is None else f"in queue {owner.path}"
        key = RESERVATION_MAX_NODES
    return ReservationBound(whom=whom, reserved=limits.reserved(owner), most=most, key=key)


@cache
def _help() -> Callable[[Partition, Application, Request], PreemptionCheck]:
    found: Callable[[Partition, Application, Request], PreemptionCheck]
    found = next(module.HELP for _, module in modules("reports") if hasattr(module, "HELP"))
    return found


def help_check(partition: Partition, app: Application, request: Request) -> PreemptionCheck:
    """The progress of the remedy for an ask, as given by `HELP` in a feature's `reports.py`."""
    return _help()(partition, app, request)
