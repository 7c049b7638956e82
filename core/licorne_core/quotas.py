"""What can bound an ask: a queue's maximum, and what a user or a group may have.

Queues and trackers look alike to the scheduling pass: a maximum, what is allocated, how many
applications may run, and the ask classes that were found too large for what is left.
"""

from collections.abc import Iterable
from typing import Protocol

from licorne_core.asks import AskClass
from licorne_core.ids import AppId
from licorne_core.resources import Items, Resources


class Quota(Protocol):
    """Something with a maximum."""

    allocated: dict[str, int]
    max: Resources | None
    max_applications: int
    short_of: dict[AskClass, None]

    @property
    def strict(self) -> bool:
        """Whether a type that the maximum does not define is not to be had at all."""
        ...

    @property
    def started_applications(self) -> int:
        """Applications that count against `max_applications`."""
        ...

    def counts(self, app_id: AppId) -> bool:
        """Whether an application that does not run yet is among them already."""
        ...


def within_max(quota: Quota, items: Items) -> bool:
    """Whether the amounts fit under the maximum (spec §§ 4.5-4.7, 10.4)."""
    limit = quota.max
    if limit is None:
        return True
    allocated = quota.allocated
    for name, value in items:
        bound = limit.get(name)
        if bound is None:
            if quota.strict:
                return False
        elif allocated.get(name, 0) + value > bound:
            return False
    return True


def room_for(items: Items, quotas: Iterable[Quota]) -> Resources:
    """What is left of the wanted types below all maxima that bound them; never below zero."""
    room: dict[str, int] = {}
    for quota in quotas:
        limit = quota.max
        if limit is None:
            continue
        for name, _ in items:
            bound = limit.get(name, 0 if quota.strict else None)
            if bound is not None:
                left = max(0, bound - quota.allocated.get(name, 0))
                room[name] = min(left, room.get(name, left))
    return room


def may_run_one_more(quota: Quota) -> bool:
    """Whether another application may start to run (spec §§ 4.12, 10.5)."""
    return not quota.max_applications or quota.started_applications < quota.max_applications


def may_start(quota: Quota, app_id: AppId) -> bool:
    """Whether this application may start to run, which it may if it is counted already."""
    return may_run_one_more(quota) or quota.counts(app_id)
