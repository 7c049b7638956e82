"""A turn: due timers, then decisions for one partition (DESIGN § 2, fairness between RMs)."""

import dataclasses
from collections.abc import Callable
from functools import partial

from licorne_core.handlers.calls import answers_overdue
from licorne_core.handlers.gangs import (
    cancel,
    go_on,
    placeholders_overdue,
    replace,
    time_to_complete,
)
from licorne_core.handlers.lifecycle import allocation_made, on_time
from licorne_core.handlers.outcome import Outcome, Slice
from licorne_core.handlers.predicates import ask_again, assume, reserve
from licorne_core.handlers.preemption import clear, enforce_quotas, preempt
from licorne_core.messages.effects import ContainerStatesChanged, Effect
from licorne_core.model.queues.changes import Change, facts, snapshot
from licorne_core.model.queues.queue import Queue
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.measures import ToReserve
from licorne_core.scheduling.preempting import ToClear, ToPreempt
from licorne_core.scheduling.replacing import Cancellation, Replacement
from licorne_core.scheduling.reservations.review import ToGiveUp
from licorne_core.values.asks import Allocation
from licorne_core.values.timers import Due, Timer
from licorne_core.views.outstanding_scan import scan, unreported

MOST = 1_000
"""Queues that are removed at a time."""


def clean_queues(partition: Partition, now: float, part: Slice) -> None:
    """Remove empty queues. Of very many some are removed, and the others in the next turn."""
    removed = partition.tree.clean(MOST)
    for queue in removed:
        partition.changes.leave(queue)
    if partition.journal.on:
        for fact in facts(_changes(removed), now):
            partition.journal.note(fact)
    for queue in removed:
        queue.let_go()
    if len(removed) == MOST:
        partition.timers.set(Timer(Due.CLEAN_QUEUES), now)
        part.end()


def _changes(removed: list[Queue]) -> list[Change]:
    """The queues that were removed, and the parents that are leaves without them."""
    changes: list[Change] = [(queue, snapshot(queue), None) for queue in removed]
    for queue in dict.fromkeys(queue.parent for queue in removed):
        if queue is not None and queue.is_leaf:
            found = snapshot(queue)
            changes.append((queue, dataclasses.replace(found, is_leaf=False), found))
    return changes


INSPECTION_TIME = 1.0
"""Seconds from a change until it is seen which asks no node takes (spec § 8.12)."""

HOLD_TIME = 1.0
"""Seconds for which a timer that must not fire on hold is put off, until the hold ends."""

_NOT_ON_HOLD = frozenset({Due.PLACEHOLDERS, Due.COMPLETE})
"""In the middle of a replay an application has not all that it had: it must not fail or end then.

The scan for asks that no node takes, and the enforcing of quotas, put themselves off.
"""

TRIES = 16
"""Tries that a turn has for each decision: asks that fit nowhere must not make it longer."""

STOPS = 8
"""Stopping so many placeholders costs as much as another deadline."""

MOST_TRIES = 512
"""Tries that a turn has at the most: so many take 10 to 20 ms where no node is found for any."""

Measure = ToReserve | Replacement | Cancellation | ToPreempt | ToClear | ToGiveUp
# One look tells the rest from an ask that is placed, as most decisions are.
_PLACES_NOBODY = (ToReserve, Replacement, Cancellation, ToPreempt, ToClear, ToGiveUp)


def fire_timers(partition: Partition, now: float, part: Slice) -> list[Effect]:
    """Fire the partition's due timers, as far as the slice goes."""
    outcome = Outcome()
    told: list[Effect] = []
    while not part.is_spent and (due := partition.timers.take_due(now)) is not None:
        part.take((due,))
        if partition.holds and due.due in _NOT_ON_HOLD:
            partition.timers.set(due, now + HOLD_TIME)
        elif due.due is Due.ANSWER:
            answers_overdue(partition, due.check, now, outcome)
        elif due.due is Due.RETRY:
            ask_again(partition, due.check)
        elif due.due is Due.INSPECT:
            told += _inspect(partition, now)
        elif due.due is Due.CLEAN_QUEUES:
            clean_queues(partition, now, part)
        elif due.due is Due.QUOTA:
            enforce_quotas(partition, now, outcome)
        elif due.due is Due.COMPLETE:
            app = partition.applications[due.app_id]
            _in_slices(partition, part, partial(time_to_complete, partition, app, now, outcome))
        elif due.due is Due.PLACEHOLDERS:
            app = partition.applications[due.app_id]
            _in_slices(partition, part, partial(placeholders_overdue, partition, app, now, outcome))
        elif due.due is Due.GO_ON:
            _in_slices(partition, part, partial(go_on, partition, now, outcome))
        else:
            outcome.updates += on_time(partition, due, now)
    told += partition.predicates.take_unsaid()
    if partition.outstanding_scan is not None:
        partition.timers.set(Timer(Due.INSPECT), now)
    return outcome.effects(partition.rm_id) + told


def _in_slices(partition: Partition, part: Slice, act: Callable[[Slice], None]) -> None:
    """Carry out an act that may stop very many placeholders, as far as the slices go."""
    stops = Slice(min(partition.stopping.at_once, STOPS * (part.left + 1)))
    most = stops.left
    act(stops)
    if partition.stopping.end is not None:
        part.left = 0
    else:
        part.left -= (most - stops.left) // STOPS


def decide(partition: Partition, decisions: int, now: float) -> list[Effect]:
    """Make up to so many decisions, each after the one before was booked (spec § 8.1)."""
    made: list[Allocation] = []
    outcome = Outcome()
    cycle = partition.cycle
    allocate = partition.allocations.allocate
    predicates = partition.predicates
    partition.counters.turns += 1
    cycle.begin_turn(now, min(MOST_TRIES, TRIES * (decisions + 1)))
    for _ in range(decisions):
        decision = cycle.next()
        if decision is None:
            partition.wakeups.waiting.runnable = cycle.tired or cycle.postponed
            break
        if isinstance(decision, _PLACES_NOBODY):
            _carry_out(partition, decision, now, outcome)
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
    partition.counters.asks_tried = cycle.tried
    partition.counters.work = cycle.cost
    partition.counters.search_work = partition.preemption.work
    if made:
        outcome.made[partition] = made
    effects = outcome.effects(partition.rm_id, made_first=True)
    if partition.rm.predicates is not None:
        effects += predicates.take_unsaid()
        effects += partition.preemption.take_unsaid(partition.name)
    if partition.tree.root.pending and not partition.wakeups.waiting.runnable:
        _inspect_later(partition, now)
    return effects


def _carry_out(partition: Partition, decision: Measure, now: float, outcome: Outcome) -> None:
    """Carry out a decision by which no ask is placed yet."""
    if isinstance(decision, ToReserve):
        reserve(partition, decision, now)
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


def _inspect_later(partition: Partition, now: float) -> None:
    """Scan in a while for the asks that no node takes, if that is not planned yet (§ 8.12)."""
    timer = Timer(Due.INSPECT)
    if timer not in partition.timers:
        partition.timers.set(timer, now + INSPECTION_TIME)


def _inspect(partition: Partition, now: float) -> list[Effect]:
    """Do one part of the scan for asks that no node takes; the next part follows in the next turn.

    An ask that is found counts as reported even if the RM does not want to hear of it, because the
    views show it.
    """
    if partition.holds:
        partition.outstanding_scan = None
        _inspect_later(partition, now)
        return []
    if partition.outstanding_scan is None:
        partition.changes.settle()
        partition.outstanding_scan = scan(partition)
    states, partition.outstanding_scan = unreported(partition.outstanding_scan)
    if not (states and partition.rm.container_states):
        return []
    return [ContainerStatesChanged(rm_id=partition.rm_id, partition=partition.name, states=states)]
