"""Choice of the limit of a user or group, and of the counting group (spec §§ 10.2-10.3, 10.7)."""

from licorne_core.config.schema import LimitConfig
from licorne_core.model.queues.queue import Queue
from licorne_core.values.identity import UserGroup
from licorne_core.values.names import WILDCARD


def user_limit(queue: Queue, user: str) -> LimitConfig | None:
    """The limit for a user in one queue: the one that names the user, else the wildcard's."""
    return queue.limits.of_user(user)


def group_limit(queue: Queue, group: str) -> LimitConfig | None:
    """The limit for a group in one queue, by its name; the wildcard is a name like any other."""
    return queue.limits.groups.get(group)


def group_of(leaf: Queue, who: UserGroup) -> str:
    """The group that a new application of this user counts for; empty for none (spec § 10.3).

    The queues are asked from the leaf up. Each answers with the first of its limited groups, in the
    order of the configuration, that the user is in; without one, with the wildcard if it has that.
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


def group_kept_or_found(leaf: Queue, who: UserGroup, group: str) -> str:
    """The group that an application counts for once limits changed; empty for none (spec § 10.7).

    An application keeps its `group` as long as some queue from its leaf up limits that group.
    Otherwise, and where it counted for no group, its group is found anew.
    """
    if any(group in queue.limits.groups for queue in leaf.lineage):
        return group
    return group_of(leaf, who)
