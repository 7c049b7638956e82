"""Deadlines as data: the core never waits, but returns its next deadline."""

from collections.abc import Hashable
from enum import StrEnum
from heapq import heapify, heappop, heappush
from typing import Final, Generic, NamedTuple, TypeVar

from licorne_core.values.ids import AllocationKey, AppId, NodeId

T = TypeVar("T", bound=Hashable)


class Due(StrEnum):
    """Kind of deadline of a partition."""

    COMPLETE = "complete"
    PLACEHOLDERS = "stop placeholders"
    GO_ON = "continue the work of a deadline"
    ESCALATE = "escalate"
    EXPIRE = "expire"
    EXPIRE_REJECTED = "expire as rejected"
    UNRESERVE = "unreserve"
    REVIEW = "review reservations"
    TRY_AGAIN = "try an ask again"
    CLEAN_QUEUES = "clean queues"
    NODE_ORDER = "look whether nodes are to be packed"
    ANSWER = "expect an answer"
    RETRY = "ask again"
    EXTENSION = "let an extension follow the time"
    EXTENSION_WORK = "let an extension do its work"


class Timer(NamedTuple):
    """Kind of a deadline, and the application, ask, predicate check, node or extension concerned."""

    due: Due
    app_id: AppId = AppId("")
    key: AllocationKey = AllocationKey("")
    check: int = 0
    node_id: NodeId = NodeId("")
    name: str = ""


_SLACK: Final = 32


class Timers(Generic[T]):
    """At most one deadline for each name, in unix seconds.

    Equal deadlines are ordered by the time of setting.

    Always true: the heap has an entry for each deadline, with its serial number; entries with other numbers
    are stale. So moving a deadline costs one entry: each allocation moves deadlines of budgets.
    """

    __slots__ = ("_heap", "_serial", "_set")

    _heap: list[tuple[float, int, T]]
    """Deadlines with their serial numbers, which are unique, so that names are never compared."""
    _set: dict[T, tuple[float, int]]

    def __init__(self) -> None:
        """Start empty."""
        self._heap = []
        self._serial = 0
        self._set = {}

    def __contains__(self, name: T) -> bool:
        """True if the name has a deadline."""
        return name in self._set

    def names(self) -> list[T]:
        """Names with a deadline, in order of their deadlines."""
        return sorted(self._set, key=self._set.__getitem__)

    def deadline(self, name: T) -> float | None:
        """Deadline of the name, in unix seconds; None if it has none."""
        found = self._set.get(name)
        return None if found is None else found[0]

    def set(self, name: T, deadline: float) -> None:
        """Set the deadline of the name, which replaces any earlier one."""
        self._serial += 1
        self._set[name] = (deadline, self._serial)
        heappush(self._heap, (deadline, self._serial, name))
        if len(self._heap) > _SLACK + 2 * len(self._set):
            self._heap = [(at, serial, one) for one, (at, serial) in self._set.items()]
            heapify(self._heap)

    def cancel(self, name: T) -> None:
        """Remove the deadline of the name, if it has one."""
        self._set.pop(name, None)

    def clear(self) -> None:
        """Remove all deadlines."""
        self._set.clear()
        self._heap.clear()

    def next_deadline(self) -> float | None:
        """The earliest deadline, in unix seconds; None if there is none."""
        heap = self._heap
        while heap:
            deadline, serial, name = heap[0]
            found = self._set.get(name)
            if found is not None and found[1] == serial:
                return deadline
            heappop(heap)
        return None

    def take_due(self, now: float) -> T | None:
        """Remove and return the name of the earliest deadline up to `now`; None if there is none."""
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return None
        name = heappop(self._heap)[2]
        del self._set[name]
        return name


class Clock(Generic[T]):
    """Deadlines of objects of one kind, and the timer of their partition for the earliest of them.

    Always true: the timer is set to the earliest deadline, except while due objects are processed.
    """

    __slots__ = ("_deadlines", "_timer", "_timers")

    def __init__(self, timers: Timers[Timer], timer: Timer) -> None:
        """Start without objects. `timer` is the timer that is set in `timers`."""
        self._deadlines: Timers[T] = Timers()
        self._timers, self._timer = timers, timer

    def __contains__(self, thing: T) -> bool:
        """True if the object has a deadline."""
        return thing in self._deadlines

    def deadline(self, thing: T) -> float | None:
        """Deadline of the object, in unix seconds; None if it has none."""
        return self._deadlines.deadline(thing)

    def set(self, thing: T, deadline: float) -> None:
        """Set the deadline of the object, which replaces any earlier one."""
        self._deadlines.set(thing, deadline)
        self.arm()

    def cancel(self, thing: T) -> None:
        """Remove the deadline of the object, if it has one."""
        self._deadlines.cancel(thing)
        self.arm()

    def take_due(self, now: float) -> T | None:
        """Remove and return the first object with a deadline up to `now`, or None; call `arm` afterwards."""
        return self._deadlines.take_due(now)

    def arm(self) -> None:
        """Set the timer to the earliest deadline."""
        first = self._deadlines.next_deadline()
        if first is None:
            self._timers.cancel(self._timer)
        elif first != self._timers.deadline(self._timer):
            self._timers.set(self._timer, first)

    @property
    def is_armed(self) -> bool:
        """True if the timer is set to the earliest deadline."""
        return self._deadlines.next_deadline() == self._timers.deadline(self._timer)
