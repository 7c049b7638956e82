"""What a resource manager tells the scheduler. Amounts are bytes, milli-cores or counts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

DEFAULT_PARTITION = "default"
_NO_TAGS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine. Nothing new is placed on a node while it is `drained`."""

    node_id: str
    capacity: Mapping[str, int]
    attributes: Mapping[str, str] = field(default_factory=dict)
    partition: str = DEFAULT_PARTITION
    drained: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A group of asks with an owner. The placement rules of the server choose its queue."""

    application_id: str
    queue: str = ""
    """The queue that is wished for, which the placement rules may use or ignore."""
    user: str = ""
    groups: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    partition: str = DEFAULT_PARTITION
    placeholder_resources: Mapping[str, int] = field(default_factory=dict)
    """For a gang: what all its placeholders take together."""
    placeholder_timeout: int = 0
    """For a gang: milliseconds that its placeholders may wait; 0 for the server's default."""
    gang_style: str = ""
    """For a gang: ``Soft`` or ``Hard``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request for one allocation.

    The resource manager chooses the `key`. It must be unique among all asks of this resource
    manager, also among those that have ended.
    """

    key: str
    application_id: str
    resources: Mapping[str, int]
    priority: int = 0
    """An ask with a higher number comes first."""
    # All asks without tags share one empty mapping, as there may be a million of them.
    tags: Mapping[str, str] = field(default_factory=lambda: _NO_TAGS)
    partition: str = DEFAULT_PARTITION
    originator: bool = False
    may_be_preempted: bool = False
    may_preempt: bool = False
    placeholder: bool = False
    task_group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """An ask that runs on a node already, for instance since before a restart."""

    ask: Ask
    node_id: str


class Termination(Enum):
    """Why an allocation ends. The numbers are those of the wire."""

    STOPPED = 1
    TIMEOUT = 2
    PREEMPTED = 3
    REPLACED = 4
