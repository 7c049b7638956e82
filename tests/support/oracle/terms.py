"""Records besides asks: limits, reservations, preemption requests, losses (spec §§ 8-10)."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

NO_ANSWER = "no answer in time"
"""The result that stands for a missing answer of the RM."""


class PreemptionTerms(NamedTuple):
    """An ask's terms of preemption; `cost` is the cost of a second of its run."""

    others: bool
    itself: bool
    originator: bool
    cost: float


Likeness = tuple[str, object, int, tuple[str, str] | None]
"""Leaf, class and priority of an ask, and its name if it has a node reserved."""


class KeptRecord(NamedTuple):
    """Asks of one likeness found victims on reserved nodes only, when `since` nodes had been released."""

    since: int
    until: float


@dataclass(eq=False)
class ReservationRecord:
    """A node reserved for an ask, since a time in Unix seconds.

    `victims` were requested to stop for it, so `promised` amounts are reserved in its queues as well (§ 9.4);
    the promise outlives the reserved node, which is None then. `serial` counts reservations, `idle_since` is
    the time of the first review that found it unusable, `gives_way` is True if the last review found a better
    claim. The victims end to clear the node `cleared`. A `provisional` reservation was made in a full
    cluster; its victims may also be used by others.
    """

    node_id: str | None
    since: float
    promised: dict[str, int] = field(default_factory=dict)
    victims: list[Any] = field(default_factory=list)
    exclusive: bool = False
    serial: int = 0
    idle_since: float | None = None
    gives_way: bool = False
    provisional: bool = False
    cleared: str | None = None

    @property
    def has_stopped(self) -> bool:
        """True if a victim was requested to stop."""
        return any(one.state != "noticed" for one in self.victims)


@dataclass
class LimitRecord:
    """The maximum of the named users, and of the named groups; `max` is None without a bound."""

    users: list[str]
    groups: list[str]
    max: dict[str, int] | None
    max_apps: int


@dataclass(eq=False)
class WishRecord:
    """A search for victims by asks of one kind, not before `paused_until`, nor while the RM is `asked`.

    `refused` are nodes that the RM refuses whatever victims end, with the priority of the ask. Until
    `waits_until` asks of the likeness `waits_for` wait for nodes reserved for others. Asks above the
    `priority` of the failed search neither pause nor wait. Before `plans_from` no start is planned for
    them, and a node may be reserved.
    """

    paused_until: float = 0.0
    asked: bool = False
    priority: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    waits_for: "Likeness | None" = None
    waits_until: float = 0.0
    plans_from: float = 0.0

    def fails(self, priority: int, paused_until: float = 0.0) -> None:
        """Note a search in vain for an ask of this priority, which pauses."""
        self.priority, self.paused_until, self.waits_for = priority, paused_until, None
        self.refused.clear()

    def pauses(self, priority: int, now: float) -> bool:
        """True if no victims are searched for such an ask now."""
        return self.asked or (priority <= self.priority and now < self.paused_until)

    def waits(self, priority: int, now: float) -> "Likeness | None":
        """The likeness with which such an ask waits."""
        return self.waits_for if priority <= self.priority and now < self.waits_until else None


@dataclass(eq=False)
class VainRecord:
    """Nodes, with their versions when the RM refused them to asks of a kind after victims had ended there.

    The kind does not preempt before `until`.
    """

    nodes: list[tuple[Any, int]] = field(default_factory=list)
    until: float = 0.0


class LossRecord(NamedTuple):
    """A leaf's loss to preemption at a time in Unix seconds: amounts times the seconds run."""

    leaf: str
    time: float
    size: dict[str, int]
    seconds: float


@dataclass
class PreemptionRecord:
    """A partition's state of preemption: `searches` counts the searches of this turn by leaf.

    `asked`: the RM is asked before victims are stopped. `judged`: the RM chooses the victims; otherwise it
    judges nodes only. `given_up` counts released reservations, and `kept` has the asks that wait for one.
    """

    enabled: bool
    asked: bool
    judged: bool
    searches: dict[str, int] = field(default_factory=dict)
    losses: list[LossRecord] = field(default_factory=list)
    given_up: int = 0
    kept: dict[Likeness, KeptRecord] = field(default_factory=dict)


@dataclass(frozen=True)
class CordonRecord:
    """An operator's cordon of a node, which stops its allocations with `drains`.

    Without a `deadline` nothing is stopped. `count` is their number at `start`, in Unix seconds.
    """

    drains: bool = False
    start: float = 0.0
    deadline: float | None = None
    count: int = 0


class NodeOrder(NamedTuple):
    """A node sort policy: its type, the weights by name, and the attribute over which it spreads.

    For a packing policy, `groupings` are lists of attributes shared by the nodes of a group, and `types` are
    the resource types whose usage makes a group full.
    """

    kind: str
    weights: list[tuple[str, float]]
    attribute: str
    groupings: tuple[tuple[str, ...], ...] = ()
    types: tuple[str, ...] = ()
