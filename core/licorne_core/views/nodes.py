"""Nodes with their contents and reservations."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from licorne_core.messages.operators import OperatorMark
from licorne_core.model.apps.requests import SHOWN_AS_ASKS, Request
from licorne_core.model.nodes.book import utilization
from licorne_core.model.nodes.node import Node
from licorne_core.partitions.partition import Partition
from licorne_core.values.asks import NO_REASON, Allocation, HolderReason, Reservation
from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import AllocationKey, AppId, NodeId, PartitionName, QueuePath
from licorne_core.values.resources import Resources
from licorne_core.values.slices import RUN, in_runs
from licorne_core.views.explain import why_waits
from licorne_core.views.explain_settled import why_stopped
from licorne_core.views.fields import Moment, Of
from licorne_core.views.partitions import InOrder, PartitionViews


class StayReport(NamedTuple):
    """The planned stop of a noticed allocation, in unix seconds, and the ask or queue that causes it.

    For a lowered maximum there is only a queue.
    """

    deadline: float
    app_id: AppId
    key: AllocationKey
    queue: QueuePath


class AllocationReport(NamedTuple):
    """An allocation that was reported to the RM. Times are in unix seconds; 0.0 if there is none."""

    allocation: Allocation
    stopping: str = ""
    """Reason why the RM was asked to stop the allocation; empty if it was not."""
    stay: StayReport | None = None
    """Time and beneficiary of its preemption; None if it is not noticed."""
    checkpoint: float = 0.0
    """Time up to which the work of the allocation is saved, as reported by its RM."""


def allocation_report(partition: Partition, request: Request, allocation: Allocation) -> AllocationReport:
    """The current allocation of a request."""
    return AllocationReport(
        allocation, why_stopped(request), _stay(partition, request), request.checkpoint or 0.0
    )


def _stay(partition: Partition, request: Request) -> StayReport | None:
    stay = partition.stays.get(request)
    if stay is None:
        return None
    record = stay.record
    queue = record.victim_queue if record.beneficiary_queue is None else record.beneficiary_queue
    return StayReport(stay.stops_at, record.beneficiary_app_id, record.beneficiary_key, queue.path)


class _Reading(NamedTuple):
    """The partition that is read, and whether reasons are requested."""

    partition: Partition
    reasoned: bool


_of_reservation = Of[Reservation, _Reading]()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationReport:
    """A reservation of a node since `time`; `required` if the ask may run on no other node.

    `kept` are the resources that other asks have to leave free; if `exclusive`, they must not use the node.
    `idle_since` is the time since which reviews have found that the ask would not fit on the empty node; 0.0
    if it would. `reason` is the obstacle of the ask, on request.
    """

    node_id: NodeId
    app_id: AppId
    key: AllocationKey
    queue: QueuePath = _of_reservation.within(
        lambda found, read: read.partition.wakeups.reserved.holder(found).leaf.path
    )
    time: Moment
    required: bool
    kept: Resources = _of_reservation(lambda found: dict(found.items))
    exclusive: bool
    idle_since: Moment = _of_reservation(lambda found: found.idle_since or 0.0)
    reason: HolderReason = _of_reservation.within(
        lambda found, read: why_waits(read.partition, found) if read.reasoned else NO_REASON
    )


_reservation_report = _of_reservation.table(ReservationReport)


_of = Of[Node, Partition]()


def _shown(read: Callable[[Node], Resources]) -> Callable[[Node, Partition], Resources]:
    """Amounts of a node without the floating types, of which every node has more than any ask needs."""
    return lambda node, here: dict(here.rm.core.floating.shown(read(node)))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """A node without its allocations. `utilization` is 0.0 to 1.0, weighted.

    Floating resources are left out. A node that an operator has `closed` accepts no new allocations, so it is
    not `schedulable`.
    """

    node_id: NodeId
    partition: PartitionName = _of.within(lambda _, here: here.name)
    attributes: Mapping[str, str]
    schedulable: bool
    closed: OperatorMark | None
    extended: Mapping[str, Any] = _of.added("node", lambda _, here: here.points)
    capacity: Resources = _of.within(_shown(lambda node: node.capacity))
    allocated: Resources = _of.within(_shown(lambda node: node.allocated))
    occupied: Resources = _of.within(_shown(lambda node: node.occupied))
    available: Resources = _of.within(_shown(lambda node: node.available))
    utilization: float = _of.within(lambda node, here: utilization(node, here.nodes.order.policy))
    allocation_count: int = _of(lambda node: len(node.allocations) - node.assumed - node.linked)
    foreign_count: int = _of(lambda node: len(node.foreign))
    reserved: int = _of(lambda node: len(node.reservations))
    """Number of reservations."""
    kept: Resources = _of.within(_shown(lambda node: node.kept))
    """Resources that other asks have to leave free for the reservations."""


_node_report = _of.table(NodeReport)


class NodeViews(PartitionViews):
    """Nodes with their allocations and reservations. A missing object raises NotFound with its name."""

    def node_ids_in_order(self, partition: PartitionName) -> InOrder[NodeId]:
        """Ids of all nodes in order."""
        return InOrder(self._registry.partition(partition).nodes.by_id)

    def node(self, partition: PartitionName, node_id: str) -> NodeReport:
        """Report a node."""
        owner = self._registry.partition(partition)
        return _node_report(_find(owner, node_id), owner)

    def allocations_on(self, partition: PartitionName, node_id: str) -> Iterator[AllocationReport | None]:
        """All allocations on a node that were reported to the RM, see `AllocationReport`.

        None marks a possible pause of the reader.
        """
        owner = self._registry.partition(partition)
        return _allocations_on(owner, _find(owner, node_id))

    def foreign_on(self, partition: PartitionName, node_id: str) -> list[Allocation]:
        """Allocations of other schedulers on a node."""
        return list(_find(self._registry.partition(partition), node_id).foreign.values())

    def reservations(
        self, partition: PartitionName, *, start: str = ""
    ) -> Iterator[ReservationReport | None]:
        """All reservations by node id and then by time, from the node `start` on.

        Each node is read when it is yielded. None marks a possible pause of the reader.
        """
        return _reservations(self._registry.partition(partition), start)

    def reservations_on(
        self, partition: PartitionName, node_id: str, *, reasoned: bool = True
    ) -> Iterator[ReservationReport | None]:
        """Reservations of one node by time, each read when it is yielded; `reasoned` adds the reasons.

        None marks a possible pause of the reader.
        """
        owner = self._registry.partition(partition)
        return _reservations_on(owner, _find(owner, node_id), reasoned=reasoned)

    def first_reservations(
        self, partition: PartitionName, node_id: str, most: int
    ) -> tuple[ReservationReport, ...]:
        """At most `most` reservations of one node; very many asks may require the same node."""
        owner = self._registry.partition(partition)
        found = _find(owner, node_id).reservations.values()
        return tuple(reservation_report(owner, each) for each in islice(found, most))


def _find(partition: Partition, node_id: str) -> Node:
    node = partition.nodes.by_id.get(NodeId(node_id))
    if node is None:
        raise NotFound(f"node {shown(node_id)} not found")
    return node


def _allocations_on(partition: Partition, node: Node) -> Iterator[AllocationReport | None]:
    for number, allocation in enumerate(list(node.allocations), 1):
        app = partition.applications.get(allocation.ask.app_id)
        request = None if app is None else app.requests.get(allocation.key)
        here = request is not None and request.allocation is allocation
        if request is not None and here and request.state not in SHOWN_AS_ASKS:
            yield allocation_report(partition, request, allocation)
        elif not number % RUN:
            yield None


def _reservations(partition: Partition, start: str) -> Iterator[ReservationReport | None]:
    nodes = partition.nodes.by_id

    def fits(node_id: NodeId) -> bool:
        node = nodes.get(node_id)
        return node is not None and bool(node.reservations) and node_id >= start

    for node_id in in_runs(list(nodes), fits=fits):
        node = None if node_id is None else nodes.get(node_id)
        if node is None:
            yield None
        else:
            yield from _reservations_on(partition, node)


def _reservations_on(
    partition: Partition, node: Node, *, reasoned: bool = True
) -> Iterator[ReservationReport | None]:
    for found in in_runs(list(node.reservations.values()), key=_by_time):
        if found is None or found.node_id != node.node_id:
            yield None
        else:
            yield reservation_report(partition, found, reasoned=reasoned)


def _by_time(reservation: Reservation) -> tuple[float, AppId, AllocationKey]:
    return reservation.time, reservation.app_id, reservation.key


def reservation_report(
    partition: Partition, reservation: Reservation, *, reasoned: bool = True
) -> ReservationReport:
    """Report a reservation; `reasoned` adds the reason why its ask does not run."""
    return _reservation_report(reservation, _Reading(partition, reasoned))
