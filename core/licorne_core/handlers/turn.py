"""A turn: due timers, then decisions for one partition (DESIGN § 2, fairness between RMs).

Also here:

* The RM's answers, and the time for them: it begins when questions are written (§ 1.1).
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from math import floor
from typing import Final

from licorne_core.handlers.backfill import hold_start
from licorne_core.handlers.drains import drain
from licorne_core.handlers.gangs import (
    cancel,
    place_member,
    place_whole,
    placeholders_overdue,
    replace,
    time_to_complete,
)
from licorne_core.handlers.lifecycle import allocation_made, on_time
from licorne_core.handlers.outcome import Outcome, TimerJob
from licorne_core.handlers.predicates import ask_again, assume, checks_overdue, reserve, take_answer
from licorne_core.handlers.preemption import (
    clear,
    enforce_quotas,
    nodes_judged,
    preempt,
    proposal_overdue,
    victims_judged,
)
from licorne_core.handlers.victims import notice_over
from licorne_core.messages.commands import AnswerPredicates, AnswerPreemptions, NotePredicatesSent
from licorne_core.messages.effects import ContainerStatesChanged, Effect
from licorne_core.model.queues.changes import Change, facts, snapshot
from licorne_core.model.queues.queue import Queue
from licorne_core.partitions.agenda import AT_ONCE
from licorne_core.partitions.jobs import Slice
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Rm
from licorne_core.scheduling.cycle import Measure
from licorne_core.scheduling.gang_placement import GangPlacement, MemberPlacement
from licorne_core.scheduling.measures import ToReserve
from licorne_core.scheduling.predicates import NodeQuestion, PredicateCheck
from licorne_core.scheduling.preempting import Call, PreemptionCall, ToClear, ToPreempt
from licorne_core.scheduling.replacing import Cancellation, Replacement
from licorne_core.scheduling.reservations.review import ToGiveUp
from licorne_core.scheduling.shadows import Lapsed, Plan
from licorne_core.values.asks import Allocation
from licorne_core.values.slices import PART
from licorne_core.values.timers import Due, Timer
from licorne_core.views import outstanding_scan
from licorne_core.views.outstanding_scan import Inspection


def note_sent(rm: Rm, command: NotePredicatesSent, now: float) -> list[Effect]:
    """The time for the answers begins."""
    for name, numbers in rm.context.take_unsent(command.check).items():
        partition = rm.find(name)
        if partition is not None:
            partition.calls.note_sent(numbers, now)
    return []


def answer_predicates(rm: Rm, command: AnswerPredicates, now: float) -> list[Effect]:
    """Answers count in their order. One to a check that is not open any more is ignored."""
    outcome = Outcome()
    concerned: dict[Partition, None] = {}
    for answer in command.answers:
        name = rm.context.partition_of(answer.check)
        partition = None if name is None else rm.find(name)
        if partition is None:
            rm.context.answers_late += 1
            continue
        concerned[partition] = None
        check = take_answer(partition, answer, now, outcome)
        if check is not None and check.proposal is not None:
            refused = {refusal.node_id for refusal in answer.refused}
            nodes_judged(partition, check, refused, now, outcome)
    asked = [effect for each in concerned for effect in each.calls.take_unsaid()]
    return outcome.effects(rm.rm_id) + asked


def answer_preemptions(rm: Rm, command: AnswerPreemptions, now: float) -> list[Effect]:
    """Take the RM's choice of victims. An answer to a check that is not open is ignored."""
    outcome = Outcome()
    for answer in command.answers:
        name = rm.context.partition_of(answer.check)
        partition = None if name is None else rm.find(name)
        call = None if partition is None else partition.calls.find(answer.check)
        if partition is not None and isinstance(call, PreemptionCall):
            partition.calls.close(answer.check)
            victims_judged(partition, call.proposal, answer.needed, now, outcome)
    return outcome.effects(rm.rm_id)


def answers_overdue(partition: Partition, last: int, now: float, outcome: Outcome) -> None:
    """The RM did not answer some of the questions that were written together, in time."""
    calls: list[Call] = []
    for number in partition.calls.overdue(last):
        call = partition.calls.close(number)
        assert call is not None, f"question {number} has a deadline"
        calls.append(call)
    checks = [call for call in calls if isinstance(call, PredicateCheck)]
    if checks:
        checks_overdue(partition, checks, now, outcome)
    for call in calls:
        if call.proposal is not None:
            proposal_overdue(partition, call.proposal, now, outcome)


MOST = 500
"""Queues that are looked at, and removed, at a time."""


def clean_queues(job: TimerJob) -> Iterator[int]:
    """Remove empty queues (spec § 4.3)."""
    partition = job.partition
    # Children first: a parent was added before them.
    rest = reversed(list(partition.tree.all()))
    while some := list(islice(rest, MOST)):
        removed = partition.tree.clean(some)
        for queue in removed:
            partition.dirty.forget_leaf(queue)
            partition.shares.detach(queue)
        for queue in removed:
            if queue.parent is not None and queue.parent.is_leaf:
                # The last of its children is gone, and it holds applications from now on.
                partition.shares.attach(queue.parent, job.now)
        if partition.journal.on:
            partition.journal.note_all(facts(_changes(removed), job.now))
        for queue in removed:
            queue.let_go()
        yield len(removed) + len(some) // PART


def _changes(removed: list[Queue]) -> list[Change]:
    """The queues that were removed, and the parents that are leaves without them."""
    found: list[Change] = [(queue, snapshot(queue), None) for queue in removed]
    for queue in dict.fromkeys(queue.parent for queue in removed):
        if queue is not None and queue.is_leaf:
            now = snapshot(queue)
            found.append((queue, dataclasses.replace(now, is_leaf=False), now))
    return found


HOLD_TIME = 1.0
"""Seconds for which a timer that must not fire on hold is put off, until the hold ends."""


TRIES = 16
"""Tries that a turn has for each decision: asks that fit nowhere must not make it longer."""

_WORK: Final[dict[Due, Callable[[TimerJob], Iterator[int]]]] = {
    Due.CLEAN_QUEUES: clean_queues,
    Due.COMPLETE: time_to_complete,
    Due.PLACEHOLDERS: placeholders_overdue,
    Due.QUOTA: enforce_quotas,
    Due.DRAIN: drain,
}
"""The work of deadlines for which very much may have to be done."""

_NOT_ON_HOLD = frozenset({Due.COMPLETE, Due.PLACEHOLDERS, Due.QUOTA, Due.DRAIN, Due.NOTICE})
"""In the middle of a replay an application has not all that it had: it must not fail or end then.

What has begun is done to the end. The scan for asks that no node takes puts itself off.
"""

STOPS = 8
"""Stopping so many requests costs as much as another deadline."""

MOST_BUDGETS = 500
"""Budgets of hours that follow the time in one turn."""

MOST_SETTLED = 500
"""Applications that an extension lets follow the time before a scan."""

MOST_TRIES = 512
"""Tries that a turn has at the most: so many take 10 to 20 ms where no node is found for any."""

# One look tells the rest from a single ask that is placed, as most decisions are.
_MEASURES = (
    ToReserve,
    Plan,
    Lapsed,
    Replacement,
    Cancellation,
    ToPreempt,
    ToClear,
    ToGiveUp,
    GangPlacement,
    NodeQuestion,
    MemberPlacement,
)


def fire_timers(partition: Partition, now: float, part: Slice) -> list[Effect]:
    """Fire the partition's due timers, as far as the slice goes."""
    outcome = Outcome()
    told: list[Effect] = []
    while not part.is_spent and (due := partition.timers.take_due(now)) is not None:
        part.left -= 1
        if partition.holds and due.due in _NOT_ON_HOLD:
            partition.timers.set(due, now + HOLD_TIME)
        elif due.due is Due.ANSWER:
            answers_overdue(partition, due.check, now, outcome)
        elif due.due is Due.RETRY:
            ask_again(partition, due.check)
        elif due.due is Due.NOTICE:
            notice_over(partition, due, now, outcome)
        elif due.due is Due.INSPECT:
            told += _inspect(partition, now)
        elif due.due is Due.HOURS:
            part.left -= pass_time(partition, now, part.left)
        elif due.due is Due.EXTENSION:
            part.left -= partition.extension(due.name).on_deadline(now, max(1, part.left))
        elif due.due is Due.GO_ON or due.due in _WORK:
            _work(partition, due, now, outcome, part)
        else:
            outcome.updates += on_time(partition, due, now)
    told += partition.calls.take_unsaid()
    if partition.inspection is not None:
        partition.timers.set(Timer(Due.INSPECT), now)
    if partition.shares.touched:
        partition.shares.settle(now)
    partition.dirty.open_blockers()
    return outcome.effects(partition.rm_id) + told


def pass_time(partition: Partition, now: float, most: int) -> int:
    """Let so many budgets of hours follow the time, as a new window may have begun; return how many have."""
    followed, opened = partition.shares.hours.pass_time(now, max(1, most))
    if opened:
        partition.dirty.mark(opened)
    return followed


def _work(partition: Partition, timer: Timer, now: float, outcome: Outcome, part: Slice) -> None:
    """Do the work of a deadline, or go on with it, as far as the slice goes.

    Then the partition has a deadline that comes before all others, and decides nothing until then.
    """
    job = partition.job
    if not isinstance(job, TimerJob):
        job = TimerJob(partition, timer, _WORK[timer.due], now)
    job.outcome = outcome
    most = min(partition.timeout_size, STOPS * (part.left + 1))
    stops = Slice(most)
    if job.go_on(now, stops):
        partition.job = None
        part.left -= (most - stops.left) // STOPS
    else:
        partition.job = job
        partition.timers.set(Timer(Due.GO_ON, timer.app_id), AT_ONCE)
        part.end()


def decide(partition: Partition, decisions: int, now: float) -> list[Effect]:
    """Make up to so many decisions, each after the one before was booked (spec § 8.1)."""
    made: list[Allocation] = []
    outcome = Outcome()
    cycle = partition.cycle
    allocate = partition.allocations.allocate
    predicates = partition.predicates
    partition.counters.turns += 1
    if partition.shares.is_on and not _follow_time(partition, now):
        return []
    cycle.begin_turn(now, min(MOST_TRIES, TRIES * (decisions + 1)))
    for _ in range(decisions):
        decision = cycle.next()
        if decision is None:
            partition.wakeups.waiting.runnable = cycle.tired or cycle.postponed
            break
        if isinstance(decision, _MEASURES):
            made += _carry_out(partition, decision, now, outcome)
            continue
        leaf, app, request, node = decision
        ask_class = request.ask.ask_class
        if ask_class.predicate is not None:
            if predicates.is_needed(ask_class, node):
                assume(partition, decision, now)
                continue
            predicates.spared(ask_class)
        allocation = allocate(decision, now)
        made.append(allocation)
        outcome.updates += allocation_made(partition, leaf, app, allocation, now)
    else:
        partition.dirty.open_blockers()
    if partition.shares.touched:
        partition.shares.settle(now)
    partition.counters.asks_tried = cycle.tried
    partition.counters.work = cycle.cost
    partition.counters.search_work = partition.preemption.work
    if made:
        outcome.made[partition] = made
    effects = outcome.effects(partition.rm_id, made_first=True)
    if partition.rm.predicates is not None:
        effects += partition.calls.take_unsaid()
    partition.dirty.open_blockers()
    if partition.tree.root.pending and not partition.wakeups.waiting.runnable:
        _inspect_later(partition, now)
    return effects


def _follow_time(partition: Partition, now: float) -> bool:
    """Decide by what was used up to the present second, and by the present windows.

    Returns False while there are too many new windows for one turn: another turn decides.
    """
    shares = partition.shares
    shares.now = max(now, shares.now)
    if shares.hours.is_due(now):
        pass_time(partition, now, MOST_BUDGETS)
        if shares.hours.is_due(now):
            return False
    step = floor(now)
    if step != shares.step:
        partition.dirty.ranks.pass_time(step)
    return True


def _carry_out(partition: Partition, decision: Measure, now: float, outcome: Outcome) -> Sequence[Allocation]:
    """Carry out a decision by which no ask is placed yet, or a whole gang is; return its allocations."""
    if isinstance(decision, GangPlacement):
        return place_whole(partition, decision, now, outcome)
    if isinstance(decision, MemberPlacement):
        return place_member(partition, decision, now, outcome)
    if isinstance(decision, NodeQuestion):
        partition.predicates.ask_before(decision)
        if decision.plans:
            partition.shadows.asking[decision.app] = None
    elif isinstance(decision, ToReserve):
        reserve(partition, decision, now)
    elif isinstance(decision, Plan):
        hold_start(partition, decision, now)
    elif isinstance(decision, Lapsed):
        partition.shadows.give_up(decision.shadow, now)
    elif isinstance(decision, Replacement):
        replace(partition, decision, now, outcome)
    elif isinstance(decision, Cancellation):
        cancel(partition, decision, now, outcome)
    elif isinstance(decision, ToPreempt):
        preempt(partition, decision, now, outcome)
    elif isinstance(decision, ToGiveUp):
        partition.reservations.give_up(decision, now)
    else:
        clear(partition, decision, now, outcome)
    return ()


def _inspect_later(partition: Partition, now: float) -> None:
    """Scan in a while for the asks that no node takes, if that is not planned yet (§ 8.12)."""
    timer = Timer(Due.INSPECT)
    if timer not in partition.timers:
        partition.timers.set(timer, now + partition.inspection_time)


def _inspect(partition: Partition, now: float) -> list[Effect]:
    """Do one part of the scan for asks that no node takes; the next part follows in the next turn.

    An ask that is found counts as reported even if the RM does not want to hear of it, because the
    views show it.
    """
    if partition.holds:
        partition.inspection = None
        _inspect_later(partition, now)
        return []
    if partition.inspection is None:
        if partition.shares.is_on:
            _follow_time(partition, now)
        for extension in partition.extensions:
            extension.settle(now, MOST_SETTLED)
        partition.dirty.settle()
        partition.inspection = Inspection(partition, now)
    scan: Inspection = partition.inspection
    if scan.go_on(now, Slice(outstanding_scan.PART)):
        partition.inspection = None
    states, scan.states = scan.states, []
    if not (states and partition.rm.container_states):
        return []
    return [ContainerStatesChanged(rm_id=partition.rm_id, partition=partition.name, states=states)]
