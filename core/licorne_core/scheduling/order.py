"""The keys that order queues and applications (spec §§ 4.9-4.11, 5.2). All end in a unique id."""

from licorne_core.config.properties import AppSortPolicy
from licorne_core.model.apps.application import Application
from licorne_core.model.queues.queue import Queue
from licorne_core.values.priorities import NO_PRIORITY
from licorne_core.values.ranking import Key


def queue_key(queue: Queue, *, priority_sort: bool, types: tuple[str, ...]) -> Key:
    """Place of a queue among its siblings: priority and share, then the larger pending first.

    Reads the priority and the share that the queue carries, so these have to be up to date.
    `priority_sort` is the parent's. Pending is compared type by type in the order of `types`:
    a total order that agrees with «larger in every type» of § 4.10 wherever that says anything.
    """
    pending = queue.pending
    tie = [-pending.get(name, 0) for name in types]
    if priority_sort:
        return (-queue.counted_priority, queue.share, tie, queue.path)
    return (queue.share, -queue.counted_priority, tie, queue.path)


def app_key(app: Application, leaf: Queue) -> Key:
    """Place of an application in its leaf by the leaf's sort policy (spec § 5.2)."""
    priority = -app.priorities.top
    settings = leaf.settings
    if settings.app_sort is AppSortPolicy.FAIR:
        usage = fair_usage(app, leaf)
        if settings.priority_sort:
            return (priority, usage, app.submission_time, app.app_id)
        return (usage, priority, app.submission_time, app.app_id)
    if settings.priority_sort:
        return (priority, app.submission_time, app.app_id)
    return (app.submission_time, priority, app.app_id)


def fair_usage(app: Application, leaf: Queue) -> list[float]:
    """The application's shares, largest first; a type without guarantee counts raw (spec § 5.2)."""
    guaranteed = leaf.guaranteed
    if guaranteed is None:
        return sorted([float(used) for used in app.allocated.values()], reverse=True)
    shares = []
    for name, used in app.allocated.items():
        base = guaranteed.get(name, 0)
        shares.append(used / base if base > 0 else float(used))
    shares.sort(reverse=True)
    return shares


def settle_priority(queue: Queue) -> None:
    """Carry a queue's changed priority up to where it makes no difference any more (§ 4.11)."""
    parent = queue.parent
    while parent is not None:
        now, before = queue.priority(), queue.counted_priority
        if now == before:
            return
        queue.counted_priority = now
        top = parent.priorities.top
        if before != NO_PRIORITY:
            parent.priorities.remove(before)
        if now != NO_PRIORITY:
            parent.priorities.add(now)
        if parent.priorities.top == top:
            return
        queue, parent = parent, parent.parent
