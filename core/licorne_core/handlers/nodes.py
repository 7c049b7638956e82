"""Adds, changes and removes nodes (spec § 7)."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from licorne_core.handlers.assumed import roll_back_on, roll_back_unfitting
from licorne_core.handlers.bounds import check_capacity, check_node_growth, check_types
from licorne_core.handlers.gangs import free, what_went
from licorne_core.handlers.lifecycle import after_gone, end_placeholder_time, look_again
from licorne_core.handlers.outcome import Commands, OutcomeJob
from licorne_core.messages.commands import NodeAction, NodeUpdate, TerminationType, UpdateNodes
from licorne_core.messages.effects import Effect, NodeRejection, NodesAnswered, Release
from licorne_core.messages.events.cluster import (
    node_added,
    node_removed,
    node_resized,
    occupied_changed,
    schedulable_changed,
)
from licorne_core.messages.events.records import EventDetail
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import Gone, PairEvent
from licorne_core.model.apps.requests import RequestState
from licorne_core.model.nodes.node import Node
from licorne_core.partitions.jobs import Job
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import MAX_FAILED_NODES, Registry, Rm
from licorne_core.values.asks import Allocation, Ask
from licorne_core.values.errors import Refusal, Rejected
from licorne_core.values.ids import AllocationKey, NodeId
from licorne_core.values.resources import Resources, equals

FOREIGN_TAG = "foreign"

_CREATES = frozenset({NodeAction.CREATE, NodeAction.CREATE_DRAIN})


def is_foreign(ask: Ask) -> bool:
    """True if the ask belongs to another scheduler."""
    return any(tag.lower() == FOREIGN_TAG for tag in ask.tags)


def take_foreign(partition: Partition, ask: Ask, now: float) -> None:
    """Book a foreign allocation as occupied, replacing its earlier size; send no answer. Raises Rejected."""
    if not ask.node_id:
        raise Rejected(f"trying to add a foreign request (non-allocation) {ask.key}", Refusal.INVALID)
    if ask.node_id not in partition.nodes.by_id:
        raise Rejected(f"failed to find node {ask.node_id} for allocation {ask.key}", Refusal.UNKNOWN_NODE)
    node = partition.nodes.by_id[ask.node_id]
    known = node.foreign.get(ask.key)
    before = known.ask.ask_class.items if known is not None else ()
    if ask.key not in partition.foreign:
        partition.rm.holdings.check_ask(ask.key, ask.footprint, exists=True)
    check_types(partition, ask.ask_class.resources)
    check_node_growth(ask.key, before, ask.ask_class.items, node)
    left = _drop(partition, ask.key)
    if left is not None and left is not node:
        _note(partition, left, now)
    partition.foreign[ask.key] = node
    partition.rm.holdings.ask_added(ask.footprint)
    node.foreign[ask.key] = Allocation(ask, ask.node_id, now, now)
    partition.cluster.occupy(node, (), ask.ask_class.items)
    _note(partition, node, now)
    roll_back_unfitting(partition, node, now)


def release_foreign(partition: Partition, key: AllocationKey, now: float) -> None:
    """Remove a foreign allocation; an unknown one is ignored."""
    node = _drop(partition, key)
    if node is not None:
        _note(partition, node, now)


def forget_foreign_on(job: Job, partition: Partition, node: Node) -> Iterator[int]:
    """Remove foreign allocations of a node that is about to be removed; yield the costs of the steps."""
    for key in list(node.foreign):
        _drop(partition, key)
        yield 1


def _drop(partition: Partition, key: AllocationKey) -> Node | None:
    """Remove a foreign allocation from the books; return its node, or None for an unknown key."""
    node = partition.foreign.pop(key, None)
    if node is not None:
        ask = node.foreign.pop(key).ask
        partition.rm.holdings.ask_removed(ask.footprint)
        partition.cluster.occupy(node, ask.ask_class.items, ())
    return node


def _note(partition: Partition, node: Node, now: float) -> None:
    partition.journal.note(occupied_changed(now, node.node_id, dict(node.occupied)))


def _update(registry: Registry, rm: Rm, command: UpdateNodes, now: float) -> list[Effect]:
    """Process the nodes in order; created nodes are answered in one effect (spec § 1.6.6)."""
    return registry.jobs.carry_on(registry.jobs.find(command) or _Update(rm, command, now), now)


class _Update(OutcomeJob):
    """Additions, changes and removals of nodes."""

    def __init__(self, rm: Rm, command: UpdateNodes, now: float) -> None:
        """Begin with the first node of the command."""
        self._rm = rm
        self._nodes = command.nodes
        super().__init__(command, rm.slice_size, now)

    def steps(self) -> Iterator[int]:
        """Process the nodes in order; see `Job`."""
        rm_id = self._rm.rm_id
        accepted: list[NodeId] = []
        rejected: list[NodeRejection] = []
        for update in self._nodes:
            if update.action not in _CREATES:
                yield from self._change(update)
                continue
            try:
                _create(self._rm, update, self.now)
            except Rejected as refusal:
                rejected.append(NodeRejection(node_id=update.node_id, reason=str(refusal), code=refusal.code))
            else:
                accepted.append(update.node_id)
        if accepted or rejected:
            answer = NodesAnswered(rm_id=rm_id, accepted=accepted, rejected=rejected)
            self.effects.append(answer)

    def _change(self, update: NodeUpdate) -> Iterator[int]:
        """Apply any action except a creation; no answer is sent, and unknown nodes are ignored (spec § 7)."""
        found = _find(self._rm, update)
        if update.action is NodeAction.DECOMISSION:
            self._rm.failed_nodes.pop(update.node_id, None)
        if found is None:
            return
        partition, node = found
        if update.action is NodeAction.DECOMISSION:
            yield from _decommission(self, partition, node)
            self.tell()
        elif update.action in (NodeAction.DRAIN_NODE, NodeAction.DRAIN_TO_SCHEDULABLE):
            schedulable = update.action is NodeAction.DRAIN_TO_SCHEDULABLE
            _set_schedulable(partition, node, schedulable=schedulable, now=self.now)
        elif update.capacity is not None and self._capacity(update.capacity) != node.capacity:
            # A repeated value changes nothing, in particular no predicate result for the node (§ 8.4).
            # An update is never answered, so an impossible one is ignored as a whole.
            with suppress(Rejected):
                check_capacity(partition, node.node_id, node.capacity, update.capacity)
                _resize(partition, node, self._capacity(update.capacity), self.now)

    def _capacity(self, told: Resources) -> Resources:
        return self._rm.context.core.floating.added_to(told)


def _create(rm: Rm, update: NodeUpdate, now: float) -> None:
    partition = rm.find(update.partition)
    node_id = update.node_id
    if partition is None:
        if len(rm.failed_nodes) < MAX_FAILED_NODES:
            rm.failed_nodes[node_id] = None
        name = rm.normalized(update.partition)
        raise Rejected(f"failed to find partition {name} for new node {node_id}", Refusal.UNKNOWN_PARTITION)
    if not node_id:
        raise Rejected("node ID is empty", Refusal.INVALID)
    if node_id in partition.nodes.by_id:
        raise Rejected(
            f"partition {partition.name} has an existing node {node_id}, node name must be unique",
            Refusal.ALREADY_THERE,
        )
    capacity = update.capacity or {}
    check_capacity(partition, node_id, {}, capacity)
    schedulable = update.action is NodeAction.CREATE
    whole = rm.context.core.floating.added_to(capacity)
    node = Node(node_id, whole, update.attributes, schedulable=schedulable)
    node.close(partition.nodes.closed.get(node_id))
    rm.holdings.check_node(node_id, node.footprint)
    rm.failed_nodes.pop(node_id, None)
    partition.cluster.add(node)
    look_again(partition, node, now)
    shown = partition.rm.core.floating.shown
    total = shown(partition.nodes.total)
    added = node_added(now, node_id, shown(capacity), total, schedulable=node.schedulable)
    partition.journal.note_all(added)


def _find(rm: Rm, update: NodeUpdate) -> tuple[Partition, Node] | None:
    """The named node and its partition; None for an unknown node."""
    partition = rm.find(update.partition) if update.partition else rm.holder_of(update.node_id)
    node = partition.nodes.by_id.get(update.node_id) if partition else None
    return None if partition is None or node is None else (partition, node)


def _set_schedulable(partition: Partition, node: Node, *, schedulable: bool, now: float) -> None:
    if partition.cluster.set_schedulable(node, schedulable=schedulable):
        partition.journal.note(schedulable_changed(now, node.node_id, schedulable=node.schedulable))
    if not schedulable:
        # Open checks are void: the RM was asked while the node was still schedulable.
        roll_back_on(partition, node, now, gone=False)


def _resize(partition: Partition, node: Node, capacity: Resources, now: float) -> None:
    changed = not equals(node.capacity, capacity)
    partition.cluster.resize(node, capacity, now)
    if changed:
        shown = partition.rm.core.floating.shown
        total = shown(partition.nodes.total)
        partition.journal.note_all(node_resized(now, node.node_id, shown(capacity), total))
    roll_back_unfitting(partition, node, now)


def _decommission(job: OutcomeJob, partition: Partition, node: Node) -> Iterator[int]:
    """Free all allocations on the node, then remove it (spec § 7); yield the costs of the steps."""
    _set_schedulable(partition, node, schedulable=False, now=job.now)
    roll_back_on(partition, node, job.now, gone=True)
    went: dict[Application, Gone] = {}
    for allocation in list(node.allocations):
        gone = _free(job, partition, allocation)
        app = partition.applications[allocation.ask.app_id]
        if gone is not None and went.get(app) is not Gone.REAL:
            went[app] = gone
        yield 1
    yield from forget_foreign_on(job, partition, node)
    partition.cluster.remove(node, job.now)
    for extension in partition.points.node_lost:
        extension.node_lost(node)
    partition.counters.nodes_decommissioned += 1
    total = partition.rm.core.floating.shown(partition.nodes.total)
    partition.journal.note_all(node_removed(job.now, node.node_id, total))
    # Once per application: its gang's timeout ends with the last placeholder; more calls do nothing.
    for app, gone in went.items():
        job.outcome.updates += after_gone(partition, app, gone, job.now)


def _free(job: OutcomeJob, partition: Partition, allocation: Allocation) -> Gone | None:
    """Free an allocation of a removed node; return its kind; None if it is linked, or has ended already."""
    app = partition.applications[allocation.ask.app_id]
    request = app.requests.get(allocation.key)
    if request is None or request.allocation is not allocation:
        # The request has already ended together with its partner.
        return None
    if request.state is RequestState.LINKED:
        partition.pairs.part(app, request, PairEvent.NODE_LOST, job.now)
        return None
    detail = EventDetail.ALLOC_NODEREMOVED
    freed = free(partition, app, request, detail, job.now, job.outcome, with_node=True)
    if freed is not None:
        partition.journal.note(freed)
    # Other effects wait for the end of the job, but a timeout without placeholders is an invalid state.
    end_placeholder_time(partition, app)
    release = Release(
        app_id=app.app_id,
        key=allocation.key,
        termination=TerminationType.STOPPED_BY_RM,
        message=f"Node {allocation.node_id} Removed",
    )
    job.outcome.release(partition, release)
    return what_went(request)


COMMANDS: Final[Commands] = {UpdateNodes: _update}
