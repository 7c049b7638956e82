"""One application: its submitter, its asks and its allocations (spec § 5).

Its highest usage is derived for reports: no decision depends on it, so allocations do not update it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from licorne_core.messages.events.allocations import Owner
from licorne_core.messages.events.apps import Bound
from licorne_core.messages.operators import OperatorMark
from licorne_core.model.apps.gang import Gang
from licorne_core.model.apps.groups import AgedAsks, AskGroup
from licorne_core.model.apps.requests import BOOKED, TO_REPLACE, Request
from licorne_core.model.apps.states import TRANSITIONS, AppEvent
from licorne_core.model.quotas import ApplicationTotals, Quota, SharedQuota, Tracker
from licorne_core.values.app_states import AppState
from licorne_core.values.asks import Allocation, Ask
from licorne_core.values.ids import AllocationKey, AppId, QueuePath, UserGroup
from licorne_core.values.ranking import NO_PRIORITY, PriorityCounts, Ranking
from licorne_core.values.resources import Items, Resources
from licorne_core.values.rm_caps import GROUP_BYTES, Holdings
from licorne_core.values.tags import RUNTIME, read_seconds
from licorne_core.values.timers import Timers

IDLE_GROUPS = 16
"""Maximum number of groups of an application before an empty one is dropped."""

GroupItem = AskGroup | AgedAsks
"""Items that an application ranks: groups, and the requests for a remedy of groups that fit no node."""


@dataclass(slots=True, init=False, eq=False)
class Application:
    """The books of one application, which do not depend on queues, nodes or other applications.

    Always true: a group is ranked if and only if an ask of it is pending; every pending ask is in
    its group, unless it is `backing_off`; `pending_count`, `allocation_count` and the requests that are
    about to replace a placeholder add up to all its requests.
    """

    app_id: AppId
    user: UserGroup
    tags: Mapping[str, str]
    state: AppState
    state_log: list[tuple[float, AppState]]
    """The states of the application so far, each with its start in unix seconds."""
    queue_path: QueuePath
    leaf: Any
    """The application's queue; None if it was never placed."""
    submission_time: float
    """Submission time of the application, or of its oldest ask, in unix seconds."""
    start_time: float
    """Time of its first change to Running, in unix seconds; 0 before."""
    finished_time: float
    """Time at which it completed, failed or was rejected, in unix seconds; 0 before."""
    backing_off: dict[AllocationKey, Request]
    """Pending requests that back off, as the RM could not run them. They are in no group, so that no pass
    tries them."""
    deadlines: Timers[AgedAsks]
    """Times at which asks of groups become old enough for a remedy."""
    message: str
    """The reason of its rejection; empty if it was not rejected."""
    failure: str
    """The reason for which an operator has ended it; empty if no operator has."""
    held: OperatorMark | None
    """Mark of the operator who holds it, so that none of its asks is tried; None if it is not held."""
    changed: OperatorMark | None
    """Mark of the operator who changed its priority or its leaf; None if no operator did."""
    priority: int | None
    """The priority that an operator gave to all its asks; None if each has its own."""
    arrivals: int
    """Number of requests that have arrived so far."""
    holdings: Holdings
    """The RM's use of its caps, which includes the application's groups and requests."""
    tally: ApplicationTotals
    """Totals of all applications of its partition, including this one."""
    footprint: int
    """Estimated bytes of memory of its tags, groups of users and task groups."""
    requests: dict[AllocationKey, Request]
    """Its requests, from arrival to release; allocated ones in the order of their allocation."""
    pending_count: int
    """Number of pending requests."""
    allocation_count: int
    """Number of requests that count in its queues: all booked ones, including assumed ones."""
    assumed_count: int
    """Number of requests that are booked while the RM is asked about their nodes."""
    reserved: dict[AllocationKey, Request]
    """Requests with a reservation: pending requests, and assumed ones whose promise is paused."""
    pending_total: dict[str, int]
    """Amounts of its pending requests, by resource name."""
    allocated: dict[str, int]
    """Booked amounts except those of placeholders, by resource name."""
    placeholder_allocated: dict[str, int]
    """Booked amounts of its placeholders, by resource name (spec § 6.2)."""
    placeholder_count: int
    """Number of booked placeholders that are not assumed."""
    highest: dict[str, int]
    """Highest real or placeholder usage until the last decrease; see `most_allocated`."""
    gang: Gang
    """Its task groups; empty for an application that never had a placeholder."""
    groups: dict[object, AskGroup]
    """Its ask groups by class, task group and kind; a few idle ones are retained."""
    priorities: PriorityCounts
    """The priorities of its pending requests."""
    interests: int
    """A bit for each extension with rules or state for the application (`points.py`)."""
    bonus: int
    """Amount that an extension adds to the highest priority of its asks, only to order applications; 0 if
    none does."""
    raised: int
    """The highest priority plus the bonus; the leaf counts it like priorities of asks. NO_PRIORITY if there
    is no bonus; then the leaf does not count it."""
    ranking: Ranking[GroupItem]
    """Its groups in the order in which they are tried."""
    blocker: Any
    """Blocker of the whole application (`scheduling/waiting/waiting.py`); None if it is not blocked."""
    blocked_by: tuple[Bound, ...]
    """Limits that prevent its start, as published last (spec § 4.12)."""
    peers: Any
    """The applications of its user among which it is ranked in a fair leaf (`model/queues/users.py`); None
    elsewhere, and before it is first ranked."""
    owner: Owner
    """User and group for which its usage counts; set by the limit book."""
    trackers: tuple[Tracker, ...]
    """Trackers of its user and its group; set by the limit book."""
    further: tuple[SharedQuota, ...]
    """Quotas of extensions that include it; set by the limit book."""
    quotas: tuple[Quota, ...]
    """Quotas of its asks: limited trackers, extensions' quotas, queues up to root; set by the limit book."""

    def __init__(
        self,
        app_id: AppId,
        queue_path: QueuePath,
        user: UserGroup,
        tags: Mapping[str, str],
        now: float,
        gang: Gang | None = None,
        *,
        holdings: Holdings | None = None,
        tally: ApplicationTotals | None = None,
        footprint: int = 0,
    ) -> None:
        """Create an application for a queue; `now` is in unix seconds. `gang` is None if it has no gang."""
        self.holdings = holdings or Holdings()
        self.tally = tally or ApplicationTotals()
        self.footprint = footprint
        self.app_id = app_id
        self.queue_path = queue_path
        self.leaf = None
        self.user = user
        self.tags = tags
        self.submission_time = now
        self.start_time = 0.0
        self.finished_time = 0.0
        self.backing_off = {}
        self.deadlines = Timers()
        self.state = AppState.NEW
        self.state_log = [(now, AppState.NEW)]
        self.message = ""
        self.failure = ""
        self.held = None
        self.changed = None
        self.priority = None
        self.arrivals = 0
        self.requests = {}
        self.pending_count = 0
        self.allocation_count = 0
        self.assumed_count = 0
        self.reserved = {}
        self.pending_total = {}
        self.allocated = {}
        self.placeholder_allocated = {}
        self.placeholder_count = 0
        self.highest = {}
        self.gang = gang or Gang()
        self.priorities = PriorityCounts()
        self.interests = 0
        self.bonus = 0
        self.raised = NO_PRIORITY
        self.groups = {}
        self.ranking = Ranking()
        self.blocker = None
        self.blocked_by = ()
        self.peers = None
        self.owner = Owner(queue_path, user.user, "")
        self.trackers = ()
        self.further = ()
        self.quotas = ()

    def __repr__(self) -> str:
        """``<Application app-1 Running in root.a: 3 pending, 2 allocated>``."""
        return (
            f"<Application {self.app_id} {self.state.value} in {self.queue_path}: "
            f"{self.pending_count} pending, {self.allocation_count} allocated>"
        )

    @property
    def is_ranked(self) -> bool:
        """True if its asks are to be tried."""
        return self in (self.leaf.ranking if self.peers is None else self.peers)

    @property
    def group(self) -> str:
        """The group for which its usage counts; empty if there is none."""
        return self.owner.group

    def declared_runtime(self, ask: Ask) -> float | None:
        """Seconds that the ask, or else the application, declares to run; None if neither does."""
        if ask.ask_class.runtime < inf:
            return ask.ask_class.runtime
        return read_seconds(ask.tags if RUNTIME in ask.tags else self.tags, RUNTIME)

    def enter(self, event: AppEvent, now: float) -> bool:
        """Follow the event; True if the state changed. The event may have no effect in the current state."""
        state = TRANSITIONS.get((self.state, event), self.state)
        if state is self.state:
            return False
        self.tally.moved(self.state.value, state.value)
        self.state = state
        self.state_log.append((now, state))
        if state is AppState.RUNNING and not self.start_time:
            self.start_time = now
        return True

    def group_of(self, ask: Ask) -> AskGroup:
        """The group of an ask; a new group if none of its asks is pending."""
        key = (ask.ask_class, ask.task_group, ask.placeholder)
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = AskGroup(self, key)
            self.holdings.memory += GROUP_BYTES
        return group

    def placeholder_added(self, ask: Ask) -> None:
        """Add a placeholder; its task group is kept until the application ends."""
        if ask.task_group not in self.gang.groups:
            size = GROUP_BYTES + len(ask.task_group)
            self.footprint += size
            self.holdings.memory += size
        self.gang.add_placeholder(ask)

    def enqueue(self, group: AskGroup, request: Request, now: float) -> bool:
        """Add a pending request to the group; return True if the group has to be tried again."""
        request.group = group
        place = request.place
        group.push(place)
        self.pending_count += 1
        self.priorities.add(request.priority)
        if request.create_time < self.submission_time:
            self.submission_time = request.create_time
        for wants in group.remedy_requests.values() if group.remedy_requests else ():
            wants.add(place, now)
        return group.heap[0].arrival == request.arrival

    def forget_idle(self, group: AskGroup) -> None:
        """Drop an idle group if there are many; a few are retained for later asks of the same classes."""
        group.start_afresh()
        if len(self.groups) > IDLE_GROUPS:
            del self.groups[group.key]
            self.holdings.memory -= GROUP_BYTES

    def forget_groups(self) -> None:
        """Forget all ask groups.

        Groups refer to their application, and stale entries to groups: without this only the garbage
        collector would free all of them.
        """
        self.holdings.memory -= GROUP_BYTES * len(self.groups)
        self.groups.clear()
        self.ranking.clear()
        self.deadlines.clear()
        self.interests = 0

    def take(self, request: Request, allocation: Allocation) -> None:
        """Count a booked request, and move it to the end of `requests`."""
        self.allocation_count += 1
        if self.gang.units is not None and self.gang.has_member(request.ask):
            self.gang.units.add_booked(request)
        requests, key = self.requests, request.ask.key
        requests[key] = requests.pop(key)
        if allocation.request_time < self.submission_time:
            self.submission_time = allocation.request_time
        if self.allocation_count == 1:
            for tracker in self.trackers:
                tracker.applications[self.app_id] = None

    def give_back(self, request: Request) -> None:
        """Remove a booked request from the counts."""
        self.allocation_count -= 1
        if self.gang.units is not None and self.gang.has_member(request.ask):
            self.gang.units.remove_booked(request)
        if not self.allocation_count:
            for tracker in self.trackers:
                del tracker.applications[self.app_id]

    def pending(self) -> Iterator[Request]:
        """The pending requests, in no meaningful order."""
        return (request for request in self.requests.values() if request.is_pending)

    def booked(self) -> Iterator[Request]:
        """The requests that are booked, in the order of their booking."""
        return (request for request in self.requests.values() if request.state in BOOKED)

    def replacing(self) -> list[Request]:
        """The requests that are about to replace a placeholder."""
        if not self.replacing_count:
            return []
        return [request for request in self.requests.values() if request.state in TO_REPLACE]

    @property
    def is_allocating(self) -> bool:
        """True if one of its requests is booked or has a reservation (spec § 4.12)."""
        return bool(self.reserved or self.allocation_count)

    @property
    def replacing_count(self) -> int:
        """Number of requests that are about to replace a placeholder: not pending, and in no queue."""
        return len(self.requests) - self.pending_count - self.allocation_count

    def is_idle(self) -> bool:
        """True if it has neither asks nor allocations (spec § 5.1.1: time to complete)."""
        return not self.requests


def most_allocated(app: Application) -> Resources:
    """Highest real or placeholder usage so far, by resource name.

    Totals rise with every allocation. So they are compared only when they fall (`note_highest`), and
    here.
    """
    most = dict(app.highest)
    for total in (app.allocated, app.placeholder_allocated):
        for name, value in total.items():
            most[name] = max(value, most.get(name, 0))
    return most


def note_highest(app: Application, items: Items, *, placeholder: bool) -> None:
    """Record usage before amounts are freed, as it may be the highest so far."""
    allocated = app.placeholder_allocated if placeholder else app.allocated
    highest = app.highest
    for name, _ in items:
        total = allocated[name]
        if total > highest.get(name, 0):
            highest[name] = total


class Asking:
    """Subject of a check: the asks of a group, or one ask. A plain class is created faster than a tuple."""

    __slots__ = ("app", "group", "is_reserved", "items", "promise", "request")

    def __init__(self, app: Application, group: AskGroup, request: Request | None = None) -> None:
        """Create a subject; `request` is a single ask, which may have a reservation or a back-off."""
        self.app = app
        self.group = group
        self.items: Items = group.together or group.ask_class.items
        self.request = request
        self.is_reserved = request is not None and request.reservation is not None
        # The `Promise` of resources to this ask (spec § 9.4).
        self.promise: Any = None if request is None else request.promise

    def needs(self, quota: Quota) -> Items:
        """Amounts that the ask needs in a quota, in addition to amounts kept free there for its promise."""
        return self.items if self.promise is None else self.promise.lacks(quota)
