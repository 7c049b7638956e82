"""Deadlines as data (DESIGN § 2): the core never waits, it returns its next deadline."""

from collections.abc import Hashable
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar, cast

from licorne_core.values.ids import AllocationKey, AppId
from licorne_core.values.ranking import Ranking

T = TypeVar("T", bound=Hashable)


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


class Timers(Generic[T]):
    """At most one deadline for each name; times are in unix seconds. Equal ones come as they were set."""

    __slots__ = ("_names", "_serial")

    def __init__(self) -> None:
        """Start with none."""
        self._names: Ranking[T] = Ranking()
        self._serial = 0

    def __contains__(self, name: T) -> bool:
        """True if the name has a deadline."""
        return name in self._names

    def names(self) -> list[T]:
        """All names that have a deadline, the earliest first."""
        return self._names.ordered()

    def deadline(self, name: T) -> float | None:
        """The name's deadline, if it has one."""
        entry = self._names.entry(name)
        return None if entry is None else cast(float, entry.key[0])

    def set(self, name: T, deadline: float) -> None:
        """Give the name a deadline, instead of the one it has."""
        self._serial += 1
        self._names.put(name, (deadline, self._serial))

    def cancel(self, name: T) -> None:
        """Take the name's deadline away, if it has one."""
        self._names.discard(name)

    def clear(self) -> None:
        """No name has a deadline any more."""
        self._names.clear()

    def next_deadline(self) -> float | None:
        """The earliest deadline."""
        name = self._names.top()
        return None if name is None else self.deadline(name)

    def take_due(self, now: float) -> T | None:
        """Take out the earliest name whose deadline has come."""
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return None
        name = self._names.top()
        if name is not None:
            self._names.discard(name)
        return name
