"""Decisions about victims under notice: by answers of their RM, and at their deadlines."""

from typing import Final

from licorne_core.extensions.notice import NAME
from licorne_core.extensions.notice.events import victim_spared
from licorne_core.extensions.notice.extension import Notices, UnderNotice, notifications_in
from licorne_core.extensions.notice.messages import AnswerNotices, Withdrawal
from licorne_core.extensions.notice.standing import gives_way, is_legal, is_useful
from licorne_core.handlers.lifecycle import look_again
from licorne_core.handlers.outcome import Commands, Deadline, Deadlines, Firing, Outcome
from licorne_core.ledger.promises import Promise
from licorne_core.messages.effects import Effect
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request, RequestEvent, RequestState
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Registry, Rm
from licorne_core.scheduling.stays import end_stay
from licorne_core.standard.preemption.extension import preemption_of
from licorne_core.standard.preemption.stopping import stop_at_once, whom
from licorne_core.standard.preemption.victims import Victim
from licorne_core.values.timers import Timer


def _own(partition: Partition) -> Notices:
    own = partition.points.named(NAME)
    assert isinstance(own, Notices)
    return own


def _notice_of(partition: Partition, request: Request) -> UnderNotice | None:
    """The notice of a victim; None if the request is not under notice."""
    stay = partition.stays.get(request)
    return stay if isinstance(stay, UnderNotice) else None


def _answer(_: Registry, rm: Rm, command: AnswerNotices, now: float) -> list[Effect]:
    """Process the RM's answers: a victim is ready now, or later (once, and at most until the deadline)."""
    outcome = Outcome()
    for answer in command.answers:
        partition = rm.find(answer.partition)
        app = None if partition is None else partition.applications.get(answer.app_id)
        request = None if app is None else app.requests.get(answer.key)
        notice = None if partition is None or request is None else _notice_of(partition, request)
        if partition is None or request is None or notice is None:
            continue
        if not answer.later:
            _own(partition).ready += 1
            notice.has_answered = True
            notice.stops_at = now
            _notice_over(partition, notice, request, now, outcome)
        elif not notice.has_answered:
            _own(partition).later += 1
            notice.has_answered = True
            notice.stop_at(min(notice.deadline, now + answer.later))
    return outcome.effects(rm.rm_id)


def _notice_due(firing: Firing, timer: Timer) -> None:
    """Process the deadline of a victim under notice."""
    partition = firing.partition
    request = partition.applications[timer.app_id].requests[timer.key]
    notice = _notice_of(partition, request)
    assert notice is not None, f"{request!r} has a deadline"
    _notice_over(partition, notice, request, firing.now, firing.outcome)


def _notice_over(
    partition: Partition, notice: UnderNotice, request: Request, now: float, outcome: Outcome
) -> None:
    """Stop a victim at the end of its notice, or spare it if its room is not needed any more.

    Either all members of a unit are spared, or none.
    """
    app = notice.app
    if not _is_needed(partition, notice, now):
        for one in notice.unit:
            if one in partition.stays:
                _spare(partition, app, one, now, outcome)
    elif now < notice.stops_at:
        notice.stop_at(notice.stops_at)
    else:
        _own(partition).unanswered += not notice.has_answered
        outcome.release(partition, stop_at_once(partition, app, request, now))


def _spare(partition: Partition, app: Application, request: Request, now: float, outcome: Outcome) -> None:
    """Withdraw the notice of a victim, which continues to run."""
    record = end_stay(partition.stays, request).record
    partition.moves.move(app, request, RequestEvent.SPARE)
    if request.allocation is not None:
        look_again(partition, partition.nodes.by_id[request.allocation.node_id], now)
    notifications_in(outcome, partition).withdrawn.append(Withdrawal(app.app_id, request.key))
    _own(partition).withdrawn += 1
    partition.journal.note(victim_spared(now, request.ask, whom(record)))


def _is_needed(partition: Partition, notice: UnderNotice, now: float) -> bool:
    """True if a unit under notice still has to be stopped, or if some of its members already were.

    If one victim of a promise may not be stopped any more, none is stopped, as the others do not suffice.
    """
    if notice.is_final:
        return True
    if notice.needed is not None:
        stays = partition.stays
        return notice.needed(partition, notice.record, [one for one in notice.unit if one in stays])
    promises = partition.reservations.promises
    found = [promise for one in notice.unit if (promise := promises.of_victim(one)) is not None]
    if not found:
        return False
    if _stands(partition, found[0], now):
        return True
    partition.reservations.came_to_nothing(found[0], now)
    return False


def _stands(partition: Partition, promise: Promise, now: float) -> bool:
    """True if the victims of a promise that are under notice still have to be stopped for its ask.

    This includes the time during which the RM is asked about a node for the ask.
    """
    if promise.is_paused:
        return True
    app, request, nodes = promise.app, promise.request, partition.nodes.by_id
    victims = [
        Victim(other, victim, nodes[victim.allocation.node_id])
        for victim, other in promise.outstanding.items()
        if victim.state is RequestState.NOTICED and victim.allocation is not None
    ]
    node = None if promise.node_id is None else nodes.get(promise.node_id)
    is_required = request.ask.ask_class.required_node is not None
    if node is None or not (is_required or preemption_of(partition.check_context).remedy.enabled):
        return False
    promise.unbook()
    stands = is_useful(app, request, node)
    if stands and is_required:
        stands = gives_way(request, victims)
    elif stands:
        stands = is_legal(preemption_of(partition.check_context).search, app, request, victims, now)
    promise.book()
    return stands


COMMANDS: Final[Commands] = {AnswerNotices: _answer}
DEADLINES: Final[Deadlines] = {NAME: Deadline(_notice_due, on_hold=False)}
