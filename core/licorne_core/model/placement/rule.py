"""A placement rule that can be asked, whatever its kind (spec § 3.5-3.8)."""

from collections.abc import Callable
from typing import NamedTuple

from licorne_core.config.schema import FilterConfig, PlacementRuleConfig
from licorne_core.messages.commands import NewApplication
from licorne_core.model.queues.tree import QueueTree, check_extent
from licorne_core.values.errors import ConfigError, Problem, Refusal, Rejected, shown
from licorne_core.values.identity import UserGroup
from licorne_core.values.ids import QueuePath
from licorne_core.values.names import INVALID_QUEUE_NAME, ROOT, found, is_queue_name
from licorne_core.values.rule_kinds import RULES, Part, unknown_rule

Source = Callable[[NewApplication], Part | None]
"""Makes a rule's own part of the path; None where the application gives nothing for it."""


class Miss(NamedTuple):
    """Reason of a rule without a queue for an application: `why` is about the queue at `path`.

    `level` is 0 for the rule itself, 1 for its parent rule, and so on.
    """

    why: str
    path: str = ""
    level: int = 0


FILTERED = Miss("its filter does not let the user in")


class Rule:
    """A placement rule with its filter and its parent rule."""

    __slots__ = ("_create", "_filter", "_nothing_given", "_parent", "_source")

    def __init__(
        self,
        source: Source,
        nothing_given: str,
        *,
        create: bool,
        only_for: FilterConfig | None,
        parent: "Rule | None",
    ) -> None:
        """Create a rule for users that `only_for` admits; None admits all.

        `nothing_given` is the reason if the application lacks the rule's own part. With `create`
        the queue need not exist. The path of `parent` comes before an unqualified part; without a
        parent, root does.
        """
        self._nothing_given = Miss(nothing_given)
        self._source = source
        self._create = create
        self._filter = only_for
        self._parent = parent

    def place(self, app: NewApplication, tree: QueueTree) -> QueuePath | Miss:
        """Return the rule's path for the application; a `Miss` if it does not match.

        Access of the user, and the state of the queue, are not checked. Raises Rejected, which ends
        the chain, for an illegal name, a path that is too long, and a parent rule that leads to a
        leaf.
        """
        if self._filter is not None and not admits(self._filter, app.user):
            return FILTERED
        part = self._source(app)
        if part is None:
            return self._nothing_given
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
        if not self._create and tree.get(path) is None:
            return Miss("does not exist and create is false", path)
        return QueuePath(path)

    def _path_above(self, app: NewApplication, tree: QueueTree) -> str | Miss:
        """The path of the parent rule, or root without one; a `Miss` if that does not match."""
        if self._parent is None:
            return ROOT
        path = self._parent.place(app, tree)
        if isinstance(path, Miss):
            return path
        queue = tree.get(path)
        if queue is not None and queue.is_leaf:
            raise Rejected(f"parent rule returned a leaf queue: {path}", Refusal.NO_QUEUE)
        return path


def build_rule(config: PlacementRuleConfig) -> Rule:
    """The rule with its parents; raises ConfigError for one that is not known.

    Reading the configuration has seen to it that a value which the rule needs is there and legal.
    """
    kind, value, place = RULES.get(config.name), config.value, config.place
    if kind is None:
        message = unknown_rule(config.name)
        problem = Problem(message=message, path=place.path, line=place.line, column=place.column)
        raise ConfigError([problem])
    part = kind.part
    return Rule(
        lambda app: part(app, value),
        kind.nothing_given(value),
        create=config.create,
        only_for=config.filter,
        parent=None if config.parent is None else build_rule(config.parent),
    )


def _illegal(names: str) -> str:
    """Describe the error of a path of which at least one part cannot name a queue."""
    wrong = next(name for name in names.split(".") if not is_queue_name(name))
    where = "" if wrong == names else f" in '{shown(names)}'"
    return f"{INVALID_QUEUE_NAME}, {found(wrong)}{where}"


def admits(only_for: FilterConfig, who: UserGroup) -> bool:
    """True if a rule with this filter is for this user. Listed users pass; with deny, others do.

    Empty lists admit all users, or with deny none. Lists of nothing but illegal names are not
    empty: they match no user, so they admit none, or with deny all (spec § 14, row 3.9).
    """
    if not (only_for.users or only_for.groups):
        return only_for.allow
    listed = only_for.users.contain(who.user) or any(map(only_for.groups.contain, who.groups))
    return listed is only_for.allow
