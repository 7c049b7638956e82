"""Effects of a configuration on queues and limits: values before and after (spec § 10).

Settings are compared as a configuration spells them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

from licorne_core.config.schema import (
    LimitConfig,
    NodeSortPolicy,
    NodeSortType,
    PlacementRuleConfig,
    TemplateConfig,
)
from licorne_core.messages.plans import (
    ADDED,
    CHANGED,
    DRAINING,
    REMOVED,
    ExceededLimit,
    PlannedQueue,
    PlannedValue,
)
from licorne_core.model.queues.queue import Queue, QueueState
from licorne_core.model.quotas import Quota, Tracker
from licorne_core.partitions.partition import Partition
from licorne_core.values.ids import PartitionName, QueuePath
from licorne_core.values.resources import EMPTY, print_amounts

MOST = 1_000
"""Maximum number of entries of each list."""

T = TypeVar("T")


class Capped(Generic[T]):
    """First entries of a list, with its full length and the number of entries by kind."""

    __slots__ = ("count", "items", "kinds")

    def __init__(self) -> None:
        """Start empty."""
        self.items: list[T] = []
        self.count = 0
        self.kinds: Counter[str] = Counter()

    @property
    def is_full(self) -> bool:
        """True if further entries are only counted."""
        return self.count >= MOST

    def add(self, item: T, *kinds: str) -> None:
        """Add an entry of these kinds. After `MOST` entries, further ones are only counted."""
        if not self.is_full:
            self.items.append(item)
        self.count += 1
        self.kinds.update(kinds)

    def count_one(self) -> None:
        """Count an entry of a full list without adding it."""
        self.count += 1


UNLIMITED = "unlimited"
NO_RULES = "none, which means provided"


def number(count: int) -> str:
    """A maximum of applications as text; ``unlimited`` for 0."""
    return str(count) if count else UNLIMITED


def switch(on: bool) -> str:
    """``true`` or ``false``."""
    return "true" if on else "false"


def template(config: TemplateConfig | None) -> str:
    """A child template on one line; ``none`` if there is none."""
    if config is None or config == TemplateConfig():
        return "none"
    parts = [
        f"max {print_amounts(config.max)}" if config.max else "",
        f"guaranteed {print_amounts(config.guaranteed)}" if config.guaranteed else "",
        f"maxapplications {config.max_applications}" if config.max_applications else "",
        *(f"{key}={value}" for key, value in sorted(config.properties.items())),
    ]
    return "; ".join(part for part in parts if part)


def rules(configs: tuple[PlacementRuleConfig, ...]) -> str:
    """All placement rules in order, on one line."""
    return "; ".join(map(_rule, configs)) or NO_RULES


def node_order(policy: NodeSortPolicy) -> str:
    """A node sort policy, as ``fair (memory=1,vcore=1)``."""
    by = f" by {policy.attribute}" if policy.type is NodeSortType.SPREAD else ""
    weights = ",".join(f"{name}={weight:g}" for name, weight in sorted(policy.weights.items()))
    return f"{policy.type.value}{by} ({weights})"


def _rule(config: PlacementRuleConfig) -> str:
    parts = [config.name]
    if config.value:
        parts.append(config.value)
    if config.create:
        parts.append("create")
    if config.filter is not None:
        names = (*config.filter.users.entries, *config.filter.groups.entries)
        parts.append(f"{'allow' if config.filter.allow else 'deny'} {','.join(names)}")
    above = f" below ({_rule(config.parent)})" if config.parent is not None else ""
    return " ".join(parts) + above


NEW = "new"
"""Kind of a limit that is exceeded by more than before, or of an ask that had no obstacle before."""

TrackerKey = tuple[PartitionName, str, str, str]
"""Partition, kind, name and queue of a tracker."""


class Excess(NamedTuple):
    """Excess over a limit: amounts by resource name, and number of applications."""

    amounts: Mapping[str, int]
    applications: int

    def is_within(self, other: "Excess") -> bool:
        """True if no amount, nor the number of applications, exceeds that of `other`."""
        return self.applications <= other.applications and not exceeds(self.amounts, other.amounts)


NO_EXCESS = Excess({}, 0)


def excesses(partitions: Iterable[Partition]) -> dict[TrackerKey, Excess]:
    """Excess of each user and group that exceeds a limit."""
    return {place: excess_of(tracker) for place, _, tracker in _exceeded(partitions)}


def exceeded_limits(
    partitions: Iterable[Partition], before: Mapping[TrackerKey, Excess]
) -> Capped[ExceededLimit]:
    """Exceeded limits by partition, users before groups, then by name and queue.

    `before` is the result of `excesses` before the update.
    """
    found: Capped[ExceededLimit] = Capped()
    for place, partition, tracker in _exceeded(partitions):
        already = excess_of(tracker).is_within(before.get(place, NO_EXCESS))
        found.add(_reported(partition, tracker, already=already), *(() if already else (NEW,)))
    return found


def _exceeded(partitions: Iterable[Partition]) -> Iterator[tuple[TrackerKey, Partition, Tracker]]:
    for partition in partitions:
        for kind in ("user", "group"):
            book = partition.limits.of_kind(kind)
            for name in sorted(book):
                for path in sorted(book[name]):
                    tracker = book[name][path]
                    if is_exceeded(tracker):
                        yield (partition.name, kind, name, path), partition, tracker


def excess_of(tracker: Tracker) -> Excess:
    """Excess of a user or group over its limit."""
    most = tracker.max_applications
    beyond = max(0, tracker.started_applications - most) if most else 0
    return Excess(over_max(tracker), beyond)


def is_exceeded(tracker: Tracker) -> bool:
    """True if allocations or running applications exceed the limit."""
    return excess_of(tracker) != NO_EXCESS


def over_max(quota: Quota) -> dict[str, int]:
    """Allocated amounts beyond the maximum, by resource name."""
    beyond = {name: quota.allocated.get(name, 0) - bound for name, bound in (quota.max or EMPTY).items()}
    return {name: value for name, value in beyond.items() if value > 0}


def exceeds(amounts: Mapping[str, int], others: Mapping[str, int]) -> bool:
    """True if any amount exceeds that of the same name in `others`."""
    return any(value > others.get(name, 0) for name, value in amounts.items())


def _reported(partition: Partition, tracker: Tracker, *, already: bool) -> ExceededLimit:
    limit = tracker.max or EMPTY
    return ExceededLimit(
        partition=partition.name,
        queue=tracker.path,
        kind=tracker.kind,
        name=tracker.name,
        used={name: tracker.allocated.get(name, 0) for name in limit},
        limit=dict(limit),
        applications=tracker.started_applications,
        max_applications=tracker.max_applications,
        already=already,
    )


OVER_MAX = "over its maximum"
"""Kind of a queue that exceeds its maximum by more than before."""


class ComparedQueue(NamedTuple):
    """A queue at one point in time."""

    values: Mapping[str, str]
    applications: int
    """Number of applications in the queue and below."""
    drains: bool
    """True if the queue drains."""
    over_max: Mapping[str, int]
    """Excess of allocated amounts over the maximum."""


Snapshots = dict[tuple[PartitionName, QueuePath], ComparedQueue]


def snapshots(partitions: Iterable[Partition]) -> Snapshots:
    """Snapshots of all queues of the partitions."""
    return {
        (partition.name, queue.path): snapshot
        for partition in partitions
        for queue, snapshot in _snapshots_of(partition)
    }


def _snapshots_of(partition: Partition) -> Iterator[tuple[Queue, ComparedQueue]]:
    inside: dict[Queue, int] = {}
    queues = list(partition.tree.walk())
    for queue in reversed(queues):
        below = sum(inside[child] for child in queue.children.values())
        inside[queue] = len(queue.applications) + below
    for queue in queues:
        drains = queue.state is QueueState.DRAINING
        over = {} if queue.parent is None else over_max(queue)
        yield queue, ComparedQueue(_values(partition, queue), inside[queue], drains, over)


def compared(before: Snapshots, partitions: Iterable[Partition]) -> Capped[PlannedQueue]:
    """Changes of the queues since `before`; `partitions` are the current ones.

    A draining queue without applications counts as removed, as the next cleaning deletes it
    (spec § 4.3).
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
            found.add(PlannedQueue(partition=name, path=path, change=REMOVED, applications=gone.applications))
    return found


def _compared(
    partition: Partition, queue: Queue, before: ComparedQueue | None, after: ComparedQueue
) -> PlannedQueue | None:
    old = before.values if before is not None else {}
    values = tuple(
        PlannedValue(name=name, before=old.get(name, ""), after=after.values.get(name, ""))
        for name in dict.fromkeys((*after.values, *old))
        if old.get(name, "") != after.values.get(name, "")
    )
    if before is None:
        change = ADDED
    elif after.drains and not before.drains:
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
    """Kinds of the change that make the queue's state worse."""
    if queue.change == DRAINING:
        yield DRAINING
    if exceeds(queue.over_max, queue.over_max_before):
        yield OVER_MAX


def _values(partition: Partition, queue: Queue) -> dict[str, str]:
    """Settings of a queue in the form of a configuration. Root includes those of its partition."""
    values = {
        "state": queue.state.value,
        "kind": "leaf" if queue.is_leaf else "parent",
        "managed": switch(queue.managed),
        "maxapplications": number(queue.max_applications),
        "submitacl": queue.submit_acl.text,
        "adminacl": queue.admin_acl.text,
        "childtemplate": template(queue.template),
    }
    if queue.parent is not None:
        values |= {"guaranteed": print_amounts(queue.guaranteed), "max": print_amounts(queue.max)}
    else:
        values |= _partition_values(partition)
    values |= {f"property {key}": value for key, value in queue.properties.items()}
    for limit in queue.limits.listed:
        values |= _limit_values(limit)
    return values


def _partition_values(partition: Partition) -> dict[str, str]:
    config = partition.config
    return {
        "placementrules": rules(config.placement_rules),
        "nodesortpolicy": node_order(config.node_sort),
        "preemption.enabled": switch(config.preemption_enabled),
        **{key: switch(on) for key, on in config.switches.items()},
    }


def _limit_values(limit: LimitConfig) -> Iterator[tuple[str, str]]:
    for kind, names in (("user", limit.users), ("group", limit.groups)):
        for name in names:
            if limit.max_resources:
                yield f"limit of {kind} {name}: maxresources", print_amounts(limit.max_resources)
            if limit.max_applications:
                yield (f"limit of {kind} {name}: maxapplications", number(limit.max_applications))
