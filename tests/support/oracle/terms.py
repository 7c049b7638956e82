"""Records beside those of asks: limits, reservations, preemption requests, losses (spec §§ 8-10)."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

NO_ANSWER = "no answer in time"
"""What stands for the word of an RM that is silent."""


class PreemptionTerms(NamedTuple):
    """An ask's terms of preemption; `cost` is the cost of a second of its run."""

    others: bool
    itself: bool
    originator: bool
    cost: float


Likeness = tuple[str, object, int, tuple[str, str] | None]
"""Leaf, class and priority of an ask, and its name if it has a node reserved."""


class KeptRecord(NamedTuple):
    """Asks of one likeness found victims on reserved nodes only, at this number of released nodes."""

    since: int
    until: float


@dataclass(eq=False)
class ReservationRecord:
    """A node is kept for an ask, since a time in unix seconds.

    `promised`: `victims` were asked to stop for it, so its queues keep so much for it too (§ 9.4).
    That stays its own when the node is not any more, and is None. `serial` counts reservations,
    `idle_since` is when a review first found that the ask could not have the node anyway, and
    `gives_way` whether the last one found that others have a better claim. The victims are there to clear
    the node `cleared`. A `provisional` one was made in a full cluster, and keeps no victims from others.
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
        """True if a victim was asked to stop."""
        return any(one.state != "noticed" for one in self.victims)


@dataclass
class LimitRecord:
    """The maximum of the named users, and of the named groups; `max` None for no bound."""

    users: list[str]
    groups: list[str]
    max: dict[str, int] | None
    max_apps: int


@dataclass(eq=False)
class WishRecord:
    """Asks of one kind want victims: not before `paused_until`, nor while the RM is `asked`.

    `refused` are the nodes that the RM does not want them on, whoever goes. `waits_for`: until
    `waits_until` asks of that likeness wait for nodes that are kept for others. Before `plans_from` no
    start is planned for them, and a node may be reserved.
    """

    paused_until: float = 0.0
    asked: bool = False
    refused: list[str] = field(default_factory=list)
    waits_for: "Likeness | None" = None
    waits_until: float = 0.0
    plans_from: float = 0.0


@dataclass(eq=False)
class VainRecord:
    """Nodes, in their state when the RM refused them to asks of a kind after victims had ended there.

    Before `until` the kind does not preempt.
    """

    nodes: list[tuple[Any, int]] = field(default_factory=list)
    until: float = 0.0


class LossRecord(NamedTuple):
    """A leaf's loss to preemption at a time in unix seconds: amounts, times seconds run."""

    leaf: str
    time: float
    size: dict[str, int]
    seconds: float


@dataclass
class PreemptionRecord:
    """What a partition knows of preemption: `searches` counts those of this turn by leaf.

    `asked`: the RM has a say before anybody is stopped. `judged`: it says which victims have to
    go, and otherwise what it thinks of the nodes. `given_up` counts the nodes that are reserved no
    more, and `kept` has who waits for that.
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
    """An operator cordons a node, and with `drains` has its allocations stopped.

    Without a `deadline` nothing is stopped. `count` is their number at the `start`, in unix seconds.
    """

    drains: bool = False
    start: float = 0.0
    deadline: float | None = None
    count: int = 0


class NodeOrder(NamedTuple):
    """A node sort policy: its type, the weights by name, and the attribute of spread.

    Where it packs, `groupings` are lists of attributes that nodes of a group have in common, and `types`
    those by which groups are full.
    """

    kind: str
    weights: list[tuple[str, float]]
    attribute: str
    groupings: tuple[tuple[str, ...], ...] = ()
    types: tuple[str, ...] = ()
