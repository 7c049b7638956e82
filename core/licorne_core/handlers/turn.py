"""A turn: what is due, then decisions for one partition (DESIGN § 2, fairness between RMs)."""

from licorne_core.asks import Allocation
from licorne_core.effects import (
    AllocationsMade,
    ApplicationsUpdated,
    ApplicationUpdate,
    ContainerStatesChanged,
    Effect,
)
from licorne_core.handlers.made import tell
from licorne_core.handlers.outcome import Outcome
from licorne_core.handlers.predicates import answer_overdue, ask_again, hold, reserve
from licorne_core.lifecycle import NO_APP, NO_KEY, on_time, rest
from licorne_core.outstanding import untold, walk
from licorne_core.partition import Partition
from licorne_core.scheduling.cycle import Claimed
from licorne_core.scheduling.questions import ANSWER, RETRY

INSPECT = "inspect"
INSPECTION_TIME = 1.0
"""Seconds from a change until the RM is told which asks no node takes (spec § 8.12)."""

TRIES = 16
"""Tries that a turn has for each decision: asks that fit nowhere must not make it longer."""


def fire_timers(partition: Partition, now: float) -> list[Effect]:
    """Do what the partition has to do by now."""
    outcome = Outcome()
    told: list[Effect] = []
    while (due := partition.timers.take_due(now)) is not None:
        what, name, _ = due
        if what == ANSWER:
            answer_overdue(partition, int(name), now, outcome)
        elif what == RETRY:
            ask_again(partition, int(name))
        elif what == INSPECT:
            told += _inspect(partition, now)
        else:
            outcome.updates += on_time(partition, due, now)
    told += partition.questions.take_unsent()
    if partition.walking is not None:
        partition.timers.set((INSPECT, NO_APP, NO_KEY), now)
    return outcome.effects(partition.rm_id) + told


def decide(partition: Partition, decisions: int, now: float) -> list[Effect]:
    """Make up to so many decisions, each after the one before was booked (spec § 8.1)."""
    made: list[Allocation] = []
    updates: list[ApplicationUpdate] = []
    cycle = partition.cycle
    commit = partition.commit
    questions = partition.questions
    partition.counters.turns += 1
    cycle.begin_turn(now, TRIES * (decisions + 1))
    for _ in range(decisions):
        candidate = cycle.next()
        if candidate is None:
            partition.frontier.runnable = cycle.tired
            break
        if isinstance(candidate, Claimed):
            reserve(partition, candidate, now)
            continue
        leaf, app, entry, node = candidate
        ask_class = entry[3].ask_class
        if ask_class.predicate is not None and questions.needs(ask_class, node):
            hold(partition, candidate, now)
            continue
        allocation = commit(candidate, now)
        made.append(allocation)
        tell(partition, leaf, app, allocation, now, updates)
    rest(partition)
    partition.counters.asks_tried = cycle.tried
    effects: list[Effect] = []
    if updates:
        effects.append(ApplicationsUpdated(rm_id=partition.rm_id, updates=updates))
    if made:
        effects.append(
            AllocationsMade(rm_id=partition.rm_id, partition=partition.name, allocations=made)
        )
    effects += questions.take_unsent()
    wanted = partition.container_states and not partition.frontier.runnable
    if wanted and partition.tree.root.pending:
        _inspect_later(partition, now)
    return effects


def _inspect_later(partition: Partition, now: float) -> None:
    """Something has changed for what waits: tell the autoscaler, but not too often (§ 8.12)."""
    name = (INSPECT, NO_APP, NO_KEY)
    if name not in partition.timers:
        partition.timers.set(name, now + INSPECTION_TIME)


def _inspect(partition: Partition, now: float) -> list[Effect]:
    """One part of a walk over what waits; the next part follows in the next turn."""
    if partition.holds:
        partition.walking = None
        _inspect_later(partition, now)
        return []
    if partition.walking is None:
        partition.frontier.settle()
        partition.walking = walk(partition)
    states, partition.walking = untold(partition.walking)
    if not states:
        return []
    return [ContainerStatesChanged(rm_id=partition.rm_id, partition=partition.name, states=states)]
