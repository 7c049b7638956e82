"""Who may submit where, and which queues take applications (spec §§ 2.3, 3.3, 3.14, 4.2)."""

from licorne_core.identity import UserGroup
from licorne_core.ids import QueuePath
from licorne_core.names import RECOVERY_NAME
from licorne_core.queues.queue import Queue
from licorne_core.queues.states import QueueState

RECOVERY_PATH = QueuePath(f"root.{RECOVERY_NAME}")
"""Where applications go that have to be taken and belong nowhere (spec § 3.14)."""


def may_submit(queue: Queue, user: UserGroup) -> bool:
    """Whether an access list of the queue, or of one above it, lets the user in (spec § 2.3).

    Administrators may submit as well. Nobody may submit to the recovery queue: only being
    forced leads there.
    """
    if any(above.path == RECOVERY_PATH for above in queue.lineage):
        return False
    return any(
        above.submit_acl.allows(user) or above.admin_acl.allows(user) for above in queue.lineage
    )


def takes_applications(queue: Queue) -> bool:
    """Whether new applications may enter: an active leaf, with nothing above it on its way out.

    A dynamic leaf below a draining parent, or below one that is to be a leaf itself, is no
    exception: else that parent might never be without children.
    """
    return queue.is_leaf and all(
        above.state is QueueState.ACTIVE and not above.becomes_leaf for above in queue.lineage
    )
