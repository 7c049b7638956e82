"""Guaranteed amounts of queues, and the test of whether a queue stays within them (spec § 9.1, law 4).

*Settled* usage counts: usage after all victims have ended and all beneficiaries are placed. A queue
*guarantees* a type if its guaranteed amount of the type is above zero.
"""

from typing import Any

from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Quota
from licorne_core.values.resources import Items


def settled(quota: Quota, name: str) -> int:
    """Settled usage of a type, in its unit: allocated amounts without victims, plus promised amounts."""
    return quota.allocated.get(name, 0) - quota.preempting.get(name, 0) + quota.promised.get(name, 0)


def guaranteed(queue: Queue, name: str) -> int:
    """Guaranteed amount of a type; 0 if none is guaranteed."""
    sizes = queue.guaranteed
    due = 0 if sizes is None else sizes.get(name, 0)
    return due if due > 0 else 0


def entitled_queue(leaf: Queue, wanted: Items) -> Queue | None:
    """Lowest queue from the leaf up that guarantees a type of the ask; None if there is none."""
    for queue in leaf.lineage:
        if queue.guaranteed is not None and any(guaranteed(queue, name) for name, _ in wanted):
            return queue
    return None


def stays_within_guarantee(entitled: Queue, wanted: Items) -> bool:
    """Law 4: True if the queue and the ask stay within the queue's guarantee of the ask's types."""
    for name, value in wanted:
        due = guaranteed(entitled, name)
        if due and settled(entitled, name) + value > due:
            return False
    return True


def is_within_guarantee(leaf: Queue, wanted: Items) -> bool:
    """Law 4 for a leaf: True if a queue guarantees a type of the ask, and stays within its guarantee."""
    entitled = entitled_queue(leaf, wanted)
    return entitled is not None and stays_within_guarantee(entitled, wanted)


def held_by(quota: Quota, leaf: Queue, items: Items, runtime: float, own: object) -> Any:
    """The first claim on a quota, other than the `own` one, that an ask of a leaf would delay; or None.

    The ask uses the amounts for `runtime` seconds from now on. A claim on the maximum of a queue does not
    bind an ask that stays within the guarantee of a queue below: guarantees precede claims.
    """
    for claim, room in quota.claims.items():
        if claim is not own and not room.admits(items, runtime, quota, own):
            return None if _is_guaranteed_below(quota, leaf, items) else claim
    return None


def _is_guaranteed_below(quota: Quota, leaf: Queue, items: Items) -> bool:
    """True if the ask stays within the guarantee of a queue below the one whose maximum the quota is."""
    if not isinstance(quota, Queue):
        return False
    entitled = entitled_queue(leaf, items)
    if entitled is None or quota not in entitled.lineage or entitled is quota:
        return False
    return stays_within_guarantee(entitled, items)
