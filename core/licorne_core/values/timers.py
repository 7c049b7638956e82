"""Deadlines as data (DESIGN § 2): the core never waits, it returns its next deadline."""

from collections.abc import Hashable
from enum import StrEnum
from heapq import heapify, heappop, heappush
from typing import Any, Generic, NamedTuple, TypeVar

from licorne_core.values.ids import AllocationKey, AppId

T = TypeVar("T", bound=Hashable)

_SLACK = 64


class Due(StrEnum):
    """Kind of a partition's deadline."""

    COMPLETE = "complete"
    PLACEHOLDERS = "stop placeholders"
    GO_ON = "go on with the work of a deadline"
    STARTED = "count as started"
    ESCALATE = "escalate"
    EXPIRE = "expire"
    EXPIRE_REJECTED = "expire as rejected"
    UNRESERVE = "unreserve"
    REVIEW = "review reservations"
    TRY_AGAIN = "try an ask again"
    CLEAN_QUEUES = "clean queues"
    INSPECT = "inspect what waits"
    ANSWER = "expect an answer"
    RETRY = "ask again"
    QUOTA = "enforce lowered maxima"


class Timer(NamedTuple):
    """Kind of a deadline, and its application, ask or predicate check, if it has one."""

    due: Due
    app_id: AppId = AppId("")
    key: AllocationKey = AllocationKey("")
    check: int = 0


class _Entry(NamedTuple):
    deadline: float
    serial: int
    name: Any


class Timers(Generic[T]):
    """At most one deadline for each name; times are in unix seconds."""

    __slots__ = ("_deadlines", "_heap", "_serial")

    def __init__(self) -> None:
        """Start with none."""
        self._heap: list[_Entry] = []
        self._deadlines: dict[T, _Entry] = {}
        self._serial = 0

    def __contains__(self, name: T) -> bool:
        """True if the name has a deadline."""
        return name in self._deadlines

    def names(self) -> list[T]:
        """All names that have a deadline, in the order in which they got it."""
        return list(self._deadlines)

    def deadline(self, name: T) -> float | None:
        """The name's deadline, if it has one."""
        entry = self._deadlines.get(name)
        return None if entry is None else entry.deadline

    def set(self, name: T, deadline: float) -> None:
        """Give the name a deadline, instead of the one it has."""
        self._serial += 1
        entry = _Entry(deadline, self._serial, name)
        self._deadlines[name] = entry
        heappush(self._heap, entry)
        if len(self._heap) > _SLACK + 2 * len(self._deadlines):
            self._heap = list(self._deadlines.values())
            heapify(self._heap)

    def cancel(self, name: T) -> None:
        """Take the name's deadline away, if it has one."""
        self._deadlines.pop(name, None)

    def clear(self) -> None:
        """No name has a deadline any more."""
        self._deadlines = {}
        self._heap = []

    def next_deadline(self) -> float | None:
        """The earliest deadline."""
        heap = self._heap
        while heap:
            known = self._deadlines.get(heap[0].name)
            if known is not None and known.serial == heap[0].serial:
                return heap[0].deadline
            heappop(heap)
        return None

    def take_due(self, now: float) -> T | None:
        """Take out the earliest name whose deadline has come."""
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return None
        name: T = heappop(self._heap).name
        del self._deadlines[name]
        return name
