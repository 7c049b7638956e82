"""Rules that bind decisions rather than states: D1, D2, D3 and Q1.

A replayed or resized allocation may lawfully exceed a limit, so the books alone cannot show a violation.
The ledger therefore checks the effects of each decision.

D1  A new allocation fits on its node, and is within the maxima of its queues, user and group. An assumed
    allocation is checked when it is assumed, not when the RM is notified. A replacement on another node
    than its placeholder has to fit on that node only: queues, user and group still count the placeholder.
D2  A key is allocated at most once until it is freed, and never on two nodes.
D3  No new allocation is on a removed node, or for an unknown application. A drained node accepts only asks
    that require it or had it reserved. Amounts reserved for other asks stay free, and an exclusively
    reserved node stays empty, unless the ask requires the node, has it reserved itself, or is within a
    guarantee. A provisional reservation may also be used by other asks of its size.
Q1  No new application is in a draining queue, or in one that is to become a leaf or a parent.
"""

from collections.abc import Iterable

from licorne_core.messages.effects import AllocationsMade, ApplicationsAnswered, Effect, RegistrationFailed
from licorne_core.model.queues.guarantees import entitled_queue
from licorne_core.model.queues.queue import takes_applications
from licorne_core.partitions.partition import Partition
from licorne_core.scheduler import Scheduler
from licorne_core.values.asks import Allocation
from licorne_core.values.ids import AllocationKey, AppId, PartitionName
from support.core.contents import Kept, allocations, assumed, is_pending, placed_elsewhere, reservations

Key = tuple[str, str, str]


class Ledger:
    """The allocations with their nodes, by partition, application and key."""

    def __init__(self) -> None:
        """Start without allocations."""
        self._live: dict[Key, str] = {}
        self._reserved: dict[Key, Kept] = {}
        self._assumed: dict[Allocation, Partition] = {}
        self._elsewhere: dict[Allocation, Partition] = {}

    def forget(self, rm_id: str, effects: Iterable[Effect]) -> None:
        """Forget the keys of an RM that has left or registered again, unless the registration failed."""
        if not any(isinstance(effect, RegistrationFailed) for effect in effects):
            prefix = f"[{rm_id}]"
            self._live = {k: v for k, v in self._live.items() if not k[0].startswith(prefix)}
            self._reserved = {k: v for k, v in self._reserved.items() if not k[0].startswith(prefix)}

    def watch(self, scheduler: Scheduler, effects: Iterable[Effect], *, decided: bool) -> None:
        """Check new allocations, which were `decided` by the core or reported by the RM."""
        self._drop_freed(scheduler)
        now_assumed = {
            allocation: partition
            for partition in scheduler.partitions.values()
            for app in partition.applications.values()
            for allocation in assumed(app).values()
        }
        new = {one: where for one, where in now_assumed.items() if one not in self._assumed}
        for effect in effects:
            if isinstance(effect, AllocationsMade):
                partition = scheduler.partitions[effect.partition]
                for allocation in effect.allocations:
                    self._enter(partition, allocation)
                    if decided and allocation not in self._assumed:
                        new[allocation] = partition
            elif isinstance(effect, ApplicationsAnswered):
                for app_id in effect.accepted:
                    check_placement(scheduler, effect.rm_id, app_id)
        reserved: dict[Key, Kept] = {
            (partition.name, app.app_id, key): kept
            for partition in scheduler.partitions.values()
            for app in partition.applications.values()
            for key, kept in reservations(app).items()
        }
        for allocation, partition in new.items():
            own = self._reserved.get(_key(partition, allocation))
            check_decision(partition, allocation, own.node_id if own else None)
            self._check_reserved(partition, allocation, reserved)
        elsewhere = {
            allocation: partition
            for partition in scheduler.partitions.values()
            for app in partition.applications.values()
            for allocation in placed_elsewhere(app).values()
        }
        for allocation, partition in elsewhere.items():
            if decided and allocation not in self._elsewhere:
                check_place(partition, allocation, None)
                self._check_reserved(partition, allocation, reserved)
        self._reserved, self._assumed, self._elsewhere = reserved, now_assumed, elsewhere

    def _check_reserved(
        self, partition: Partition, allocation: Allocation, reserved: dict[Key, Kept]
    ) -> None:
        """D3: the owners of a permanent reservation of the node are not overtaken."""
        node_id, ask_class = allocation.node_id, allocation.ask.ask_class
        if self._may_have_all(partition, allocation):
            return
        others = {
            key: kept.reservation
            for key, kept in reserved.items()
            if key[0] == partition.name
            and key != _key(partition, allocation)
            and kept.node_id == node_id
            and self._reserved.get(key) == kept
            and is_pending(partition.applications[AppId(key[1])], key[2])
            and not (kept.reservation.provisional and kept.reservation.items == ask_class.items)
        }
        node = partition.nodes.by_id[node_id]
        # An ask with a better right to the node may have been placed later in the turn.
        since = [one for one in node.allocations if self._may_have_all(partition, one)]
        for name, _ in ask_class.items:
            kept_free = sum(dict(one.items).get(name, 0) for one in others.values())
            left = node.available.get(name, 0)
            left += sum(one.ask.ask_class.resources.get(name, 0) for one in since)
            assert left >= kept_free, (
                f"D3: {allocation.key} leaves {left} {name} on {node_id}, reserved for {others}"
            )
        closed = any(one.exclusive for one in others.values())
        assert not closed, f"D3: {allocation.key} on {node_id}, reserved for {others} alone"

    def _may_have_all(self, partition: Partition, allocation: Allocation) -> bool:
        """True if amounts reserved by others on the node may not count against the ask.

        They do not count if its queue was below its guarantee, which may no longer be so after the turn.
        """
        ask_class = allocation.ask.ask_class
        leaf = partition.applications[allocation.ask.app_id].leaf
        own = self._reserved.get(_key(partition, allocation))
        if ask_class.required_node is not None or entitled_queue(leaf, ask_class.items) is not None:
            return True
        return own is not None and own.node_id == allocation.node_id

    def _drop_freed(self, scheduler: Scheduler) -> None:
        """Remove keys that the core reports as ended."""
        freed = [
            key
            for key in self._live
            if key[0] not in scheduler.partitions or not _is_allocated(scheduler, key)
        ]
        for key in freed:
            del self._live[key]

    def _enter(self, partition: Partition, allocation: Allocation) -> None:
        key = _key(partition, allocation)
        assert key not in self._live, f"D2: {key} on {self._live[key]} and {allocation.node_id}"
        self._live[key] = allocation.node_id


def _key(partition: Partition, allocation: Allocation) -> Key:
    return (partition.name, allocation.ask.app_id, allocation.key)


def _is_allocated(scheduler: Scheduler, key: Key) -> bool:
    partition, app_id, allocation_key = key
    app = scheduler.partitions[PartitionName(partition)].applications.get(AppId(app_id))
    key_of = AllocationKey(allocation_key)
    return app is not None and key_of in allocations(app).keys() - assumed(app).keys()


def check_placement(scheduler: Scheduler, rm_id: str, app_id: AppId) -> None:
    """Q1 for an application that was just accepted, in whichever partition of its RM.

    The same request may have removed it again.
    """
    leaves = [
        partition.leaf_of(partition.applications[app_id])
        for partition in scheduler.partitions.values()
        if partition.rm_id == rm_id and app_id in partition.applications
    ]
    assert not leaves or any(map(takes_applications, leaves)), f"Q1: {app_id} is in {leaves}"


def check_decision(partition: Partition, allocation: Allocation, kept: str | None) -> None:
    """D1 and D3 for one decision of the turn that has just ended; `kept` is the reserved node.

    Usage only rises within a turn, so an allocation that fits at its end has fitted at every decision.
    """
    ask = allocation.ask
    check_place(partition, allocation, kept)
    app = partition.applications.get(ask.app_id)
    assert app is not None, f"D3: {ask.key} of unknown application {ask.app_id}"
    assert partition.tree.get(app.queue_path), f"D3: {ask.key} in unknown queue {app.queue_path}"
    for name, _ in ask.ask_class.items:
        for quota in app.quotas:
            if quota.max is not None and (name in quota.max or quota.strict):
                used, limit = quota.allocated.get(name, 0), quota.max.get(name, 0)
                used -= quota.overhang.get(name, 0)
                assert used <= limit, f"D1: {ask.key}: {name} {used} > {limit} in {quota!r}"


def check_place(partition: Partition, allocation: Allocation, kept: str | None) -> None:
    """The parts of D1 and D3 about the node."""
    ask = allocation.ask
    node = partition.nodes.by_id.get(allocation.node_id)
    assert node is not None, f"D3: {ask.key} on unknown node {allocation.node_id}"
    required = ask.ask_class.required_node
    assert required in (None, node.node_id), f"D3: {ask.key} wants {required}, got {node!r}"
    assert node.schedulable or required or kept == node.node_id, f"D3: {ask.key} on drained {node!r}"
    for name, _ in ask.ask_class.items:
        assert node.available.get(name, 0) >= 0, f"D1: {ask.key}: too much {name} on {node!r}"
