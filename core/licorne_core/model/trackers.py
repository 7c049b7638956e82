"""Usage of one user, or of all members of one group, in one queue and below (spec § 10.1).

Also here:

* Totals of the applications of one partition, counted on every change.
"""

from typing import Protocol

from licorne_core.model.quotas import Quota
from licorne_core.values.asks import Shape
from licorne_core.values.ids import AppId, QueuePath
from licorne_core.values.resources import Resources


class Member(Protocol):
    """An application, as far as its usage goes."""

    allocated: dict[str, int]
    """Booked amounts without its placeholders, by resource name."""
    placeholder_allocated: dict[str, int]
    """Booked amounts of its placeholders, by resource name."""


class Tracker(Quota):
    """Usage and limit of one name at one level; `max` None and `max_applications` 0: no limit.

    Nothing is booked where nothing is limited, as most are not: then `allocated` is empty. `usage`
    is right everywhere.
    """

    __slots__ = ("applications", "members")

    def __init__(self, kind: str, name: str, path: QueuePath) -> None:
        """Start without usage and without a limit; `kind` is ``user`` or ``group``."""
        # A type that a limit does not name is not limited.
        super().__init__(kind, name, path, strict=False)
        self.applications: dict[AppId, None] = {}
        self.members: dict[AppId, Member] = {}

    def __repr__(self) -> str:
        """``<Tracker user ann in root.a: {'vcore': 5} of {'vcore': 10}, 1 running>``."""
        return (
            f"<Tracker {self.kind} {self.name} in {self.path}: {self.usage} of {self.max}, "
            f"{len(self.applications)} running>"
        )

    @property
    def bounds(self) -> bool:
        """True if it has any limit. Its applications have it among their quotas then."""
        return self.max is not None or self.max_applications > 0

    @property
    def usage(self) -> Resources:
        """Usage of its members, by resource name."""
        total: dict[str, int] = {}
        for member in self.members.values():
            for booked in (member.allocated, member.placeholder_allocated):
                for name, value in booked.items():
                    total[name] = total.get(name, 0) + value
        return total

    @property
    def started_applications(self) -> int:
        """Applications with at least one allocation (spec § 10.5)."""
        return len(self.applications)

    def counts(self, app_id: AppId) -> bool:
        """True if the application is one of them."""
        return app_id in self.applications


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
