"""A turn: what is due, then decisions for one partition (DESIGN § 2, fairness between RMs)."""

from licorne_core.asks import Allocation
from licorne_core.config.properties import AppSortPolicy
from licorne_core.effects import AllocationsMade, ApplicationsUpdated, ApplicationUpdate, Effect
from licorne_core.lifecycle import fire, note_start, placed, rest
from licorne_core.partition import Partition

TRIES = 16
"""Tries that a turn has for each decision: asks that fit nowhere must not make it longer."""


def fire_timers(partition: Partition, now: float) -> list[Effect]:
    """Do what the partition has to do by now."""
    updates = fire(partition, now)
    return [ApplicationsUpdated(rm_id=partition.rm_id, updates=updates)] if updates else []


def decide(partition: Partition, decisions: int, now: float) -> list[Effect]:
    """Make up to so many decisions, each after the one before was booked (spec § 8.1)."""
    made: list[Allocation] = []
    updates: list[ApplicationUpdate] = []
    cycle = partition.cycle
    commit = partition.commit
    partition.counters.turns += 1
    cycle.begin_turn(now, TRIES * (decisions + 1))
    while len(made) < decisions:
        candidate = cycle.next()
        if candidate is None:
            partition.frontier.runnable = cycle.tired
            break
        allocation = commit(candidate, now)
        made.append(allocation)
        leaf, app = candidate[:2]
        by_state = leaf.settings.app_sort is AppSortPolicy.STATE_AWARE
        if by_state and partition.frontier.is_state_aware(leaf):
            note_start(partition, leaf, app, now)
        updates += placed(partition, app, allocation, now)
    rest(partition)
    partition.counters.asks_tried = cycle.tried
    effects: list[Effect] = []
    if updates:
        effects.append(ApplicationsUpdated(rm_id=partition.rm_id, updates=updates))
    if made:
        effects.append(
            AllocationsMade(rm_id=partition.rm_id, partition=partition.name, allocations=made)
        )
    return effects
