"""One node: capacity, contents, and available amounts (spec § 7); and the log of changed nodes."""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Generic, TypeVar

from licorne_core.messages.operators import OperatorMark
from licorne_core.model.nodes.claims import HeldRoom
from licorne_core.values.asks import Allocation, AskClass, Reservation, Shape, extended
from licorne_core.values.ids import AllocationKey, AppId, NodeId
from licorne_core.values.resources import Items, Resources, charge, refund
from licorne_core.values.rm_caps import footprint_of

T = TypeVar("T", bound=Hashable)

NO_ANSWER = "no answer in time"
"""A predicate result that the RM never gave: the node is skipped for a while."""

RESERVED = "reserved"
"""Reason for excluding a node whose free room is reserved for others."""

CLOSED = "cordoned"
"""Reason for excluding a node that is closed."""

_NOTHING: dict[str, int] = {}


@dataclass(slots=True, init=False, eq=False)
class Node:
    """available = capacity - allocated - occupied, always; it may be below zero (spec § 7.2).

    Of the four, `allocated` is derived: it changes with every allocation, and only reports read it.

    A node is schedulable if its RM says so (`wanted`) and it is not `closed`. An *open* node is schedulable,
    and no reservation takes all of it. The books write only the amounts; the last three groups of fields
    belong to other modules, which are notified of every change.
    """

    node_id: NodeId
    attributes: Mapping[str, str]
    wanted: bool
    closed: OperatorMark | None
    """Mark of the operator who closed the node to new allocations; None if it is not closed."""
    schedulable: bool
    open: bool
    capacity: Resources
    occupied: dict[str, int]
    """Amounts of foreign allocations, by resource name (spec § 7.3)."""
    available: dict[str, int]
    """Available amounts, by resource name."""
    preempting: dict[str, int]
    """Amounts of `allocated` that belong to victims, by resource name."""
    allocations: dict[Allocation, None]
    """Allocations on the node, in the order of booking."""
    foreign: dict[AllocationKey, Allocation]
    """Allocations of other schedulers."""
    reservations: dict[tuple[AppId, AllocationKey], Reservation]
    """Reservations of the node, by ask."""
    kept: dict[str, int]
    """Amounts that asks without a reservation on the node have to leave free, by resource name."""
    claims: dict[Any, HeldRoom]
    """Room that is held from a later time on, by claim (`model/claims.py`)."""
    yielded: bool
    """True if a reservation of the node has yielded since the last review."""
    birth: int
    """Number among all nodes ever added, which distinguishes successive nodes with the same id."""
    score: Any
    """Set by the node index: sort key in node order, smallest first; None before the first sort."""
    version: int
    """Set by the node index: rises with every change of the node."""
    known_version: int
    """Set by the predicate checks: rises with every change by the RM, or of which the RM is notified."""
    narrowed_version: int
    """Set by the predicate checks: like `known_version`, without changes that only freed room."""
    assumed: int
    """Set by the predicate checks: number of requests booked here while the RM is asked about the node."""
    linked: int
    """Number of requests booked here before their placeholders on other nodes have ended (§ 6.5)."""
    results: dict[tuple[AskClass, bool], str]
    """Set by the predicate checks: the RM's answers by class, for the node in its current state.

    A value is empty if the RM accepted, else `NO_ANSWER` or the reason of the refusal. The flag is False
    for reservations.
    """

    def __init__(
        self, node_id: NodeId, capacity: Resources, attributes: Mapping[str, str], *, schedulable: bool
    ) -> None:
        """Create an empty node."""
        self.node_id = node_id
        self.attributes = attributes
        self.wanted = schedulable
        self.closed = None
        self.schedulable = schedulable
        self.open = schedulable
        self.capacity = capacity
        self.occupied = {}
        self.available = dict(capacity)
        self.preempting = {}
        self.allocations = {}
        self.foreign = {}
        self.reservations = {}
        self.kept = {}
        self.claims = {}
        self.yielded = False
        self.birth = 0
        self.score = None
        self.version = 0
        self.known_version = 0
        self.narrowed_version = 0
        self.assumed = 0
        self.linked = 0
        self.results = {}

    def __repr__(self) -> str:
        """``<Node n1 schedulable: available {...}, 3 allocations>``."""
        state = "schedulable" if self.schedulable else "unschedulable"
        return (
            f"<Node {self.node_id} {state}: available {self.available}, {len(self.allocations)} allocations>"
        )

    def set_schedulable(self, *, schedulable: bool) -> None:
        """Set whether the RM allows new asks on the node; it may drain and reopen the node."""
        self.wanted = schedulable
        self._derive()

    def close(self, mark: OperatorMark | None) -> None:
        """Close the node to new allocations; reopen it if `mark` is None."""
        self.closed = mark
        self._derive()

    def _derive(self) -> None:
        self.schedulable = self.wanted and self.closed is None
        self.open = self.schedulable and not any(r.exclusive for r in self.reservations.values())

    def add_reservation(self, reservation: Reservation) -> None:
        """Add a reservation, and reserve its amounts."""
        self.reservations[reservation.app_id, reservation.key] = reservation
        charge(self.kept, reservation.items)
        self._derive()

    def drop_reservation(self, reservation: Reservation) -> None:
        """Remove a reservation, and free its room."""
        del self.reservations[reservation.app_id, reservation.key]
        refund(self.kept, reservation.items)
        self._derive()

    @property
    def footprint(self) -> int:
        """Estimated bytes of memory of its attributes and amounts."""
        return footprint_of(self.attributes) + 3 * footprint_of(self.capacity)

    @property
    def allocated(self) -> dict[str, int]:
        """Booked amounts, by resource name."""
        booked = dict(self.capacity)
        for left in (self.available, self.occupied):
            for name, value in left.items():
                booked[name] = booked.get(name, 0) - value
        return {name: value for name, value in booked.items() if value}

    def set_capacity(self, capacity: Resources) -> None:
        """Replace the capacity; the node's allocations continue."""
        allocated = self.allocated
        self.capacity = capacity
        self.available = dict(capacity)
        for taken in (allocated, self.occupied):
            for name, value in taken.items():
                self.available[name] = self.available.get(name, 0) - value

    def takes(self, wanted: AskClass | Shape, *, reserved: bool = False, holder: object = None) -> bool:
        """True if an ask may be placed here now, by the answers so far; `refusal` gives the reason if not."""
        return self.refusal(wanted, reserved=reserved, holder=holder) is None

    def refusal(
        self, wanted: AskClass | Shape, *, reserved: bool = False, holder: object = None
    ) -> str | None:
        """Reason why an ask may not be placed here now; None if it may. No other method decides this.

        A closed node takes only asks that have it reserved (`reserved`), and asks that require it (spec §§
        7.4, 7.7). Others have to leave the reserved room free, or the whole node if the reservation is
        exclusive. They also have to leave room free that is held from a later time on, except asks of the
        claim `holder`, and asks with a reservation, for which victims were stopped. For a shape, the RM's
        answers do not count.
        """
        required = wanted.required_node
        kept = self.kept
        if required is not None or reserved:
            kept = _NOTHING
        if required is not None:
            if required != self.node_id:
                return "another node is required"
        elif not (self.open or reserved):
            if self.schedulable:
                return RESERVED
            return CLOSED if self.closed is not None else "unschedulable"
        available = self.available
        beside = True
        for name, value in wanted.items:
            left = available.get(name, 0)
            if left < value:
                never = [what for what, most in wanted.items if self.capacity.get(what, 0) < most]
                return f"too small: {' and '.join(never)}" if never else f"full: {name}"
            if kept and left - kept.get(name, 0) < value:
                beside = False
        if not beside:
            return RESERVED
        behind = self._claimed(wanted, holder) if self.claims and not reserved else None
        if behind is not None:
            return behind
        return self._refused(wanted) if self.results else None

    def _refused(self, wanted: AskClass | Shape) -> str | None:
        """The RM's refusal of the class, or `NO_ANSWER`; None if there is neither, and for a shape."""
        refused = self.results.get((wanted, True)) if isinstance(wanted, AskClass) else None
        if not refused:
            return None
        return refused if refused is NO_ANSWER else f"refused: {refused}"

    def _claimed(self, wanted: AskClass | Shape, holder: object) -> str | None:
        """Reason of a claim that excludes the ask now; None if none does, or the ask requires the node."""
        if wanted.required_node is not None:
            return None
        for claim, room in self.claims.items():
            if claim is not holder and not room.lets(wanted, self, holder):
                return room.reason
        return None

    def is_refused(self, ask_class: AskClass) -> bool:
        """True if the RM has refused the node to asks of the class; a missing answer is no refusal."""
        reason = self.results.get((ask_class, True))
        return bool(reason) and reason is not NO_ANSWER

    def note_known_change(self, *, narrowed: bool) -> bool:
        """Void the RM's results because the RM has changed the node; return True if it had refused a class.

        With `narrowed`, acceptances in open answers are void too: the RM may have decided before the change.
        A removal only frees room.
        """
        self.known_version += 1
        if narrowed:
            self.narrowed_version += 1
        return bool(self.results) and self.forget_results()

    def forget_results(self) -> bool:
        """Void the results of a changed node; return True if the RM had refused a class on it.

        Open answers still count: the RM gives them after its earlier acceptances.
        """
        refused = any(self.results.values())
        self.results.clear()
        return refused

    def may_be_reserved(self, wanted: AskClass | Shape) -> bool:
        """True if the node may be reserved for an ask that fits no node now (spec §§ 8.5, 8.7).

        A node that the RM refuses now is not reserved. Room that was given up is available to all asks until
        the next review.
        """
        if isinstance(wanted, AskClass) and self.is_refused(wanted):
            return False
        if wanted.required_node is not None:
            return wanted.required_node == self.node_id
        if not self.schedulable or self.reservations or self.kept or self.claims or self.yielded:
            return False
        if not self.holds(wanted.items):
            return False
        return not (isinstance(wanted, AskClass) and self.results.get((wanted, False)))

    @property
    def keeps_victims(self) -> bool:
        """True if a reservation keeps others from the victims on the node; a provisional one does not."""
        reservations = self.reservations
        return bool(reservations) and any(not one.provisional for one in reservations.values())

    def holds(self, items: Items) -> bool:
        """True if the amounts would fit on the empty node."""
        return all(self.capacity.get(name, 0) >= value for name, value in items)


def overhang_of(node: Node) -> Items:
    """Amounts allocated beyond the node's capacity, without foreign allocations, which count in no queue."""
    occupied = node.occupied
    beyond = ((name, -left - occupied.get(name, 0)) for name, left in node.available.items())
    return tuple((name, value) for name, value in beyond if value > 0)


def usable(node: Node) -> Items:
    """Amounts for queues: capacity less foreign allocations; on a closed node, allocations less victims."""
    left = dict(node.capacity)
    refund(left, tuple(node.occupied.items()))
    if not node.schedulable:
        refund(left, tuple(node.preempting.items()))
        refund(left, tuple(node.available.items()))
    return tuple([(name, value) for name, value in left.items() if value > 0])


def room_at(node: Node, items: Items, now: float) -> float:
    """Time at which the node has room for the amounts, as expected at `now`; both in unix seconds.

    It never falls as time passes: the longer an allocation is overdue, the later it is expected to end. Minus
    infinity if there is room now, infinity if not even the ends of all allocations leave enough.
    """
    missing = {name: value - node.available.get(name, 0) for name, value in items}
    missing = {name: value for name, value in missing.items() if value > 0}
    if not missing:
        return -inf
    ends = sorted(
        (extended(one.allocation_time + one.expected_runtime, now), one.ask.ask_class.items)
        for one in node.allocations
    )
    for end, freed in ends:
        for name, value in freed:
            if name in missing:
                missing[name] -= value
                if missing[name] <= 0:
                    del missing[name]
        if not missing:
            return end
    return inf


def is_out(node: Node, ask_class: AskClass) -> bool:
    """True if no room may be reserved on the node for the class: the RM has refused, or not answered."""
    results = node.results
    return bool(results and (results.get((ask_class, True)) or results.get((ask_class, False))))


def refuses(node: Node, ask_class: AskClass) -> bool:
    """True if the RM has refused the class on the node, or a reservation; a missing answer is no refusal."""
    reasons = [node.results.get((ask_class, allocate)) for allocate in (True, False)] if node.results else []
    return any(reason and reason is not NO_ANSWER for reason in reasons)


class Recent(Generic[T]):
    """Objects in the order of their last changes, as a log for any number of readers.

    A reader stores the `count` up to which it has read. An object with several changes is read once, so the
    log has at most one entry for each object, whatever its readers do.
    """

    __slots__ = ("_last", "count")

    count: int
    """Number of recorded changes so far."""

    def __init__(self) -> None:
        """Start without objects."""
        self.count = 0
        self._last: dict[T, int] = {}

    def note(self, thing: T) -> None:
        """Record a change of the object."""
        self.count += 1
        self._last.pop(thing, None)
        self._last[thing] = self.count

    def number(self, thing: T) -> int:
        """Number of the object's last change; 0 if it has not changed."""
        return self._last.get(thing, 0)

    def forget(self, thing: T) -> None:
        """Remove an object from the log."""
        self._last.pop(thing, None)

    def clear(self) -> None:
        """Remove all objects from the log."""
        self._last.clear()

    def since(self, count: int) -> Iterator[T]:
        """Yield the objects changed after the first `count` changes, the latest first."""
        for thing, number in reversed(self._last.items()):
            if number <= count:
                return
            yield thing
