"""Whose limit is whose, in the words of the specification (§§ 10.2-10.3)."""

from support.oracle.books import QueueRecord, lineage
from support.oracle.terms import LimitRecord


def limit_for(queue: QueueRecord, kind: str, name: str) -> LimitRecord | None:
    """The limit of a user or group in one queue: by name, for users else by the wildcard."""
    if kind == "group":
        return next((limit for limit in queue.limits if name in limit.groups), None)
    named = next((limit for limit in queue.limits if name in limit.users), None)
    return named or next((limit for limit in queue.limits if "*" in limit.users), None)


def group_of(queues: dict[str, QueueRecord], leaf: str, groups: tuple[str, ...]) -> str:
    """The group that an application counts for, empty for none.

    From the leaf up: the first configured group among the user's, else the wildcard of that queue.
    """
    for path in lineage(leaf):
        configured = [group for limit in queues[path].limits for group in limit.groups]
        mine = [group for group in configured if group in groups]
        if mine:
            return mine[0]
        if "*" in configured:
            return "*"
    return ""


def is_limited(queues: dict[str, QueueRecord], leaf: str, group: str) -> bool:
    """Whether a queue from the leaf up has a limit for that group, so that it is kept (§ 10.7)."""
    limits = [limit for path in lineage(leaf) for limit in queues[path].limits]
    return any(group in limit.groups for limit in limits)
