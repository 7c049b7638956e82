"""Victims: the notice that their RM has of them, and their stop (spec §§ 9.4-9.6).

A victim of a queue with `preemption.notice` is stopped at a deadline. Until then it runs on, and its RM
may save its work and say that it is ready. Others count on its room from the notice on, as they do
from a stop: what it will free is promised to its beneficiary. If that needs it no more, the victim is
spared. So the RM of a victim under notice loses nothing to an ask that is removed meanwhile.

Placeholders do no work, and drains have deadlines of their own: neither have notice.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from licorne_core.handlers.lifecycle import look_again
from licorne_core.handlers.outcome import Commands, Deadline, Deadlines, Firing, Outcome
from licorne_core.handlers.predicates import roll_back
from licorne_core.messages.commands import TerminationType
from licorne_core.messages.effects import Effect, Release
from licorne_core.messages.events.allocations import (
    checkpoint_in_future,
    victim_noticed,
    victim_of_drain,
    victim_of_quota,
    victim_preempted,
    victim_spared,
)
from licorne_core.messages.events.apps import elastic_shrunk
from licorne_core.messages.events.records import EventRecord
from licorne_core.messages.notices import AnswerNotices, Notice, Withdrawal
from licorne_core.messages.preemption import PreemptionRecord, PreemptionRule
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import PairEvent
from licorne_core.model.apps.members import unit_of
from licorne_core.model.apps.requests import Request, RequestEvent, RequestState
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Registry, Rm
from licorne_core.scheduling.preemption import Victim, loss_of
from licorne_core.scheduling.preemption.ledger import Needed, UnderNotice, numbers_of
from licorne_core.scheduling.preemption.standing import gives_way, is_useful
from licorne_core.scheduling.preemption.victims import seconds_lost, seconds_run
from licorne_core.scheduling.reservations.promises import Promise
from licorne_core.values.asks import Ask
from licorne_core.values.tags import CHECKPOINT, LOST_WORK, read_seconds
from licorne_core.values.timers import Due, Timer

TEXTS = {
    PreemptionRule.GUARANTEE: "preempting allocations to free up resources to run ask: {}",
    PreemptionRule.REQUIRED_NODE: "preempting allocations to free up resources to run daemon set ask: {}",
    PreemptionRule.QUOTA: "preempting allocations to enforce new max quota for queue : {}",
    PreemptionRule.DRAIN: "preempting allocations to drain node: {}",
}
"""Messages to the RM, by rule."""


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
    """Ask the RM to stop victims, each with its record, or give it notice; elastic gangs shrink by them.

    `needed` says of those under notice whether they are still to be stopped; None for victims of a promise.
    """
    units = _units(victims)
    for app, count in Counter(victim.app for victim in victims if victim.request in units).items():
        elastic = app.gang.elastic
        if elastic is not None:
            before = elastic.size - elastic.leaving
            partition.journal.note(elastic_shrunk(now, app.app_id, before, before - count, _whom(records[0])))
    for victim, record in zip(victims, records, strict=True):
        unit = units.get(victim.request, (victim.request,))
        stop_victim(partition, victim, record, now, outcome, unit, needed)


def _units(victims: Sequence[Victim]) -> dict[Request, Sequence[Request]]:
    """The members of elastic gangs among the victims, each with all that are stopped with it.

    All of a gang goes with its minimum.
    """
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
    """Ask the RM to stop one victim of a unit, or give it notice; its replacement waits again."""
    app, request, _ = victim
    if request.partner is not None:
        roll_back(partition, app, request.partner, PairEvent.TOLD, now)
    seconds = partition.leaf_of(app).settings.preemption_notice
    if seconds and request.state is RequestState.ALLOCATED and record.rule is not PreemptionRule.DRAIN:
        notice = UnderNotice(replace(record, noticed_time=now), now + seconds, unit, needed)
        _give_notice(partition, app, request, notice, now, outcome)
    else:
        outcome.release(partition, _stop(partition, app, request, record, now))


def _stop(
    partition: Partition, app: Application, request: Request, record: PreemptionRecord, now: float
) -> Release:
    """Book a victim that is stopped, and record it; return the release for its RM."""
    leaf = partition.leaf_of(app)
    assumed = partition.preemption.search.assumed_checkpoint(leaf)
    lost = seconds_lost(request, assumed, now)
    if leaf.settings.preemption_loss_limit:
        partition.losses.add(leaf.path, loss_of(request.ask.ask_class.items, lost), now)
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
        message=TEXTS[record.rule].format(_whom(record)),
    )


def _whom(record: PreemptionRecord) -> str:
    """The ask, queue or node for which a victim goes, as messages to the RM name it."""
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


# Notice


def _give_notice(
    partition: Partition,
    app: Application,
    request: Request,
    under: UnderNotice,
    now: float,
    outcome: Outcome,
) -> None:
    """Tell the RM that the victim will be stopped at the deadline."""
    leaf, record, deadline = partition.leaf_of(app), under.record, under.deadline
    lost = seconds_lost(request, partition.preemption.search.assumed_checkpoint(leaf), now)
    under.pledged = loss_of(request.ask.ask_class.items, lost)
    partition.losses.pledge(leaf.path, under.pledged)
    partition.ledger.notices[request] = under
    partition.moves.move(app, request, RequestEvent.NOTIFY)
    partition.timers.set(_timer(request), deadline)
    notice = Notice(
        app_id=app.app_id,
        key=request.key,
        deadline=deadline,
        queue=leaf.path if record.beneficiary_queue is None else record.beneficiary_queue.path,
        beneficiary_app_id=record.beneficiary_app_id,
        beneficiary_key=record.beneficiary_key,
        lost=max(0.0, lost),
    )
    outcome.notices.append((partition, notice))
    partition.counters.notices_given += 1
    partition.journal.note(victim_noticed(now, request.ask, _whom(record), deadline))


def _answer(_: Registry, rm: Rm, command: AnswerNotices, now: float) -> list[Effect]:
    """Take the RM's answers: a victim is ready now, or will be (once, and at the deadline at the latest)."""
    outcome = Outcome()
    for answer in command.answers:
        partition = rm.find(answer.partition)
        app = None if partition is None else partition.applications.get(answer.app_id)
        request = None if app is None else app.requests.get(answer.key)
        if partition is None or request is None or request.state is not RequestState.NOTICED:
            continue
        notice = partition.ledger.notices[request]
        if not answer.later:
            partition.counters.notices_ready += 1
            notice.has_answered = True
            notice.stops_at = now
            _notice_over(partition, _timer(request), now, outcome)
        elif not notice.has_answered:
            partition.counters.notices_later += 1
            notice.has_answered = True
            notice.stops_at = min(notice.deadline, now + answer.later)
            partition.timers.set(_timer(request), notice.stops_at)
    return outcome.effects(rm.rm_id)


def _notice_over(partition: Partition, timer: Timer, now: float, outcome: Outcome) -> None:
    """Stop a victim whose time has come, or spare it if nobody needs its room any more.

    Of a unit all are spared, or none is.
    """
    app = partition.applications[timer.app_id]
    request = app.requests[timer.key]
    notice = partition.ledger.notices[request]
    if not _is_needed(partition, notice, now):
        for one in notice.unit:
            if one in partition.ledger.notices:
                _spare(partition, app, one, now, outcome)
    elif now < notice.stops_at:
        partition.timers.set(timer, notice.stops_at)
    else:
        partition.counters.notices_unanswered += not notice.has_answered
        outcome.release(partition, stop_noticed(partition, app, request, now))


def _spare(partition: Partition, app: Application, request: Request, now: float, outcome: Outcome) -> None:
    """Withdraw the notice of a victim, which runs on."""
    notice = end_notice(partition, app, request)
    partition.moves.move(app, request, RequestEvent.SPARE)
    if request.allocation is not None:
        look_again(partition, partition.nodes.by_id[request.allocation.node_id], now)
    outcome.notices.append((partition, Withdrawal(app.app_id, request.key)))
    partition.counters.notices_withdrawn += 1
    partition.journal.note(victim_spared(now, request.ask, _whom(notice.record)))


def stop_noticed(partition: Partition, app: Application, request: Request, now: float) -> Release:
    """Stop a victim under notice at once; return the release for its RM."""
    notice = end_notice(partition, app, request)
    if not notice.is_final:
        for one in notice.unit:
            other = partition.ledger.notices.get(one)
            if other is not None:
                other.is_final = True
    return _stop(partition, app, request, notice.record, now)


def end_notice(partition: Partition, app: Application, request: Request) -> UnderNotice:
    """End the notice of a victim that is stopped, spared, or has ended."""
    notice = partition.ledger.notices.pop(request)
    partition.timers.cancel(_timer(request))
    partition.losses.redeem(partition.leaf_of(app).path, notice.pledged)
    return notice


def ask_again(partition: Partition, now: float) -> None:
    """Have it decided at once which victims under notice go on: what chose them may have changed."""
    for request in partition.ledger.notices:
        partition.timers.set(_timer(request), now)


def _is_needed(partition: Partition, notice: UnderNotice, now: float) -> bool:
    """True if a unit under notice is still to be stopped, or is stopped in part already.

    If one victim of a promise may not be stopped any more none is, as the others alone do not suffice.
    """
    record, notices = notice.record, partition.ledger.notices
    if notice.is_final:
        return True
    if notice.needed is not None:
        return notice.needed(partition, record, [one for one in notice.unit if one in notices])
    promises = partition.reservations.promises
    found = [promise for one in notice.unit if (promise := promises.of_victim(one)) is not None]
    if not found:
        return False
    if _stands(partition, found[0], now):
        return True
    partition.reservations.came_to_nothing(found[0], now)
    return False


def _stands(partition: Partition, promise: Promise, now: float) -> bool:
    """True if the victims of a promise that are under notice are still to be stopped for its ask.

    So they are while the RM is asked about a node for the ask.
    """
    if promise.is_resting:
        return True
    app, request, nodes = promise.app, promise.request, partition.nodes.by_id
    victims = [
        Victim(other, victim, nodes[victim.allocation.node_id])
        for victim, other in promise.outstanding.items()
        if victim.state is RequestState.NOTICED and victim.allocation is not None
    ]
    node = None if promise.node_id is None else nodes.get(promise.node_id)
    is_required = request.ask.ask_class.required_node is not None
    if node is None or not (is_required or partition.preemption.enabled):
        return False
    promise.unbook()
    stands = is_useful(app, request, node)
    if stands and is_required:
        stands = gives_way(request, victims)
    elif stands:
        stands = partition.preemption.search.still_legal(app, request, victims, now)
    promise.book()
    return stands


def _timer(request: Request) -> Timer:
    return Timer(Due.NOTICE, request.ask.app_id, request.key)


# Checkpoints


def note_checkpoint(partition: Partition, app: Application, request: Request, ask: Ask, now: float) -> None:
    """Note up to when the work of a running allocation is kept, if its RM says so in a tag.

    One that lies in the future counts as now.
    """
    checkpoint = _checkpoint(ask, now)
    if checkpoint is None:
        return
    if checkpoint > now:
        partition.journal.note(checkpoint_in_future(now, request.ask, checkpoint))
        checkpoint = now
    if checkpoint != request.checkpoint:
        request.checkpoint = checkpoint
        partition.leaf_of(app).counters.checkpoints += 1


def check_checkpoint(ask: Ask) -> None:
    """Refuse an allocation whose tags say no checkpoint that can be read."""
    _checkpoint(ask, 0.0)


def _checkpoint(ask: Ask, now: float) -> float | None:
    """Checkpoint that the tags say, in unix seconds; None for none."""
    checkpoint = read_seconds(ask.tags, CHECKPOINT)
    if checkpoint is not None:
        return float(checkpoint)
    lost = read_seconds(ask.tags, LOST_WORK, zero=True)
    return None if lost is None else now - lost


def _notice_due(firing: Firing, timer: Timer) -> None:
    """The time of a victim under notice has come."""
    _notice_over(firing.partition, timer, firing.now, firing.outcome)


DEADLINES: Final[Deadlines] = {Due.NOTICE: Deadline(_notice_due, on_hold=False)}
COMMANDS: Final[Commands] = {AnswerNotices: _answer}
