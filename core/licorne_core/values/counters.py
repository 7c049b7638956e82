"""Plain numbers that only grow, one set for each partition; metrics read them on scrape."""

from dataclasses import dataclass


@dataclass(slots=True)
class QueueCounters:
    """Counters of a leaf since its creation."""

    allocations_made: int = 0
    allocations_released: int = 0
    applications_completed: int = 0
    applications_failed: int = 0
    applications_rejected: int = 0
    """Applications that named it, and were taken nowhere."""


@dataclass(slots=True)
class Counters:
    """Counters of a partition since its registration."""

    allocations_made: int = 0
    allocations_recovered: int = 0
    allocations_rejected: int = 0
    rejection_time: float = 0.0
    """Time at which an ask or allocation was rejected last, in unix seconds; 0 for never."""
    allocations_released: int = 0
    allocations_failed_on_rm: int = 0
    """Allocations that the RM failed to run, and whose asks wait again."""
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
    """Placeholders that ended in another way, or are stopping."""
    reservations_made: int = 0
    """Nodes reserved for asks that found none, or that require them."""
    reservations_idle: int = 0
    """Of these, given up as a maximum or a limit stopped the ask for too long."""
    reservations_yielded: int = 0
    """Of these, given up for an ask within its queue's guarantee."""
    checks_overdue: int = 0
    """Predicate checks that the RM did not answer in time."""
    work: int = 0
    """Work of passes: items tried and other costs, in tries."""
    search_work: int = 0
    """Part of that for victim searches, in tries."""
