"""A turn: what is due, then decisions for one partition (DESIGN § 2, fairness between RMs)."""

from licorne_core.asks import Allocation
from licorne_core.effects import (
    AllocationsMade,
    ApplicationsUpdated,
    ApplicationUpdate,
    ContainerStatesChanged,
    Effect,
)
from licorne_core.handlers.outcome import Outcome
from licorne_core.handlers.predicates import answers_overdue, ask_again, assume, reserve
from licorne_core.lifecycle import allocation_made, on_time
from licorne_core.outstanding import scan, unreported
from licorne_core.partition import Partition
from licorne_core.scheduling.cycle import ToReserve
from licorne_core.timers import Due, Timer

INSPECTION_TIME = 1.0
"""Seconds from a change until it is seen which asks no node takes (spec § 8.12)."""

TRIES = 16
"""Tries that a turn has for each decision: asks that fit nowhere must not make it longer."""


def fire_timers(partition: Partition, now: float) -> list[Effect]:
    """Do everything of the partition whose deadline has come."""
    outcome = Outcome()
    told: list[Effect] = []
    while (due := partition.timers.take_due(now)) is not None:
        if due.due is Due.ANSWER:
            answers_overdue(partition, due.check, now, outcome)
        elif due.due is Due.RETRY:
            ask_again(partition, due.check)
        elif due.due is Due.INSPECT:
            told += _inspect(partition, now)
        else:
            outcome.updates += on_time(partition, due, now)
    told += partition.predicates.take_unsaid()
    if partition.outstanding_scan is not None:
        partition.timers.set(Timer(Due.INSPECT), now)
    return outcome.effects(partition.rm_id) + told


def decide(partition: Partition, decisions: int, now: float) -> list[Effect]:
    """Make up to so many decisions, each after the one before was booked (spec § 8.1)."""
    made: list[Allocation] = []
    updates: list[ApplicationUpdate] = []
    cycle = partition.cycle
    allocate = partition.allocations.allocate
    predicates = partition.predicates
    partition.counters.turns += 1
    cycle.begin_turn(now, TRIES * (decisions + 1))
    for _ in range(decisions):
        decision = cycle.next()
        if decision is None:
            partition.wakeups.waiting.runnable = cycle.tired
            break
        if isinstance(decision, ToReserve):
            reserve(partition, decision, now)
            continue
        leaf, app, request, node = decision
        ask_class = request.ask.ask_class
        if ask_class.predicate is not None and predicates.is_needed(ask_class, node):
            assume(partition, decision, now)
            continue
        allocation = allocate(decision, now)
        made.append(allocation)
        updates += allocation_made(partition, leaf, app, allocation, now)
    partition.counters.asks_tried = cycle.tried
    effects: list[Effect] = []
    if updates:
        effects.append(ApplicationsUpdated(rm_id=partition.rm_id, updates=updates))
    if made:
        effects.append(
            AllocationsMade(rm_id=partition.rm_id, partition=partition.name, allocations=made)
        )
    effects += predicates.take_unsaid()
    if partition.tree.root.pending and not partition.wakeups.waiting.runnable:
        _inspect_later(partition, now)
    return effects


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
