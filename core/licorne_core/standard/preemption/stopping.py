"""The stop of victims, which an extension may delay (spec §§ 9.4-9.6)."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from licorne_core.handlers.assumed import roll_back
from licorne_core.handlers.outcome import Outcome
from licorne_core.ledger.stops import numbers_of
from licorne_core.messages.commands import TerminationType
from licorne_core.messages.effects import Release
from licorne_core.messages.events.allocations import victim_of_drain, victim_of_quota, victim_preempted
from licorne_core.messages.events.records import EventRecord
from licorne_core.messages.preemption import PreemptionRecord, PreemptionRule
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import PairEvent
from licorne_core.model.apps.members import unit_of
from licorne_core.model.apps.requests import Request, seconds_lost, seconds_run
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.stays import end_stay
from licorne_core.standard.preemption.extension import preemption_of
from licorne_core.standard.preemption.losses import loss_of
from licorne_core.standard.preemption.victims import Victim
from licorne_core.values.asks import Ask

TEXTS = {
    PreemptionRule.GUARANTEE: "preempting allocations to free up resources to run ask: {}",
    PreemptionRule.FAIR_SHARE: "preempting allocations to free up resources to run ask: {}",
    PreemptionRule.REQUIRED_NODE: "preempting allocations to free up resources to run daemon set ask: {}",
    PreemptionRule.QUOTA: "preempting allocations to enforce new max quota for queue : {}",
    PreemptionRule.DRAIN: "preempting allocations to drain node: {}",
}
"""Messages to the RM, by rule."""


Needed = Callable[[Partition, PreemptionRecord, Sequence[Request]], bool]
"""Tells whether the running members of a unit are still to be stopped, by partition and record."""


class Stop(NamedTuple):
    """A victim that is about to be stopped, as passed to `Extension.put_off`."""

    partition: Partition
    app: Application
    request: Request
    record: PreemptionRecord
    unit: Sequence[Request]
    """The victim, and the members of its gang that are stopped or spared with it."""
    needed: Needed | None
    """Tells whether the unit is still to be stopped; None if its promise decides."""
    now: float
    outcome: Outcome


def record_of(victim: Victim, rule: PreemptionRule, now: float) -> PreemptionRecord:
    """Record of a victim for the ledger, without its beneficiary."""
    ask = victim.request.ask
    return PreemptionRecord(
        app_id=ask.app_id,
        key=ask.key,
        node_id=victim.node.node_id,
        resources=ask.ask_class.resources,
        priority=victim.request.priority,
        time=now,
        rule=rule,
        victim_queue=numbers_of(victim.app.leaf),
    )


def stop_victims(
    partition: Partition,
    victims: Sequence[Victim],
    records: Sequence[PreemptionRecord],
    now: float,
    outcome: Outcome,
    needed: Needed | None = None,
) -> None:
    """Ask the RM to stop victims, each with its record; gangs in units lose these members.

    `needed` decides whether noticed victims are still to be stopped; it is None for victims of a promise.
    """
    units = _units(victims)
    for app, count in Counter(victim.app for victim in victims if victim.request in units).items():
        if app.gang.units is not None:
            partition.journal.note(app.gang.units.shrinks(now, app.app_id, count, whom(records[0])))
    for victim, record in zip(victims, records, strict=True):
        unit = units.get(victim.request, (victim.request,))
        stop_victim(partition, victim, record, now, outcome, unit, needed)


def _units(victims: Sequence[Victim]) -> dict[Request, Sequence[Request]]:
    """Victims grouped by unit of a gang, each with all members that are stopped with it."""
    found: dict[Request, Sequence[Request]] = {}
    for app, request, _ in victims:
        if request not in found:
            together = unit_of(app, request)
            found.update(dict.fromkeys(together, together))
    return found


def stop_victim(
    partition: Partition,
    victim: Victim,
    record: PreemptionRecord,
    now: float,
    outcome: Outcome,
    unit: Sequence[Request],
    needed: Needed | None = None,
) -> None:
    """Ask the RM to stop one victim of a unit, now or later; its replacement is pending again."""
    app, request, _ = victim
    if request.partner is not None:
        roll_back(partition, app, request.partner, PairEvent.TOLD, now)
    put_off = Stop(partition, app, request, record, unit, needed, now, outcome)
    if not any(extension.put_off(put_off) for extension in partition.points.put_off):
        outcome.release(partition, stop(partition, app, request, record, now))


def stop(
    partition: Partition, app: Application, request: Request, record: PreemptionRecord, now: float
) -> Release:
    """Book a victim that is stopped, and record it; return the release for its RM."""
    leaf = partition.leaf_of(app)
    preemption = preemption_of(partition.check_context)
    assumed = preemption.search.assumed_checkpoint(leaf)
    lost = seconds_lost(request, assumed, now)
    if leaf.settings.preemption_loss_limit:
        preemption.losses.add(leaf.path, loss_of(request.ask.ask_class.items, lost), now)
    partition.allocations.preempt(app, request)
    partition.reservations.promises.victim_stopped(request)
    partition.ledger.note(
        replace(
            record,
            time=now,
            ran=max(0.0, seconds_run(request, now)),
            lost=max(0.0, lost),
            checkpoint=assumed if request.checkpoint is None else request.checkpoint,
        )
    )
    partition.journal.note(_event_of(record, request.ask, now))
    return Release(
        app_id=app.app_id,
        key=request.key,
        termination=TerminationType.PREEMPTED_BY_SCHEDULER,
        message=TEXTS[record.rule].format(whom(record)),
    )


def whom(record: PreemptionRecord) -> str:
    """The ask, queue or node for which a victim is stopped, as named in messages to the RM."""
    if record.rule is PreemptionRule.DRAIN:
        return record.node_id
    if record.rule is PreemptionRule.QUOTA and record.beneficiary_queue is not None:
        return record.beneficiary_queue.path
    return record.beneficiary_key


def _event_of(record: PreemptionRecord, ask: Ask, now: float) -> EventRecord:
    queue = record.beneficiary_queue
    if queue is None:
        return victim_of_drain(now, ask, record.node_id)
    if record.rule is PreemptionRule.QUOTA:
        return victim_of_quota(now, ask, queue.path)
    return victim_preempted(now, ask, record.beneficiary_key, record.beneficiary_app_id, queue.path)


def stop_at_once(partition: Partition, app: Application, request: Request, now: float) -> Release:
    """Stop a noticed victim; return the release for its RM."""
    return stop(partition, app, request, end_stay(partition.stays, request, stopped=True).record, now)
