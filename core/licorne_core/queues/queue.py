"""One queue: its identity, its settings, its counters and its place in the order (spec § 4)."""

from collections.abc import Mapping
from typing import Any

from licorne_core.acl import Acl
from licorne_core.apps.application import Application
from licorne_core.config.properties import QueueSettings
from licorne_core.config.schema import TemplateConfig
from licorne_core.counters import QueueCounters
from licorne_core.ids import AppId, QueuePath
from licorne_core.priorities import NO_PRIORITY, PriorityCounts, clamp_priority
from licorne_core.queues.limit_table import LimitTable
from licorne_core.queues.newcomers import Newcomers
from licorne_core.queues.states import QueueState
from licorne_core.ranking import Ranking
from licorne_core.resources import Resources


class Queue:
    """A leaf holds applications, a parent holds queues. *Managed* ones stand in the configuration.

    `max` None is unlimited; for root it is the size of the cluster, and there a name that is not
    in it is not to be had at all. `lineage` is the queue itself and its ancestors up to root.
    A parent that `becomes_leaf` does so once the queues below it are gone.
    """

    __slots__ = (
        "admin_acl",
        "allocated",
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
        "max",
        "max_applications",
        "name",
        "newcomers",
        "parent",
        "path",
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
        """A queue with no settings of its own, not yet among its parent's children."""
        self.name = name
        self.parent = parent
        self.path: QueuePath = QueuePath(f"{parent.path}.{name}" if parent else name)
        self.lineage: tuple[Queue, ...] = (self, *parent.lineage) if parent else (self,)
        self.is_leaf = is_leaf
        self.becomes_leaf = False
        self.managed = managed
        self.state = QueueState.ACTIVE
        self.children: dict[str, Queue] = {}
        self.applications: dict[AppId, Application] = {}
        # What the configuration or a template says.
        self.guaranteed: Resources | None = None
        self.max: Resources | None = None
        self.max_applications = 0
        self.properties: Mapping[str, str] = {}
        self.settings = QueueSettings()
        self.admin_acl = Acl.nobody()
        self.submit_acl = Acl.nobody()
        self.template: TemplateConfig | None = None
        # What applications last said in their tags of a dynamic leaf's sizes (spec § 3.13).
        self.brought = TemplateConfig()
        self.limits = LimitTable()
        # Usage, of this queue and all below it.
        self.allocated: dict[str, int] = {}
        self.pending: dict[str, int] = {}
        self.running_applications = 0
        # Accepted applications that have a node reserved or held (spec § 4.12).
        self.allocating: dict[AppId, None] = {}
        self.counters = QueueCounters()
        # Order among siblings, and of what is inside: children or applications.
        self.denominators: dict[str, int] = {}
        self.share = 0.0
        self.priorities = PriorityCounts()
        self.counted_priority = NO_PRIORITY
        self.ranking: Ranking[Any] = Ranking()
        self.newcomers = Newcomers()

    def __repr__(self) -> str:
        """``<Queue root.a leaf Active: allocated {...}, pending {...}>``."""
        kind = "leaf" if self.is_leaf else "parent"
        return (
            f"<Queue {self.path} {kind} {self.state.value}: "
            f"allocated {self.allocated}, pending {self.pending}>"
        )

    @property
    def strict(self) -> bool:
        """Root has what its nodes have, and nothing else (spec § 4.5)."""
        return self.parent is None

    @property
    def started_applications(self) -> int:
        """Applications that run or are about to (spec § 4.12)."""
        return self.running_applications + len(self.allocating)

    def counts(self, app_id: AppId) -> bool:
        """Whether the application is about to run."""
        return app_id in self.allocating

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in it, so that a draining or dynamic one can go."""
        return not self.children and not self.applications

    @property
    def may_be_removed(self) -> bool:
        """Whether the cleaner takes it once it is empty (spec § 4.3)."""
        if self.parent is None:
            return False
        return not self.managed or self.state is QueueState.DRAINING

    def priority(self) -> int:
        """The priority seen by the parent: the highest inside, fenced or offset (spec § 4.11)."""
        inside = self.priorities.top
        if inside == NO_PRIORITY:
            return NO_PRIORITY
        if self.settings.priority_fence:
            return self.settings.priority_offset
        return clamp_priority(inside + self.settings.priority_offset)
