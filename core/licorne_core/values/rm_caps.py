"""Caps on the objects and the memory of one RM, and its current usage (reliability A7).

Additions beyond a cap are refused, with the cap and the value. Memory is estimated, not measured: the
estimate of an object includes its part of derived structures. In all comparisons it was between 0.75 and 3
times the memory used by Python. The estimate affects decisions, so it is the same on every machine.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from licorne_core.values.errors import Refusal, Rejected

ASK_BYTES = 1_000
"""Bytes of an ask or allocation with its request, and its entries in heaps and on its node."""

GROUP_BYTES = 3_000
"""Bytes of a group of asks with its class and its blocker."""

APPLICATION_BYTES = 5_000
"""Bytes of an application without its tags, asks and groups."""

NODE_BYTES = 3_000
"""Bytes of a node without its attributes and contents."""

QUEUE_BYTES = 8_000
"""Bytes of a queue with its configuration."""

ENTRY_BYTES = 200
"""Bytes of an entry of a mapping from text to text or number, without the characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RmCaps:
    """Caps of one RM, over all its partitions."""

    partitions: int = 1_000
    queues: int = 50_000
    """Configured and dynamic queues; above the cap, placement creates no more queues."""
    nodes: int = 100_000
    applications: int = 100_000
    asks: int = 1_000_000
    """Asks and allocations, including foreign allocations."""
    ended: int = 20_000
    """Maximum number of ended applications in reports; above it, the one that ended first is dropped."""
    memory: int = 4 * 1024**3
    """Estimated bytes of all objects."""
    ended_memory: int = 64 * 1024**2
    """Maximum estimated bytes of ended applications; above it, the one that ended first is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RmCounts:
    """Current usage of one RM; the fields have the same meaning as in `RmCaps`."""

    partitions: int
    queues: int
    nodes: int
    applications: int
    asks: int
    ended: int
    memory: int
    ended_memory: int


class MemoryShortage(IntEnum):
    """The requests that are refused because the process is short of memory."""

    NONE = 0
    NEW = 1
    """New RMs are refused, and so are new asks of RMs that use at least an equal share of memory."""
    ALL = 2
    """All additions of all RMs are refused. Existing objects are retained."""


class MemoryPressure:
    """Memory pressure of the process; one object shared by all RMs."""

    def __init__(self) -> None:
        """Start without a shortage."""
        self.shortage = MemoryShortage.NONE
        self.reason = ""
        """Message of the refusals."""
        self.share = 0
        """Equal share of each RM, in estimated bytes."""

    def set(self, shortage: MemoryShortage, reason: str, held: Collection[int]) -> None:
        """Set the pressure; `held` has the estimated bytes of each RM."""
        self.shortage = shortage
        self.reason = reason
        self.share = sum(held) // max(1, len(held))

    def refuses(self, memory: int, *, new: bool) -> bool:
        """True if an addition of an RM with `memory` estimated bytes is refused.

        `new` is True for an ask that does not run yet. With `NEW`, only RMs that use at least an equal share
        are refused, so that the usage of one RM does not cause refusals of other RMs.
        """
        if self.shortage is MemoryShortage.ALL:
            return True
        return self.shortage is MemoryShortage.NEW and new and memory >= self.share


class Holdings:
    """Current usage under one RM's caps. Callers check before additions, and report all changes."""

    def __init__(
        self, rm_id: str = "", caps: RmCaps | None = None, pressure: MemoryPressure | None = None
    ) -> None:
        """Start empty."""
        self.rm_id = rm_id
        self.caps = caps or RmCaps()
        self.pressure = pressure or MemoryPressure()
        self.queues = 0
        self.nodes = 0
        self.applications = 0
        self.asks = 0
        self.ended = 0
        self.memory = 0
        self.ended_memory = 0
        self.moved = 0
        """Sum of the footprints of asks added and removed since the last command or turn, in bytes."""

    def counts(self, partitions: int) -> RmCounts:
        """The usage for a report; `partitions` is the number of the RM's partitions."""
        return RmCounts(
            partitions=partitions,
            queues=self.queues,
            nodes=self.nodes,
            applications=self.applications,
            asks=self.asks,
            ended=self.ended,
            memory=self.memory,
            ended_memory=self.ended_memory,
        )

    # Checks, all of which raise Rejected.

    def check_ask(self, key: str, footprint: int, *, exists: bool) -> None:
        """Check that an ask or allocation may be added; `exists` is True if the RM runs it already."""
        if self.asks >= self.caps.asks:
            self._refuse(f"allocation {key}", self.asks, "asks and allocations", self.caps.asks)
        # Usually both conditions are False; then the text of the refusal is not composed.
        if self.pressure.shortage or self.memory + ASK_BYTES + footprint > self.caps.memory:
            self._check_memory(f"allocation {key}", ASK_BYTES + footprint, new=not exists)

    def check_growth(self, key: str, footprint: int) -> None:
        """Check that an ask or allocation may grow by `footprint` bytes."""
        if footprint > 0:
            self._check_memory(f"allocation {key}", footprint)

    def check_application(self, app_id: str, footprint: int) -> None:
        """Check that an application may be added."""
        if self.applications >= self.caps.applications:
            self._refuse(f"application {app_id}", self.applications, "applications", self.caps.applications)
        # `new` is not a parameter here, because an RM that replays reports applications before their
        # allocations.
        self._check_memory(f"application {app_id}", APPLICATION_BYTES + footprint)

    def check_node(self, node_id: str, footprint: int) -> None:
        """Check that a node may be added."""
        if self.nodes >= self.caps.nodes:
            self._refuse(f"node {node_id}", self.nodes, "nodes", self.caps.nodes)
        self._check_memory(f"node {node_id}", NODE_BYTES + footprint)

    def check_queues(self, path: str, count: int) -> None:
        """Check that `count` queues may be added; `path` is the path of the last queue."""
        if self.queues + count > self.caps.queues:
            self._refuse(f"queue {path}", self.queues, "queues", self.caps.queues)

    def _check_memory(self, what: str, more: int, *, new: bool = False) -> None:
        if self.pressure.shortage and self.pressure.refuses(self.memory, new=new):
            raise Rejected(f"{what} is refused: {self.pressure.reason}", Refusal.OUT_OF_MEMORY)
        if self.memory + more > self.caps.memory:
            raise Rejected(
                f"{what} is refused: RM {self.rm_id} takes about {self.memory} bytes of memory "
                f"and it needs {more} more, at most {self.caps.memory} are allowed",
                Refusal.TOO_MANY,
            )

    def _refuse(self, what: str, count: int, things: str, cap: int) -> None:
        raise Rejected(
            f"{what} is one too many: RM {self.rm_id} has {count} {things}, at most {cap} are allowed",
            Refusal.TOO_MANY,
        )

    # Additions and removals. Footprints are in bytes.

    def ask_added(self, footprint: int) -> None:
        """Count an added ask or allocation."""
        self.asks += 1
        self.memory += ASK_BYTES + footprint
        self.moved += footprint

    def ask_removed(self, footprint: int) -> None:
        """Count a removed ask or allocation."""
        self.asks -= 1
        self.memory -= ASK_BYTES + footprint
        self.moved += footprint

    def application_added(self, footprint: int) -> None:
        """Count an added application."""
        self.applications += 1
        self.memory += APPLICATION_BYTES + footprint

    def application_removed(self, footprint: int) -> None:
        """Count an application that has left its queue."""
        self.applications -= 1
        self.memory -= APPLICATION_BYTES + footprint

    def node_added(self, footprint: int) -> None:
        """Count an added node."""
        self.nodes += 1
        self.memory += NODE_BYTES + footprint

    def node_removed(self, footprint: int) -> None:
        """Count a removed node."""
        self.nodes -= 1
        self.memory -= NODE_BYTES + footprint

    def queues_changed(self, count: int) -> None:
        """Count added queues, or removed ones if `count` is negative."""
        self.queues += count
        self.memory += count * QUEUE_BYTES


def footprint_of(texts: Mapping[str, object]) -> int:
    """Estimated bytes of a mapping."""
    size = ENTRY_BYTES * len(texts)
    for key, value in texts.items():
        size += len(key) + (len(value) if isinstance(value, str) else 0)
    return size


def footprint_of_names(names: Iterable[str]) -> int:
    """Estimated bytes of names."""
    return sum(ENTRY_BYTES + len(name) for name in names)
