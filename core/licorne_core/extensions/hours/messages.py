"""Budgets of resource-hours: their limits and codes, and what outlives a partition."""

from typing import Final, NamedTuple

from licorne_core.values.resources import MEMORY, VCORE, in_units
from licorne_core.values.windows import HOUR, Window

BUDGET_EXHAUSTED: Final = "BUDGET_EXHAUSTED"
BUDGET_AVAILABLE: Final = "BUDGET_AVAILABLE"
"""Event that ends BUDGET_EXHAUSTED."""


class HoursLimit(NamedTuple):
    """Resource-hours that a queue may use in each window."""

    resource: str
    amount: int
    """In amounts of the resource times hours."""
    window: Window


class KeptHours(NamedTuple):
    """Hours of one resource that a queue has used in a window."""

    time: int
    """Time of all that follows, in microseconds since 1970."""
    used: int
    """In amounts times microseconds, in the window of that time."""
    amount: int
    """What was in use."""
    window: Window
    """Kind of window; in one of another kind nothing of it is used."""


def hours_text(resource: str, hours: float) -> str:
    """Amounts times hours of a resource for people, in the units of a configuration."""
    if resource == VCORE:
        return f"{hours / 1000:.6g}"
    if resource == MEMORY:
        return in_units({resource: round(hours)}).partition("=")[2]
    return f"{hours:.6g}"


def microseconds_as_hours(used: int) -> float:
    """Amounts times microseconds as amounts times hours."""
    return used / (HOUR * 1_000_000)
