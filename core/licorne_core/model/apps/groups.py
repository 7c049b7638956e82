"""Pending asks of an application by class, and those that wait for a remedy.

The asks of a group fit alike, so when one finds no node, none does. Each of them may then have a
node reserved, for instance, once it is old enough, in the order of asks (spec §§ 5.3, 8.5).
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, ClassVar, Final, NamedTuple

from licorne_core.messages.events.allocations import Room
from licorne_core.model.apps.requests import PENDING, Place, Request
from licorne_core.values.asks import Ask, AskClass
from licorne_core.values.resources import Items

SLACK: Final = 64
"""Places of departed asks that a group may keep, in addition to one for each present ask."""

MATURED_AT_ONCE, NEXT_STEP = 256, 0.001
"""Asks of a group that become ready in one step, and seconds until more of them do."""

MAX_REASONS = 16
"""Reasons that a group keeps, the latest: an RM may find ever new words for a refusal."""

RESERVATION_AGE = 2.0
"""Seconds that an ask has to have waited before a node is reserved for it (spec § 8.5)."""

GroupKey = tuple[AskClass, str, bool]
"""Common properties of a group's asks: class, task group, placeholder or not."""

SEARCH_INTERVAL = 15.0
"""Seconds from a failed search for what helps an ask to the next one (spec § 9.2)."""


def group_key(ask: Ask) -> GroupKey:
    """The key of the group that the ask belongs to."""
    return (ask.ask_class, ask.task_group, ask.placeholder)


class LogEntry(NamedTuple):
    """A reason for passing over asks of a group: last time (unix seconds), number of times."""

    time: float
    times: int


@dataclass(slots=True, init=False, eq=False)
class AskGroup:
    """The pending asks of one class and task group in one application, the first in order on top.

    Always true: every pending ask of the group has its place in the heap, and the place on top is
    that of one. Places of asks that are not pending any more are forgotten when they come there.
    """

    app: Any
    """Application of the asks; untyped, as this module must not import it."""
    key: GroupKey
    ask_class: AskClass
    heap: list[Place]
    log: dict[str, LogEntry]
    """Reasons for passing over its asks, the latest last."""
    blocker: Any
    """Blocker of the group while it is not tried (`scheduling/waiting/waiting.py`); else None."""
    waiting: int
    """Asks that are pending."""
    assumed: int
    """Asks that are booked while the RM is asked about their nodes (spec § 8.4)."""
    reported: int
    """Pending asks of which the RM knows that no node takes them (spec § 8.12)."""
    refusals: int
    """Number of refusals by the RM of a node for one of the asks."""
    refused_at: float
    """Time at which the RM's reasons for refusing all nodes were noted last, in unix seconds."""
    attempted: bool
    """True if the asks were within their user's quota at least once when they were tried."""
    unplaceable: bool
    """True if no node would take them when they were tried last."""
    nowhere: bool
    """True if they exceeded the size of the cluster when they were tried last, or no node took
    them. A try that ends at another check says nothing of it."""
    in_backlog: bool
    """True if it is in the backlog of groups without room (`scheduling/waiting/wakeups.py`)."""
    together: Items
    """Amounts of all asks that are placed with these, as of their last try: of a whole gang
    (`scheduling/gang_placement.py`). Empty for asks that are placed one by one."""
    is_bound: bool
    """True if they were members that belong to certain nodes, or to kept room, when they were tried last."""
    no_place: bool
    """True if the whole gang had no place, or exceeded the size of the cluster, when it was tried last."""
    over_queue: bool
    """True if it was published that the asks exceed a queue's maximum (spec § 12.1.3)."""
    over: Room | None
    """What the asks were published to exceed, but for queues: it comes before these."""
    _unreported: list[Place] | None
    """See `unreported`; None before it is read."""
    remedy_requests: "dict[type[AgedAsks], AgedAsks]"
    """Their requests for what may make room, by kind, in the order of `step`, once they found none."""
    refused_stops: Any
    """What they have to mind after stops in vain (`RefusedStops`); None without any."""

    def __init__(self, app: Any, key: GroupKey) -> None:
        """Start empty."""
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

    def push(self, place: Place) -> None:
        """An ask is pending; if its place is still in the heap it is valid again."""
        self.waiting += 1
        if place.request.reported:
            self.reported += 1
        elif self._unreported is not None:
            self._add_unreported(place, self._unreported)
        if not place.request.is_queued:
            place.request.is_queued = True
            heappush(self.heap, place)

    def drop(self, request: Request) -> None:
        """An ask is not pending any more; call it after the request's state has changed."""
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

    def unreported(self) -> list[Place]:
        """A heap with the places of all pending asks that were not reported, and with others."""
        if self._unreported is None:
            self._unreported = self.heap.copy()
        return self._unreported

    def _add_unreported(self, place: Place, heap: list[Place]) -> None:
        heappush(heap, place)
        if len(heap) > SLACK + 2 * self.waiting:
            # Most of its asks went without being reported.
            self._unreported = None

    def start_afresh(self) -> None:
        """Clear the state of past tries: later asks have not been tried yet."""
        self.attempted = False
        self.nowhere = False
        self.refused_at = -inf
        self.refused_stops = None
        if self.log:
            self.log.clear()

    def let_go(self) -> None:
        """Break the reference circle with its asks, as the group is gone."""
        self.heap.clear()
        self._unreported = None

    def first(self) -> Place:
        """The first ask that is pending; only for a group that has one."""
        return self.heap[0]

    def note(self, reason: str, now: float) -> None:
        """Its asks were passed over for this reason."""
        before = self.log.pop(reason, None)
        if len(self.log) >= MAX_REASONS:
            del self.log[next(iter(self.log))]
        self.log[reason] = LogEntry(now, 1 if before is None else before.times + 1)

    def comes_before(self, other: Place | None) -> bool:
        """True if any of its asks is ahead of the place; without one, if any waits."""
        return self.waiting > 0 and (other is None or self.first() < other)

    def count_before(self, other: Place | None, most: int) -> int:
        """Number of pending asks ahead of `other` (all, if None), capped at `most`."""
        heap, positions, count = self.heap, [0], 0
        while positions and count < most:
            position = positions.pop()
            # What is below an entry of a heap does not come before it.
            if position < len(heap) and (other is None or heap[position] < other):
                count += waits(heap[position])
                positions += (2 * position + 1, 2 * position + 2)
        return count


def _forget(place: Place) -> None:
    """The place is out of the heap; the request may have another one by now."""
    if place.request.arrival == place.arrival:
        place.request.is_queued = False


def waits(place: Place) -> bool:
    """True if the request is pending, at this place."""
    request = place.request
    return request.state is PENDING and request.arrival == place.arrival


class AgedAsks:
    """The asks of a group that wait for a remedy and are old enough for it, as one item.

    It is ranked among the groups of its application, behind the first of its asks that is old
    enough: `step` says how far behind. `_ready` has those that are, in order; `_young` the others,
    the oldest first. Asks that do not qualify any more are forgotten when they come to the top.
    """

    __slots__ = ("_age", "_ready", "_young", "app", "asked", "blocker", "group", "paused_until")

    step: ClassVar[int] = 0
    """Its place among the items that are ranked by one ask: the group itself has none."""
    by_settings = True
    """True if a setting of the queue says how old the asks have to be."""

    def __init__(self, group: AskGroup, now: float) -> None:
        """Start with all asks of the group."""
        self.app = group.app
        self.group = group
        self.blocker: Any = None
        self.paused_until, self.asked = -inf, 0
        """Time at which it may be tried again (unix seconds), and questions to the RM since the last plan."""
        self._age = self.age()
        self._fill(now)

    def age(self) -> float:
        """How old the asks have to be, in seconds."""
        return 0.0

    def rests(self, now: float) -> bool:
        """True if it is not ranked now: whoever has made it rest ranks it later."""
        return now < self.paused_until

    def held_until(self, now: float) -> float | None:
        """Time until which it must not be tried, in unix seconds; None if it may be now."""
        return None

    def end_wait(self, now: float) -> bool:
        """End the wait that it was parked for, if its time has come; True if so."""
        return False

    def let_go(self) -> None:
        """Forget the asks: stale entries may still know the request."""
        self._ready.clear()
        self._young.clear()

    def qualifies(self, place: Place) -> bool:
        """True if the ask qualifies, apart from its age."""
        return waits(place)

    def add(self, place: Place, now: float) -> None:
        """Add a pending ask."""
        if not self.qualifies(place):
            return
        if place.create_time + self._age <= now:
            heappush(self._ready, place)
        else:
            heappush(self._young, (place.create_time, place))
        if len(self._ready) + len(self._young) > SLACK + 2 * self.group.waiting:
            self._fill(now)

    def first(self) -> Place | None:
        """The first ask in order that is old enough."""
        ready = self._ready
        while ready and not self.qualifies(ready[0]):
            heappop(ready)
        return ready[0] if ready else None

    def key(self) -> tuple[object, ...] | None:
        """Rank of the item; None if no ask is old enough."""
        first = self.first()
        return None if first is None else (*first[:3], self.step)

    def mature(self, now: float) -> None:
        """Move asks that are old enough to the ready ones; of very many, the oldest first."""
        young = self._young
        for _ in range(MATURED_AT_ONCE):
            if not young or young[0][0] + self._age > now:
                break
            heappush(self._ready, heappop(young)[1])

    def next_time(self, now: float) -> float | None:
        """Time at which the next ask is old enough, in unix seconds, or more become ready."""
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
    """The asks of a group that found no node, and hold none for later."""

    __slots__ = ()

    def qualifies(self, place: Place) -> bool:
        """True if the ask has no node reserved, and holds no claim."""
        request = place.request
        reservation = request.reservation
        holds = request.claim is not None or (reservation is not None and reservation.node_id is not None)
        return not holds and waits(place)


class ReservationRequest(OfNoNode):
    """The asks that may have a node reserved (spec §§ 8.5, 8.7). One that requires its node may at once."""

    __slots__ = ()

    step: ClassVar[int] = 1
    by_settings = False

    def age(self) -> float:
        """`RESERVATION_AGE`, but 0 for asks that require their node."""
        return RESERVATION_AGE if self.group.ask_class.required_node is None else 0.0
