"""Enforcing a maximum that was lowered, or exceeded by force (spec § 9.6)."""

from dataclasses import replace

from licorne_core.facts.preemption import QuotaPreempted, VictimOfQuota
from licorne_core.handlers.outcome import Outcome
from licorne_core.handlers.preemption import record_of, stop_victim
from licorne_core.partition import Partition
from licorne_core.preemption.ledger import PreemptionRule, QueueNumbers
from licorne_core.preemption.quota_change import CHECK_INTERVAL, Enforcement, victims_of
from licorne_core.queues.queue import Queue
from licorne_core.resources import EMPTY
from licorne_core.timers import Due, Timer

FOR_QUOTA = "preempting allocations to enforce new max quota for queue : {}"

_TIMER = Timer(Due.QUOTA)


def watch_quotas(partition: Partition, now: float) -> None:
    """Look again in a while as long as a queue has a time at which it is enforced."""
    deadline = partition.quota_clock.next_deadline(now)
    if deadline is not None and _TIMER not in partition.timers:
        partition.timers.set(_TIMER, deadline)


def note_growth(partition: Partition, leaf: Queue, now: float) -> None:
    """Something was booked in the leaf whatever its maximum says: recovered, resized, placed."""
    if partition.quota_clock.enabled:
        partition.quota_clock.on_growth(leaf.lineage, now)
        watch_quotas(partition, now)


def enforce_quotas(partition: Partition, now: float, outcome: Outcome) -> None:
    """Stop what queues have above their maxima, where it is time; later while all is on hold."""
    if partition.holds:
        partition.timers.set(_TIMER, now + CHECK_INTERVAL)
        return
    for queue in partition.quota_clock.due(now):
        found = victims_of(queue, partition.nodes.by_id, now, partition.losses)
        if found.selected:
            _enforce(partition, queue, found, now, outcome)
    watch_quotas(partition, now)


def _enforce(
    partition: Partition, queue: Queue, found: Enforcement, now: float, outcome: Outcome
) -> None:
    numbers = QueueNumbers.of(queue)
    records = [
        replace(record_of(victim, PreemptionRule.QUOTA, now), beneficiary_queue=numbers)
        for victim in found.victims
    ]
    for victim, record in zip(found.victims, records, strict=True):
        stop_victim(partition, victim, record, FOR_QUOTA.format(queue.path), now, outcome)
        partition.journal.note(VictimOfQuota(now, victim.request.ask, queue.path))
    count = len(found.victims)
    fact = QuotaPreempted(
        now, queue.path, queue.max or EMPTY, found.amount, found.claimed, found.selected, count
    )
    partition.journal.note(fact)
