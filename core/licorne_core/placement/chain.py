"""Which queue an application goes into: the rules, then recovery or root.default (spec § 3)."""

from collections.abc import Sequence
from typing import NamedTuple

from licorne_core.commands import NewApplication
from licorne_core.config.schema import PlacementRuleConfig
from licorne_core.errors import Refusal, Rejected
from licorne_core.identity import UserGroup
from licorne_core.ids import QueuePath
from licorne_core.placement.identity_check import is_forced
from licorne_core.placement.rule import build_rule
from licorne_core.queues.access import (
    RECOVERY_PATH,
    may_submit,
    stopped_above,
    takes_applications,
)
from licorne_core.queues.queue import Queue
from licorne_core.queues.tree import QueueTree
from licorne_core.rule_kinds import PROVIDED, RECOVERY

DEFAULT_PATH = QueuePath("root.default")
"""The queue for applications that no rule places, if it exists (spec § 3.4)."""

FALLBACK = "default"
"""What stands for the rule where an application goes to `DEFAULT_PATH`."""

_PROVIDED = PlacementRuleConfig(name=PROVIDED.name)
_RECOVERY = PlacementRuleConfig(name=RECOVERY, create=True, value=RECOVERY_PATH)


class _Choice(NamedTuple):
    """A path, and the name of the rule that gave it; `FALLBACK` where no rule did."""

    path: QueuePath
    rule: str


class Placer:
    """The placement rules of a partition. `rules` are all that are in force, implicit ones too."""

    __slots__ = ("_chain", "rules")

    def __init__(self, rules: Sequence[PlacementRuleConfig]) -> None:
        """Without rules `provided` alone is in force; ConfigError for a rule of unknown kind."""
        in_force = tuple(rules) or (_PROVIDED,)
        self._chain = [build_rule(rule) for rule in in_force]
        self.rules = (*in_force, _RECOVERY)

    def place(self, app: NewApplication, tree: QueueTree) -> Queue:
        """The leaf for the application, created if a rule says so. Its user has been checked.

        Raises Rejected, and leaves the tree as it was, if a rule fails, if no rule has a place, or
        if the place cannot be created. In the last two cases a forced application goes to the
        recovery queue instead (spec § 11.2).
        """
        try:
            path = self._choose(app, tree).path
        except Rejected as refusal:
            message = f"failed to place application {app.app_id}: {refusal}"
            raise Rejected(message, refusal.code) from refusal
        try:
            return _leaf_at(path, app, tree)
        except Rejected:
            if not is_forced(app):
                raise
            return _leaf_at(RECOVERY_PATH, app, tree)

    def rule_for(self, app: NewApplication, tree: QueueTree) -> str:
        """The name of the rule whose path `place` would take; nothing is created.

        Raises Rejected if a rule fails, or if no rule has a place.
        """
        return self._choose(app, tree).rule

    def _choose(self, app: NewApplication, tree: QueueTree) -> _Choice:
        """The first path of a rule that is open to the user (spec §§ 3.2-3.4)."""
        stopped: Queue | None = None
        for rule, config in zip(self._chain, self.rules, strict=False):
            path = rule.place(app, tree)
            if path is not None and _is_open(path, app.user, tree):
                return _Choice(path, config.name)
            if path is not None and stopped is None:
                stopped = stopped_above(tree.nearest(path))
        if is_forced(app):
            return _Choice(RECOVERY_PATH, RECOVERY)
        if tree.get(DEFAULT_PATH) is not None and _is_open(DEFAULT_PATH, app.user, tree):
            return _Choice(DEFAULT_PATH, FALLBACK)
        if stopped is not None:
            raise Rejected(
                f"application rejected: queue {stopped.path} is stopped", Refusal.NO_QUEUE
            )
        raise Rejected("application rejected: no placement rule matched", Refusal.NO_QUEUE)


def _is_open(path: QueuePath, user: UserGroup, tree: QueueTree) -> bool:
    """Whether the user may submit there, so that no further rule is asked (spec § 3.3).

    A queue that exists must take applications as well. For one that does not exist, the access to
    its nearest ancestor counts. Whether that ancestor is a leaf is not asked: this shows when
    the queue is created, and then rejects the application (spec § 3, pitfalls).
    """
    if path == RECOVERY_PATH or path.startswith(f"{RECOVERY_PATH}."):
        return False
    queue = tree.nearest(path)
    exists = queue.path == path
    return may_submit(queue, user) and (takes_applications(queue) or not exists)


def _leaf_at(path: QueuePath, app: NewApplication, tree: QueueTree) -> Queue:
    """The leaf of that path, found or created (spec § 3.11)."""
    queue = tree.get(path)
    if queue is None:
        try:
            return tree.create(path, app.user, recovery=path == RECOVERY_PATH)
        except Rejected as refusal:
            raise Rejected(
                f"failed to create rule based queue {path} for application {app.app_id}\n{refusal}",
                refusal.code,
            ) from refusal
    if not queue.is_leaf:
        raise Rejected(
            f"failed to find queue {path} for application {app.app_id}", Refusal.NO_QUEUE
        )
    return queue
