"""The items that a resource manager sends to the scheduler. Amounts are bytes, milli-cores or counts.

The placeholders of a gang are asks too.
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
    """Equal members of a gang. A placeholder holds resources for each member until the member replaces it."""

    name: str
    """Name of the group, unique in its application: the `task_group` of its members' asks."""
    members: int
    """Number of placeholders; 1 or more."""
    resources: Mapping[str, int]
    """Resources of one placeholder. A member that needs more of any resource cannot replace it."""
    priority: int = 0
    tags: Mapping[str, str] = field(default_factory=lambda: _NO_TAGS)
    """Tags of every placeholder, such as node constraints."""
    allow_preempt_self: bool = False
    allow_preempt_other: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A group of asks with an owner. The server's placement rules choose its queue."""

    application_id: str
    queue: str = ""
    """The requested queue, which placement rules may use or ignore."""
    user: str = ""
    groups: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    partition: str = DEFAULT_PARTITION
    task_groups: tuple[TaskGroup, ...] = ()
    """For a gang: its groups. The client submits asks for their placeholders."""
    placeholder_resources: Mapping[str, int] = field(default_factory=dict)
    """For a gang whose placeholders you submit yourself: their total resources. Not allowed with task groups,
    for which the client computes the total.
    """
    placeholder_timeout: float = 0
    """For a gang: seconds that its placeholders may wait; 0 for the server's default of 900 s."""
    gang_style: str = ""
    """Effect of a timeout of the gang's placeholders: with ``Hard`` the application fails, with ``Soft`` it
    continues without placeholders. Empty means ``Soft``.
    """
    runtime: int = 0
    """Expected runtime of each ask without its own runtime, in seconds; 0 if unknown. Decisions rely on it,
    but it is not enforced.
    """
    start_by: int = 0
    """Latest desired start of each ask without its own time, in unix seconds; 0 for none."""
    topology: str = ""
    """For a gang: with ``required=rack`` all members must be placed inside one domain of the level, with
    ``preferred=rack`` they are if possible."""
    gang_slice: str = ""
    """For a gang: with ``size=18,level=nvlink`` its members are placed in slices of 18, each slice inside one
    domain of the level."""
    gang_min: int = 0
    """For an elastic gang, which has no placeholders: the number of asks with a `task_group` that start
    together; 0 for a gang that is not elastic."""
    gang_max: int = 0
    """For an elastic gang: the maximum number of members; 0 for no limit."""
    gang_step: int = 0
    """For an elastic gang: number of members by which it grows beyond its minimum or shrinks; 0 means 1."""


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
    """True if the ask started the application, like a driver. Its allocation is preempted last."""
    allow_preempt_self: bool = False
    """True if the allocation is a preferred victim; others are preempted only if no such victim helps."""
    allow_preempt_other: bool = False
    """True if allocations of other queues may be preempted for the ask."""
    placeholder: bool = False
    """True for an ask that only holds resources for a member of its task group."""
    task_group: str = ""
    """Name of the ask's task group in a gang; empty if it has none."""
    required_node: str = ""
    """The only node on which the ask may run, drained or not; empty for any node. It has at most 512
    characters, all printable."""
    predicate_class: str = ""
    """Asks with equal classes share the results of predicate checks, see `ClassBy`. It has at most 512
    characters, all printable.
    """
    traceparent: str = ""
    """The trace to which the ask belongs, in the format of W3C Trace Context:
    ``00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01``; empty if there is none."""
    runtime: int = 0
    """Expected runtime in seconds; 0 for that of the application."""
    start_by: int = 0
    """Latest desired start, in unix seconds; 0 for that of the application."""
    started: int = 0
    """Start of the running allocation, in unix seconds, not in the future; 0 if unknown or if the ask is not
    allocated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """An allocation that already runs on a node, for instance after a restart of the resource manager."""

    ask: Ask
    node_id: str


class Termination(Enum):
    """Reason for the end of an allocation. The numbers are those of `si.v1`."""

    STOPPED = 1
    """The resource manager no longer wants the allocation, or it has ended by itself."""
    TIMEOUT = 2
    """The allocation is a placeholder that has waited too long, or that no member can replace."""
    PREEMPTED = 3
    """The scheduler needs the resources for an ask with a stronger claim."""
    REPLACED = 4
    """The allocation is a placeholder that a member of its task group replaces."""


def placeholder_key(application_id: str, group: str, number: int) -> str:
    """The key of a placeholder that the client submits; `number` counts from 1 in each group."""
    return f"{application_id}-{group}-placeholder-{number}"


def placeholder_ask(application: Application) -> Mapping[str, int]:
    """Total resources of the placeholders of an application; empty if it has none."""
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
