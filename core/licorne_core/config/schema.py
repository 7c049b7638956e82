"""The configuration as a frozen tree (spec § 2.1). Parsing has checked every type in it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from licorne_core.values.errors import TextPlace
from licorne_core.values.names import Acl, Pattern, is_pattern
from licorne_core.values.resources import Items, Resources


class AppSortPolicy(Enum):
    """Order of a leaf's applications (spec § 5.2)."""

    FIFO = "fifo"
    FAIR = "fair"


class OtherSort(NamedTuple):
    """An order by an extension, named by `value`; applications are otherwise in order of arrival."""

    value: str


class PreemptionPolicy(Enum):
    """Preemption policy of a queue (spec § 2.4)."""

    DEFAULT = "default"
    FENCE = "fence"
    DISABLED = "disabled"


class VictimOrder(Enum):
    """Order of a queue's victims; opted-in allocations that are not originators are always first."""

    AGE = "age"
    """The youngest first."""
    COST = "cost"
    """The lowest priority first, then the least cost times seconds of runtime, then the youngest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """Settings from a queue's merged properties. Delays are in seconds; 0 turns them off.

    `preemption_minimum_runtime` is in seconds. `preemption_loss_limit` has
    amounts times seconds that the queue may lose to preemption in an hour, by resource name; a missing type
    has no limit. `reserved_nodes` and `app_reserved_nodes` are maximum
    numbers of nodes reserved at a time; None if the queue sets no bound.
    """

    app_sort: AppSortPolicy | OtherSort = AppSortPolicy.FIFO
    priority_sort: bool = True
    priority_fence: bool = False
    priority_offset: int = 0
    preemption: PreemptionPolicy = PreemptionPolicy.DEFAULT
    preemption_delay: float = 30.0
    preemption_minimum_runtime: float = 0.0
    preemption_loss_limit: Items = ()
    preemption_victim_order: VictimOrder = VictimOrder.AGE
    reserved_nodes: int | None = None
    app_reserved_nodes: int | None = None
    reservation_exclusive: bool = False
    reservation_idle_timeout: float = 2.0
    """In seconds; a setting of root, for its partition."""
    extended: tuple[tuple[str, Any], ...] = ()
    """Settings of extensions by their names; only those that are given and not off."""

    def of(self, name: str, default: Any = None) -> Any:
        """The setting of an extension; the default if it is not given, or off."""
        for given, value in self.extended:
            if given == name:
                return value
        return default


@dataclass(frozen=True, slots=True)
class NameList:
    """A list of names, or one pattern that may match anywhere in a name.

    `entries` are as written. `names` are the legal ones of them. `pattern` is compiled, so that activating
    the list needs no work.
    """

    entries: tuple[str, ...] = ()
    names: frozenset[str] = field(default=frozenset(), compare=False)
    pattern: Pattern | None = field(default=None, compare=False)

    def __bool__(self) -> bool:
        """True if the list has entries."""
        return bool(self.entries)

    def contain(self, name: str) -> bool:
        """True if the name is in the list, or matches the pattern."""
        return name in self.names or (self.pattern is not None and self.pattern.search(name))

    @property
    def expression(self) -> str:
        """The regular expression as it was written; empty for a list without one."""
        return "" if self.pattern is None else self.pattern.text


def name_list(entries: tuple[str, ...], is_name: Callable[[str], bool]) -> NameList:
    """The list of these entries. A name may be a pattern as well, and then counts as both.

    `svc$` is a user name as well as a pattern: both readings are documented, and both work.
    """
    alone = len(entries) == 1 and is_pattern(entries[0])
    return NameList(entries, frozenset(filter(is_name, entries)), Pattern(entries[0]) if alone else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitConfig:
    """A limit for users or groups in one queue (spec § 2.6); `limit` is its description.

    Resources are not limited if `max_resources` is None, and applications if `max_applications` is 0.
    """

    limit: str = ""
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    max_resources: Resources | None = None
    max_applications: int = 0
    place: TextPlace = field(default=TextPlace(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateConfig:
    """Template of dynamic leaf queues below a queue (spec § 4.1).

    `settings` are derived from the properties.
    """

    max_applications: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    settings: QueueSettings = QueueSettings()
    guaranteed: Resources | None = None
    max: Resources | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueConfig:
    """A queue with its children (spec § 2.1).

    The name is lower-case. A queue with children is a `parent`. `max` None and `max_applications` 0 are
    unlimited. `merged` are the properties with the inherited ones, and `settings` their parsed values; both
    are derived while the text is read, as this takes long for many queues.
    """

    name: str
    parent: bool = False
    guaranteed: Resources | None = None
    max: Resources | None = None
    max_applications: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    merged: Mapping[str, str] = field(default_factory=dict)
    settings: QueueSettings = QueueSettings()
    admin_acl: Acl = Acl.nobody()
    submit_acl: Acl = Acl.nobody()
    child_template: TemplateConfig | None = None
    limits: tuple[LimitConfig, ...] = ()
    queues: tuple["QueueConfig", ...] = ()
    place: TextPlace = field(default=TextPlace(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterConfig:
    """Users and groups of a placement rule (spec § 3.9); `allow` is False for a deny filter."""

    allow: bool = True
    users: NameList = NameList()
    groups: NameList = NameList()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRuleConfig:
    """A placement rule, with its name in lower case (spec § 3)."""

    name: str
    create: bool = False
    filter: FilterConfig | None = None
    parent: "PlacementRuleConfig | None" = None
    value: str = ""
    place: TextPlace = field(default=TextPlace(), compare=False)


class NodeSortType(Enum):
    """Order of nodes (spec § 7.5)."""

    AUTO = "auto"
    FAIR = "fair"
    BINPACKING = "binpacking"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSortPolicy:
    """The order of nodes. A resource that has none of the `weights` does not count in it.

    `attribute` is the node attribute of `spread`; empty for the other policies.
    """

    type: NodeSortType = NodeSortType.AUTO
    attribute: str = ""
    weights: Mapping[str, float] = field(default_factory=lambda: {"vcore": 1.0, "memory": 1.0})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionConfig:
    """A partition. `root` carries the partition's limits; `name` is the bare name."""

    name: str
    root: QueueConfig
    placement_rules: tuple[PlacementRuleConfig, ...] = ()
    preemption_enabled: bool = True
    switches: Mapping[str, bool] = field(default_factory=dict)
    """Flags of extensions by their keys, such as ``preemption.<name>``; a missing flag is off."""
    node_sort: NodeSortPolicy = NodeSortPolicy()
    user_group_resolver: str = ""
    place: TextPlace = field(default=TextPlace(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A whole configuration. `checksum` is upper-case hex SHA-256 of `text` (spec § 2.1.4).

    `notes` name keys that lack an effect.
    """

    partitions: tuple[PartitionConfig, ...]
    checksum: str
    text: str
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
