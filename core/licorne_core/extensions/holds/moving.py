"""The move of an application to another leaf by an operator."""

from collections.abc import Iterator

from licorne_core.handlers.gangs import check_gang
from licorne_core.handlers.lifecycle import enter_leaf, leave_leaf
from licorne_core.handlers.operators import CommandRefused, give_up_waits
from licorne_core.messages.effects import OperatorRefusal
from licorne_core.messages.events.apps import app_moved
from licorne_core.model.apps.application import Application
from licorne_core.model.limits import group_of
from licorne_core.model.queues.queue import RECOVERY_PATH, Queue, takes_applications, why_closed
from licorne_core.partitions.partition import Partition
from licorne_core.values.app_states import AppState
from licorne_core.values.errors import Rejected, shown


def target(partition: Partition, app: Application, path: str) -> Queue:
    """The leaf to which the application is to be moved.

    Raises:
        CommandRefused: there is no such leaf, or it would not accept the application.
    """
    leaf = partition.tree.get(path)
    if leaf is None:
        what = f"queue {shown(path)} not found in partition {partition.name}"
        raise CommandRefused(OperatorRefusal.NOT_FOUND, what)
    why = "" if leaf is app.leaf else why_not_to(partition, app, leaf)
    if why:
        raise CommandRefused(OperatorRefusal.NOT_POSSIBLE, why)
    return leaf


def why_not_to(partition: Partition, app: Application, leaf: Queue) -> str:
    """The reason why an application cannot be moved to the leaf; empty if it can.

    The rules are those for new applications. A running application continues to run, so the limits on
    running applications apply as well.
    """
    held = len(app.requests) - app.pending_count
    if held:
        return f"application {app.app_id} has {held} allocations, or asks with a node"
    if leaf.path == RECOVERY_PATH:
        return f"queue {leaf.path} is for recovered applications only"
    if not takes_applications(leaf):
        return f"queue {leaf.path} {why_closed(leaf)}"
    if app.gang.is_wanted:
        try:
            check_gang(app.app_id, leaf, leaf.max, app.gang)
        except Rejected as rejected:
            return str(rejected)
    return _why_not_running(partition, app, leaf) if app.state is AppState.RUNNING else ""


def _why_not_running(partition: Partition, app: Application, leaf: Queue) -> str:
    """The queue or limit that has reached its maximum of running applications; empty if none has."""
    group = group_of(leaf, app.user)
    for queue in leaf.lineage:
        if queue in app.leaf.lineage:
            return ""
        if 0 < queue.max_applications <= queue.started_applications:
            return f"queue {queue.path} runs {queue.max_applications} applications already, its maximum"
        for kind, name in (("user", app.user.user), ("group", group)):
            most = partition.limits.most_running(kind, name, queue)
            if most:
                return f"{kind} {name} runs {most} applications in queue {queue.path} already, the maximum"
    return ""


def prepare(partition: Partition, app: Application, leaf: Queue, now: float) -> Iterator[int]:
    """End the application's waits in its leaf, and apply the settings of the new `leaf` in extensions."""
    yield from give_up_waits(partition, app, now)
    for group in list(app.groups.values()):
        # The delay before preemption is a setting of the leaf.
        partition.escalation.start_afresh(group, now)
        yield 1
    yield from partition.points.enter_leaf(app, leaf, now)


def move(partition: Partition, app: Application, leaf: Queue, now: float) -> None:
    """Move the application with its asks from its leaf to another one, in one step whatever their number."""
    before, group = partition.leaf_of(app), app.group
    leave_leaf(partition, app, now)
    enter_leaf(partition, app, leaf)
    partition.journal.note_all(app_moved(now, app.app_id, (before.path, group), (leaf.path, app.group)))
