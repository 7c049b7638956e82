"""Items of an RM, as small values that are readable in a failing script, and as messages of `si.v1`.

`fault` is part of the reason for which the item must be rejected in any state, empty for a valid item.
Configurations are valid or invalid.
"""

from typing import NamedTuple

from licorne.si.v1 import si_pb2 as si
from licorne.si.v1.si_pb2 import NodeInfo
from licorne_core.values.resources import INT64_MAX
from support.core.builders import config

Amounts = tuple[tuple[str, int], ...]
"""Amounts by name, sorted, without zeros."""

DEFAULT, SECOND = "default", "gpu"
"""The possible partitions."""

CREATES = ("CREATE", "CREATE_DRAIN")
NO_ACTION = "UNKNOWN_ACTION_FROM_RM"
HUGE = INT64_MAX


def amounts(resources: dict[str, int]) -> Amounts:
    """Amounts that are not zero, sorted by name."""
    return tuple(sorted((name, value) for name, value in resources.items() if value))


def home(name: str) -> str:
    """The partition of an application or a node, by its name."""
    return SECOND if name.startswith("g") else DEFAULT


def resource(size: Amounts) -> si.Resource:
    """Amounts as a message."""
    return si.Resource(resources={name: si.Quantity(value=value) for name, value in size})


def shown(size: Amounts) -> str:
    """``vcore=2 memory=1``."""
    return " ".join(f"{name}={value}" for name, value in size) or "nothing"


BAD_PARTITIONS = ("[other]default", "nowhere")
"""A partition of another RM, and one that does not exist."""


class NodeItem(NamedTuple):
    """A node to add, change or remove; with `size` None the message has no capacity."""

    node_id: str
    action: str
    size: Amounts | None
    partition: str

    @property
    def creates(self) -> bool:
        """True if the item adds a node."""
        return self.action in CREATES

    @property
    def is_answered(self) -> bool:
        """True if there is an answer: for new nodes, and for invalid items."""
        return self.creates or not self.node_id or self.action == NO_ACTION

    @property
    def fault(self) -> str:
        """Part of the reason of the rejection, or empty."""
        if not self.node_id:
            return "nodeID is empty"
        if self.action == NO_ACTION:
            return "unknown action 0"
        if self.partition in BAD_PARTITIONS:
            return "failed to find partition"
        if any(value < 0 for _, value in self.size or ()):
            return "has a negative capacity"
        return ""

    def message(self) -> si.NodeInfo:
        """The message to send."""
        return si.NodeInfo(
            nodeID=self.node_id,
            action=NodeInfo.ActionFromRM.Value(self.action),
            attributes={"si/node-partition": self.partition} if self.partition else {},
            schedulableResource=None if self.size is None else resource(self.size),
        )

    def __repr__(self) -> str:
        """``CREATE n1 vcore=4 in gpu``."""
        size = "" if self.size is None else f" {shown(self.size)}"
        return f"{self.action} {self.node_id!r}{size}{_in(self.partition)}"


class AppItem(NamedTuple):
    """An application to add."""

    app_id: str
    queue: str = "root.a"
    partition: str = ""
    user: str = "ann"
    forced: bool = False
    gang: int = 0
    """The vcore of the placeholders of a gang."""

    @property
    def fault(self) -> str:
        """Part of the reason of the rejection, or empty."""
        if not self.app_id:
            return "applicationID is empty"
        if self.partition in BAD_PARTITIONS:
            return "Failed to add application"
        if not self.user and not self.forced:
            return "empty user cannot resolve"
        return ""

    def message(self) -> si.AddApplicationRequest:
        """The message to send."""
        return si.AddApplicationRequest(
            applicationID=self.app_id,
            queueName=self.queue,
            partitionName=self.partition,
            ugi=si.UserGroupInformation(user=self.user, groups=["dev"]),
            tags={"application.create.force": "true"} if self.forced else {},
            placeholderAsk=resource((("vcore", self.gang),)) if self.gang else None,
        )

    def __repr__(self) -> str:
        """``+a0 (root.a, ann)``."""
        marks = f"{', forced' if self.forced else ''}{f', gang {self.gang}' if self.gang else ''}"
        return f"+{self.app_id!r} ({self.queue}, {self.user!r}{marks}){_in(self.partition)}"


class RemovalItem(NamedTuple):
    """An application to remove."""

    app_id: str
    partition: str = ""

    def message(self) -> si.RemoveApplicationRequest:
        """As it is sent."""
        return si.RemoveApplicationRequest(applicationID=self.app_id, partitionName=self.partition)

    def __repr__(self) -> str:
        """``-a0``."""
        return f"-{self.app_id!r}{_in(self.partition)}"


class AskItem(NamedTuple):
    """An ask, or with a node an allocation; a `foreign` allocation needs no application."""

    key: str
    app_id: str
    size: Amounts
    node_id: str = ""
    priority: int = 0
    required: str = ""
    partition: str = ""
    foreign: bool = False
    placeholder: bool = False
    group: str = "group"
    """The task group of a placeholder."""

    @property
    def fault(self) -> str:
        """Part of the reason of the rejection, or empty."""
        if not self.key:
            return "allocationKey is empty"
        if not self.app_id and not self.foreign:
            return "applicationID is empty"
        if self.partition in BAD_PARTITIONS:
            return "Failed to find partition"
        if any(value < 0 for _, value in self.size):
            return "allocation contains negative resources"
        if not self.size:
            return "allocation contains no resources"
        if self.placeholder and not self.group:
            return f"allocation {self.key} is a placeholder without a task group name"
        if self.foreign and not self.node_id:
            return "trying to add a foreign request (non-allocation)"
        return ""

    @property
    def huge(self) -> bool:
        """True if a total may overflow because of the item."""
        return any(value > HUGE // 4 for _, value in self.size)

    def message(self) -> si.Allocation:
        """The message to send."""
        tags = {"foreign": "static"} if self.foreign else {}
        if self.required:
            tags["yunikorn.apache.org/requiredNode"] = self.required
        return si.Allocation(
            allocationKey=self.key,
            applicationID=self.app_id,
            allocationTags=tags,
            resourcePerAlloc=resource(self.size),
            priority=self.priority,
            nodeID=self.node_id,
            partitionName=self.partition,
            placeholder=self.placeholder,
            taskGroupName=self.group if self.placeholder else "",
        )

    def __repr__(self) -> str:
        """``k0@a1 vcore=2 on n1``."""
        marks = f" on {self.node_id}" if self.node_id else ""
        marks += f" priority {self.priority}" if self.priority else ""
        marks += f" requires {self.required}" if self.required else ""
        marks += " foreign" if self.foreign else ""
        marks += f" placeholder of {self.group!r}" if self.placeholder else ""
        return f"{self.key!r}@{self.app_id!r} {shown(self.size)}{marks}{_in(self.partition)}"


class ReleaseItem(NamedTuple):
    """A release by the RM; without a key it releases the whole application."""

    key: str
    app_id: str
    why: int = si.STOPPED_BY_RM
    partition: str = ""

    @property
    def fault(self) -> str:
        """Part of the reason of the rejection, or empty."""
        known = self.why in si.TerminationType.values()
        return "" if known else f"unknown termination type {self.why}"

    def message(self) -> si.AllocationRelease:
        """The message to send."""
        return si.AllocationRelease(
            allocationKey=self.key,
            applicationID=self.app_id,
            terminationType=self.why,  # type: ignore[arg-type]
            partitionName=self.partition,
        )

    def __repr__(self) -> str:
        """``free k0@a1 STOPPED_BY_RM``."""
        known = self.why in si.TerminationType.values()
        why = si.TerminationType.Name(self.why) if known else self.why  # type: ignore[arg-type]
        return f"free {self.key!r}@{self.app_id!r} {why}{_in(self.partition)}"


def is_removal(item: object) -> bool:
    """True for an item that removes something: in a message such items are last."""
    return isinstance(item, RemovalItem | ReleaseItem)


def _in(partition: str) -> str:
    return f" in {partition}" if partition else ""


class Config(NamedTuple):
    """A configuration; an invalid one has no partitions."""

    name: str
    text: str
    partitions: frozenset[str] = frozenset({DEFAULT})

    def __repr__(self) -> str:
        """The name of the configuration, because its text is long."""
        return self.name


class InForce:
    """The configuration in force of an RM: an applied one remains, unless the RM registers with a new one."""

    applied: Config | None

    def __init__(self) -> None:
        """Start without an applied or a sent configuration."""
        self.applied = None
        self._said: Config | None = None

    def registered(self, config: Config) -> Config:
        """The RM has registered with this configuration; return the one in force now."""
        if config not in (self._said, self.applied):
            self.applied = None
        self._said = config
        return self.applied or config


_A = "{name: a, resources: {guaranteed: {vcore: 2m}, max: {vcore: 6m}}}"
_B = "{name: b, properties: {application.sort.policy: fair}}"
_P = "{name: p, queues: [{name: x, properties: {application.sort.policy: stateaware}}, {name: y}]}"
_CREATES = "placementrules: [{name: provided, create: true}]"
_LIMITS = "limits: [{limit: each, users: ['*'], maxresources: {vcore: 4m}}]"
_PLAIN = config(f"[{_A}, {_B}, {_P}]")
_SECOND = config("[{name: a}]", name=SECOND).partition("\n")[2]

GOOD = (
    Config("plain", _PLAIN),
    Config(
        "tight",
        config(
            "[{name: a, resources: {max: {vcore: 3m}}, maxapplications: 1}, {name: p, queues: [{name: x}]}]",
            rest=f"{_CREATES}\nnodesortpolicy: binpacking",
        ),
    ),
    Config(
        "limited",
        config(
            f"[{_A}, {_B}, {_P}]",
            rest=f"{_CREATES}\n{_LIMITS}",
        ),
    ),
    Config("two partitions", _PLAIN + _SECOND, frozenset({DEFAULT, SECOND})),
    Config("p is a leaf", config(f"[{_A}, {_B}, {{name: p}}]")),
    Config("a is a parent", config(f"[{{name: a, queues: [{{name: x}}]}}, {_B}]")),
)
"""Valid configurations. The first is that of a new RM. The last is refused while a has applications."""

BAD = (
    Config("no YAML", "partitions: ["),
    Config("unknown key", _PLAIN + "color: red\n"),
    Config(
        "more guaranteed than there may be",
        config("[{name: a, resources: {guaranteed: {vcore: 2}, max: {vcore: 1}}}]"),
    ),
    Config("duplicate queue", config("[{name: a}, {name: A}]")),
    Config(
        "bad second partition",
        _PLAIN + config("[{name: a, parent: 3}]", name=SECOND).partition("\n")[2],
    ),
    Config("broken rules", config("[{name: a}]", rest="placementrules: [{name: unheard_of}]")),
)
