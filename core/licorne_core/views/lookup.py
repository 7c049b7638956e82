"""The reading side of the core: reports made on demand, never changing anything (DESIGN § 2)."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain

from licorne_core.messages.reports import Census, Explanation, OutstandingShape, PlacementReport
from licorne_core.partitions.registry import Registry
from licorne_core.scheduling.preemption.ledger import PreemptionRecord
from licorne_core.values.asks import Allocation
from licorne_core.values.counters import Counters
from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import AllocationKey, AppId, NodeId, PartitionName, QueuePath, RmId
from licorne_core.values.rm_caps import RmCaps
from licorne_core.views.applications import (
    AppReport,
    AskReport,
    InOrder,
    allocations_of,
    app_names,
    app_report,
    asks_of,
    find_application,
    reservations_of,
)
from licorne_core.views.audit.recount import Finding, audit
from licorne_core.views.census import Standing, census, standing, waiting_by_code
from licorne_core.views.explain import explain, explain_preempted
from licorne_core.views.nodes import (
    NodeReport,
    ReservationReport,
    allocations_on,
    find_node,
    first_reservations,
    node_report,
    reservations,
    reservations_on,
)
from licorne_core.views.outstanding_scan import outstanding_shapes, scan
from licorne_core.views.queues import (
    PartitionReport,
    QueueReport,
    RmReport,
    UsageReport,
    children_of,
    level_by_level,
    partition_report,
    placement_report,
    queue_report,
    rm_report,
    usage_report,
)


class PartitionViews:
    """RMs and partitions as a whole."""

    def __init__(self, registry: Registry, caps: RmCaps) -> None:
        """Read these RMs, each with its caps."""
        self._registry = registry
        self.caps = caps

    def rms(self) -> tuple[RmReport, ...]:
        """All RMs in order of registration."""
        return tuple(rm_report(rm) for rm in self._registry.rms.values())

    def rm(self, rm_id: str) -> RmReport:
        """Report an RM."""
        rm = self._registry.rms.get(RmId(rm_id))
        if rm is None:
            raise NotFound(f"RM {shown(rm_id)} is not registered")
        return rm_report(rm)

    def partitions(self, rm_id: RmId | None = None) -> tuple[PartitionReport, ...]:
        """All partitions, or those of one RM."""
        return tuple(map(self.partition, self.partition_names(rm_id)))

    def partition_names(self, rm_id: RmId | None = None) -> list[PartitionName]:
        """Names of all partitions, or of those of one RM, for reading one by one."""
        rms = self._registry.rms
        chosen = rms.values() if rm_id is None else [rms[rm_id]] if rm_id in rms else []
        return list(chain.from_iterable(rm.partitions for rm in chosen))

    def partition(self, name: PartitionName) -> PartitionReport:
        """Report a partition."""
        return partition_report(self._registry.partition(name))

    def running(self, rm_id: RmId) -> int:
        """Number of allocations of an RM that are booked and known to it; 0 if it is not here."""
        rm = self._registry.rms.get(rm_id)
        return 0 if rm is None else sum(p.tally.allocations for p in rm.partitions.values())

    def resolve(self, name: str) -> PartitionName:
        """A partition's normalized name, from that or from its bare name (DESIGN § 4)."""
        partition = self._registry.by_name(name)
        if partition is None:
            raise NotFound(f"partition {shown(name)} not found")
        return partition.name

    def placement(self, partition: PartitionName) -> PlacementReport:
        """The placement rules in force."""
        return placement_report(self._registry.partition(partition))

    def audit(self, partition: PartitionName) -> Iterator[Finding | None]:
        """Yield differences in the books, with a None wherever the reader may pause."""
        return audit(self._registry.partition(partition))

    def counters(self, partition: PartitionName) -> Counters:
        """The partition's counters; read, do not keep."""
        return self._registry.partition(partition).counters

    def answers_late(self, rm_id: RmId) -> int:
        """Answers of an RM to predicate checks that were not open any more; 0 if it is not here."""
        rm = self._registry.rms.get(rm_id)
        return 0 if rm is None else rm.context.answers_late

    def waiting(self, partition: PartitionName, most: int) -> tuple[dict[str, int], bool]:
        """Count waiting asks by the code of their obstacle; True if those are all.

        So many applications and groups of asks are looked at.
        """
        return waiting_by_code(self._registry.partition(partition), most)

    def census(self, partition: PartitionName) -> Iterator[Census | None]:
        """Make the census of the partition, as the reader goes on.

        There is a None wherever the reader may pause, and the census at the end.
        """
        return census(self._registry.partition(partition))

    def standing(self, rm_id: RmId, partition: str, app_id: str, key: str) -> Standing | None:
        """Standing of an ask: its queue and obstacle; None if there is no such ask.

        `partition` is its name as sent by the RM.
        """
        rm = self._registry.rms.get(rm_id)
        return None if rm is None else standing(rm, partition, app_id, key)


class NodeViews(PartitionViews):
    """Nodes, with their contents and reservations."""

    def node_ids_in_order(self, partition: PartitionName) -> InOrder[NodeId]:
        """Ids of all nodes in order, for readers of many."""
        return InOrder(self._registry.partition(partition).nodes.by_id)

    def node(self, partition: PartitionName, node_id: str) -> NodeReport:
        """Report a node."""
        owner = self._registry.partition(partition)
        return node_report(find_node(owner, node_id), owner)

    def allocations_on(
        self, partition: PartitionName, node_id: str
    ) -> Iterator[tuple[Allocation, str] | None]:
        """All allocations on a node, made like those of an application."""
        owner = self._registry.partition(partition)
        return allocations_on(owner, find_node(owner, node_id))

    def foreign_on(self, partition: PartitionName, node_id: str) -> list[Allocation]:
        """Allocations of other schedulers on a node."""
        owner = self._registry.partition(partition)
        return list(find_node(owner, node_id).foreign.values())

    def reservations(
        self, partition: PartitionName, *, start: str = ""
    ) -> Iterator[ReservationReport | None]:
        """All reservations by node id and then by time, from the node `start` on.

        There is a None wherever the reader may pause.
        """
        return reservations(self._registry.partition(partition), start)

    def reservations_on(
        self, partition: PartitionName, node_id: str, *, reasoned: bool = True
    ) -> Iterator[ReservationReport | None]:
        """Reservations of one node by time, made as the reader goes on.

        There is a None wherever the reader may pause. With `reasoned` each has the reason that its
        ask waits.
        """
        owner = self._registry.partition(partition)
        return reservations_on(owner, find_node(owner, node_id), reasoned=reasoned)

    def first_reservations(
        self, partition: PartitionName, node_id: str, most: int
    ) -> tuple[ReservationReport, ...]:
        """First reservations of one node, at most that many, in one piece."""
        owner = self._registry.partition(partition)
        return first_reservations(owner, find_node(owner, node_id), most)


class Views(NodeViews):
    """Finds objects and reports them; a missing one raises NotFound by name."""

    def queue(self, partition: PartitionName, path: str) -> QueueReport:
        """Report a queue."""
        owner = self._registry.partition(partition)
        queue = owner.tree.get(path)
        if queue is None:
            raise NotFound(f"queue {shown(path)} not found")
        return queue_report(queue, owner)

    def children(self, partition: PartitionName, path: str) -> Iterator[QueuePath | None]:
        """The paths of the queues just below one, by name.

        Before the first is a None wherever the reader may pause.
        """
        queue = self._registry.partition(partition).tree.get(path)
        if queue is None:
            raise NotFound(f"queue {shown(path)} not found")
        return children_of(queue)

    def level_by_level(self, partition: PartitionName) -> Iterator[QueuePath | None]:
        """The paths of all queues, those nearest to root first, and of one parent by name.

        There is a None wherever the reader may pause. A queue may be gone when it is read.
        """
        return level_by_level(self._registry.partition(partition).tree.root)

    def app_ids_in_order(
        self, partition: PartitionName, *, queue: str = "", state: str = "active"
    ) -> InOrder[AppId]:
        """Names of applications that are active, completed or rejected; of one queue or of all."""
        owner = self._registry.partition(partition)
        if queue:
            self.queue(partition, queue)
        return app_names(owner, state, queue)

    def application(self, partition: PartitionName, app_id: str) -> AppReport:
        """Report an application; completed and rejected ones too."""
        owner = self._registry.partition(partition)
        return app_report(find_application(owner, app_id), owner)

    def asks(self, partition: PartitionName, app_id: str) -> Iterator[AskReport | None]:
        """All asks of one application in order, made as the reader goes on.

        There is a None wherever the reader may pause.
        """
        return asks_of(find_application(self._registry.partition(partition), app_id))

    def allocations(self, partition: PartitionName, app_id: str) -> Iterator[tuple[Allocation, str] | None]:
        """All allocations of one application, made like its asks, with a None for each pause.

        Each comes with the reason that it is being stopped, empty for none.
        """
        return allocations_of(find_application(self._registry.partition(partition), app_id))

    def reservations_of(
        self, partition: PartitionName, app_id: str, *, reasoned: bool = True
    ) -> Iterator[ReservationReport]:
        """Nodes reserved for asks of one application, made as the reader goes on.

        With `reasoned` each has the reason that its ask waits.
        """
        owner = self._registry.partition(partition)
        return reservations_of(owner, find_application(owner, app_id), reasoned=reasoned)

    def outstanding(self, partition: PartitionName) -> Iterator[OutstandingShape | None]:
        """Asks that quota would admit and no node takes, by size, the most frequent first.

        There is a None wherever the reader may pause. Later changes may be missed.
        """
        return outstanding_shapes(scan(self._registry.partition(partition)))

    def usage_names_in_order(self, partition: PartitionName, kind: str) -> InOrder[str]:
        """The users (`kind` is ``user``) or groups (``group``) that have something or a limit."""
        owner = self._registry.partition(partition)
        return InOrder(owner.limits.known(kind, owner.tree.limited()))

    def usage(self, partition: PartitionName, kind: str, name: str) -> Iterator[UsageReport | None]:
        """Usage and limits of a user or a group, queue by queue.

        There is a None wherever the reader may pause, and the report at the end.
        """
        return usage_report(self._registry.partition(partition), kind, name)

    def usages(
        self, partition: PartitionName, kind: str, names: Iterable[str | None]
    ) -> Iterator[UsageReport | None]:
        """Usage of many, each read in its turn; a removed name is left out."""
        for name in names:
            yield None
            if name is not None:
                with suppress(NotFound):
                    yield from self.usage(partition, kind, name)

    def explain(self, partition: PartitionName, app_id: str, key: str = "") -> Iterator[Explanation | None]:
        """Explain a pending ask, or the outcome of one; a victim of preemption is known for long.

        There is a None wherever the reader may pause, and the explanation at the end.
        """
        owner = self._registry.partition(partition)
        app = owner.applications.get(AppId(app_id))
        if app is None or key not in app.requests:
            record = owner.ledger.find(AppId(app_id), AllocationKey(key))
            if record is not None:
                yield explain_preempted(record)
                return
        if app is None:
            gone = find_application(owner, app_id)
            why = f": {gone.message}" if gone.message else ""
            raise NotFound(f"application {app_id} is {gone.state.value}{why}")
        yield from explain(owner, app, key)

    def preemptions(
        self,
        partition: PartitionName,
        app_id: str = "",
        key: str = "",
        *,
        before: int | None = None,
    ) -> Iterator[PreemptionRecord]:
        """Victims of preemption, the latest first: all, or those of an application or of a key.

        With `before` only those with lower numbers. They are looked up as the reader goes on.
        """
        return self._registry.partition(partition).ledger.latest(app_id, key, before=before)

    def preemption(self, partition: PartitionName, app_id: str, key: str) -> PreemptionRecord | None:
        """The last time that an allocation was a victim, if that is known."""
        return self._registry.partition(partition).ledger.find(AppId(app_id), AllocationKey(key))
