"""One queue: settings, counters, shares, states, limits, and access to it (spec §§ 2.3, 4, 10.2).

Headroom and share are pure functions of a queue and those above it (spec §§ 4.5-4.9).
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from licorne_core.config.schema import LimitConfig, QueueSettings, TemplateConfig
from licorne_core.model import quotas
from licorne_core.model.apps.application import Application
from licorne_core.model.queues.users import LeafUser
from licorne_core.model.quotas import Quota
from licorne_core.values.counters import QueueCounters
from licorne_core.values.ids import AppId, QueuePath, UserGroup
from licorne_core.values.names import RECOVERY_NAME, WILDCARD, Acl
from licorne_core.values.ranking import NO_PRIORITY, PriorityCounts, Ranking, clamp_priority
from licorne_core.values.resources import Resources, is_zero, min_undefined, without_zeros


class LimitTable:
    """Configured limits, indexed by name."""

    __slots__ = ("groups", "listed", "users")

    def __init__(self, limits: Sequence[LimitConfig] = ()) -> None:
        """Index the limits; a checked configuration has each name in only one limit."""
        self.listed = tuple(limits)
        """The limits as configured."""
        self.users: dict[str, LimitConfig] = {}
        self.groups: dict[str, LimitConfig] = {}
        """Limits by group and, in `users`, by user, in the order of the configuration."""
        for limit in limits:
            self.users |= dict.fromkeys(limit.users, limit)
            self.groups |= dict.fromkeys(limit.groups, limit)

    def __len__(self) -> int:
        """Number of limits."""
        return len(self.listed)

    def of(self, kind: str, name: str) -> LimitConfig | None:
        """The limit that names the user or group, or else, for a user, the limit of the wildcard; or None."""
        if kind == "user":
            return self.users.get(name) or self.users.get(WILDCARD)
        return self.groups.get(name)

    def of_kind(self, kind: str) -> Mapping[str, LimitConfig]:
        """The limits by user (`kind` is ``user``) or by group (``group``), including the wildcards."""
        return self.users if kind == "user" else self.groups


NO_LIMITS = LimitTable()
"""The table of a queue without limits, shared by all such queues."""


class QueueState(Enum):
    """States, with the names that operators read."""

    ACTIVE = "Active"
    DRAINING = "Draining"
    STOPPED = "Stopped"


class Precedence:
    """Sort key that is compared before shares: of sibling queues, or of the users of a leaf.

    An extension provides it for all queues of one parent, or for a leaf.
    """

    __slots__ = ()

    def of_queue(self, queue: "Queue") -> float:
        """The current sort key of the queue among its siblings."""
        return 0.0

    def of_user(self, user: str, leaf: "Queue") -> float:
        """The current sort key of the user in the leaf."""
        return 0.0

    def forget(self) -> None:
        """Drop all derived values, as the entitlements of the queue have changed."""


_DEFAULTS = QueueSettings()
_NOBODY = Acl.nobody()
_NOTHING = TemplateConfig()


class Queue(Quota):
    """A queue: a leaf holds applications, a parent holds queues.

    Fields are documented where `__init__` declares them, or in `Quota`. Amounts are by resource
    name: ``vcore`` in thousandths of a core, ``memory`` in bytes, any other as a plain count.
    """

    __slots__ = (
        "admin_acl",
        "allocating",
        "applications",
        "becomes_leaf",
        "brought",
        "children",
        "counted_priority",
        "counters",
        "denominators",
        "guaranteed",
        "interests",
        "is_leaf",
        "limits",
        "lineage",
        "managed",
        "parent",
        "pending",
        "precedence",
        "precedence_inside",
        "priorities",
        "properties",
        "ranking",
        "running_applications",
        "settings",
        "shares",
        "state",
        "submit_acl",
        "template",
        "users",
    )

    def __init__(self, name: str, parent: "Queue | None", *, is_leaf: bool, managed: bool) -> None:
        """Create a queue without settings; its parent's `children` do not contain it yet."""
        path = QueuePath(f"{parent.path}.{name}" if parent else name)
        super().__init__("queue", name, path, strict=parent is None)
        # Identity and position. Names and paths are in lower case.
        self.parent = parent
        # The queue itself, its parent and so on up to root.
        self.lineage: tuple[Queue, ...] = (self, *parent.lineage) if parent else (self,)
        self.is_leaf = is_leaf  # whether it holds applications
        self.becomes_leaf = False  # a parent that becomes a leaf once it has no children
        self.managed = managed  # whether the configuration contains it; if not, placement created it
        self.state = QueueState.ACTIVE
        self.children: dict[str, Queue] = {}  # by name
        self.applications: dict[AppId, Application] = {}  # of a leaf, in the order of arrival
        # Settings, from the configuration or from a template.
        self.guaranteed: Resources | None = None  # amounts; None if nothing is guaranteed
        # A zero in a maximum forbids its type. The maximum of root is the size of the cluster: a type that it
        # lacks is not available (spec § 4.5).
        self.properties: Mapping[str, str] = {}  # as configured, including inherited ones
        self.settings = _DEFAULTS  # parsed properties; delays in seconds
        self.admin_acl = _NOBODY
        self.submit_acl = _NOBODY
        self.template: TemplateConfig | None = None  # of a parent, its own or an inherited one
        # The sizes that applications set by tags for a dynamic leaf, the latest of each kind. They take
        # precedence over the template's sizes (spec § 3.13).
        self.brought = _NOTHING
        self.limits = NO_LIMITS  # of users and groups in this queue
        # Usage in this queue and all below it. Names with a zero amount are left out.
        self.pending: dict[str, int] = {}  # amounts of asks
        self.running_applications = 0  # number of applications in the state Running
        # Accepted applications with a reserved node or an allocation. They are about to run, and count
        # against `max_applications` (spec § 4.12).
        self.allocating: dict[AppId, None] = {}
        self.counters = QueueCounters()  # numbers for metrics, since the creation of the queue
        # The next fields are for the order among siblings, and of the children or applications inside.
        # Amounts by which `allocated` is divided for the share (spec § 4.9); renewed on `shares_stale`.
        self.denominators: dict[str, int] = {}
        self.shares: list[float] = []  # the quotients, largest first; empty without allocations
        # Sort key that is compared before the share: of the queue among its siblings, and of the users of a
        # fair leaf. None if there is none.
        self.precedence: Precedence | None = None
        self.precedence_inside: Precedence | None = None
        self.interests = 0  # bits of the extensions with rules for members of this queue
        self.priorities = PriorityCounts()  # of a leaf's asks; in a parent, of its children
        self.counted_priority = NO_PRIORITY  # the priority with which the parent currently counts this queue
        # Children or applications to try, the first on top; in a fair leaf, `UserApps`.
        self.ranking: Ranking[Any] = Ranking()
        self.users: dict[str, LeafUser] = {}  # of a fair leaf, by name: those of its applications

    def __repr__(self) -> str:
        """``<Queue root.a leaf Active: allocated {...}, pending {...}>``."""
        kind = "leaf" if self.is_leaf else "parent"
        return (
            f"<Queue {self.path} {kind} {self.state.value}: "
            f"allocated {self.allocated}, pending {self.pending}>"
        )

    def let_go(self) -> None:
        """Break its reference cycles: otherwise only the garbage collector would free it.

        The queue is in its own lineage, stale entries refer to its children, and `precedence` refers to all.
        """
        self.lineage, self.precedence, self.precedence_inside = (), None, None
        self.applications.clear()
        self.ranking.clear()
        self.ranking.second = None
        for user in self.users.values():
            user.let_go()
        self.users.clear()

    @property
    def started_applications(self) -> int:
        """Number of applications that run or are about to (spec § 4.12)."""
        return self.running_applications + len(self.allocating)

    def counts(self, app_id: AppId) -> bool:
        """True if the application is about to run, and so counts against `max_applications`."""
        return app_id in self.allocating

    @property
    def is_empty(self) -> bool:
        """True if it holds neither queues nor applications."""
        return not self.children and not self.applications

    @property
    def may_be_removed(self) -> bool:
        """True if the cleaner removes it once it is empty (spec § 4.3)."""
        if self.parent is None:
            return False
        return not self.managed or self.state is QueueState.DRAINING

    def priority(self) -> int:
        """The priority seen by the parent: the highest inside, fenced or offset (spec § 4.11)."""
        return self.counts_as(self.priorities.top)

    def counts_as(self, inside: int) -> int:
        """The priority that the parent derives from a priority in the queue (spec § 4.11)."""
        if inside == NO_PRIORITY:
            return NO_PRIORITY
        if self.settings.priority_fence:
            return self.settings.priority_offset
        offset = self.settings.priority_offset
        return clamp_priority(inside + offset) if offset else inside


RECOVERY_PATH = QueuePath(f"root.{RECOVERY_NAME}")
"""The queue of forced applications that no rule places (spec § 3.14)."""


def may_submit(queue: Queue, user: UserGroup) -> bool:
    """True if an access list of the queue, or of an ancestor, contains the user (spec § 2.3).

    Administrators may submit as well. No user may submit to the recovery queue or its descendants; only
    forced applications are placed there.
    """
    if any(above.path == RECOVERY_PATH for above in queue.lineage):
        return False
    return any(above.submit_acl.allows(user) or above.admin_acl.allows(user) for above in queue.lineage)


def takes_applications(queue: Queue) -> bool:
    """True if the queue is an active leaf, and no ancestor is draining, stopped or about to become a leaf.

    This includes dynamic leaves: otherwise new applications could prevent the removal of the last child
    of such a parent forever.
    """
    return queue.is_leaf and all(
        above.state is QueueState.ACTIVE and not above.becomes_leaf for above in queue.lineage
    )


def why_closed(queue: Queue) -> str:
    """The reason why a queue accepts no applications, to be appended to the name of the queue."""
    if not queue.is_leaf:
        return "is no leaf"
    above = next(
        queue for queue in queue.lineage if queue.state is not QueueState.ACTIVE or queue.becomes_leaf
    )
    state = "is to become a leaf" if above.becomes_leaf else f"is {above.state.value.lower()}"
    return state if above is queue else f"is below {above.path}, which {state}"


def stopped_above(queue: Queue) -> Queue | None:
    """The queue that an operator has stopped: this one, or the nearest above it (§ 4.2); None if none is."""
    for above in queue.lineage:
        if above.state is QueueState.STOPPED:
            return above
    return None


def max_in_force(size: Resources | None) -> Resources | None:
    """The maximum in force for a configured `max`; None if there is no maximum (spec § 4.6).

    None and an empty mapping are no maximum. A zero forbids its type, with other amounts or without.
    """
    return size or None


def guaranteed_in_force(size: Resources | None) -> Resources | None:
    """Guarantee in force for a configured `guaranteed`; None if it is unset, empty or all zeros."""
    return None if size is None or is_zero(size) else size


def headroom(queue: Queue) -> Resources:
    """Headroom of the queue: amounts that still fit below every maximum (spec § 4.7).

    A type that no queue of the lineage limits is left out. An amount below zero means that a queue
    of the lineage exceeds its maximum. Root's maximum is the size of the cluster, and only
    types of the cluster count there.
    """
    room: Resources = {}
    for above in queue.lineage:
        room = min_undefined(room, quotas.headroom(above))
    return room


def fair_max(queue: Queue) -> Resources:
    """Divisors of the queue's share if nothing is guaranteed (spec § 4.8).

    The result begins with root's maximum, without zeros. On the way down, each queue's own maximum of a type
    replaces the one from above, whether larger or smaller.
    """
    root = queue.lineage[-1]
    size = without_zeros(root.max or {})
    for below in reversed(queue.lineage[:-1]):
        size.update(below.max or {})
    return size


def denominators(queue: Queue) -> dict[str, int]:
    """Divisors of usage for the share, by type: guaranteed, or else the fair maximum."""
    return {**fair_max(queue), **(queue.guaranteed or {})}


def derive_denominators(queue: Queue) -> None:
    """Derive the denominators of the queue, which depend only on the queues above it.

    Most queues share the mapping of their parent, which saves memory.
    """
    found, parent = denominators(queue), queue.parent
    same = parent is not None and parent.denominators == found
    queue.denominators = parent.denominators if parent is not None and same else found


def current_share(queue: Queue) -> float:
    """The share, with denominators that are derived for this call; for reports."""
    return max(quotients(queue.allocated, denominators(queue)), default=0.0)


def quotients(allocated: dict[str, int], divisors: dict[str, int]) -> list[float]:
    """Shares of a queue or a user, largest first, the sort key of siblings (spec § 4.9); empty without usage.

    They are the quotients of allocated and divisor, over the types that have a divisor. Usage of a type whose
    divisor is zero counts as 1.0. If the largest shares are equal, the next ones decide.
    """
    shares = []
    for name, amount in allocated.items():
        divisor = divisors.get(name)
        if divisor is not None and amount > 0:
            shares.append(amount / divisor if divisor > 0 else 1.0)
    if len(shares) > 1:
        shares.sort(reverse=True)
    return shares
