"""Totals of the applications of one partition, counted on every change."""

from licorne_core.values.asks import Shape


class Tally:
    """Sums over applications, so that a report need not look at each of them."""

    __slots__ = ("allocations", "largest", "requests", "sizes", "states")

    def __init__(self) -> None:
        """Start without applications."""
        self.requests = 0
        """Requests of all applications: asks and allocations."""
        self.allocations = 0
        """Requests among them that are booked and that the RM knows to be."""
        self.largest = 0
        """The largest amount of any type that a request had since there was none: no total exceeds
        this times the number of requests."""
        self.sizes: dict[Shape, None] = {}
        """Sizes of some accepted asks, so that more of them need no check."""
        self.states: dict[str, int] = {}
        """Applications by state, those that are over and can still be seen among them."""

    def forget_sizes(self) -> None:
        """There are no requests, and there were none so far."""
        self.largest = 0
        self.sizes.clear()

    @property
    def asks(self) -> int:
        """Requests that the RM knows as asks: pending, assumed, or about to replace another."""
        return self.requests - self.allocations

    def listed(self, state: str) -> None:
        """An application of that state can be seen from now on."""
        self.states[state] = self.states.get(state, 0) + 1

    def dropped(self, state: str) -> None:
        """Remove a `listed` application that has left, or has another state or place."""
        self.states[state] -= 1
        if not self.states[state]:
            del self.states[state]

    def moved(self, before: str, after: str) -> None:
        """An application has another state; one that is not listed counts in no report."""
        if before in self.states:
            self.dropped(before)
            self.listed(after)
