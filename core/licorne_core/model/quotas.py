"""What can bound an ask: a queue's maximum, and what a user or a group may have.

Queues and trackers look alike to the scheduling pass: a maximum, what is allocated, and how many
applications may run. By how much amounts exceed a maximum says `excess`, and `first_exceeded` only
whether they do: nobody else compares them.
"""

from collections.abc import Iterable

from licorne_core.values.ids import AppId
from licorne_core.values.resources import EMPTY, Items, Resources


class Quota:
    """Something with a maximum. A class and no protocol: compiled, its fields are read at once."""

    __slots__ = (
        "allocated",
        "kept",
        "max",
        "max_applications",
        "preempting",
        "promised",
        "strict",
    )

    allocated: dict[str, int]
    """What is booked, by resource name."""
    preempting: dict[str, int]
    """What of it belongs to victims that the RM was told to stop, by resource name."""
    promised: dict[str, int]
    """What asks want for which victims were told to stop, until they are placed (spec § 9.4)."""
    kept: dict[str, int]
    """What of that has to be left free now: what the victims that have yet to go do not cover."""
    max: Resources | None
    """The most that may be booked; None for no bound at all."""
    max_applications: int
    """How many applications may run; 0 for no bound."""
    strict: bool
    """Whether a type that the maximum does not name is not to be had at all."""

    def __init__(self, *, strict: bool) -> None:
        """Nothing is booked, and nothing is bound."""
        self.allocated = {}
        self.preempting = {}
        self.promised = {}
        self.kept = {}
        self.max = None
        self.max_applications = 0
        self.strict = strict

    @property
    def started_applications(self) -> int:
        """Applications that count against `max_applications`."""
        raise NotImplementedError

    def counts(self, app_id: AppId) -> bool:
        """Whether an application that does not run yet is among them already."""
        raise NotImplementedError


def claimed(quota: Quota) -> Resources:
    """What is taken: what is booked, and what has to be left free for asks with a promise.

    Nobody may take what preemption frees for somebody else (spec § 9.4.8).
    """
    if not quota.kept:
        return quota.allocated
    taken = dict(quota.allocated)
    for name, value in quota.kept.items():
        taken[name] = taken.get(name, 0) + value
    return taken


def excess(quota: Quota, items: Items) -> Resources:
    """By how much each of the amounts would exceed the maximum; empty when they fit.

    A type that the maximum does not name is unlimited, but for root, which has what its nodes have
    (spec §§ 4.5-4.7, 10.4).
    """
    limit = quota.max
    if limit is None:
        return EMPTY
    over: dict[str, int] | None = None
    allocated = claimed(quota) if quota.kept else quota.allocated
    for name, value in items:
        bound = limit.get(name)
        if bound is None:
            if not quota.strict:
                continue
            bound = 0
        beyond = allocated.get(name, 0) + value - bound
        if beyond > 0:
            over = over or {}
            over[name] = beyond
    return EMPTY if over is None else over


def first_exceeded(quotas: Iterable[Quota], items: Items) -> Quota | None:
    """The first quota of which `excess` would say that the amounts do not fit; None if they do.

    Every ask is compared with all its quotas, and nobody wants to know by how much it fits.
    """
    for quota in quotas:
        limit = quota.max
        if limit is None:
            continue
        allocated = claimed(quota) if quota.kept else quota.allocated
        for name, value in items:
            bound = limit.get(name)
            if bound is None:
                if not quota.strict:
                    continue
                bound = 0
            if allocated.get(name, 0) + value > bound:
                return quota
    return None


def within_max(quota: Quota, items: Items) -> bool:
    """Whether the amounts fit under the maximum."""
    return first_exceeded((quota,), items) is None


def left_of(quota: Quota, name: str) -> int | None:
    """What is left of one type under the maximum, maybe below zero; None for no bound."""
    limit = quota.max
    if limit is None:
        return None
    bound = limit.get(name, 0 if quota.strict else None)
    return None if bound is None else bound - claimed(quota).get(name, 0)


def headroom(quota: Quota) -> dict[str, int]:
    """What is left of each type that the maximum names, maybe below zero."""
    allocated = claimed(quota)
    limit = quota.max or EMPTY
    return {name: bound - allocated.get(name, 0) for name, bound in limit.items()}


def room_for(items: Items, quotas: Iterable[Quota]) -> Resources:
    """What is left of the wanted types below all maxima that bound them; never below zero."""
    room: dict[str, int] = {}
    for quota in quotas:
        for name, _ in items:
            left = left_of(quota, name)
            if left is not None:
                room[name] = min(max(0, left), room.get(name, left))
    return room


def may_run_one_more(quota: Quota) -> bool:
    """Whether another application may start to run (spec §§ 4.12, 10.5)."""
    return not quota.max_applications or quota.started_applications < quota.max_applications


def may_start(quota: Quota, app_id: AppId) -> bool:
    """Whether this application may start to run, which it may if it is counted already."""
    return may_run_one_more(quota) or quota.counts(app_id)
