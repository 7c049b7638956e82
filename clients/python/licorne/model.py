"""What a resource manager tells the scheduler. Amounts are bytes, milli-cores or counts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

DEFAULT_PARTITION = "default"
_NO_TAGS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A machine. `drained` nodes are known, but nothing new is placed on them."""

    node_id: str
    capacity: Mapping[str, int]
    attributes: Mapping[str, str] = field(default_factory=dict)
    partition: str = DEFAULT_PARTITION
    drained: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A group of asks with an owner. The placement rules of the server pick its queue.

    `placeholder_resources`, `placeholder_timeout` (in milliseconds, 0 for the server's default)
    and `gang_style` ("Soft" or "Hard") are for applications that are scheduled as a gang.
    """

    application_id: str
    queue: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    partition: str = DEFAULT_PARTITION
    placeholder_resources: Mapping[str, int] = field(default_factory=dict)
    placeholder_timeout: int = 0
    gang_style: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request for one allocation.

    `key` is the resource manager's own: unique among all its asks, and not to be used again
    once released. A higher `priority` comes first.
    """

    key: str
    application_id: str
    resources: Mapping[str, int]
    priority: int = 0
    # One empty mapping for all: there may be a million asks.
    tags: Mapping[str, str] = field(default_factory=lambda: _NO_TAGS)
    partition: str = DEFAULT_PARTITION
    originator: bool = False
    may_be_preempted: bool = False
    may_preempt: bool = False
    placeholder: bool = False
    task_group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """An ask that has its node: what runs already when the resource manager starts."""

    ask: Ask
    node_id: str


class Termination(Enum):
    """Why an allocation ends; the numbers are those of the wire."""

    STOPPED = 1
    TIMEOUT = 2
    PREEMPTED = 3
    REPLACED = 4
