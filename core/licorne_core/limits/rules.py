"""Which limit is for whom (spec §§ 10.2-10.3)."""

from licorne_core.config.schema import LimitConfig
from licorne_core.identity import UserGroup
from licorne_core.queues.queue import Queue

WILDCARD = "*"


def user_limit(queue: Queue, user: str) -> LimitConfig | None:
    """The limit for a user in one queue: the one that names the user, else the wildcard's."""
    wildcard = None
    for limit in queue.limits:
        if user in limit.users:
            return limit
        if WILDCARD in limit.users:
            wildcard = limit
    return wildcard


def group_limit(queue: Queue, group: str) -> LimitConfig | None:
    """The limit for a group in one queue, by its name; the wildcard is a name like any other."""
    return next((limit for limit in queue.limits if group in limit.groups), None)


def group_of(leaf: Queue, who: UserGroup) -> str:
    """The group that an application of this user counts for; empty for none (spec § 10.3).

    From the leaf up: the first group, as configured, that the user is in; else the wildcard if that
    queue has one; else one queue further up.
    """
    for queue in leaf.lineage:
        listed = [group for limit in queue.limits for group in limit.groups]
        for group in listed:
            if group in who.groups:
                return group
        if WILDCARD in listed:
            return WILDCARD
    return ""
