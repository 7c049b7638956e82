"""Gangs: placeholders, the real asks that replace them, and their counts (spec § 6).

An application stores all placeholders that it ever had, with their outcomes; the counts of a task group by
state are computed on demand.
"""

from typing import NamedTuple

from support.oracle.books import (
    PLACEHOLDER,
    REPLACED,
    TIMED_OUT,
    AllocationRecord,
    Amounts,
    AppRecord,
    AskRecord,
    total,
)

CREATION_TAG = "yunikorn.apache.org/creationTime"
DEFAULT_TIMEOUT = 900.0
LEAST_TIMEOUT = 0.001
MOST_NANOSECONDS = 2**63 - 1


class Counts(NamedTuple):
    """The placeholders of one task group; `taken` are all that ever existed."""

    taken: int
    replaced: int
    timed_out: int

    @property
    def open(self) -> int:
        """The placeholders that a real ask may still replace, or is replacing."""
        return self.taken - self.replaced - self.timed_out


def counts(app: AppRecord, task_group: str) -> Counts:
    """The outcomes of the placeholders of the task group."""
    fates = [ask.fate for ask in app.placeholders if ask.task_group == task_group]
    return Counts(len(fates), fates.count(REPLACED), fates.count(TIMED_OUT))


def task_groups(app: AppRecord) -> dict[str, Counts]:
    """All task groups that ever had a placeholder."""
    return {ask.task_group: counts(app, ask.task_group) for ask in app.placeholders}


def is_replaceable(app: AppRecord, ask: AskRecord) -> bool:
    """True if a real ask has to replace a placeholder (spec § 6.4)."""
    return not ask.placeholder and counts(app, ask.task_group).open > 0


def to_be_tried(app: AppRecord) -> list[AskRecord]:
    """The asks that the regular pass tries, in order."""
    return [ask for ask in app.asks_in_order() if not is_replaceable(app, ask)]


def free_placeholders(app: AppRecord, task_group: str) -> list[str]:
    """The task group's placeholders that a real ask may replace, the earliest first."""
    free = [
        allocation.ask
        for key, allocation in app.allocations.items()
        if allocation.state == PLACEHOLDER
        and allocation.ask.task_group == task_group
        and app.pair_of(key) is None
    ]
    return [ask.key for ask in sorted(free, key=lambda ask: ask.arrival)]


def booked_placeholders(app: AppRecord) -> list[AllocationRecord]:
    """All placeholders on nodes, in the order of their booking."""
    return [one for one in app.allocations.values() if one.ask.placeholder]


def has_time(app: AppRecord) -> bool:
    """True if the timeout of placeholders still runs: one is on a node, or has not ended yet."""
    return bool(booked_placeholders(app)) or any(not ask.fate for ask in app.placeholders)


def covers(app: AppRecord) -> bool:
    """True if the application has all requested placeholders (spec § 6.7)."""
    booked = total(one.ask.size for one in booked_placeholders(app))
    shared = booked.keys() & app.gang.ask.keys()
    return bool(shared) and all(booked[name] == app.gang.ask[name] for name in shared)


def seconds_left(milliseconds: int, tags: dict[str, str], now: float) -> float:
    """The remaining seconds of placeholders, from an application's timeout and its own age (spec § 5.4)."""
    seconds = milliseconds / 1000
    if milliseconds <= 0 or milliseconds * 1_000_000 > MOST_NANOSECONDS:
        seconds = DEFAULT_TIMEOUT
    created = tags.get(CREATION_TAG)
    if created is not None:
        seconds -= max(0.0, now - int(created))
    return max(seconds, LEAST_TIMEOUT)


def fits_below(limits: list[Amounts], wanted: Amounts) -> bool:
    """True if the amounts are within every limit on one of their types."""
    return all(value <= limit.get(name, value) for limit in limits for name, value in wanted.items())


def end_of(ask: AskRecord, fate: str) -> None:
    """Record the final outcome of a placeholder that has ended, or was requested to stop."""
    if ask.placeholder and not ask.fate:
        ask.fate = fate


def unlink(app: AppRecord, key: str) -> AskRecord:
    """Remove a linked real ask, so that its placeholder is stopped without a replacement."""
    pair = app.pairs.pop(key)
    end_of(app.allocations[pair.placeholder].ask, TIMED_OUT)
    return pair.ask
