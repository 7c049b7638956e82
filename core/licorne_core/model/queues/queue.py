"""One queue: its identity, its settings, its counters and its place in the order (spec § 4)."""

from collections.abc import Mapping
from typing import Any

from licorne_core.config.properties import QueueSettings
from licorne_core.config.schema import TemplateConfig
from licorne_core.model.apps.application import Application
from licorne_core.model.queues.limit_table import NO_LIMITS
from licorne_core.model.queues.state_aware import StateAwareAdmission
from licorne_core.model.queues.states import QueueState
from licorne_core.model.quotas import Quota
from licorne_core.values.acl import Acl
from licorne_core.values.counters import QueueCounters
from licorne_core.values.ids import AppId, QueuePath
from licorne_core.values.priorities import NO_PRIORITY, PriorityCounts, clamp_priority
from licorne_core.values.ranking import Ranking
from licorne_core.values.resources import Resources

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
        "admission",
        "allocating",
        "applications",
        "becomes_leaf",
        "brought",
        "children",
        "counted_priority",
        "counters",
        "denominators",
        "guaranteed",
        "is_leaf",
        "limits",
        "lineage",
        "managed",
        "parent",
        "pending",
        "priorities",
        "properties",
        "ranking",
        "running_applications",
        "settings",
        "share",
        "state",
        "submit_acl",
        "template",
    )

    def __init__(self, name: str, parent: "Queue | None", *, is_leaf: bool, managed: bool) -> None:
        """Create a queue without settings of its own, not yet among its parent's children."""
        path = QueuePath(f"{parent.path}.{name}" if parent else name)
        super().__init__("queue", name, path, strict=parent is None)
        # What the queue is. Names and paths are lower-case.
        self.parent = parent
        # The queue itself, its parent and so on up to root.
        self.lineage: tuple[Queue, ...] = (self, *parent.lineage) if parent else (self,)
        self.is_leaf = is_leaf  # whether it holds applications
        self.becomes_leaf = False  # a parent that becomes a leaf once its children are gone
        self.managed = managed  # whether the configuration has it; if not, placement made it
        self.state = QueueState.ACTIVE
        self.children: dict[str, Queue] = {}  # by name
        self.applications: dict[AppId, Application] = {}  # of a leaf, in the order of arrival
        # Settings, from the configuration or from a template.
        self.guaranteed: Resources | None = None  # amounts; None for no guarantee
        # Of the maximum a zero forbids its type. For root it is the size of the cluster, and a type
        # that is not in it is not to be had (spec § 4.5).
        self.properties: Mapping[str, str] = {}  # as written, the inherited ones included
        self.settings = _DEFAULTS  # what the properties mean; delays in seconds
        self.admin_acl = _NOBODY
        self.submit_acl = _NOBODY
        self.template: TemplateConfig | None = None  # of a parent, its own or an inherited one
        # The sizes that applications brought in their tags for a dynamic leaf, the latest of each
        # kind. They come before those of the template (spec § 3.13).
        self.brought = _NOTHING
        self.limits = NO_LIMITS  # of users and groups in this queue
        # Usage counts in this queue and all above. A name whose amount is zero is left out.
        self.pending: dict[str, int] = {}  # amounts of asks
        self.running_applications = 0  # how many are in the state Running
        # Accepted applications with a node reserved or an allocation held. They are about to run
        # and count against `max_applications` (spec § 4.12).
        self.allocating: dict[AppId, None] = {}
        self.counters = QueueCounters()  # numbers for metrics, since the queue was made
        # Order: among the siblings, and of the children or applications inside.
        # Amounts that `allocated` is divided by for the share (spec § 4.9). They are derived anew
        # when the tree's `shares_stale` is set.
        self.denominators: dict[str, int] = {}
        self.share = 0.0  # the largest quotient; 0.0 for nothing allocated
        self.priorities = PriorityCounts()  # of a leaf's asks, or as a parent sees its children
        self.counted_priority = NO_PRIORITY  # how the parent counts this queue at the moment
        self.ranking: Ranking[Any] = Ranking()  # what is to be looked at inside, the first on top
        self.admission = StateAwareAdmission()  # who starts in a state-aware leaf

    def __repr__(self) -> str:
        """``<Queue root.a leaf Active: allocated {...}, pending {...}>``."""
        kind = "leaf" if self.is_leaf else "parent"
        return (
            f"<Queue {self.path} {kind} {self.state.value}: "
            f"allocated {self.allocated}, pending {self.pending}>"
        )

    def let_go(self) -> None:
        """Break its reference circles: otherwise only the garbage collector would free it.

        It stands in its own lineage, and stale entries know its children.
        """
        self.lineage = ()
        self.applications.clear()
        self.ranking.clear()

    @property
    def started_applications(self) -> int:
        """Number of applications that run or are about to (spec § 4.12)."""
        return self.running_applications + len(self.allocating)

    def counts(self, app_id: AppId) -> bool:
        """True if the application is about to run."""
        return app_id in self.allocating

    @property
    def is_empty(self) -> bool:
        """True if it holds neither queues nor applications."""
        return not self.children and not self.applications

    @property
    def may_be_removed(self) -> bool:
        """True if the cleaner takes it once it is empty (spec § 4.3)."""
        if self.parent is None:
            return False
        return not self.managed or self.state is QueueState.DRAINING

    def priority(self) -> int:
        """The priority seen by the parent: the highest inside, fenced or offset (spec § 4.11)."""
        return self.counts_as(self.priorities.top)

    def counts_as(self, inside: int) -> int:
        """A priority inside the queue as its parent sees it (spec § 4.11)."""
        if inside == NO_PRIORITY:
            return NO_PRIORITY
        if self.settings.priority_fence:
            return self.settings.priority_offset
        return clamp_priority(inside + self.settings.priority_offset)
