"""Budgets of resource-hours: their limits and codes, and retained usage."""

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
    """Amounts of the resource times hours."""
    window: Window


class KeptHours(NamedTuple):
    """Hours of one resource that a queue has used in a window, as retained."""

    time: int
    """Time of the following fields, in microseconds of unix time."""
    used: int
    """Amounts times microseconds, in the window that contains that time."""
    amount: int
    """Amount in use at that time."""
    window: Window
    """Kind of window; the usage does not count in a window of another kind."""


def hours_text(resource: str, hours: float) -> str:
    """Text of amounts times hours of a resource for people, in the units of a configuration."""
    if resource == VCORE:
        return f"{hours / 1000:.6g}"
    if resource == MEMORY:
        return in_units({resource: round(hours)}).partition("=")[2]
    return f"{hours:.6g}"


def microseconds_as_hours(used: int) -> float:
    """Convert amounts times microseconds to amounts times hours."""
    return used / (HOUR * 1_000_000)
