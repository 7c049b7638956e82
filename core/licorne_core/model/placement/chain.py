"""Placement of applications: the rules, then recovery or root.default (spec § 3)."""

from collections.abc import Sequence
from typing import NamedTuple

from licorne_core.config.schema import PlacementRuleConfig
from licorne_core.messages.commands import NewApplication
from licorne_core.model.placement.identity_check import is_forced
from licorne_core.model.placement.refusal import closed_for, reasons_of
from licorne_core.model.placement.rule import Miss, build_rule
from licorne_core.model.queues.access import RECOVERY_PATH, stopped_above
from licorne_core.model.queues.queue import Queue
from licorne_core.model.queues.tree import QueueTree
from licorne_core.values.errors import Refusal, Rejected
from licorne_core.values.ids import QueuePath
from licorne_core.values.rule_kinds import PROVIDED, RECOVERY

DEFAULT_PATH = QueuePath("root.default")
"""The queue for applications that no rule places, if it exists (spec § 3.4)."""

FALLBACK = "default"
"""Name in place of a rule where an application goes to `DEFAULT_PATH`."""

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
        """Build the rules; without any, only `provided`. Raises ConfigError for an unknown kind."""
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
        """Return the name of the rule whose path `place` would take; nothing is created.

        Raises Rejected if a rule fails, or if no rule has a place.
        """
        return self._choose(app, tree).rule

    def _choose(self, app: NewApplication, tree: QueueTree) -> _Choice:
        """The first path of a rule that is open to the user (spec §§ 3.2-3.4)."""
        results: list[QueuePath | Miss] = []
        for rule, config in zip(self._chain, self.rules, strict=False):
            result = rule.place(app, tree)
            if not isinstance(result, Miss) and closed_for(result, app.user, tree) is None:
                return _Choice(result, config.name)
            results.append(result)
        if is_forced(app):
            return _Choice(RECOVERY_PATH, RECOVERY)
        has_default = tree.get(DEFAULT_PATH) is not None
        if has_default and closed_for(DEFAULT_PATH, app.user, tree) is None:
            return _Choice(DEFAULT_PATH, FALLBACK)
        given = [result for result in results if not isinstance(result, Miss)]
        for path in given:
            stopped = stopped_above(tree.nearest(path))
            if stopped is not None:
                raise Rejected(
                    f"application rejected: queue {stopped.path} is stopped", Refusal.NO_QUEUE
                )
        why = reasons_of(self.rules, results, app.user, tree)
        if has_default:
            why = f"{why}; {DEFAULT_PATH} {closed_for(DEFAULT_PATH, app.user, tree)}"
        raise Rejected(f"application rejected: no placement rule matched: {why}", Refusal.NO_QUEUE)


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
