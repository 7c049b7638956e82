"""Reports of the core to readers (DESIGN § 2): immutable, made on demand.

`State`, the REST interface and the command line are all built on these. Times are in unix seconds (0.0 if
there is none), resources in bytes, milli-cores or counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from licorne_core.config.schema import PlacementRuleConfig
from licorne_core.messages.events.allocations import Owner
from licorne_core.messages.reasons import Check
from licorne_core.values.asks import Passed
from licorne_core.values.counters import Counters
from licorne_core.values.ids import AppId, PartitionName, QueuePath, RmId
from licorne_core.values.resources import Resources


class Turn(NamedTuple):
    """The partition that got a turn. Its counters change later: read them immediately, keep no reference."""

    partition: PartitionName
    rm_id: RmId
    counters: Counters


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """Totals of the applications of a partition, and its waiting asks.

    `pending` has numbers of asks by queue and by the code of their obstacle: of the first check that
    `Explanation` shows as failed, or of their next step.
    """

    applications: Mapping[tuple[QueuePath, str], int]
    """Number of applications by queue and state."""
    pending: Mapping[tuple[QueuePath, str], int]
    usage: Mapping[tuple[str, str], Mapping[str, int]]
    """Usage of users and groups, by kind (``user`` or ``group``) and name."""
    running: Mapping[tuple[str, str], int]
    """Number of applications with an allocation, by kind (``user`` or ``group``) and name."""
    placeholders_waiting: int
    """Number of placeholders that have no node yet."""
    placeholders: int
    """Number of placeholders that hold room."""
    reservations: int
    reserved_nodes: Mapping[tuple[QueuePath, str], int]
    """Number of nodes reserved for asks of a queue, by ``able`` or ``idle`` (see `Reservation`)."""
    reserved: Mapping[tuple[QueuePath, str], Mapping[str, int]]
    """Reserved resources on these nodes, by the same keys."""
    noticed: int
    """Number of noticed allocations, which will be preempted later unless they are spared."""
    preemptions: Mapping[str, int]
    """Number of victims by the rule that stopped them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingAsks:
    """Pending asks of one queue that the same check blocks, for the same subject.

    `code` is one of `REASONS` of the census, or `BEHIND_RESERVATION`, which the census does not have as it
    tries no nodes. `subject` is the queue or other quota that the check is about, or the user or group ``in``
    a queue; else empty. `resources` is the sum of their requests. `causes` has numbers of asks by the most
    frequent cause of nodes, if none fits. `key` is the key of one of the asks.
    """

    queue: QueuePath
    code: str
    subject: str
    asks: int
    resources: Resources
    causes: Mapping[str, int]
    app_id: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Metered:
    """Usage of one owner in a partition since a time, in amounts times microseconds.

    `ended` is the number of ended allocations, `preempted` ones included; `lost` is the usage of the
    preempted ones, and `passing` the part of `used` by allocations that passed a claim.
    """

    since: float
    """The time from which the partition is metered, in unix seconds; a new partition starts at zero usage."""
    owner: Owner
    used: Mapping[str, int]
    ended: int
    preempted: int
    lost: Mapping[str, int]
    passing: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Explanation of an ask: all checks in order.

    `verdict` is ``allocated``, ``assumed`` (until the RM accepts its node), ``pending`` (a check blocks it),
    ``waiting`` (no check blocks it), ``replacing`` (it starts after the end of its placeholder), ``noticed``
    (it will be stopped), ``stopping`` (the RM was asked to stop it) or ``preempted`` (it was stopped).
    """

    app_id: AppId
    key: str
    queue: QueuePath
    verdict: str
    summary: str
    checks: tuple[Check, ...] = ()
    asks_ahead: int = 0
    applications_ahead: int = 0
    age_bonus: int = 0
    """The bonus by which the application is ordered, in addition to the priority, while the ask waits."""
    node_id: str = ""
    passed: Passed | None = None
    """The claim that the ask's allocation has passed; None if there is none."""
    is_victim: bool = False
    """True if a record names the preemptor or the reason of the ask's preemption.

    With another verdict than ``stopping`` or ``preempted``, the ask was added later, under a victim's key.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementReport:
    """The placement rules in force, the implicit ones included, the recovery rule last."""

    partition: PartitionName
    rules: tuple[PlacementRuleConfig, ...] = field(default=())
