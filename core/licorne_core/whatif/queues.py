"""Effects of a configuration on queues: their values before and after."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from licorne_core.config.schema import LimitConfig
from licorne_core.model.queues.queue import Queue
from licorne_core.model.queues.states import QueueState
from licorne_core.partitions.partition import Partition
from licorne_core.values.ids import PartitionName, QueuePath
from licorne_core.whatif import words
from licorne_core.whatif.limits import exceeds, over_max
from licorne_core.whatif.plans import Capped, PlannedQueue, PlannedValue

ADDED = "added"
CHANGED = "changed"
DRAINING = "draining"
REMOVED = "removed"

OVER_MAX = "over its maximum"
"""The kind of those that have more above their maxima than before."""


class Snapshot(NamedTuple):
    """A queue as it was at some moment."""

    values: Mapping[str, str]
    applications: int
    """In it and below."""
    goes: bool
    """True if it drains."""
    over_max: Mapping[str, int]
    """Allocated amounts beyond its maximum."""


Snapshots = dict[tuple[PartitionName, QueuePath], Snapshot]


def snapshots(partitions: Iterable[Partition]) -> Snapshots:
    """All queues of these partitions as they are now."""
    return {
        (partition.name, queue.path): snapshot
        for partition in partitions
        for queue, snapshot in _snapshots_of(partition)
    }


def _snapshots_of(partition: Partition) -> Iterator[tuple[Queue, Snapshot]]:
    inside: dict[Queue, int] = {}
    queues = list(partition.tree.walk())
    for queue in reversed(queues):
        below = sum(inside[child] for child in queue.children.values())
        inside[queue] = len(queue.applications) + below
    for queue in queues:
        goes = queue.state is QueueState.DRAINING
        over = {} if queue.parent is None else over_max(queue)
        yield queue, Snapshot(_values(partition, queue), inside[queue], goes, over)


def compared(before: Snapshots, partitions: Iterable[Partition]) -> Capped[PlannedQueue]:
    """Changes of the queues; `partitions` are the present ones.

    A queue that has to go and holds no application is removed, as nothing can keep it. That the
    cleaner has not come yet makes no difference (spec § 4.3).
    """
    found: Capped[PlannedQueue] = Capped()
    seen = set()
    for partition in partitions:
        for queue, after in _snapshots_of(partition):
            place = (partition.name, queue.path)
            seen.add(place)
            planned = _compared(partition, queue, before.get(place), after)
            if planned is not None:
                found.add(planned, *_kinds(planned))
    for (name, path), gone in before.items():
        if (name, path) not in seen:
            found.add(
                PlannedQueue(
                    partition=name, path=path, change=REMOVED, applications=gone.applications
                )
            )
    return found


def _compared(
    partition: Partition, queue: Queue, before: Snapshot | None, after: Snapshot
) -> PlannedQueue | None:
    old = before.values if before is not None else {}
    values = tuple(
        PlannedValue(name=name, before=old.get(name, ""), after=after.values.get(name, ""))
        for name in dict.fromkeys((*after.values, *old))
        if old.get(name, "") != after.values.get(name, "")
    )
    if before is None:
        change = ADDED
    elif after.goes and not before.goes:
        change = DRAINING if after.applications else REMOVED
    elif values:
        change = CHANGED
    else:
        return None
    return PlannedQueue(
        partition=partition.name,
        path=queue.path,
        change=change,
        values=values,
        over_max=after.over_max,
        over_max_before=before.over_max if before is not None else {},
        applications=after.applications,
    )


def _kinds(queue: PlannedQueue) -> Iterator[str]:
    """Kinds of worsening since before."""
    if queue.change == DRAINING:
        yield DRAINING
    if exceeds(queue.over_max, queue.over_max_before):
        yield OVER_MAX


def _values(partition: Partition, queue: Queue) -> dict[str, str]:
    """All that a configuration can say of a queue, in its words; of root, the partition's too."""
    values = {
        "state": queue.state.value,
        "kind": "leaf" if queue.is_leaf else "parent",
        "managed": words.switch(queue.managed),
        "maxapplications": words.number(queue.max_applications),
        "submitacl": queue.submit_acl.text,
        "adminacl": queue.admin_acl.text,
        "childtemplate": words.template(queue.template),
    }
    if queue.parent is not None:
        values |= {"guaranteed": words.amounts(queue.guaranteed), "max": words.amounts(queue.max)}
    else:
        values |= _partition_values(partition)
    values |= {f"property {key}": value for key, value in queue.properties.items()}
    for limit in queue.limits.listed:
        values |= _limit_values(limit)
    return values


def _partition_values(partition: Partition) -> dict[str, str]:
    config = partition.config
    return {
        "placementrules": words.rules(config.placement_rules),
        "nodesortpolicy": words.node_order(config.node_sort),
        "preemption.enabled": words.switch(config.preemption_enabled),
        "preemption.quotapreemptionenabled": words.switch(config.quota_preemption_enabled),
    }


def _limit_values(limit: LimitConfig) -> Iterator[tuple[str, str]]:
    for kind, names in (("user", limit.users), ("group", limit.groups)):
        for name in names:
            if limit.max_resources:
                yield f"limit of {kind} {name}: maxresources", words.amounts(limit.max_resources)
            if limit.max_applications:
                yield (
                    f"limit of {kind} {name}: maxapplications",
                    words.number(limit.max_applications),
                )
