"""Explanation to the RM that no placement rule has a queue for an application (spec § 3.3)."""

from collections.abc import Sequence

from licorne_core.config.schema import PlacementRuleConfig
from licorne_core.model.placement.rule import Miss
from licorne_core.model.queues.access import (
    RECOVERY_PATH,
    may_submit,
    takes_applications,
    why_closed,
)
from licorne_core.model.queues.tree import QueueTree
from licorne_core.values.errors import shown
from licorne_core.values.identity import UserGroup
from licorne_core.values.ids import QueuePath

MAX_REASONS = 480
"""Characters about rules; further rules are only counted."""
MAX_PATH = 160
"""Characters of a queue's path; of a longer one the beginning is left out."""


def closed_for(path: QueuePath, user: UserGroup, tree: QueueTree) -> str | None:
    """Reason to try a further rule after this path; None if the user may submit there.

    A queue that exists must take applications as well (spec § 3.3). For one that does not exist,
    the access to its nearest ancestor counts. That ancestor may be a leaf: this
    shows when the queue is created, and then rejects the application (spec § 3, pitfalls).
    """
    if path == RECOVERY_PATH or path.startswith(f"{RECOVERY_PATH}."):
        return "takes only applications that are forced"
    queue = tree.nearest(path)
    exists = queue.path == path
    if not may_submit(queue, user):
        closed = f"is closed to user {shown(user.user)}"
        return closed if exists else f"does not exist, and {_path(queue.path)} {closed}"
    return why_closed(queue) if exists and not takes_applications(queue) else None


def reasons_of(
    rules: Sequence[PlacementRuleConfig],
    results: Sequence[QueuePath | Miss],
    user: UserGroup,
    tree: QueueTree,
) -> str:
    """Result of each rule, and the reason against it; `results` are those of `rules`, in order."""
    told: list[str] = []
    length = 0
    for number, (rule, result) in enumerate(zip(rules, results, strict=False), start=1):
        reason = f"rule {number} ({_name(rule)}): {_reason(rule, result, user, tree)}"
        length += len(reason)
        if told and length > MAX_REASONS:
            rest = len(results) - len(told)
            told.append(f"and {rest} more rule{'s'[: rest > 1]}")
            break
        told.append(reason)
    return "; ".join(told)


def _reason(
    rule: PlacementRuleConfig, result: QueuePath | Miss, user: UserGroup, tree: QueueTree
) -> str:
    if not isinstance(result, Miss):
        return f"{_path(result)} {closed_for(result, user, tree)}"
    why = f"{_path(result.path)} {result.why}" if result.path else result.why
    above: PlacementRuleConfig | None = rule
    for _ in range(result.level):
        above = above.parent if above is not None else None
    return f"its parent rule ({_name(above)}): {why}" if above is not rule and above else why


def _name(rule: PlacementRuleConfig) -> str:
    return f"{rule.name} {shown(rule.value)}" if rule.value else rule.name


def _path(path: str) -> str:
    return path if len(path) <= MAX_PATH else f"…{path[-MAX_PATH:]}"
