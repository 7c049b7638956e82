"""Notices of victims, and their checkpoints (`preemption.notice`)."""

from collections.abc import Sequence

from licorne_core.extensions.notice.messages import NoticeAnswer
from licorne_core.values.asks import Ask
from support.oracle.books import (
    ALLOCATED,
    NOTICED,
    AllocationRecord,
    AppRecord,
    AskRecord,
    NoticedUnit,
    NoticeRecord,
)
from support.oracle.elastic import staying, units_of
from support.oracle.lives import stop
from support.oracle.partition import PartitionOracle, look_again
from support.oracle.queues import seconds
from support.oracle.standing import still_stands
from support.oracle.terms import LossRecord
from support.oracle.turns import look_at
from support.oracle.victims import checkpoint_of, seconds_lost

Timer = tuple[str, str]


def timer_of(app: AppRecord, key: str) -> Timer:
    """The name of the deadline of a notice."""
    return ("notice", f"{app.app_id} {key}")


def noticed_units(partition: PartitionOracle, victims: Sequence[tuple[str, str]]) -> list[NoticedUnit]:
    """The unit of each victim: a step of an elastic gang, the gang with its minimum, or the victim alone."""
    found = {victim: NoticedUnit() for victim in victims}
    for app_id in dict.fromkeys(app_id for app_id, _ in victims):
        app = partition.apps[app_id]
        units = units_of(app)
        least = app.elastic.least if units else 0
        minimum = [(app_id, one.ask.key) for one, _ in zip(staying(app), range(least), strict=False)]
        together = units[:1] if any(one in found for one in minimum) else units[1:]
        for members, _ in together:
            unit = NoticedUnit()
            found.update({(app_id, one.ask.key): unit for one in members})
    return [found[victim] for victim in victims]


def stop_victim(
    partition: PartitionOracle, app: AppRecord, key: str, message: str, now: float, unit: NoticedUnit
) -> None:
    """Stop a victim, or give notice of its stop if its queue has notices."""
    one = app.allocations[key]
    notice = seconds(partition.queues[app.queue].properties.get("preemption.notice", "0s"))
    if not notice or one.state != ALLOCATED:
        _stop_now(partition, app, key, message, now)
        return
    pair = app.pair_of(key)
    if pair is not None:
        partition.put_back(app, pair.ask.key)
    lost = seconds_lost(one, checkpoint_of(partition.apps, app.queue), now)
    one.state = NOTICED
    partition.notices += 1
    one.notice = NoticeRecord(
        now + notice, now + notice, message, dict(one.ask.size), lost, unit, serial=partition.notices
    )
    partition.timers.set(timer_of(app, key), now + notice)


def _stop_now(partition: PartitionOracle, app: AppRecord, key: str, message: str, now: float) -> None:
    one = app.allocations[key]
    if partition.queues[app.queue].properties.get("preemption.loss.limit"):
        lost = seconds_lost(one, checkpoint_of(partition.apps, app.queue), now)
        partition.preemption.losses.append(LossRecord(app.queue, now, one.ask.size, lost))
    if one.notice is not None:
        one.notice.unit.stopped = True
    one.notice = None
    stop(partition, app, key, message, preempted=True)


def look_after(partition: PartitionOracle, now: float) -> None:
    """Decide at once whether victims are spared, because some may not be needed any more."""
    for app in partition.apps.values():
        for key, one in app.allocations.items():
            if one.state == NOTICED and not _is_counted_on(partition, one) and not one.is_let_go:
                one.is_let_go = True
                partition.timers.set(timer_of(app, key), now)


def _is_counted_on(partition: PartitionOracle, victim: AllocationRecord) -> bool:
    found = [ask.reservation for _, ask in partition.reserved_asks() if ask.reservation is not None]
    return any(one is victim for kept in found for one in kept.victims)


def notice_over(partition: PartitionOracle, name: str, now: float) -> None:
    """Stop a victim at its deadline; spare its unit if it is not needed."""
    app_id, _, key = name.partition(" ")
    app = partition.apps.get(app_id)
    one = None if app is None else app.allocations.get(key)
    if app is None or one is None or one.state != NOTICED or one.notice is None:
        return
    notice = one.notice
    unit = notice.unit
    together = [
        other for other in app.allocations.values() if other.notice is not None and other.notice.unit is unit
    ]
    if not unit.stopped and not _is_needed(partition, together, now):
        for other in together:
            other.state, other.notice, other.is_let_go = ALLOCATED, None, False
            partition.timers.cancel(timer_of(app, other.ask.key))
            look_again(partition, partition.nodes[other.node_id], now)
    elif now < notice.stops_at:
        partition.timers.set(timer_of(app, key), notice.stops_at)
    else:
        _stop_now(partition, app, key, notice.message, now)


def _is_needed(partition: PartitionOracle, together: list[AllocationRecord], now: float) -> bool:
    """True if an ask needs one of the unit's victims, and all victims of the ask may still be stopped.

    Otherwise the promise to the ask ends, and other victims may be stopped for it.
    """
    for app, ask in partition.reserved_asks():
        kept = ask.reservation
        if kept is None or not any(one is victim for one in together for victim in kept.victims):
            continue
        if ask.key not in app.asks:
            # The RM is being asked about a node for it.
            return True
        if still_stands(look_at(partition, now), app, ask):
            return True
        ask.end_reservation()
        ask.triggered = False
        return False
    return False


def ask_again(partition: PartitionOracle, now: float) -> None:
    """Decide at once which victims are spared, because the reasons may have changed."""
    found = [
        (one.notice.serial, app, key)
        for app in partition.apps.values()
        for key, one in app.allocations.items()
        if one.notice is not None
    ]
    for _, app, key in sorted(found, key=lambda one: one[0]):
        partition.timers.set(timer_of(app, key), now)


def ask_again_for(partition: PartitionOracle, ask: AskRecord, now: float) -> None:
    """Decide at once whether the victims of an ask with another size or priority are spared."""
    victims = [] if ask.reservation is None else ask.reservation.victims
    for app in partition.apps.values():
        for key, one in app.allocations.items():
            if one.notice is not None and any(one is victim for victim in victims):
                partition.timers.set(timer_of(app, key), now)


def take_word_of_notice(partition: PartitionOracle, answer: NoticeAnswer, now: float) -> None:
    """Process an answer to a notice: the victim is ready now or at a time; only the first answer counts."""
    app = partition.apps.get(answer.app_id)
    one = None if app is None else app.allocations.get(answer.key)
    if app is None or one is None or one.notice is None:
        return
    if not answer.later:
        one.notice.stops_at = now
        partition.timers.cancel(timer_of(app, answer.key))
        notice_over(partition, f"{app.app_id} {answer.key}", now)
    elif not one.notice.answered:
        one.notice.answered = True
        one.notice.stops_at = min(one.notice.deadline, now + answer.later)
        partition.timers.set(timer_of(app, answer.key), one.notice.stops_at)


def note_checkpoint(one: AllocationRecord, ask: Ask, now: float) -> None:
    """Record a running allocation's start and checkpoint, as reported by the RM."""
    if "licorne/started" in ask.tags:
        one.began = min(now, float(ask.tags["licorne/started"]))
    if "licorne/checkpoint" in ask.tags:
        one.checkpoint = min(now, float(ask.tags["licorne/checkpoint"]))
    elif "licorne/lost-work" in ask.tags:
        one.checkpoint = now - float(ask.tags["licorne/lost-work"])


def count_on(partition: PartitionOracle, before: AllocationRecord, after: AllocationRecord) -> None:
    """Record another size of a victim, which the ask that needs it counts on."""
    after.notice, after.checkpoint, after.is_let_go = before.notice, before.checkpoint, before.is_let_go
    after.began = before.began
    asks: list[AskRecord] = [ask for _, ask in partition.reserved_asks()]
    for ask in asks:
        assert ask.reservation is not None, f"something is kept for {ask}"
        ask.reservation.victims = [after if one is before else one for one in ask.reservation.victims]
