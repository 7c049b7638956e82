"""One shadow start, and the plan that makes it (`shadows.py`)."""

from collections.abc import Sequence
from math import inf
from typing import Any

from licorne_core.extensions.backfill import NAME, START_BY
from licorne_core.extensions.backfill.charges import HeldAmounts
from licorne_core.extensions.backfill.maxima import binding, is_tight
from licorne_core.extensions.backfill.planned_room import BEHIND, AllocationId, PlannedClaim, PlannedRoom
from licorne_core.extensions.backfill.unplanned import REPLAN_TIME
from licorne_core.messages.claims import BehindReservationCheck
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.quotas import Quota
from licorne_core.model.runtimes import Confidence
from licorne_core.values.asks import Passed
from licorne_core.values.ids import AllocationKey
from licorne_core.values.resources import Items, charge
from licorne_core.values.tags import read_seconds
from licorne_core.values.timers import Due, Timer

MOST_EXCEEDED = 16
"""Maximum number of plans in `REPLAN_TIME` for one holder, because of maxima without room for its start."""


class ShadowStart(PlannedClaim):
    """The planned start of an ask or a gang, with the room on nodes that is held for it.

    Times are in unix seconds. Compared by identity.
    """

    is_gang: bool
    """True if its members are all placeholders of a gang; False if they are one ask."""
    stamp: object
    """Stamp of the sets of nodes for its members at the time of the plan (`NodeSets`)."""
    first_told: float
    """The start as first published."""
    since: float
    """Time of that publication."""
    expected_end: float
    """Its expected end, inf for unknown."""
    confidence: Confidence
    places: dict[Node, Items]
    """Amounts that are held on nodes, by node."""
    held: HeldAmounts
    """Amounts that are held of the quotas with a maximum."""
    behind: list[Quota]
    """The maxima under which it did not fit at its first publication, or when it stopped waiting, as far as
    they still count; none for a start that `waits`."""
    waits: bool
    """True if it is counted among the starts that wait for an opening: its leaf is closed at some time until
    the start, or else there has been no place among the others since."""
    opens_at: float
    """The start at which its leaf is known to be open, as of the last configuration."""
    looked_at: float
    """Time of the last plan, or of the last search for an earlier start."""
    read_to: int
    """Number of changes of nodes considered in the search for an earlier start (`NodeBook.changed`)."""
    changes_read: int
    """Number of changes that search has considered (`LookBudget.changes`)."""
    lost_node: bool
    """True if one of its nodes was removed, takes no more asks, or has another size."""
    is_stale: bool
    """True if it has to be planned again."""
    asked: int
    """Number of questions to the RM about nodes since the last plan."""
    reported_late: bool
    """True once an event was published that it is later than requested."""

    def __init__(self, shadows: Any, plan: "StartPlan", now: float) -> None:
        """Create a start by a plan; `shadows` are those of the partition."""
        self.shadows = shadows
        self.app = plan.app
        self.number = shadows.published
        self.first_told = plan.start
        self.since = now
        self.waits = self.reported_late = False
        self._exceeded: list[float] = []
        self.places = {}
        self.behind = binding(plan.app, plan.total, None)
        self.follow(plan, now)

    def follow(self, plan: "StartPlan", now: float) -> None:
        """Apply another plan for the same holder; the shadow starts book its room."""
        self.members = plan.members
        self.is_gang = plan.app.gang.has_member(plan.request.ask)
        self.stamp = plan.stamp
        self.start, self.expected_end, self.confidence = plan.start, plan.end, plan.confidence
        self.declared = max(request.ask.ask_class.runtime for request, _ in plan.members)
        self.runtime = self.declared if self.declared < inf else plan.end - plan.start
        self.total = plan.total
        self.late = 0.0
        self.is_stale = self.is_overdue = self.lost_node = False
        if plan.waits:
            self.waits, self.behind = True, []
        self.opens_at = plan.start
        self.read_to = plan.read_to
        self.looked(now)
        self.asked = 0

    def move(self, delay: float) -> None:
        """Move the start, because an earlier one is late."""
        self.start += delay
        self.expected_end += delay
        self.late += delay
        for node in self.places:
            room = node.claims[self]
            assert isinstance(room, PlannedRoom), "it is that of a start"
            room.move(delay)
        self.held.move(delay)

    def looked(self, now: float) -> None:
        """Note a complete search for an earlier start."""
        self.looked_at = now
        self.changes_read = self.shadows.budget.changes

    @property
    def request(self) -> Request:
        """The ask; for a gang the first one."""
        return self.members[0][0]

    @property
    def most(self) -> int:
        """Maximum number of starts behind one maximum."""
        most: int = self.shadows.most
        return most

    @property
    def start_by(self) -> float:
        """The latest requested start of the holder, in unix seconds; 0.0 for none."""
        return start_by(self.app, self.request)

    @property
    def is_closed(self) -> bool:
        """True if its leaf is closed now."""
        return not self.shadows.openings.is_open(self.app.leaf)

    @property
    def timer(self) -> Timer:
        """The name of its deadline."""
        return Timer(Due.EXTENSION, self.app.app_id, self.request.key, name=NAME)

    @property
    def as_passed(self) -> Passed:
        """Its holder, and its start: an allocation that passes it is a backfilled one."""
        key = AllocationKey("") if self.is_gang else self.request.key
        return Passed(NAME, self.app.app_id, key, self.start)

    @property
    def exceeds(self) -> bool:
        """True if the amounts do not fit under a maximum of its own partition at the start.

        The maximum has fallen, or asks within a guarantee, or the RM, use some of what was free. What others
        leave of a budget comes and goes: it counts when the start is due.
        """
        return any(quota.max is not None and self.held.exceeds(quota) for quota in self.held.quotas)

    def exceeds_again(self, now: float) -> bool:
        """True if it exceeds a maximum, and is therefore to be planned again: only so often in `REPLAN_TIME`.

        Otherwise plans that exceed the maximum immediately would keep the turns busy forever.
        """
        if not self.exceeds:
            return False
        self._exceeded = [time for time in self._exceeded if now < time + REPLAN_TIME]
        if len(self._exceeded) == MOST_EXCEEDED:
            return False
        self._exceeded.append(now)
        return True

    def decide(self, now: float) -> Any:
        """Decide on its start (see `planned_starts.py`)."""
        return self.shadows.decide(self, now)

    def placed(self, node: Node, now: float) -> None:
        """Record the difference to the start as first published, with which other starts were planned.

        Even on another node it may be late for the starts under its maxima.
        """
        self.shadows.started(self, now, is_there=node in self.places)
        self.shadows.counters.note_eta_error(self.confidence, now - self.first_told)

    def end(self) -> None:
        """End the start, so that another ask may hold one."""
        self.shadows.end(self)

    def leave(self, request: Request) -> None:
        """Hold nothing for an ask that is withdrawn."""
        self.shadows.leave(self, request)

    def give_up(self, now: float) -> None:
        """End the start; the ask may have another one later."""
        self.shadows.give_up(self, now)

    def lose(self, node: Node) -> None:
        """Plan the start again, because a node was lost."""
        self.shadows.lose(self, node)

    def give_way(self, node: Node, now: float) -> None:
        """Plan the start again, beside all others: none moves for it, also if it is overdue.

        It stays if it is not due yet, and an ask that was placed on the node leaves it its room.
        """
        nothing = tuple((name, 0) for name, _ in self.places[node])
        if self.start <= now or not node.claims[self].has_left(nothing, node, None):
            self.is_stale, self.is_overdue = True, False

    def check(self, request: Request) -> BehindReservationCheck | None:
        """Count its nodes that refuse the request because of it."""
        ask_class, own = request.ask.ask_class, request.claim
        nodes = sum(node.refusal(ask_class, holder=own) == BEHIND for node in self.places)
        if not nodes:
            return None
        return BehindReservationCheck(held=self.as_passed, claim="shadow start", nodes=nodes)


def _amounts_of(members: Sequence[tuple[Request, Node]]) -> Items:
    """Total amounts of the asks."""
    total: dict[str, int] = {}
    for request, _ in members:
        charge(total, request.ask.ask_class.items)
    return tuple(sorted(total.items()))


def keep_for(shadow: ShadowStart, members: Sequence[tuple[Request, Node]], left: Node) -> list[Node]:
    """Hold a start for these members only; another one had its room on the node that is `left`.

    Return the nodes with less room held than before, or until an earlier time.
    """
    shadow.members, shadow.total = members, _amounts_of(members)
    shadow.declared = max(request.ask.ask_class.runtime for request, _ in members)
    shadow.runtime = min(shadow.runtime, shadow.declared)
    end = min(shadow.expected_end, shadow.start + shadow.declared)
    changed = [node for node in shadow.places if node is left or end < shadow.expected_end]
    if left in shadow.places:
        shadow.places[left] = _amounts_of([one for one in members if one[1] is left])
    for node in changed:
        room = node.claims[shadow]
        assert isinstance(room, PlannedRoom), "it is that of a start"
        room.keep(shadow.places[node], end)
    shadow.held.keep(shadow.total, end)
    shadow.expected_end = end
    shadow.looked_at, shadow.read_to = -inf, 0
    return changed


def share_room(one: ShadowStart, other: ShadowStart, *, is_there: bool) -> bool:
    """True if both hold some of a tight quota or, if the first `is_there`, room on the same node."""
    if is_there and not one.places.keys().isdisjoint(other.places):
        return True
    shared = [quota for quota in one.held.quotas if quota in other.held.quotas]
    return any(is_tight(quota, one, one.held.items) for quota in shared)


def start_by(app: Application, request: Request) -> float:
    """The latest requested start in unix seconds, 0.0 for none; the ask's tag overrides the application's."""
    tags = request.ask.tags if START_BY in request.ask.tags else app.tags
    return float(read_seconds(tags, START_BY) or 0)


class StartPlan:
    """A decision: the asks hold this start from now on; `shadow` is their present one.

    `going` are the allocations on each node that are expected to end by the start. `total` are the amounts of
    all asks. `ended` are allocations charged to their quotas that are expected to end by then without having
    declared it.
    """

    __slots__ = (
        "app",
        "confidence",
        "end",
        "ended",
        "going",
        "members",
        "places",
        "read_to",
        "shadow",
        "stamp",
        "start",
        "total",
        "waits",
    )

    def __init__(
        self,
        app: Application,
        members: Sequence[tuple[Request, Node]],
        start: float,
        end: float,
        confidence: Confidence,
        places: dict[Node, Items],
        going: dict[Node, frozenset[AllocationId]],
        total: Items,
        ended: frozenset[AllocationId],
        stamp: object,
        shadow: ShadowStart | None,
        read_to: int,
        *,
        waits: bool,
    ) -> None:
        """Create a plan without booking it; `read_to` is the number of changes of nodes that it considers.

        With `waits` the leaf is closed at some time until the start.
        """
        self.waits = waits
        self.read_to = read_to
        self.app = app
        self.members = members
        self.start = start
        self.end = end
        self.confidence = confidence
        self.places = places
        self.going = going
        self.total = total
        self.ended = ended
        self.stamp = stamp
        self.shadow = shadow

    @property
    def request(self) -> Request:
        """The ask; for a gang the first one."""
        return self.members[0][0]
