"""Quotas: bounds of asks, by a queue's maximum or a limit of a user or group.

Queues and trackers have the same form for the scheduling pass: a maximum, allocated amounts, and a number of
applications that may run. `excess` gives the amounts beyond the maximum, and `first_exceeded` only
the first exceeded quota: no other code compares them. A tracker is the usage of one user, or of all
members of one group, in one queue and below (spec § 10.1).
"""

from collections.abc import Iterable
from typing import Any, Protocol

from licorne_core.messages.checks import ExtensionCheck
from licorne_core.messages.events.allocations import BoundTexts
from licorne_core.model.core import Core
from licorne_core.values.asks import Shape
from licorne_core.values.ids import AppId, PartitionName, QueuePath
from licorne_core.values.ranking import Ranking
from licorne_core.values.resources import EMPTY, Items, Resources


class Quota:
    """A bound on usage. A class, not a protocol: compiled, its fields are read directly."""

    __slots__ = (
        "allocated",
        "claims",
        "kind",
        "max",
        "max_applications",
        "name",
        "overhang",
        "path",
        "preempting",
        "promised",
        "strict",
        "withheld",
    )

    kind: str
    """``queue``, ``user`` or ``group``, or the kind of a `SharedQuota`."""
    name: str
    """Name of the queue, the user or the group."""
    path: QueuePath
    """The queue, or the queue in which the user or group has a limit."""
    allocated: dict[str, int]
    """Booked amounts, by resource name."""
    preempting: dict[str, int]
    """Booked amounts of victims, by resource name."""
    promised: dict[str, int]
    """Amounts of asks whose victims are being stopped, until the asks are placed (spec § 9.4)."""
    withheld: dict[str, int]
    """Amounts that asks have to leave free for promises now: the part that remaining victims do not cover."""
    overhang: Resources
    """Booked amounts that do not count against the maximum: those beyond the capacity of their nodes. Only
    root has any, as its maximum is the sum of all capacities (`model/nodes/book.py`)."""
    max: Resources | None
    """Maximum amounts that may be booked; None for no bound."""
    max_applications: int
    """Maximum number of applications that may run; 0 for no bound."""
    strict: bool
    """True if types that the maximum does not name are forbidden."""
    claims: dict[Any, Any]
    """Amounts that are held from a later time on, each a `HeldRoom`, by their claims (`model/claims.py`)."""

    def __init__(self, kind: str, name: str, path: QueuePath, *, strict: bool) -> None:
        """Start unbooked and unbounded."""
        self.kind = kind
        self.name = name
        self.path = path
        self.allocated = {}
        self.preempting = {}
        self.promised = {}
        self.withheld = {}
        self.overhang = EMPTY
        self.max = None
        self.max_applications = 0
        self.strict = strict
        self.claims = {}

    def bounding(self) -> "tuple[Quota, ...]":
        """The quotas whose maxima bound its usage: itself, and those that count all of its usage as well."""
        return (self,)

    @property
    def started_applications(self) -> int:
        """Applications that count against `max_applications`."""
        raise NotImplementedError

    def counts(self, app_id: AppId) -> bool:
        """True if the application is counted already, though it does not run yet."""
        raise NotImplementedError


def claimed(quota: Quota) -> Resources:
    """Unavailable amounts: booked amounts without the overhang, and amounts left free for promises.

    No other ask may use resources freed by preemption (spec § 9.4.8).
    """
    if not (quota.withheld or quota.overhang):
        return quota.allocated
    taken = dict(quota.allocated)
    for name, value in quota.withheld.items():
        taken[name] = taken.get(name, 0) + value
    for name, value in quota.overhang.items():
        taken[name] = taken.get(name, 0) - value
    return taken


def excess(quota: Quota, items: Items) -> Resources:
    """Amounts by which usage with these items exceeds the maximum; empty if they fit.

    A type that the maximum does not name is unlimited, except for root, whose maximum is the size of its
    nodes (spec §§ 4.5-4.7, 10.4).
    """
    limit = quota.max
    if limit is None:
        return EMPTY
    over: dict[str, int] | None = None
    allocated = claimed(quota)
    for name, value in items:
        bound = limit.get(name)
        if bound is None:
            if not quota.strict:
                continue
            bound = 0
        beyond = allocated.get(name, 0) + value - bound
        if beyond > 0:
            over = over or {}
            over[name] = beyond
    return EMPTY if over is None else over


def first_exceeded(quotas: Iterable[Quota], items: Items) -> Quota | None:
    """Return the first quota that `excess` finds exceeded; None if there is none.

    Every ask is compared with all its quotas, and the amounts are not needed.
    """
    for quota in quotas:
        limit = quota.max
        if limit is None:
            continue
        allocated = claimed(quota) if quota.withheld or quota.overhang else quota.allocated
        for name, value in items:
            bound = limit.get(name)
            if bound is None:
                if not quota.strict:
                    continue
                bound = 0
            if allocated.get(name, 0) + value > bound:
                return quota
    return None


def within_max(quota: Quota, items: Items) -> bool:
    """True if the amounts fit under the maximum."""
    return first_exceeded((quota,), items) is None


def left_of(quota: Quota, name: str) -> int | None:
    """Headroom of one type under the maximum, maybe below zero; None for no bound."""
    limit = quota.max
    if limit is None:
        return None
    bound = limit.get(name, 0 if quota.strict else None)
    return None if bound is None else bound - claimed(quota).get(name, 0)


def headroom(quota: Quota) -> dict[str, int]:
    """Headroom of each type that the maximum names, maybe below zero."""
    allocated = claimed(quota)
    limit = quota.max or EMPTY
    return {name: bound - allocated.get(name, 0) for name, bound in limit.items()}


def room_for(items: Items, quotas: Iterable[Quota]) -> Resources:
    """Headroom of the requested types below all maxima that apply to them; never negative."""
    room: dict[str, int] = {}
    for quota in quotas:
        for name, _ in items:
            left = left_of(quota, name)
            if left is not None:
                room[name] = min(max(0, left), room.get(name, left))
    return room


def may_run_one_more(quota: Quota) -> bool:
    """True if another application may start to run (spec §§ 4.12, 10.5)."""
    return not quota.max_applications or quota.started_applications < quota.max_applications


def may_start(quota: Quota, app_id: AppId) -> bool:
    """True if this application may start to run; always if it is counted already."""
    return may_run_one_more(quota) or quota.counts(app_id)


class Member(Protocol):
    """The fields of an application that trackers read."""

    allocated: dict[str, int]
    """Booked amounts without its placeholders, by resource name."""
    placeholder_allocated: dict[str, int]
    """Booked amounts of its placeholders, by resource name."""


class Tracker(Quota):
    """Usage and limit of one name at one level; `max` None and `max_applications` 0 mean no limit.

    Most trackers have no limit, and then nothing is booked: `allocated` is empty. `usage`
    is correct in either case.
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
        """True if it has a limit; only then is it among the quotas of its applications."""
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
        """True if the application has an allocation."""
        return app_id in self.applications


class Waiter(Protocol):
    """A pool (`scheduling/waiting/shortages.py`) whose asks wait for a shared quota, or for one below it."""

    thing: Quota
    waiting_lines: dict[Ranking[Any], Any]


class SharedQuota(Quota):
    """An additional quota of applications, which may include those of other partitions.

    Extensions assign them to applications (`app.further`). An ask may wait in one partition while usage ends
    in another. Running applications are not bounded.
    """

    __slots__ = ("above", "lack", "room", "waiters")

    room: BoundTexts
    """Texts of events for asks that exceed it."""
    lack: str
    """Reason for passing over asks that exceed it."""
    waiters: dict[Waiter, PartitionName]
    """The pools of asks that more room in this quota may let through, each with its partition."""
    above: tuple["SharedQuota", ...]
    """For a quota of one partition: the quotas that include its usage, and that of other partitions."""

    def __init__(self, kind: str, name: str, room: BoundTexts, lack: str) -> None:
        """Start unbooked and unbounded."""
        # A type that it does not name is not limited.
        super().__init__(kind, name, QueuePath(""), strict=False)
        self.room, self.lack = room, lack
        self.waiters = {}
        self.above = ()

    def bounding(self) -> tuple[Quota, ...]:
        """The quota, and those above it."""
        return (self, *self.above)

    @property
    def started_applications(self) -> int:
        """Always 0: there is no bound on the number of applications."""
        return 0

    def counts(self, app_id: AppId) -> bool:
        """Always False: it counts no applications."""
        return False

    def freed(self) -> None:
        """Note that the quota may have more room, for which asks of any partition may wait."""
        raise NotImplementedError

    def check(self, core: Core, requested: Resources, short: Resources) -> ExtensionCheck:
        """The check of an ask that lacks `short` here; only for a quota with a maximum."""
        raise NotImplementedError


def note_freed(quotas: Iterable[SharedQuota]) -> None:
    """Note that shared quotas may have more room."""
    for quota in quotas:
        if quota.waiters:
            quota.freed()


class ApplicationTotals:
    """Sums over the applications of a partition, so that a report need not visit each of them."""

    def __init__(self) -> None:
        """Start without applications."""
        self.requests = 0
        """Requests of all applications: asks and allocations."""
        self.allocations = 0
        """Requests that are booked and were reported to the RM."""
        self.largest = 0
        """The largest amount of any type in a request since the partition last had no requests: no total
        exceeds this value times the number of requests."""
        self.sizes: dict[Shape, None] = {}
        """Sizes of some accepted asks: further asks of these sizes need no check."""
        self.states: dict[str, int] = {}
        """Applications by state, including ended ones that are still in reports."""
        self.in_units: dict[AppId, None] = {}
        """Applications whose gangs are placed and stopped in units."""

    def forget_sizes(self) -> None:
        """Reset the sizes, as there are no requests."""
        self.largest = 0
        self.sizes.clear()

    @property
    def asks(self) -> int:
        """Requests that the RM counts as asks: pending, assumed, or about to replace a placeholder."""
        return self.requests - self.allocations

    def listed(self, state: str) -> None:
        """Count an application of this state, which reports list from now on."""
        self.states[state] = self.states.get(state, 0) + 1

    def dropped(self, state: str) -> None:
        """Remove an application of this state: reports list it no longer, or under another state."""
        self.states[state] -= 1
        if not self.states[state]:
            del self.states[state]

    def moved(self, before: str, after: str) -> None:
        """Count a change of state; an application that is not listed counts in no report."""
        if before in self.states:
            self.dropped(before)
            self.listed(after)
