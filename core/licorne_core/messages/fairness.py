"""Fairness with memory: what outlives a registration, its reports, and the check of a budget of hours."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from licorne_core.values.ids import PartitionName, QueuePath
from licorne_core.values.resources import MEMORY, VCORE, Resources, in_units
from licorne_core.values.windows import HOUR, HoursLimit, Window

BUDGET_EXHAUSTED: Final = "BUDGET_EXHAUSTED"
BUDGET_AVAILABLE: Final = "BUDGET_AVAILABLE"
"""Event that ends BUDGET_EXHAUSTED."""


class UsageOwner(NamedTuple):
    """Whose usage decays: a queue's, or that of a user in a leaf; `user` is empty for a queue."""

    path: QueuePath
    user: str


class KeptUsage(NamedTuple):
    """Decayed usage of one owner."""

    half_life: float
    """In seconds."""
    time: float
    """Time of all that follows, in unix seconds."""
    values: Mapping[str, float]
    """Sums by resource name, in amounts times seconds."""
    amounts: Mapping[str, int]
    """What was in use."""
    before: Mapping[str, float]
    """Sums of the whole second that `time` is in."""


class KeptHours(NamedTuple):
    """Hours of one resource that a queue has used in a window."""

    time: int
    """Time of all that follows, in microseconds since 1970."""
    used: int
    """In amounts times microseconds, in the window of that time."""
    amount: int
    """What was in use."""
    window: Window
    """Kind of window; in one of another kind nothing of it is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMemory:
    """What one partition remembers: `hours` by queue and resource."""

    usage: Mapping[UsageOwner, KeptUsage] = field(default_factory=dict)
    hours: Mapping[tuple[QueuePath, str], KeptHours] = field(default_factory=dict)


FairMemory = Mapping[PartitionName, PartitionMemory]
"""What the partitions of an RM remember, so that it outlives the registration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FairShareReport:
    """Decayed usage of a queue, or of a user in a leaf.

    `decayed` is in amounts times hours, `half_life` in seconds. `share` is what siblings, or users, are
    ordered by.
    """

    decayed: Mapping[str, float]
    share: float
    weight: float
    half_life: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HoursReport:
    """A budget of resource-hours in its present window.

    Hours are in amounts times hours, `window` is in seconds, and `resets_at` in unix seconds. `spent`: asks
    for the resource wait for the next window.
    """

    resource: str
    limit: float
    used: float
    left: float
    window: float
    resets_at: float
    spent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HoursCheck:
    """A queue may use so many resource-hours in a window, which ends `until` in unix seconds.

    `used` are amounts times hours.
    """

    queue: QueuePath
    requested: Resources
    limit: HoursLimit
    used: float
    until: float
    passed: bool

    code = BUDGET_EXHAUSTED

    def message(self) -> str:
        """The reason in one sentence, without the time of the reset."""
        limit = self.limit
        used, most = hours_text(limit.resource, self.used), hours_text(limit.resource, limit.amount)
        end = "" if self.passed else ": nothing new starts with it before the window ends"
        hours = f"{limit.resource}-hours of this {limit.window.value}"
        return f"{used} of {most} {hours} used in queue {self.queue}{end}"


def hours_text(resource: str, hours: float) -> str:
    """Amounts times hours of a resource for people, in the units of a configuration."""
    if resource == VCORE:
        return f"{hours / 1000:.6g}"
    if resource == MEMORY:
        return in_units({resource: round(hours)}).partition("=")[2]
    return f"{hours:.6g}"


def microseconds_as_hours(used: int) -> float:
    """Amounts times microseconds as amounts times hours."""
    return used / (HOUR * 1_000_000)
