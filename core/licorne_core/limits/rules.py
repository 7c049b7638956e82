"""Which limit is for whom (spec §§ 10.2-10.3)."""

from licorne_core.config.schema import LimitConfig
from licorne_core.identity import UserGroup
from licorne_core.queues.limit_table import WILDCARD
from licorne_core.queues.queue import Queue


def user_limit(queue: Queue, user: str) -> LimitConfig | None:
    """The limit for a user in one queue: the one that names the user, else the wildcard's."""
    return queue.limits.of_user(user)


def group_limit(queue: Queue, group: str) -> LimitConfig | None:
    """The limit for a group in one queue, by its name; the wildcard is a name like any other."""
    return queue.limits.groups.get(group)


def group_of(leaf: Queue, who: UserGroup) -> str:
    """The group that an application of this user counts for; empty for none (spec § 10.3).

    From the leaf up: the first group, as configured, that the user is in; else the wildcard if that
    queue has one; else one queue further up.
    """
    for queue in leaf.lineage:
        listed = queue.limits.groups
        if not listed:
            continue
        own = listed.keys() & set(who.groups)
        if own:
            return next(group for group in listed if group in own)
        if WILDCARD in listed:
            return WILDCARD
    return ""
