"""Access to queues: submitters, and queues that take applications (spec §§ 2.3, 3.3, 3.14, 4.2)."""

from licorne_core.model.queues.queue import Queue
from licorne_core.model.queues.states import QueueState
from licorne_core.values.identity import UserGroup
from licorne_core.values.ids import QueuePath
from licorne_core.values.names import RECOVERY_NAME

RECOVERY_PATH = QueuePath(f"root.{RECOVERY_NAME}")
"""The queue of forced applications that no rule places (spec § 3.14)."""


def may_submit(queue: Queue, user: UserGroup) -> bool:
    """True if an access list of the queue, or of one above it, lets the user in (spec § 2.3).

    Administrators may submit as well. No user may submit to the recovery queue or below it; only
    forced applications get there.
    """
    if any(above.path == RECOVERY_PATH for above in queue.lineage):
        return False
    return any(
        above.submit_acl.allows(user) or above.admin_acl.allows(user) for above in queue.lineage
    )


def takes_applications(queue: Queue) -> bool:
    """True if it is an active leaf, and none above it is draining, stopped or to become a leaf.

    The same holds for dynamic leaves. Otherwise new applications could keep such a parent from ever
    losing its last child.
    """
    return queue.is_leaf and all(
        above.state is QueueState.ACTIVE and not above.becomes_leaf for above in queue.lineage
    )


def why_closed(queue: Queue) -> str:
    """Reason that a queue does not take applications, said of the queue."""
    if not queue.is_leaf:
        return "is no leaf"
    above = next(
        queue
        for queue in queue.lineage
        if queue.state is not QueueState.ACTIVE or queue.becomes_leaf
    )
    state = "is to become a leaf" if above.becomes_leaf else f"is {above.state.value.lower()}"
    return state if above is queue else f"is below {above.path}, which {state}"


def stopped_above(queue: Queue) -> Queue | None:
    """The queue that an operator has stopped: this one, or else the nearest above it (§ 4.2)."""
    for above in queue.lineage:
        if above.state is QueueState.STOPPED:
            return above
    return None
