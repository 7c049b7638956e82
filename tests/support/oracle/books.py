"""The oracle's books: flat records in dictionaries, with no running totals at all.

Whatever is a sum is added up from the records each time it is wanted, so that it cannot be wrong.
"""

from dataclasses import dataclass, field

Amounts = dict[str, int]


def total(sizes: list[Amounts]) -> Amounts:
    """The sum of the amounts, by name."""
    result: Amounts = {}
    for size in sizes:
        for name, value in size.items():
            result[name] = result.get(name, 0) + value
    return result


@dataclass
class AskRecord:
    """A pending ask."""

    key: str
    size: Amounts
    priority: int
    created: float
    arrival: int
    required_node: str | None


@dataclass
class AllocationRecord:
    """An allocation: the ask as it was, and its node."""

    ask: AskRecord
    node_id: str


@dataclass
class AppRecord:
    """An application with what it asks for and what it has."""

    app_id: str
    queue: str
    submitted: float
    state: str = "New"
    completes_at: float | None = None
    arrivals: int = 0
    asks: dict[str, AskRecord] = field(default_factory=dict)
    allocations: dict[str, AllocationRecord] = field(default_factory=dict)

    def allocated(self) -> Amounts:
        """What the application has."""
        return total([allocation.ask.size for allocation in self.allocations.values()])

    def pending(self) -> Amounts:
        """What the application waits for."""
        return total([ask.size for ask in self.asks.values()])

    def priority(self) -> int:
        """The highest priority it waits with; only for an application with asks."""
        return max(ask.priority for ask in self.asks.values())


@dataclass
class NodeRecord:
    """A node and what other schedulers run on it; our allocations stand with the applications."""

    node_id: str
    capacity: Amounts
    schedulable: bool
    foreign: dict[str, Amounts] = field(default_factory=dict)

    def free(self) -> Amounts:
        """What is left beside foreign allocations."""
        taken = total(list(self.foreign.values()))
        return total([self.capacity, {name: -value for name, value in taken.items()}])


@dataclass
class QueueRecord:
    """A queue with the settings that its configuration gives it."""

    path: str
    is_leaf: bool
    managed: bool = True
    draining: bool = False
    guaranteed: Amounts = field(default_factory=dict)
    max: Amounts = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    template: "QueueRecord | None" = None

    @property
    def parent(self) -> str:
        """The parent's path, empty for root."""
        return self.path.rpartition(".")[0]

    @property
    def fair_apps(self) -> bool:
        """Whether applications share fairly; anything else is first in, first out."""
        return self.properties.get("application.sort.policy") == "fair"

    @property
    def priority_first(self) -> bool:
        """Whether priority goes before fairness and time."""
        return self.properties.get("application.sort.priority", "enabled").lower() != "disabled"

    def priority_seen_outside(self, inside: int | None) -> int | None:
        """What the parent takes for this queue's priority, None when nothing waits in it."""
        if inside is None or inside == -(2**31):
            return inside
        offset = int(self.properties.get("priority.offset", "0"))
        if self.properties.get("priority.policy") == "fence":
            return offset
        return max(-(2**31), min(2**31 - 1, inside + offset))


def lineage(path: str) -> list[str]:
    """The queue's path and those of its ancestors, root last."""
    parts = path.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
