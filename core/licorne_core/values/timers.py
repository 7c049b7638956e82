"""Deadlines as data: the core never waits, but returns its next deadline."""

from collections.abc import Hashable
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar, cast

from licorne_core.values.ids import AllocationKey, AppId, NodeId
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
    SHADOW = "plan an overdue start again"
    TRY_AGAIN = "try an ask again"
    CLEAN_QUEUES = "clean queues"
    INSPECT = "inspect what waits"
    ANSWER = "expect an answer"
    RETRY = "ask again"
    QUOTA = "enforce lowered maxima"
    DRAIN = "stop an allocation of a drained node"
    NOTICE = "stop a victim under notice"
    HOURS = "follow the hours of budgets"
    PLACE = "keep no longer the place"


class Timer(NamedTuple):
    """Kind of a deadline, with its application, ask, predicate check or node, if any."""

    due: Due
    app_id: AppId = AppId("")
    key: AllocationKey = AllocationKey("")
    check: int = 0
    node_id: NodeId = NodeId("")


class Timers(Generic[T]):
    """At most one deadline for each name, in unix seconds. Equal deadlines come in the order of setting."""

    __slots__ = ("_names", "_serial")

    def __init__(self) -> None:
        """Start empty."""
        self._names: Ranking[T] = Ranking()
        self._serial = 0

    def __contains__(self, name: T) -> bool:
        """True if the name has a deadline."""
        return name in self._names

    def names(self) -> list[T]:
        """Names with a deadline, the earliest first."""
        return self._names.ordered()

    def deadline(self, name: T) -> float | None:
        """Deadline of the name; None for none."""
        entry = self._names.entry(name)
        return None if entry is None else cast(float, entry.key[0])

    def set(self, name: T, deadline: float) -> None:
        """Set the deadline of the name, in place of any earlier one."""
        self._serial += 1
        self._names.put(name, (deadline, self._serial))

    def cancel(self, name: T) -> None:
        """Remove the deadline of the name, if any."""
        self._names.discard(name)

    def clear(self) -> None:
        """Remove all deadlines."""
        self._names.clear()

    def next_deadline(self) -> float | None:
        """Earliest deadline; None for none."""
        name = self._names.top()
        return None if name is None else self.deadline(name)

    def take_due(self, now: float) -> T | None:
        """Remove and return the name of the earliest deadline up to `now`; None for none."""
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return None
        name = self._names.top()
        if name is not None:
            self._names.discard(name)
        return name
