"""Lowered maxima of one partition: checked each second, and enforced by stopping allocations."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from licorne_core.config.schema import PartitionConfig
from licorne_core.extensions.quota_change import NAME, SWITCH
from licorne_core.extensions.quota_change.clock import QuotaClock, terms_of
from licorne_core.extensions.quota_change.recount import check_starts
from licorne_core.extensions.quota_change.victims import Enforcement, still_exceeds
from licorne_core.handlers.outcome import TimerJob
from licorne_core.ledger.stops import numbers_of
from licorne_core.messages.events.records import EventChange, EventDetail, EventRecord, EventType
from licorne_core.messages.preemption import PreemptionRecord, PreemptionRule
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.queues.queue import Queue
from licorne_core.partitions.partition import Partition
from licorne_core.points import Extension, Former
from licorne_core.scheduling.rules import CheckContext
from licorne_core.standard.preemption.extension import preemption_of
from licorne_core.standard.preemption.stopping import record_of, stop_victims
from licorne_core.standard.preemption.victims import Victim
from licorne_core.values.ids import AppId
from licorne_core.values.resources import EMPTY, charge, describe
from licorne_core.values.timers import Due, Timer

TIMER: Final = Timer(Due.EXTENSION_WORK, name=NAME)


class QuotaChange(Extension):
    """The times at which the queues of a partition are enforced, and the enforcement.

    Always true: if a queue has a start time, either the timer is set or the enforcement is running.
    """

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Start without times, and switched off."""
        super().__init__(name, bit, context)
        self.clock = QuotaClock(enabled=False)
        self._was_on = self._works = False

    def configure(self, config: PartitionConfig) -> None:
        """Set the switch; the former terms of queues depend on the former switch."""
        clock = self.clock
        self._was_on, clock.enabled = clock.enabled, config.switches.get(SWITCH, False)

    def settled(self, queue: Queue, before: Former | None, now: float) -> None:
        """Set the start time of a queue whose maximum may have been lowered."""
        if before is not None and (self.clock.enabled or self._was_on):
            former = terms_of(queue, enabled=self._was_on, before=before)
            self.clock.on_reload(queue, former, now)

    def reloaded(self, now: float) -> None:
        """Set the timer, as queues may have new start times."""
        self._watch(now)

    def grown(self, leaf: Queue, now: float) -> None:
        """Set start times of the leaf and queues above that exceed their maxima and have no time yet."""
        if self.clock.enabled:
            self.clock.on_growth(leaf.lineage, now)
            self._watch(now)

    def work(self, job: TimerJob) -> Iterator[int]:
        """Stop allocations beyond the maxima of due queues."""
        self._works = True
        due = yield from self.clock.due(job.now)
        for queue in due:
            if self.clock.take(queue, job.now):
                yield from _enforce(job, self.clock, queue)
            yield 1
        self._works = False
        self._watch(job.now)

    def awaited(self) -> float | None:
        """The last start time; 0.0 if only removed queues have one, None if no queue has one."""
        starts = [start if queue.lineage else 0.0 for queue, start in self.clock.starts.items()]
        return max(starts) if starts else None

    def recount(self, applications: Mapping[AppId, Application], *, settled: bool) -> None:
        """Compare start times with settings and timer (`recount.py`)."""
        if settled:
            check_starts(self.clock, is_watched=TIMER in self.timers or self._works)

    def _watch(self, now: float) -> None:
        """Set the timer for the next check, if a queue has a start time."""
        deadline = self.clock.next_deadline(now)
        if deadline is not None and TIMER not in self.timers:
            self.timers.set(TIMER, deadline)


def _enforce(job: TimerJob, clock: QuotaClock, queue: Queue) -> Iterator[int]:
    """Enforce one maximum, as long as the settings require it."""
    partition = job.partition
    before = {queue: numbers_of(queue)}
    preemption = preemption_of(partition.check_context)
    search = preemption.search
    found = Enforcement(queue, preemption.losses, search.assumed_checkpoint, search.units, job.now)

    def stop(victims: Sequence[Victim]) -> None:
        records = []
        for victim in victims:
            leaf = partition.leaf_of(victim.app)
            if leaf not in before:
                before[leaf] = numbers_of(leaf)
            record = record_of(victim, PreemptionRule.QUOTA, job.now)
            records.append(replace(record, victim_queue=before[leaf], beneficiary_queue=before[queue]))
        stop_victims(partition, victims, records, job.now, job.outcome, needed=still_enforced)

    for cost in found.steps(stop):
        yield cost
        if not clock.enforces(queue):
            break
    if found.selected:
        text = (
            f"Quota Preemption results summary: preemptable resources: {describe(found.amount)}"
            f", claimed resources: {describe(found.claimed)}, selected victims: {found.selected}"
            f", preempted victims: {found.victims}"
        )
        about = EventType.QUEUE, queue.path, EventChange.SET, EventDetail.QUEUE_PREEMPTION
        partition.journal.note(EventRecord(job.now, *about, message=text, resource=queue.max or EMPTY))


def still_enforced(partition: Partition, record: PreemptionRecord, unit: Sequence[Request]) -> bool:
    """True if a maximum is still enforced, and stopping the unit violates no guarantee."""
    enforced = record.beneficiary_queue
    queue = None if enforced is None else partition.tree.get(enforced.path)
    own = partition.points.named(NAME)
    assert isinstance(own, QuotaChange)
    if queue is None or not own.clock.enforces(queue):
        return False
    together: dict[str, int] = {}
    for one in unit:
        charge(together, one.ask.ask_class.items)
    leaf = partition.leaf_of(partition.applications[unit[0].ask.app_id])
    return still_exceeds(queue, leaf, tuple(together.items()))


KIND: Final = QuotaChange
