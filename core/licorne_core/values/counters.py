"""Counters that only rise, of partitions and leaves; metrics read them on scrape."""

from dataclasses import dataclass


@dataclass(slots=True)
class QueueCounters:
    """Counters of a leaf since its creation."""

    allocations_made: int = 0
    allocations_released: int = 0
    applications_completed: int = 0
    applications_failed: int = 0
    applications_rejected: int = 0
    """Applications that named the queue, and were rejected."""


@dataclass(slots=True)
class Counters:
    """Counters of a partition since its registration."""

    allocations_made: int = 0
    allocations_recovered: int = 0
    allocations_rejected: int = 0
    rejection_time: float = 0.0
    """Time of the last rejection of an ask or allocation, in unix seconds; 0 for never."""
    allocations_released: int = 0
    allocations_failed_on_rm: int = 0
    """Allocations that the RM failed to run; their asks are pending again."""
    applications_submitted: int = 0
    applications_accepted: int = 0
    applications_rejected: int = 0
    applications_completed: int = 0
    applications_failed: int = 0
    nodes_decommissioned: int = 0
    asks_received: int = 0
    asks_tried: int = 0
    turns: int = 0
    placeholders_replaced: int = 0
    """Placeholders replaced by real allocations."""
    placeholders_timed_out: int = 0
    """Placeholders that ended without replacement, or are stopping."""
    reservations_made: int = 0
    """Reservations of nodes, required ones included."""
    reservations_idle: int = 0
    """Reservations cancelled as a maximum or limit stopped their asks for too long."""
    reservations_yielded: int = 0
    """Reservations cancelled in favour of asks within their queue's guarantee."""
    checks_overdue: int = 0
    """Predicate checks that the RM did not answer in time."""
    work: int = 0
    """Work of passes, in tries of an item."""
    search_work: int = 0
    """Part of `work` for victim searches, in tries of an item."""
