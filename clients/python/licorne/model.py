"""Items of a resource manager for the scheduler. Amounts are bytes, milli-cores or counts.

Placeholders of a gang are asks too.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

DEFAULT_PARTITION = "default"
_NO_TAGS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine. No new allocations are placed on a node while it is `drained`."""

    node_id: str
    capacity: Mapping[str, int]
    attributes: Mapping[str, str] = field(default_factory=dict)
    partition: str = DEFAULT_PARTITION
    drained: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGroup:
    """Equal members of a gang. A placeholder holds the room of each member until the member's ask."""

    name: str
    """Name of the group, unique in its application: the `task_group` of its members' asks."""
    members: int
    """Number of placeholders; 1 or more."""
    resources: Mapping[str, int]
    """Resources of one placeholder. A member that needs more of any resource type cannot replace it."""
    priority: int = 0
    tags: Mapping[str, str] = field(default_factory=lambda: _NO_TAGS)
    """Tags of every placeholder, such as node constraints."""
    allow_preempt_self: bool = False
    allow_preempt_other: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A group of asks with an owner. Placement rules of the server choose its queue."""

    application_id: str
    queue: str = ""
    """The requested queue, which placement rules may use or ignore."""
    user: str = ""
    groups: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    partition: str = DEFAULT_PARTITION
    task_groups: tuple[TaskGroup, ...] = ()
    """For a gang: its groups. The client submits asks for their placeholders; see `licorne.model`."""
    placeholder_resources: Mapping[str, int] = field(default_factory=dict)
    """For a gang whose placeholders you submit yourself: their total resources. Not used with task groups,
    for which the client computes the total.
    """
    placeholder_timeout: float = 0
    """For a gang: seconds that its placeholders may wait; 0 for the server's default of 900 s."""
    gang_style: str = ""
    """For a gang whose placeholders have timed out: with ``Hard`` it fails, with ``Soft`` it continues
    without them. Empty means ``Soft``.
    """
    runtime: int = 0
    """Runtime of each of its asks in seconds, unless the ask has its own runtime; 0 if unknown. Decisions
    rely on this promise, but it is not enforced.
    """
    start_by: int = 0
    """Latest wanted start time of its asks, in unix seconds; 0 if there is none."""
    topology: str = ""
    """For a gang: with ``required=rack`` it is placed inside one domain of that level or not at all, with
    ``preferred=rack`` inside one if possible."""
    gang_slice: str = ""
    """For a gang: ``size=18,level=nvlink`` places its members in slices of 18, each inside one domain of
    that level."""
    gang_min: int = 0
    """For an elastic gang, which has no placeholders: the number of asks with a `task_group` that start
    together; 0 for a gang that is not elastic."""
    gang_max: int = 0
    """For an elastic gang: the maximum number of members; 0 for no limit."""
    gang_step: int = 0
    """For an elastic gang: number of members by which it grows beyond its minimum, and shrinks; 0 for 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request for one allocation.

    The resource manager chooses the `key`, which must be unique among all its asks, including ended ones.
    """

    key: str
    application_id: str
    resources: Mapping[str, int]
    priority: int = 0
    """Asks with a higher number are served first."""
    # All asks without tags share one empty mapping, as there may be a million of them.
    tags: Mapping[str, str] = field(default_factory=lambda: _NO_TAGS)
    partition: str = DEFAULT_PARTITION
    originator: bool = False
    """True if the ask started the application, as a driver does. Its allocation is preempted after others."""
    allow_preempt_self: bool = False
    """True if the allocation may be preempted by choice; others are preempted only if nothing else helps."""
    allow_preempt_other: bool = False
    """True if allocations of other queues may be preempted for the ask."""
    placeholder: bool = False
    """True for an ask that only holds the room of a member of its task group."""
    task_group: str = ""
    """The task group of the ask in a gang."""
    required_node: str = ""
    """The only node on which the ask may run, drained or not; empty for any node. It has at most 512
    characters, all printable."""
    predicate_class: str = ""
    """Asks of equal classes share the results of predicate checks, see `ClassBy`. It has the same limits as
    `required_node`.
    """
    traceparent: str = ""
    """The trace to which the ask belongs, in the format of W3C Trace Context:
    ``00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01``; empty if there is none."""
    runtime: int = 0
    """Runtime of the ask in seconds; 0 for the runtime of its application."""
    start_by: int = 0
    """Latest wanted start time, in unix seconds; 0 for that of the application."""
    started: int = 0
    """Time at which the allocation began, in unix seconds, not in the future; 0 if unknown, or not
    running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """An ask that already runs on a node, for instance since before a restart."""

    ask: Ask
    node_id: str


class Termination(Enum):
    """Reason for the end of an allocation. The numbers are those of the wire."""

    STOPPED = 1
    """The resource manager no longer wants the allocation, or it has ended by itself."""
    TIMEOUT = 2
    """The allocation has waited as a placeholder for too long, or cannot be replaced."""
    PREEMPTED = 3
    """The scheduler needs the room for an ask that has a stronger claim."""
    REPLACED = 4
    """The allocation was a placeholder, which a member of its task group replaces."""


def placeholder_key(application_id: str, group: str, number: int) -> str:
    """The key of a placeholder that the client submits; `number` counts from 1 in its group."""
    return f"{application_id}-{group}-placeholder-{number}"


def placeholder_ask(application: Application) -> Mapping[str, int]:
    """Total resources of the application's placeholders; empty if it is not a gang."""
    if not application.task_groups:
        return application.placeholder_resources
    total: Counter[str] = Counter()
    for group in application.task_groups:
        for name, amount in group.resources.items():
            total[name] += group.members * amount
    return total


def placeholders(application: Application) -> list[Ask]:
    """The asks for the placeholders of the application's task groups, group by group."""
    return [
        Ask(
            key=placeholder_key(application.application_id, group.name, number),
            application_id=application.application_id,
            resources=group.resources,
            priority=group.priority,
            tags=group.tags,
            partition=application.partition,
            allow_preempt_self=group.allow_preempt_self,
            allow_preempt_other=group.allow_preempt_other,
            placeholder=True,
            task_group=group.name,
        )
        for group in application.task_groups
        for number in range(1, group.members + 1)
    ]
