"""The laws of preemption: claims to preempt, protected queues, and guarantees (spec § 9.1).

All laws use *settled* usage: usage after all victims have ended and all beneficiaries are placed. A
queue *guarantees* a type if its guaranteed amount of the type is above zero. All functions read the
live books and change nothing.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from licorne_core.config.schema import PreemptionPolicy
from licorne_core.messages.preemption import PreemptionRule
from licorne_core.model.claims import Claim as PlannedStart
from licorne_core.model.queues.guarantees import (
    entitled_queue,
    is_within_guarantee,
    settled,
    stays_within_guarantee,
)
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Quota
from licorne_core.standard.preemption.keys import RECLAIM
from licorne_core.standard.preemption.shares import Divisions, DueShares
from licorne_core.values.ids import QueuePath
from licorne_core.values.ranking import INT32_MAX
from licorne_core.values.resources import Items


class Law(StrEnum):
    """Obstacle in a victim search, in the order of the checks."""

    NO_GUARANTEE = "no guarantee"
    """No queue from the ask's leaf up guarantees a type of the ask (law 4)."""
    OVER_GUARANTEE = "over guarantee"
    """The ask would take its queue above its guarantee (law 4)."""
    OVER_FAIR_SHARE = "over fair share"
    """The ask would take its queue above its fair share, up to which it may preempt (law 4)."""
    GANG_INCOMPLETE = "gang incomplete"
    """The ask is a placeholder, and preemption would not complete its gang."""
    NO_NODE = "no node"
    """No node could be reserved for the ask: all are too small, drained, or reserved for others."""
    WAITS_FOR_RELEASES = "waits for releases"
    """The ask fits on a node as soon as current victims have ended."""
    NODES_KEPT = "nodes kept"
    """The nodes with victims are reserved for other asks; one of the reservations may be given up."""
    NO_VICTIMS = "no victims"
    """No allocation may be a victim (laws 3, 5, 6 and 7)."""
    NOT_ENOUGH = "not enough"
    """There are candidates, but no set of them suffices and respects guarantees (law 2)."""
    RM_REFUSED = "RM refused"
    """The RM accepts the ask on no node, with any victims."""


class Out(StrEnum):
    """Reason to exclude a leaf from the search, or a single allocation in a leaf that is searched."""

    OWN_QUEUE = "own queue"
    """The leaf shares the ask's guarantee (law 3)."""
    OUTSIDE_FENCE = "outside fence"
    """The leaf is outside the ask's preemption fence (law 7)."""
    DISABLED_POLICY = "disabled policy"
    """The leaf's `preemption.policy` is ``disabled``."""
    HIGHER_FENCE = "higher fence"
    """The leaf is inside a priority fence above the ask's priority (law 6)."""
    BELOW_GUARANTEE = "below guarantee"
    """The leaf, or a queue above it, has no more than its guarantee (law 5)."""
    BELOW_FAIR_SHARE = "below fair share"
    """The leaf, or a queue above it, has no more than its fair share, which the ask must respect (law 5)."""
    NOT_RUNNING = "not running"
    """The allocation is assumed, or being stopped already."""
    REQUIRED_NODE = "required node"
    """The allocation requires its node."""
    OTHER_TYPES = "other types"
    """The allocation has no resource type in common with the ask, or not the type that counts for a share."""
    HIGHER_PRIORITY = "higher priority"
    """The allocation's priority is above the ask's (law 6)."""
    TOO_YOUNG = "too young"
    """The allocation has run for less than `preemption.minimum.runtime`."""
    LOSS_LIMIT = "loss limit"
    """The leaf would lose more in an hour than `preemption.loss.limit`."""


class Fence(NamedTuple):
    """The queue that bounds a search, and the ask's priority in each queue below."""

    root: Queue
    """The queue that holds all possible victims."""
    priorities: dict[Queue, int]
    """The ask's priority among the children of each queue, from the ask's leaf up to `root`."""


class Comparison(NamedTuple):
    """Priorities of the ask and of an allocation, as they are compared in their meeting queue (law 6)."""

    queue: QueuePath
    ask: int
    other: int


ANY_PRIORITY = None
"""Stands for "no bound" where the highest priority of victims is meant."""


class Claim(NamedTuple):
    """The right of an ask to preempt up to the guarantee of a queue, or up to the fair share of its leaf."""

    queue: Queue
    """The queue that has to stay within its guarantee or share; nothing inside it is stopped (law 3)."""
    shares: DueShares | None = None
    """The fair shares that victims' queues keep; None for a claim to a guarantee."""

    def covers(self, wanted: Items) -> bool:
        """Law 4: True if the queue and the amounts stay within the guarantee or share."""
        if self.shares is None:
            return stays_within_guarantee(self.queue, wanted)
        return self.shares.cover(self.queue, wanted)

    def precedes(self, start: PlannedStart) -> bool:
        """True if a planned start gives way: guarantees precede what is planned, but for guarantees."""
        # While its leaf is closed, an ask that can start now is starved by it.
        is_due = not start.is_closed and is_within_guarantee(start.app.leaf, start.total)
        return self.shares is None and not is_due

    @property
    def exceeded(self) -> Law:
        """The obstacle of an ask whose amounts the claim does not cover."""
        return Law.OVER_GUARANTEE if self.shares is None else Law.OVER_FAIR_SHARE

    @property
    def rule(self) -> PreemptionRule:
        """The rule by which victims are stopped."""
        return PreemptionRule.GUARANTEE if self.shares is None else PreemptionRule.FAIR_SHARE


def claims_of(leaf: Queue, wanted: Items, divisions: Divisions) -> list[Claim]:
    """Claims of an ask of the leaf in the order of trial: first to guarantees, then to fair shares."""
    entitled = entitled_queue(leaf, wanted)
    claims = [] if entitled is None else [Claim(entitled)]
    if leaf.settings.of(RECLAIM):
        claims.append(Claim(leaf, DueShares([name for name, _ in wanted], divisions)))
    return claims


def exceeds_max(queue: Queue, wanted: Items) -> bool:
    """True if the ask would raise the queue above its maximum in a type that both name."""
    limit = queue.max
    if limit is None:
        return False
    for name, value in wanted:
        if name in limit and settled(queue, name) + value > limit[name]:
            return True
    return False


def fence_of(leaf: Queue, priority: int, wanted: Items, shares: DueShares | None = None) -> Fence:
    """Law 7: the first fence or full queue from the leaf up, or else root, with the priorities.

    With `shares` a queue that would exceed its fair share counts as full, too.
    """
    priorities: dict[Queue, int] = {}
    for queue in leaf.lineage:
        priorities[queue] = priority
        settings = queue.settings
        is_fence = settings.preemption is PreemptionPolicy.FENCE or exceeds_max(queue, wanted)
        if is_fence or not (shares is None or shares.cover(queue, wanted)):
            return Fence(queue, priorities)
        priority = queue.counts_as(priority)
    return Fence(leaf.lineage[-1], priorities)


def branch_of(leaf: Queue, fence: Fence) -> tuple[Queue, ...] | None:
    """Queues from the leaf up to the meeting queue, without it; None if the leaf is outside the fence.

    The *meeting queue* is the lowest one that contains both the leaf and the ask.
    """
    for index, queue in enumerate(leaf.lineage):
        if queue in fence.priorities:
            return leaf.lineage[:index]
    return None


def highest_priority(branch: tuple[Queue, ...], fence: Fence) -> int | Out | None:
    """Law 6: the highest priority that a victim in the leaf of `branch` (see `branch_of`) may have.

    Ask and victim are compared as children of their meeting queue, as in the order of queues (spec §§ 4.10,
    4.11). So the settings of the meeting queue and of the queues above do not count. Each queue from there
    down subtracts its offset. A priority fence hides the priorities inside: either all allocations there are
    protected, or none (ANY_PRIORITY). An ask with the highest priority of int32 also has no protected
    victims.
    """
    priority = fence.priorities[_meeting(branch)]
    for queue in reversed(branch):
        if priority >= INT32_MAX:
            return ANY_PRIORITY
        settings = queue.settings
        if settings.priority_fence:
            return Out.HIGHER_FENCE if settings.priority_offset > priority else ANY_PRIORITY
        priority -= settings.priority_offset
    return priority


def compared(branch: tuple[Queue, ...], fence: Fence, priority: int) -> Comparison:
    """Compare the ask to an allocation of this priority in the leaf of `branch` (law 6)."""
    for queue in branch:
        priority = queue.counts_as(priority)
    meeting = _meeting(branch)
    return Comparison(meeting.path, fence.priorities[meeting], priority)


def _meeting(branch: tuple[Queue, ...]) -> Queue:
    """The meeting queue of ask and victim."""
    meeting: Queue | None = branch[-1].parent
    assert meeting is not None, "only root has no parent, and root is on every way"
    return meeting


def above_guarantee(queue: Queue) -> dict[str, int]:
    """Law 2: amounts above the guarantee, by guaranteed type; they may be negative."""
    sizes = queue.guaranteed
    if not sizes:
        return {}
    return {name: settled(queue, name) - due for name, due in sizes.items() if due > 0}


def is_over_guarantee(above: Sequence[Mapping[str, int]], wanted: Items) -> bool:
    """Law 5: True if a leaf may have victims.

    `above` is the `above_guarantee` of each guaranteeing queue, from the leaf up to the meeting queue.
    The leaf may have victims if no queue guarantees anything, or if, for one type of the ask
    with a guarantee, all queues that guarantee the type have more than their guarantee.
    """
    if not above:
        return True
    for name, _ in wanted:
        rests = [rest[name] for rest in above if name in rest]
        if rests and min(rests) > 0:
            return True
    return False


def keeps_all(leaf: Queue, wanted: Items) -> bool:
    """True if law 5 protects the whole leaf from all asks of these types.

    The leaf guarantees each type, and has no more than its guarantee of any. So the queues above it
    do not matter.
    """
    sizes = leaf.guaranteed
    if not sizes:
        return False
    allocated, promised = leaf.allocated, leaf.promised
    for name, _ in wanted:
        due = sizes.get(name, 0)
        if due <= 0:
            return False
        # An upper bound of `settled`, as victims only lower it. In most calls it suffices.
        most = allocated.get(name, 0) + promised.get(name, 0)
        if most > due and settled(leaf, name) > due:
            return False
    return True


def quota_shortage(quotas: Sequence[Quota], wanted: Items) -> tuple[int, ...]:
    """Amounts to free for the maxima of the queues, by type of the ask; never below zero.

    All victims are below the lowest queue over its maximum, so one amount counts for all queues.
    """
    return tuple(max(0, *(_beyond(quota, name, value) for quota in quotas)) for name, value in wanted)


def _beyond(quota: Quota, name: str, value: int) -> int:
    if quota.max is None:
        return 0
    bound = quota.max.get(name, 0 if quota.strict else None)
    return 0 if bound is None else settled(quota, name) + value - bound - quota.overhang.get(name, 0)
