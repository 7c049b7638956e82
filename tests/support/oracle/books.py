"""The oracle's books: flat records in dictionaries, with no running totals at all.

Whatever is a sum is added up from the records each time it is wanted, so that it cannot be wrong.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

Amounts = dict[str, int]


def total(sizes: Iterable[Amounts]) -> Amounts:
    """The sum of the amounts, by name."""
    result: Amounts = {}
    for size in sizes:
        add_to(result, size)
    return result


def add_to(sum_so_far: Amounts, size: Amounts) -> None:
    """Add the amounts to a sum in its place."""
    for name, value in size.items():
        sum_so_far[name] = sum_so_far.get(name, 0) + value


AskClass = tuple[tuple[tuple[str, int], ...], str | None, str | None]
"""Amounts, required node and predicate."""


@dataclass(eq=False)
class ReservationRecord:
    """A node is kept for an ask, since a time in unix seconds."""

    node_id: str
    since: float


@dataclass
class AskRecord:
    """A pending ask. `told`: the RM knows that no node takes it.

    `attempted`: one of its class was looked at, and was within its user's quota.
    """

    key: str
    size: Amounts
    priority: int
    created: float
    arrival: int
    required_node: str | None
    predicate: str | None
    reservation: ReservationRecord | None = None
    told: bool = False
    attempted: bool = False

    @property
    def ask_class(self) -> AskClass:
        """What it shares with asks that fit alike, and of which the RM thinks alike."""
        return (tuple(sorted(self.size.items())), self.required_node, self.predicate)

    @property
    def place(self) -> tuple[int, float, int]:
        """By what the asks of an application are ordered (spec § 5.3.2)."""
        return (-self.priority, self.created, self.arrival)


@dataclass
class AllocationRecord:
    """An allocation: the ask as it was, and its node. The RM is not told of one that is assumed.

    `number` says which of the core's decisions it was.
    """

    ask: AskRecord
    node_id: str
    assumed: bool = False
    number: int = 0


@dataclass
class AppRecord:
    """An application with what it asks for and what it has.

    `group` is the one that it counts for, decided when it came. Times are in unix seconds:
    `backs_off_until` is the end of a back-off, `starts_until` that of a start in a state-aware
    leaf. `nowhere` are the classes of asks that found no node when they were looked at last.
    """

    app_id: str
    queue: str
    submitted: float
    user: str
    groups: tuple[str, ...]
    tags: dict[str, str]
    group: str = ""
    state: str = "New"
    backs_off_until: float = 0.0
    starts_until: float | None = None
    arrivals: int = 0
    nowhere: set[AskClass] = field(default_factory=set)
    asks: dict[str, AskRecord] = field(default_factory=dict)
    allocations: dict[str, AllocationRecord] = field(default_factory=dict)

    def add(self, ask: AskRecord) -> None:
        """An ask is pending from now on; those of its class, assumed ones too, have one lot."""
        assumed = [self.allocations[key].ask for key in self.assumed_keys()]
        alike = [one for one in [*self.asks.values(), *assumed] if one.ask_class == ask.ask_class]
        if not (alike or ask.attempted):
            self.nowhere.discard(ask.ask_class)
        ask.attempted = ask.attempted or any(other.attempted for other in alike)
        self.asks[ask.key] = ask

    def asks_in_order(self) -> list[AskRecord]:
        """The pending asks as they are looked at."""
        return sorted(self.asks.values(), key=lambda ask: ask.place)

    def priority(self) -> int:
        """The highest priority it waits with; only for an application with asks."""
        return max(ask.priority for ask in self.asks.values())

    @property
    def allocating(self) -> bool:
        """Whether it is accepted and about to run (spec § 4.12)."""
        return self.state == "Accepted" and (
            bool(self.assumed_keys()) or any(ask.reservation for ask in self.asks.values())
        )

    def assumed_keys(self) -> list[str]:
        """The allocations that the RM has to agree to first."""
        return [key for key, allocation in self.allocations.items() if allocation.assumed]

    def trackers(self) -> list[tuple[str, str]]:
        """For whom it counts: its user, and its group if it has one."""
        return [("user", self.user), *([("group", self.group)] if self.group else [])]


@dataclass(eq=False)
class NodeRecord:
    """A node and what other schedulers run on it; our allocations stand with the applications.

    `told` differs after every change that the RM knows of; till then `results` hold, empty for
    «accepted», of asks of a class that are to be allocated, or (False) to have it reserved.
    """

    node_id: str
    capacity: Amounts
    schedulable: bool
    attributes: dict[str, str] = field(default_factory=dict)
    foreign: dict[str, Amounts] = field(default_factory=dict)
    told: int = 0
    narrowed: int = 0
    results: dict[tuple[AskClass, bool], str] = field(default_factory=dict)

    def changed(self, *, narrowed: bool = True) -> None:
        """The RM changed something here; not `narrowed` if something merely went."""
        self.told += 1
        self.narrowed += narrowed
        self.results.clear()

    def holds(self, size: Amounts) -> bool:
        """Whether the amounts would fit if nothing else were there."""
        return all(wanted <= self.capacity.get(name, 0) for name, wanted in size.items())

    def free(self) -> Amounts:
        """What is left beside foreign allocations."""
        left = dict(self.capacity)
        for size in self.foreign.values():
            add_to(left, {name: -value for name, value in size.items()})
        return left


class NodeOrder(NamedTuple):
    """A node sort policy: its type, the weights by name, and what it spreads over, if it does."""

    kind: str
    weights: list[tuple[str, float]]
    attribute: str


@dataclass
class LimitRecord:
    """What the named users, and the named groups, may have; `max` None for any amount."""

    users: list[str]
    groups: list[str]
    max: Amounts | None
    max_apps: int


@dataclass
class QueueRecord:
    """A queue with the settings that its configuration gives it.

    `brought` are the sizes that applications brought for a dynamic leaf, `template` those of a
    parent for the dynamic leaves below it.
    """

    path: str
    is_leaf: bool
    managed: bool = True
    draining: bool = False
    guaranteed: Amounts = field(default_factory=dict)
    max: Amounts = field(default_factory=dict)
    max_apps: int = 0
    limits: list[LimitRecord] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    template: "QueueRecord | None" = None
    brought: "QueueRecord | None" = None

    @property
    def parent(self) -> str:
        """The parent's path, empty for root."""
        return self.path.rpartition(".")[0]

    @property
    def removable(self) -> bool:
        """Whether the queue goes once nothing is in it (spec § 4.3)."""
        return self.path != "root" and (self.draining or not self.managed)

    @property
    def app_order(self) -> str:
        """How applications are ordered: fifo, fair or stateaware."""
        return self.properties.get("application.sort.policy", "fifo")

    @property
    def priority_first(self) -> bool:
        """Whether priority goes before fairness and time."""
        return self.properties.get("application.sort.priority", "enabled").lower() != "disabled"

    @property
    def backoff(self) -> int:
        """Asks without a node after which an application backs off, 0 for never."""
        return int(self.properties.get("application.unschedasks.backoff", "0"))

    @property
    def backoff_delay(self) -> float:
        """For how long it backs off, in seconds."""
        written = self.properties.get("application.unschedasks.backoff.delay", "30s")
        return float(written.removesuffix("s"))

    def priority_seen_outside(self, inside: int | None) -> int | None:
        """What the parent takes for this queue's priority, None when nothing waits in it."""
        if inside is None or inside == -(2**31):
            return inside
        offset = int(self.properties.get("priority.offset", "0"))
        if self.properties.get("priority.policy") == "fence":
            return offset
        return max(-(2**31), min(2**31 - 1, inside + offset))


@cache
def lineage(path: str) -> tuple[str, ...]:
    """The queue's path and those of its ancestors, root last."""
    parts = path.split(".")
    return tuple(".".join(parts[:count]) for count in range(len(parts), 0, -1))
