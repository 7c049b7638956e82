"""Reports of the core to readers (DESIGN § 2): immutable, made on demand.

`State`, the REST interface and the command line are all built on these. Times are in unix
seconds (0.0 for none), resources in bytes, milli-cores or counts.
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
    """The partition that got a turn. Its counters change later: read them at once, and keep no reference."""

    partition: PartitionName
    rm_id: RmId
    counters: Counters


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
    """Number of nodes reserved for asks of a queue, by ``able`` or ``idle`` (see `Reservation`)."""
    reserved: Mapping[tuple[QueuePath, str], Mapping[str, int]]
    """Reserved resources on these nodes."""
    noticed: int
    """Noticed allocations: they will be preempted, and run on for a while."""
    preemptions: Mapping[str, int]
    """Number of victims by the rule that stopped them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingAsks:
    """Pending asks of one queue that the same check stops, for the same subject.

    `code` is one of `REASONS` of the census, or `BEHIND_RESERVATION`: no node is tried for the census.
    `subject` is the queue or other quota that the check is about, or the user or group ``in`` a queue; else
    empty. `resources` is the sum of their requests. `causes` counts them by what most nodes lack for
    them, if no node fits. `key` is that of one of them.
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

    `ended` counts allocations, the `preempted` ones included; `lost` is the usage of the preempted ones, and
    `passing` the part of `used` by those that passed a claim.
    """

    since: float
    """The time from which the partition is metered, in unix seconds; another partition starts at zero."""
    owner: Owner
    used: Mapping[str, int]
    ended: int
    preempted: int
    lost: Mapping[str, int]
    passing: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Explanation of an ask: all checks in order.

    `verdict` is ``allocated``, ``assumed`` (until the RM accepts its node), ``pending`` (a check blocks
    it), ``waiting`` (no check does), ``replacing`` (it starts after the end of its placeholder),
    ``stopping`` (the RM was asked to stop it) or ``preempted`` (it was stopped).
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
    """What the age of the application adds to the priority by which it is ordered, while the ask waits."""
    node_id: str = ""
    passed: Passed | None = None
    """The claim that its allocation passed."""
    is_victim: bool = False
    """True if a record has the beneficiary or the reason of its preemption.

    An ask that is pending, waiting, allocated, assumed or replacing was added after the preemption, under the
    key of a victim.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementReport:
    """The placement rules in force, the implicit ones included, the recovery rule last."""

    partition: PartitionName
    rules: tuple[PlacementRuleConfig, ...] = field(default=())
