"""Placement: the choice of a leaf queue for an application (spec § 3).

The rules of the configuration are evaluated in order, then recovery or root.default. If none gives a queue,
the rejection sent to the RM has the result of each rule.
"""

from collections.abc import Sequence
from typing import NamedTuple

from licorne_core.config.rules import rules_in_force
from licorne_core.config.schema import FilterConfig, PlacementRuleConfig
from licorne_core.messages.commands import NewApplication
from licorne_core.model.apps.admission import is_forced
from licorne_core.model.queues.queue import (
    RECOVERY_PATH,
    Queue,
    may_submit,
    stopped_above,
    takes_applications,
    why_closed,
)
from licorne_core.model.queues.tree import QueueTree, check_extent
from licorne_core.values.errors import Refusal, Rejected, shown
from licorne_core.values.ids import QueuePath, UserGroup
from licorne_core.values.names import INVALID_QUEUE_NAME, ROOT, found, is_queue_name
from licorne_core.values.rule_kinds import RECOVERY, RULES


class Miss(NamedTuple):
    """The reason why a rule gives no queue for an application; `why` describes the queue at `path`.

    `level` is 0 for the rule itself, 1 for its parent rule, and so on.
    """

    why: str
    path: str = ""
    level: int = 0


FILTERED = Miss("its filter does not let the user in")


class PlacementRule:
    """A placement rule with its parent rule (spec § 3.5-3.8)."""

    __slots__ = ("_config", "_kind", "_parent")

    def __init__(self, config: PlacementRuleConfig) -> None:
        """Create a rule of a checked configuration: its kind exists, and its value is legal."""
        self._config = config
        self._kind = RULES[config.name]
        self._parent: PlacementRule | None = None if config.parent is None else PlacementRule(config.parent)

    def place(self, app: NewApplication, tree: QueueTree) -> QueuePath | Miss:
        """Return the rule's path for the application; a `Miss` if it does not match.

        Access of the user, and the state of the queue, are not checked. Raises Rejected, which ends the
        chain, for an illegal name, a path that is too long, or a parent rule whose path is a leaf.
        """
        config = self._config
        if config.filter is not None and not admits(config.filter, app.user):
            return FILTERED
        part = self._kind.part(app, config.value)
        if part is None:
            return Miss(self._kind.nothing_given(config.value))
        path = part.names
        if not part.qualified:
            above = self._path_above(app, tree)
            if isinstance(above, Miss):
                return Miss(above.why, above.path, above.level + 1)
            path = f"{above}.{path}"
        check_extent(path)
        if not all(map(is_queue_name, part.names.split("."))):
            raise Rejected(_illegal(part.names), Refusal.NO_QUEUE)
        path = path.lower()
        if not config.create and tree.get(path) is None:
            return Miss("does not exist and create is false", path)
        return QueuePath(path)

    def _path_above(self, app: NewApplication, tree: QueueTree) -> str | Miss:
        """The path of the parent rule, or root; a `Miss` if it does not match. Raises Rejected for a leaf."""
        if self._parent is None:
            return ROOT
        path = self._parent.place(app, tree)
        if isinstance(path, Miss):
            return path
        queue = tree.get(path)
        if queue is not None and queue.is_leaf:
            raise Rejected(f"parent rule returned a leaf queue: {path}", Refusal.NO_QUEUE)
        return path


def _illegal(names: str) -> str:
    """Error text for a path in which at least one part is not a legal queue name."""
    wrong = next(name for name in names.split(".") if not is_queue_name(name))
    where = "" if wrong == names else f" in '{shown(names)}'"
    return f"{INVALID_QUEUE_NAME}, {found(wrong)}{where}"


def admits(only_for: FilterConfig, who: UserGroup) -> bool:
    """True if a rule with this filter applies to the user: to listed users, or if it denies, to all others.

    Empty lists admit all users, or none if they deny. Lists with only illegal names are not empty: they match
    no user, so they admit none, or all if they deny (spec § 14, row 3.9).
    """
    if not (only_for.users or only_for.groups):
        return only_for.allow
    listed = only_for.users.contain(who.user) or any(map(only_for.groups.contain, who.groups))
    return listed is only_for.allow


MAX_REASONS = 480
"""Maximum number of characters about rules in a rejection; further rules are only counted."""
MAX_PATH = 160
"""Maximum number of characters of a queue's path; the beginning of a longer path is left out."""


def closed_for(path: QueuePath, user: UserGroup, tree: QueueTree) -> str | None:
    """Reason to try the next rule instead of this path; None if the user may submit there.

    A queue that exists must accept applications as well (spec § 3.3). For a queue that does not exist,
    the access to its nearest ancestor counts. That ancestor may be a leaf: this is
    found when the queue is created, and then rejects the application (spec § 3, pitfalls).
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
    """Result of each rule and its reason; `results` are those of `rules`, in order."""
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


def _reason(rule: PlacementRuleConfig, result: QueuePath | Miss, user: UserGroup, tree: QueueTree) -> str:
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


DEFAULT_PATH = QueuePath("root.default")
"""The queue for applications that no rule places, if it exists (spec § 3.4)."""

FALLBACK = "default"
"""Name that is reported as the rule of an application placed in `DEFAULT_PATH`."""


class _Choice(NamedTuple):
    """A path, and the name of the rule that has chosen it; `FALLBACK` if no rule has."""

    path: QueuePath
    rule: str


class Placer:
    """The placement rules of a partition."""

    def __init__(self, rules: Sequence[PlacementRuleConfig]) -> None:
        """Build the configured rules, and the implicit ones."""
        self._rules = rules_in_force(rules)
        # The recovery rule is the last one, and applies to forced applications only.
        self._chain = [PlacementRule(rule) for rule in self._rules[:-1]]

    def place(self, app: NewApplication, tree: QueueTree) -> Queue:
        """The leaf for the application, created if a rule allows it. Its user was checked before.

        Raises Rejected, and leaves the tree unchanged, if a rule fails, if no rule gives a queue, or if the
        queue cannot be created. In the last two cases a forced application is placed in the recovery queue
        instead (spec § 11.2).
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
        """Return the name of the rule whose path `place` would use; nothing is created.

        Raises Rejected if a rule fails, or if no rule gives a queue.
        """
        return self._choose(app, tree).rule

    def _choose(self, app: NewApplication, tree: QueueTree) -> _Choice:
        """The first path of a rule to which the user may submit (§§ 3.2-3.4); raises Rejected without one."""
        results: list[QueuePath | Miss] = []
        for rule, config in zip(self._chain, self._rules, strict=False):
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
                raise Rejected(f"application rejected: queue {stopped.path} is stopped", Refusal.NO_QUEUE)
        why = reasons_of(self._rules, results, app.user, tree)
        if has_default:
            why = f"{why}; {DEFAULT_PATH} {closed_for(DEFAULT_PATH, app.user, tree)}"
        raise Rejected(f"application rejected: no placement rule matched: {why}", Refusal.NO_QUEUE)


def _leaf_at(path: QueuePath, app: NewApplication, tree: QueueTree) -> Queue:
    """The leaf at the path, existing or created (spec § 3.11); raises Rejected."""
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
        raise Rejected(f"failed to find queue {path} for application {app.app_id}", Refusal.NO_QUEUE)
    return queue
