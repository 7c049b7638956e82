"""Reports of the core to readers (DESIGN § 2): immutable, made on demand.

`State`, the REST interface and the command line are all built on these. Times are in unix
seconds (0.0 for none), resources in bytes, milli-cores or counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from licorne_core.config.schema import PlacementRuleConfig
from licorne_core.messages.reasons import Check
from licorne_core.values.asks import Ask
from licorne_core.values.ids import AllocationKey, AppId, NodeId, PartitionName, QueuePath, RmId
from licorne_core.values.reservations import HolderReason
from licorne_core.values.resources import Resources
from licorne_core.values.rm_caps import RmCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class RmReport:
    """A registered RM and its configuration."""

    rm_id: RmId
    version: str
    policy_group: str
    build_info: Mapping[str, str]
    registered_time: float
    session: int
    partitions: tuple[PartitionName, ...]
    config: str
    checksum: str
    extra_config: Mapping[str, str]
    failed_nodes: tuple[NodeId, ...]
    """Nodes that came for a partition that is not there, and have not come again since."""
    counts: RmCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationReport:
    """Room on a node is kept for an ask since `time`; a `required` one may go to no other node.

    `kept` are the amounts that others leave free there, or all of the node if it is `exclusive`.
    Since `idle_since` the ask could not have the node if it were empty, as reviews found; 0 if it
    could. `reason` is its obstacle, on request.
    """

    node_id: NodeId
    app_id: AppId
    key: AllocationKey
    queue: QueuePath
    time: float
    required: bool
    kept: Resources
    exclusive: bool
    idle_since: float
    reason: HolderReason


@dataclass(frozen=True, slots=True, kw_only=True)
class AskLogEntry:
    """A reason for passing over an ask: last time, and number of times."""

    message: str
    last_time: float
    count: int


@dataclass(slots=True)
class AskReport:
    """An ask without an allocation known to the RM (spec §§ 6.5, 8.5, 8.12, 8.13, 9.2).

    `reserved_node` is kept free for it; it has room on `assumed_node`, about which the RM is being
    asked; `replaces` is the placeholder that it is to replace. Each is empty for none.
    `triggered_preemption`: victims were stopped for it. Never changed after it was made; not
    frozen, because an application may have a hundred thousand, and freezing doubles the cost.
    """

    ask: Ask
    request_time: float
    allocation_log: tuple[AskLogEntry, ...]
    scheduling_attempted: bool
    triggered_scale_up: bool
    reserved_node: str
    assumed_node: str
    replaces: str
    triggered_preemption: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueUsage:
    """Usage and limit of a user or a group in one queue and below.

    `max` is empty and `max_applications` 0 where there is no limit.
    """

    path: QueuePath
    allocated: Resources
    applications: tuple[AppId, ...]
    max: Resources
    max_applications: int
    children: tuple["QueueUsage", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """All that a user or a group has (spec § 10).

    `groups` has every application that counts, and the group that it counts for, empty for none.
    """

    name: str
    groups: Mapping[AppId, str]
    queues: QueueUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class OutstandingShape:
    """Asks of one size that quota would admit and no node takes, counted by queue."""

    resources: Resources
    count: int
    queues: Mapping[QueuePath, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """Totals of the applications of a partition, and its waiting asks.

    `pending` counts asks by queue and by the code of their obstacle: of the first check that
    `Explanation` shows as failed, or of their next step.
    """

    applications: Mapping[tuple[QueuePath, str], int]
    """Applications by queue and state."""
    pending: Mapping[tuple[QueuePath, str], int]
    usage: Mapping[tuple[str, str], Mapping[str, int]]
    """Usage of users and groups, by ``user`` or ``group`` and the name."""
    running: Mapping[tuple[str, str], int]
    """Applications of users and groups that have an allocation, by the same."""
    placeholders_waiting: int
    """Placeholders that have no node yet."""
    placeholders: int
    """Placeholders that keep room."""
    reservations: int
    reserved_nodes: Mapping[tuple[QueuePath, str], int]
    """Number of nodes reserved for asks of a queue, by ``able`` or ``idle`` (see reviews)."""
    reserved: Mapping[tuple[QueuePath, str], Mapping[str, int]]
    """Reserved resources on these nodes."""
    preemptions: Mapping[str, int]
    """Victims so far, by the rule by which they had to go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Explanation of an ask: all checks in the order in which they are made.

    `verdict` is ``allocated``, ``assumed`` (until the RM agrees to its node), ``pending`` (a check
    stops it), ``waiting`` (none does), ``replacing`` (it takes the place of a placeholder once that
    is gone), ``stopping`` (the RM was asked to stop it) or ``preempted`` (it is gone).
    """

    app_id: AppId
    key: str
    queue: QueuePath
    verdict: str
    summary: str
    checks: tuple[Check, ...] = ()
    asks_ahead: int = 0
    applications_ahead: int = 0
    node_id: str = ""
    is_victim: bool = False
    """True if a record has the beneficiary or the reason of its preemption.

    One that is pending, waiting, allocated, assumed or replacing is there again under the key of a
    victim.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementReport:
    """The placement rules in force, the implicit ones included, the recovery rule last."""

    partition: PartitionName
    rules: tuple[PlacementRuleConfig, ...] = field(default=())
