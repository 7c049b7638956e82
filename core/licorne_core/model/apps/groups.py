"""Pending asks of an application by class, some of which wait for a remedy such as a reservation.

The asks of a group fit the same nodes, so if one finds no node, none does. Then each ask may get a remedy
once it is old enough, such as a reserved node, in the order of asks (spec §§ 5.3, 8.5).
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, ClassVar, Final, NamedTuple

from licorne_core.messages.events.allocations import BoundTexts
from licorne_core.model.apps.requests import PENDING, AskPlace, Request
from licorne_core.values.asks import Ask, AskClass
from licorne_core.values.resources import Items

SLACK: Final = 64
"""Maximum number of stale places in the heap of a group, in addition to one for each pending ask."""

MATURED_AT_ONCE, NEXT_STEP = 256, 0.001
"""Number of asks of a group that become ready in one step; seconds until the next step."""

MAX_REASONS = 16
"""Maximum number of reasons in a group's log, which has the latest; the texts of refusals may all differ."""

RESERVATION_AGE = 2.0
"""Minimum age of an ask, in seconds, before a node is reserved for it (spec § 8.5)."""

GroupKey = tuple[AskClass, str, bool]
"""Common properties of a group's asks: class, task group, placeholder or not."""

SEARCH_INTERVAL = 15.0
"""Seconds from a failed search for a remedy to the next one (spec § 9.2)."""


def group_key(ask: Ask) -> GroupKey:
    """The key of the group that the ask belongs to."""
    return (ask.ask_class, ask.task_group, ask.placeholder)


class LogEntry(NamedTuple):
    """A reason for passing over asks of a group, with its last time in unix seconds and its count."""

    time: float
    times: int


@dataclass(slots=True, init=False, eq=False)
class AskGroup:
    """The pending asks of one class and task group in one application, the first in order on top.

    Always true: every pending ask of the group has its place in the heap, and the top of the heap is the
    place of a pending ask. Places of asks that are not pending any more are dropped when they reach the top.
    """

    app: Any
    """Application of the asks; untyped, because this module must not import its class."""
    key: GroupKey
    ask_class: AskClass
    heap: list[AskPlace]
    log: dict[str, LogEntry]
    """Reasons for passing over the group's asks, the latest last."""
    blocker: Any
    """Blocker of the group while the group is not tried (`scheduling/waiting/waiting.py`); otherwise None."""
    waiting: int
    """Number of pending asks."""
    assumed: int
    """Number of asks that are booked while the RM is asked about their nodes (spec § 8.4)."""
    reported: int
    """Number of pending asks that were reported to the RM as fitting no node (spec § 8.12)."""
    refusals: int
    """Number of refusals by the RM of a node for one of the asks."""
    refused_at: float
    """Time of the last log entry with the RM's reasons for refusing all nodes, in unix seconds."""
    attempted: bool
    """True if the asks were within their user's quota in at least one try."""
    unplaceable: bool
    """True if the asks fitted no node in the last try."""
    nowhere: bool
    """True if the asks exceeded the size of the cluster in the last try, or fitted no node. A try that failed
    another check does not change this.
    """
    in_backlog: bool
    """True if it is in the backlog of groups that found no node (`scheduling/waiting/wakeups.py`)."""
    together: Items
    """Amounts of all asks that are placed together, as of their last try, for instance of a whole gang
    (`scheduling/gang_placement.py`). Empty for asks that are placed one by one.
    """
    is_bound: bool
    """True if the asks were members bound to certain nodes, or to reserved room, in the last try."""
    no_place: bool
    """True if the whole gang had no room, or exceeded the size of the cluster, in the last try."""
    over_queue: bool
    """True if the last event says that the asks exceed a queue's maximum (spec § 12.1.3)."""
    over: BoundTexts | None
    """The exceeded bound, other than a queue's, in the last event; None if there was none."""
    _unreported: list[AskPlace] | None
    """See `unreported`; None before the first call."""
    remedy_requests: "dict[type[AgedAsks], AgedAsks]"
    """The asks' requests for remedies, by kind and in the order of `step`, after no node was found."""
    refused_stops: Any
    """Restrictions after victims were stopped in vain (`RefusedStops`); None if there are none."""

    def __init__(self, app: Any, key: GroupKey) -> None:
        """Start without asks."""
        self.app = app
        self.key = key
        self.ask_class = key[0]
        self.heap = []
        self.waiting = 0
        self.assumed = 0
        self.reported = 0
        self.refusals = 0
        self.refused_at = -inf
        self.attempted = self.unplaceable = False
        self.nowhere = self.in_backlog = False
        self.together = ()
        self.is_bound = self.no_place = False
        self.over_queue = False
        self.over = None
        self.log = {}
        self.blocker = None
        self._unreported = None
        self.remedy_requests = {}
        self.refused_stops = None

    def __repr__(self) -> str:
        """``<AskGroup AskClass(Shape(vcore=1)): 3 waiting>``."""
        return f"<AskGroup {self.ask_class!r}: {self.waiting} waiting>"

    def push(self, place: AskPlace) -> None:
        """Add the place of a pending ask; a place that is still in the heap is valid again."""
        self.waiting += 1
        if place.request.reported:
            self.reported += 1
        elif self._unreported is not None:
            self._add_unreported(place, self._unreported)
        if not place.request.is_queued:
            place.request.is_queued = True
            heappush(self.heap, place)

    def drop(self, request: Request) -> None:
        """Remove an ask that is not pending any more; call it after the change of the request's state."""
        self.waiting -= 1
        if request.reported:
            self.reported -= 1
        heap = self.heap
        if not self.waiting:
            self._empty()
        elif len(heap) > SLACK + 2 * self.waiting:
            self._compact()
        elif heap[0].request is request:
            heappop(heap)
            request.is_queued = False
            while not waits(heap[0]):
                _forget(heappop(heap))

    def _compact(self) -> None:
        kept = []
        for place in self.heap:
            if waits(place):
                kept.append(place)
            else:
                _forget(place)
        heapify(kept)
        self.heap = kept

    def _empty(self) -> None:
        for place in self.heap:
            _forget(place)
        self.heap.clear()
        self._unreported = None
        self.together = ()
        self.is_bound = self.no_place = False
        self.over_queue = False
        self.over = None

    def unreported(self) -> list[AskPlace]:
        """A heap with the places of all pending asks that were not reported, and with stale places."""
        if self._unreported is None:
            self._unreported = self.heap.copy()
        return self._unreported

    def _add_unreported(self, place: AskPlace, heap: list[AskPlace]) -> None:
        heappush(heap, place)
        if len(heap) > SLACK + 2 * self.waiting:
            # Most asks of the heap have ended without a report.
            self._unreported = None

    def start_afresh(self) -> None:
        """Reset the results of past tries: later asks have not been tried yet."""
        self.attempted = False
        self.nowhere = False
        self.refused_at = -inf
        self.refused_stops = None
        if self.log:
            self.log.clear()

    def let_go(self) -> None:
        """Break the reference cycle with its asks, because the group is dropped."""
        self.heap.clear()
        self._unreported = None

    def first(self) -> AskPlace:
        """The first pending ask; only for a group that has one."""
        return self.heap[0]

    def note(self, reason: str, now: float) -> None:
        """Log a reason for which its asks were passed over."""
        before = self.log.pop(reason, None)
        if len(self.log) >= MAX_REASONS:
            del self.log[next(iter(self.log))]
        self.log[reason] = LogEntry(now, 1 if before is None else before.times + 1)

    def comes_before(self, other: AskPlace | None) -> bool:
        """True if any pending ask precedes `other` or, if that is None, if any ask is pending."""
        return self.waiting > 0 and (other is None or self.first() < other)

    def count_before(self, other: AskPlace | None, most: int) -> int:
        """Number of pending asks ahead of `other` (all, if None), capped at `most`."""
        heap, positions, count = self.heap, [0], 0
        while positions and count < most:
            position = positions.pop()
            # In a heap, all entries below this entry follow it in order.
            if position < len(heap) and (other is None or heap[position] < other):
                count += waits(heap[position])
                positions += (2 * position + 1, 2 * position + 2)
        return count


def _forget(place: AskPlace) -> None:
    """Record that the place is not in the heap any more; the request may have another one already."""
    if place.request.arrival == place.arrival:
        place.request.is_queued = False


def waits(place: AskPlace) -> bool:
    """True if the request is pending, at this place."""
    request = place.request
    return request.state is PENDING and request.arrival == place.arrival


class AgedAsks:
    """The asks of a group that wait for a remedy and are old enough for it, as one item.

    It is ranked among the groups of its application by its first ask that is old enough, then by `step`.
    `_ready` has the asks that are old enough, in order; `_young` has the others, the oldest first. Asks that
    do not qualify any more are dropped when they reach the top.
    """

    __slots__ = ("_age", "_ready", "_young", "app", "asked", "blocker", "group", "paused_until")

    step: ClassVar[int] = 0
    """Position among the items with the same first ask; 0 is the group itself."""
    by_settings = True
    """True if a setting of the queue determines the required age of asks."""

    def __init__(self, group: AskGroup, now: float) -> None:
        """Start with all asks of the group."""
        self.app = group.app
        self.group = group
        self.blocker: Any = None
        self.paused_until, self.asked = -inf, 0
        """Unix seconds from which the item may be tried again; number of questions since the last plan."""
        self._age = self.age()
        self._fill(now)

    def age(self) -> float:
        """Minimum age of the asks, in seconds."""
        return 0.0

    def is_paused(self, now: float) -> bool:
        """True if it is paused and not ranked; the owner of the pause ranks it later."""
        return now < self.paused_until

    def held_until(self, now: float) -> float | None:
        """Time until which it must not be tried, in unix seconds; None if it may be tried now."""
        return None

    def end_wait(self, now: float) -> bool:
        """End the wait for which the group was parked, if its time has passed; return True in that case."""
        return False

    def let_go(self) -> None:
        """Drop the asks: stale entries may still refer to this item."""
        self._ready.clear()
        self._young.clear()

    def qualifies(self, place: AskPlace) -> bool:
        """True if the ask qualifies, apart from its age."""
        return waits(place)

    def add(self, place: AskPlace, now: float) -> None:
        """Add a pending ask."""
        if not self.qualifies(place):
            return
        if place.create_time + self._age <= now:
            heappush(self._ready, place)
        else:
            heappush(self._young, (place.create_time, place))
        if len(self._ready) + len(self._young) > SLACK + 2 * self.group.waiting:
            self._fill(now)

    def first(self) -> AskPlace | None:
        """The first ask in order that is old enough; None if there is none."""
        ready = self._ready
        while ready and not self.qualifies(ready[0]):
            heappop(ready)
        return ready[0] if ready else None

    def key(self) -> tuple[object, ...] | None:
        """Rank of the item; None if no ask is old enough."""
        first = self.first()
        return None if first is None else (*first[:3], self.step)

    def mature(self, now: float) -> None:
        """Move asks that are old enough to the ready ones: the oldest first, at most `MATURED_AT_ONCE`."""
        young = self._young
        for _ in range(MATURED_AT_ONCE):
            if not young or young[0][0] + self._age > now:
                break
            heappush(self._ready, heappop(young)[1])

    def next_time(self, now: float) -> float | None:
        """Time at which more asks become ready, in unix seconds; None if no more will."""
        young = self._young
        while young and not self.qualifies(young[0][1]):
            heappop(young)
        at = young[0][0] + self._age if young else None
        return at if at is None or at > now else now + NEXT_STEP

    def _fill(self, now: float) -> None:
        places = [place for place in self.group.heap if self.qualifies(place)]
        old = now - self._age
        self._ready = [place for place in places if place.create_time <= old]
        self._young = [(p.create_time, p) for p in places if p.create_time > old]
        heapify(self._ready)
        heapify(self._young)


class OfNoNode(AgedAsks):
    """The asks of a group that found no node, and hold no claim on a later start."""

    __slots__ = ()

    def qualifies(self, place: AskPlace) -> bool:
        """True if the ask has no node reserved, and no claim."""
        request = place.request
        reservation = request.reservation
        holds = request.claim is not None or (reservation is not None and reservation.node_id is not None)
        return not holds and waits(place)


class ReservationRequest(OfNoNode):
    """Request for a reservation (spec §§ 8.5, 8.7). An ask that requires a node may reserve it at once."""

    __slots__ = ()

    step: ClassVar[int] = 1
    by_settings = False

    def age(self) -> float:
        """`RESERVATION_AGE`, or 0 for asks that require their node."""
        return RESERVATION_AGE if self.group.ask_class.required_node is None else 0.0
