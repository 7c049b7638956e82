"""The laws of preemption: rights to preempt, protected queues, and guarantees (spec § 9.1).

All laws look at *settled* usage: usage once every victim is gone and every beneficiary is placed. A
queue *guarantees* a type if its guaranteed amount of it is above zero. Everything here reads the
live books and changes nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from licorne_core.config.schema import PreemptionPolicy
from licorne_core.model.queues.queue import Queue
from licorne_core.values.ids import QueuePath
from licorne_core.values.ranking import INT32_MAX
from licorne_core.values.resources import Items


class Law(StrEnum):
    """Obstacle of a victim search, in the order of the checks."""

    NO_GUARANTEE = "no guarantee"
    """No queue from the ask's leaf up guarantees a type of the ask (law 4)."""
    OVER_GUARANTEE = "over guarantee"
    """The ask would take its queue above its guarantee (law 4)."""
    NO_NODE = "no node"
    """No node could be kept for the ask: too small, drained, or kept for others."""
    WAITS_FOR_RELEASES = "waits for releases"
    """The ask fits on a node as soon as present victims are gone."""
    NODES_KEPT = "nodes kept"
    """The nodes with victims for it are kept for other asks; one of them may be given up."""
    NO_VICTIMS = "no victims"
    """No allocation may be a victim (laws 3, 5, 6 and 7)."""
    NOT_ENOUGH = "not enough"
    """There are candidates; no choice of them helps and respects guarantees (law 2)."""
    RM_REFUSED = "RM refused"
    """The RM accepts the ask on no node, with any victims."""


class Out(StrEnum):
    """Reason that a leaf, or an allocation of a leaf that may give, is no candidate."""

    OWN_QUEUE = "own queue"
    """The leaf shares the ask's guarantee (law 3)."""
    OUTSIDE_FENCE = "outside fence"
    """The leaf is outside the ask's preemption fence (law 7)."""
    DISABLED_POLICY = "disabled policy"
    """The leaf's `preemption.policy` is ``disabled``."""
    HIGHER_FENCE = "higher fence"
    """The leaf is inside a priority fence above the ask's priority (law 6)."""
    BELOW_GUARANTEE = "below guarantee"
    """The leaf, or a queue above it, has no more than it is guaranteed (law 5)."""
    NOT_RUNNING = "not running"
    """The allocation is on its way: assumed, or being stopped already."""
    REQUIRED_NODE = "required node"
    """The allocation may run on one node only."""
    OTHER_TYPES = "other types"
    """The allocation has no resource type in common with the ask."""
    HIGHER_PRIORITY = "higher priority"
    """The allocation's priority is above the ask's (law 6)."""
    TOO_YOUNG = "too young"
    """The allocation has not run for `preemption.minimum.runtime`."""
    LOSS_LIMIT = "loss limit"
    """The leaf would lose more in an hour than `preemption.loss.limit`."""


LEAF_REASONS = (
    Out.OWN_QUEUE,
    Out.OUTSIDE_FENCE,
    Out.DISABLED_POLICY,
    Out.HIGHER_FENCE,
    Out.BELOW_GUARANTEE,
)
"""Reasons that hold for all allocations of a leaf; leaves are counted, not allocations."""


class Fence(NamedTuple):
    """End of the search for victims, and the ask's priority as seen on the way there."""

    root: Queue
    """The queue below which victims are."""
    priorities: dict[Queue, int]
    """The ask's priority inside each queue from its leaf up to `root`, as its children count."""


class Comparison(NamedTuple):
    """Two priorities as they count in the queue where their ways up meet (law 6)."""

    queue: QueuePath
    ask: int
    other: int


ANY_PRIORITY = None
"""In place of a highest priority: victims may have whatever priority they have."""


def settled(queue: Queue, name: str) -> int:
    """Usage of a type once all decisions are carried out."""
    return queue.allocated.get(name, 0) - queue.preempting.get(name, 0) + queue.promised.get(name, 0)


def guaranteed(queue: Queue, name: str) -> int:
    """Guaranteed amount of a type; 0 for none."""
    sizes = queue.guaranteed
    due = 0 if sizes is None else sizes.get(name, 0)
    return due if due > 0 else 0


def entitled_queue(leaf: Queue, wanted: Items) -> Queue | None:
    """The lowest queue from the leaf up that guarantees a type of the ask; None for none."""
    for queue in leaf.lineage:
        if queue.guaranteed is not None and any(guaranteed(queue, name) for name, _ in wanted):
            return queue
    return None


def stays_within_guarantee(entitled: Queue, wanted: Items) -> bool:
    """Law 4: with the ask, its queue stays within its guarantee of the ask's types."""
    for name, value in wanted:
        due = guaranteed(entitled, name)
        if due and settled(entitled, name) + value > due:
            return False
    return True


def is_within_guarantee(leaf: Queue, wanted: Items) -> bool:
    """Law 4 as a whole: the ask only claims guarantees of its queue."""
    entitled = entitled_queue(leaf, wanted)
    return entitled is not None and stays_within_guarantee(entitled, wanted)


def exceeds_max(queue: Queue, wanted: Items) -> bool:
    """True if the ask would take the queue above its maximum in a type that both name."""
    limit = queue.max
    if limit is None:
        return False
    for name, value in wanted:
        if name in limit and settled(queue, name) + value > limit[name]:
            return True
    return False


def fence_of(leaf: Queue, priority: int, wanted: Items) -> Fence:
    """Law 7: walk up until a fence, a full queue or root is reached, and note the priorities."""
    priorities: dict[Queue, int] = {}
    for queue in leaf.lineage:
        priorities[queue] = priority
        settings = queue.settings
        if settings.preemption is PreemptionPolicy.FENCE or exceeds_max(queue, wanted):
            return Fence(queue, priorities)
        priority = queue.counts_as(priority)
    return Fence(leaf.lineage[-1], priorities)


def beside(leaf: Queue, fence: Fence) -> tuple[Queue, ...] | None:
    """The queues from the leaf up to where its way meets the ask's; None outside the fence."""
    for index, queue in enumerate(leaf.lineage):
        if queue in fence.priorities:
            return leaf.lineage[:index]
    return None


def highest_priority(apart: tuple[Queue, ...], fence: Fence) -> int | Out | None:
    """Law 6: the highest priority that a victim may have, at the bottom of these queues.

    Both are compared as children of the queue where their ways meet, as the order of queues
    compares them (spec §§ 4.10, 4.11): the settings of that queue, and of those above it, count for
    neither. On the way down from there each queue takes its offset off. A priority fence hides
    priorities inside: either nothing there may go, or everything whatever its priority
    (ANY_PRIORITY). So may everything if the ask counts as the highest priority that there is.
    """
    priority = fence.priorities[_meeting(apart)]
    for queue in reversed(apart):
        if priority >= INT32_MAX:
            return ANY_PRIORITY
        settings = queue.settings
        if settings.priority_fence:
            return Out.HIGHER_FENCE if settings.priority_offset > priority else ANY_PRIORITY
        priority -= settings.priority_offset
    return priority


def compared(apart: tuple[Queue, ...], fence: Fence, priority: int) -> Comparison:
    """Compare the ask to an allocation of that priority at the bottom of the queues (law 6)."""
    for queue in apart:
        priority = queue.counts_as(priority)
    meeting = _meeting(apart)
    return Comparison(meeting.path, fence.priorities[meeting], priority)


def _meeting(apart: tuple[Queue, ...]) -> Queue:
    """The queue where the ways of the ask and of the victim meet."""
    meeting: Queue | None = apart[-1].parent
    assert meeting is not None, "only root has no parent, and root is on every way"
    return meeting


def above_guarantee(queue: Queue) -> dict[str, int]:
    """Law 2: by guaranteed type, the amount that victims may take; may be negative."""
    sizes = queue.guaranteed
    if not sizes:
        return {}
    return {name: settled(queue, name) - due for name, due in sizes.items() if due > 0}


def is_over_guarantee(above: Sequence[Mapping[str, int]], wanted: Items) -> bool:
    """Law 5: True if a leaf may give.

    `above` has `above_guarantee` of the guaranteeing queues, from the leaf up to the meeting point.
    The leaf may give if there are none, or if there is a type of the ask that at least one
    guarantees, and of which all that guarantee it have more than that.
    """
    if not above:
        return True
    for name, _ in wanted:
        rests = [rest[name] for rest in above if name in rest]
        if rests and min(rests) > 0:
            return True
    return False


def keeps_all(leaf: Queue, wanted: Items) -> bool:
    """True if law 5 protects all of a leaf from any ask of these types: it guarantees each.

    And it has no more than that of any. So it is spared whatever the queues above it have.
    """
    sizes = leaf.guaranteed
    if not sizes:
        return False
    allocated, promised = leaf.allocated, leaf.promised
    for name, _ in wanted:
        due = sizes.get(name, 0)
        if due <= 0:
            return False
        # Nearly always that is enough, and searches ask very often: what is going only lowers it.
        most = allocated.get(name, 0) + promised.get(name, 0)
        if most > due and settled(leaf, name) > due:
            return False
    return True


def quota_shortage(lineage: Iterable[Queue], wanted: Items) -> tuple[int, ...]:
    """By type of the ask, the amount to free below the queues' maxima; never below zero.

    All victims are below the lowest queue that is too full, so one amount counts for all. A type
    that root does not have cannot be freed.
    """
    return tuple(max(0, *(_beyond(queue, name, value) for queue in lineage)) for name, value in wanted)


def _beyond(queue: Queue, name: str, value: int) -> int:
    if queue.max is None:
        return 0
    bound = queue.max.get(name, 0 if queue.strict else None)
    return 0 if bound is None else settled(queue, name) + value - bound
