"""One application: its submitter, its asks and its allocations (spec § 5).

Its highest usage is derived for reports: no decision reads it, so no allocation keeps it up to date.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from licorne_core.messages.events.allocations import Owner
from licorne_core.messages.events.apps import Bound
from licorne_core.messages.operators import OperatorMark
from licorne_core.model.apps.gang import Gang
from licorne_core.model.apps.groups import AgedAsks, AskGroup
from licorne_core.model.apps.requests import BOOKED, TO_REPLACE, Request
from licorne_core.model.apps.states import TRANSITIONS, AppEvent
from licorne_core.model.quotas import Quota, SharedQuota, Tally, Tracker
from licorne_core.values.app_states import AppState
from licorne_core.values.asks import Allocation, Ask
from licorne_core.values.ids import AllocationKey, AppId, QueuePath, UserGroup
from licorne_core.values.ranking import NO_PRIORITY, PriorityCounts, Ranking
from licorne_core.values.resources import Items, Resources
from licorne_core.values.rm_caps import GROUP_BYTES, Holdings
from licorne_core.values.timers import Timers

IDLE_GROUPS = 16
"""Groups that an application may have before one that becomes empty is forgotten."""

GroupItem = AskGroup | AgedAsks
"""Items that an application ranks: groups, and their requests when no node takes their asks."""


@dataclass(slots=True, init=False, eq=False)
class Application:
    """An application's own books. Nothing here knows of queues, nodes or other applications.

    Always true: a group is ranked if and only if an ask of it is pending; every pending ask is in
    its group, unless it is `backing_off`; `pending_count`,
    `allocation_count` and those about to replace a placeholder are all its requests.
    """

    app_id: AppId
    user: UserGroup
    tags: Mapping[str, str]
    state: AppState
    state_log: list[tuple[float, AppState]]
    """The states that it entered, each with the time in unix seconds."""
    queue_path: QueuePath
    leaf: Any
    """The queue that it is in; None for one that was never placed."""
    submission_time: float
    """Time at which it, or the oldest of its asks, was submitted, in unix seconds."""
    start_time: float
    """Time at which it ran first, in unix seconds; 0 before."""
    finished_time: float
    """Time at which it completed, failed or was rejected, in unix seconds; 0 before."""
    backing_off: dict[AllocationKey, Request]
    """The pending requests that its RM could not run and that are not tried for a while. They are
    in no group, so that no pass looks at them."""
    deadlines: Timers[AgedAsks]
    """Times at which groups have asks old enough for a remedy."""
    message: str
    """Reason that it was rejected."""
    failure: str
    """Reason that an operator has ended it; empty if none has."""
    held: OperatorMark | None
    """Who holds it, so that no ask of it is tried."""
    changed: OperatorMark | None
    """Who gave it the priority or the leaf that it has, if it is not its own."""
    priority: int | None
    """The priority that all its asks were given; None for their own."""
    arrivals: int
    """Number of requests it was given so far."""
    holdings: Holdings
    """Quota use of its RM, which includes its groups and requests."""
    tally: Tally
    """Totals of all applications of its partition, including this one."""
    footprint: int
    """Bytes of memory that its tags, groups of users and task groups take, as reckoned."""
    requests: dict[AllocationKey, Request]
    """Its requests, from arrival to release; allocated ones in the order of their allocation."""
    pending_count: int
    """Requests that are pending."""
    allocation_count: int
    """Requests that count in its queues: those that are booked, assumed ones included."""
    assumed_count: int
    """Requests that are booked while the RM is asked about their nodes."""
    reserved: dict[AllocationKey, Request]
    """The requests with a reservation: pending ones, and assumed ones whose promise rests."""
    pending_total: dict[str, int]
    """Amounts of its pending requests, by resource name."""
    allocated: dict[str, int]
    """Booked amounts without its placeholders, by resource name."""
    placeholder_allocated: dict[str, int]
    """Booked amounts of its placeholders, by resource name (spec § 6.2)."""
    placeholder_count: int
    """Its placeholders that are booked and that the RM knows of."""
    highest: dict[str, int]
    """The most that was booked of either whenever something went (`model/apps/application.py`)."""
    gang: Gang
    """Its task groups; without any for an application that never had a placeholder."""
    groups: dict[object, AskGroup]
    """Its ask groups by class, task group and kind; a few are kept when they are idle."""
    priorities: PriorityCounts
    """The priorities of its pending requests."""
    interests: int
    """A bit for each extension that keeps something of it (`points.py`)."""
    bonus: int
    """What an extension adds to the highest priority of its asks, for its own place alone; 0 for nothing."""
    raised: int
    """The priority with the bonus, which the leaf counts beside those of the asks. NO_PRIORITY, and not
    counted, without a bonus."""
    ranking: Ranking[GroupItem]
    """Its groups in the order in which they are tried."""
    blocker: Any
    """Blocker of the whole application (`scheduling/waiting/waiting.py`), if any."""
    blocked_by: tuple[Bound, ...]
    """Published limits that keep it from starting (spec § 4.12)."""
    owner: Owner
    """User and group that its usage counts for; set by the limit book."""
    trackers: tuple[Tracker, ...]
    """Trackers of its user and its group; set by the limit book."""
    further: tuple[SharedQuota, ...]
    """Further quotas, which extensions give it; set by the limit book."""
    quotas: tuple[Quota, ...]
    """Quotas of its asks: limited trackers, further ones, queues up to root; set by the limit book."""

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
        tally: Tally | None = None,
        footprint: int = 0,
    ) -> None:
        """Create an application for a queue, in unix seconds; `gang` if it wants one."""
        self.holdings = holdings or Holdings()
        self.tally = tally or Tally()
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
    def group(self) -> str:
        """The group of its user that it counts for; empty for none."""
        return self.owner.group

    def enter(self, event: AppEvent, now: float) -> bool:
        """Follow the event; True when the state changed. It may lead nowhere from the present one."""
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
        """The group of an ask, an empty one if nothing of it is pending."""
        key = (ask.ask_class, ask.task_group, ask.placeholder)
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = AskGroup(self, key)
            self.holdings.memory += GROUP_BYTES
        return group

    def placeholder_came(self, ask: Ask) -> None:
        """Add a placeholder; its task group stays as long as the application."""
        if ask.task_group not in self.gang.groups:
            size = GROUP_BYTES + len(ask.task_group)
            self.footprint += size
            self.holdings.memory += size
        self.gang.came(ask)

    def enqueue(self, group: AskGroup, request: Request, now: float) -> bool:
        """A request of the group is pending; True when there is something new to try."""
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
        """A few groups are kept when they are idle, as asks of the same classes keep coming."""
        group.start_afresh()
        if len(self.groups) > IDLE_GROUPS:
            del self.groups[group.key]
            self.holdings.memory -= GROUP_BYTES

    def forget_groups(self) -> None:
        """Forget all ask groups.

        Groups know their application, and stale entries know groups: without this only the garbage
        collector would free all of them.
        """
        self.holdings.memory -= GROUP_BYTES * len(self.groups)
        self.groups.clear()
        self.ranking.clear()
        self.deadlines.clear()
        self.interests = 0

    def take(self, request: Request, allocation: Allocation) -> None:
        """Count a booked request; the last one booked is the last among its requests."""
        self.allocation_count += 1
        if self.gang.units is not None and self.gang.has_member(request.ask):
            self.gang.units.came(request)
        requests, key = self.requests, request.ask.key
        requests[key] = requests.pop(key)
        if allocation.request_time < self.submission_time:
            self.submission_time = allocation.request_time
        if self.allocation_count == 1:
            for tracker in self.trackers:
                tracker.applications[self.app_id] = None

    def give_back(self, request: Request) -> None:
        """Count a booked request less."""
        self.allocation_count -= 1
        if self.gang.units is not None and self.gang.has_member(request.ask):
            self.gang.units.went(request)
        if not self.allocation_count:
            for tracker in self.trackers:
                del tracker.applications[self.app_id]

    def pending(self) -> Iterator[Request]:
        """The requests that are pending, in no order that means anything."""
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
        """True if it has a node for one of its asks, or a placeholder (spec § 4.12)."""
        return bool(self.reserved or self.allocation_count)

    @property
    def replacing_count(self) -> int:
        """Requests that are about to replace a placeholder: neither pending nor in its queues."""
        return len(self.requests) - self.pending_count - self.allocation_count

    def is_idle(self) -> bool:
        """True if it has neither asks nor allocations (spec § 5.1.1: time to complete)."""
        return not self.requests


def most_allocated(app: Application) -> Resources:
    """The most that was ever booked of real allocations or of placeholders, by resource name.

    Totals rise with every allocation. So they are looked at when they fall (`note_highest`), and
    here.
    """
    most = dict(app.highest)
    for total in (app.allocated, app.placeholder_allocated):
        for name, value in total.items():
            most[name] = max(value, most.get(name, 0))
    return most


def note_highest(app: Application, items: Items, *, placeholder: bool) -> None:
    """Note usage before amounts are freed: it may be the highest so far."""
    allocated = app.placeholder_allocated if placeholder else app.allocated
    highest = app.highest
    for name, _ in items:
        total = allocated[name]
        if total > highest.get(name, 0):
            highest[name] = total


class Asking:
    """The asks of a group, or one of them; a plain class, as compiled code creates tuples slower."""

    __slots__ = ("app", "group", "is_reserved", "items", "promise", "request")

    def __init__(self, app: Application, group: AskGroup, request: Request | None = None) -> None:
        """Create a subject; `request` is one ask that may have a reservation or a back-off."""
        self.app = app
        self.group = group
        self.items: Items = group.together or group.ask_class.items
        self.request = request
        self.is_reserved = request is not None and request.reservation is not None
        # The amounts reserved for this ask, a `Promise` (spec § 9.4).
        self.promise: Any = None if request is None else request.promise

    def needs(self, quota: Quota) -> Items:
        """Amounts needed in a quota, in addition to those reserved there for this ask."""
        return self.items if self.promise is None else self.promise.lacks(quota)
