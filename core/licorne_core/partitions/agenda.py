"""Agenda: partitions that have something to do, by time, so that others are not looked at.

After a change of a partition its handler notes it here again. A partition that is not changed keeps
its entry, so that a command, a tick and the question for the next deadline cost nothing for the
partitions that they do not concern (DESIGN § 2, fairness between RMs).
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from licorne_core.messages.commands import Hold
from licorne_core.partitions.partition import Partition
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import PartitionName, RmId

AT_ONCE = 0.0
"""A deadline that has always passed: work is waiting."""

MAX_DEPARTED = 1024
"""Departed RMs whose last turns are still known."""

_SLACK = 64

_Key = tuple[float, int]
"""A deadline or the number of a turn, and then a number that makes it unique."""

T = TypeVar("T", bound=str)


class _Line(Generic[T]):
    """Names by their keys, the smallest first.

    The heap has an entry for every key; a name goes with its key. Entries that are not valid any
    more are forgotten when they come first, and when there are too many of them.
    """

    __slots__ = ("_heap", "keys")

    def __init__(self) -> None:
        self.keys: dict[T, _Key] = {}
        self._heap: list[tuple[_Key, T]] = []

    def put(self, name: T, key: _Key) -> None:
        if self.keys.get(name) == key:
            return
        self.keys[name] = key
        heappush(self._heap, (key, name))
        if len(self._heap) > _SLACK + 2 * len(self.keys):
            self._heap = [(key, name) for name, key in self.keys.items()]
            heapify(self._heap)

    def first(self) -> tuple[_Key, T] | None:
        heap = self._heap
        while heap:
            key, name = heap[0]
            if self.keys.get(name) == key:
                return heap[0]
            heappop(heap)
        return None


class _Place:
    """A partition with its number, which rises in order of registration, and its last turn.

    The number of the last turn is 0 for a partition that never had one.
    """

    __slots__ = ("last_turn", "number", "partition", "rm")

    def __init__(self, partition: Partition, number: int, rm: "_RmPlace") -> None:
        self.partition = partition
        self.number = number
        self.rm = rm
        self.last_turn = 0


class _RmPlace:
    """An RM with the same two numbers, its number of partitions, and those that wait."""

    __slots__ = ("last_turn", "number", "partitions", "waiting")

    def __init__(self, number: int, last_turn: int) -> None:
        self.number = number
        self.last_turn = last_turn
        self.partitions = 0
        self.waiting: _Line[PartitionName] = _Line()


class Agenda:
    """The partitions by their next deadlines, and those that wait for a turn.

    Turns go round the RMs, and those of an RM round its partitions: the number of an RM's
    partitions does not affect others. A partition of an RM that the core has failed on is never due
    and never waits. An RM that comes back keeps its last turn, so that none gets ahead by
    registering anew. Only the `MAX_DEPARTED` that left last are known again.
    """

    def __init__(self) -> None:
        """Start without partitions."""
        self._places: dict[PartitionName, _Place] = {}
        self._rms: dict[RmId, _RmPlace] = {}
        self._deadlines: _Line[PartitionName] = _Line()
        # The RMs of which a partition waits.
        self._waiting: _Line[RmId] = _Line()
        self._departed: dict[RmId, int] = {}
        self._joined = 0
        self._turns = 0

    def join(self, partition: Partition) -> None:
        """Take in a partition that was built, after all that are here."""
        self._joined += 1
        rm = self._rms.get(partition.rm_id)
        if rm is None:
            last_turn = self._departed.pop(partition.rm_id, 0)
            rm = self._rms[partition.rm_id] = _RmPlace(self._joined, last_turn)
        rm.partitions += 1
        self._places[partition.name] = _Place(partition, self._joined, rm)
        self.note(partition)

    def leave(self, partition: Partition) -> None:
        """Forget a partition that is gone, but for the last turn of its RM."""
        name, rm_id = partition.name, partition.rm_id
        rm = self._places.pop(name).rm
        self._deadlines.keys.pop(name, None)
        rm.waiting.keys.pop(name, None)
        self._rank(rm_id, rm)
        rm.partitions -= 1
        if rm.partitions:
            return
        del self._rms[rm_id]
        if rm.last_turn:
            self._departed[rm_id] = rm.last_turn
            if len(self._departed) > MAX_DEPARTED:
                del self._departed[next(iter(self._departed))]

    def note(self, partition: Partition) -> None:
        """Look at a partition that may have changed: when is it due, does it wait for a turn?

        One that is not here is passed over: its RM has left, or the core failed in building it.
        """
        name = partition.name
        place = self._places.get(name)
        if place is None or place.partition is not partition:
            return
        deadline = _deadline(partition)
        if deadline is None:
            self._deadlines.keys.pop(name, None)
        else:
            self._deadlines.put(name, (deadline, place.number))
        if partition.is_runnable:
            place.rm.waiting.put(name, (place.last_turn, place.number))
        else:
            place.rm.waiting.keys.pop(name, None)
        self._rank(partition.rm_id, place.rm)

    def _rank(self, rm_id: RmId, rm: _RmPlace) -> None:
        """An RM waits as long as one of its partitions does."""
        if rm.waiting.keys:
            self._waiting.put(rm_id, (rm.last_turn, rm.number))
        else:
            self._waiting.keys.pop(rm_id, None)

    @property
    def waiting(self) -> int:
        """Number of RMs of which a partition waits for a turn."""
        return len(self._waiting.keys)

    def next_deadline(self) -> float | None:
        """Time of the next work, in unix seconds; `AT_ONCE` while a partition waits."""
        if self._waiting.keys:
            return AT_ONCE
        if not self._deadlines.keys:
            return None
        first = self._deadlines.first()
        return None if first is None else first[0][0]

    def due(self, now: float) -> list[Partition]:
        """The partitions whose deadlines have come, in order of registration.

        They have no deadline here before they are noted again.
        """
        due: list[_Place] = []
        if not self._deadlines.keys:
            return []
        while (first := self._deadlines.first()) is not None:
            (deadline, _), name = first
            if deadline > now:
                break
            self._deadlines.keys.pop(name, None)
            due.append(self._places[name])
        due.sort(key=_number)
        return [place.partition for place in due]

    def take_turn(self) -> Partition | None:
        """Give a turn to a partition of the RM that waits and had its last one longest ago.

        Of its partitions it is the one whose own last turn is longest ago. A partition without a
        turn comes before those; of several, the one that registered first. The partition waits no
        more before it is noted again.
        """
        first = self._waiting.first() if self._waiting.keys else None
        if first is None:
            return None
        rm_id = first[1]
        rm = self._rms[rm_id]
        partition = rm.waiting.first()
        assert partition is not None, "an RM waits as long as one of its partitions does"
        name = partition[1]
        place = self._places[name]
        rm.waiting.keys.pop(name, None)
        self._turns += 1
        place.last_turn = rm.last_turn = self._turns
        self._rank(rm_id, rm)
        return place.partition

    def check(self, partitions: Mapping[PartitionName, Partition]) -> None:
        """Compare with the partitions themselves; raises InvariantBroken.

        L3: here are the partitions that there are, and no others. Each stands under its deadline
        if it has one, and waits for a turn if it is runnable, and its RM with it.
        """
        known = {name: place.partition for name, place in self._places.items()}
        if list(known.items()) != list(partitions.items()):
            raise InvariantBroken(f"L3: the agenda has {[*known]}, there are {[*partitions]}")
        waiting = [name for rm in self._rms.values() for name in rm.waiting.keys]
        for what, names in (("deadlines", self._deadlines.keys), ("turns", waiting)):
            if not partitions.keys() >= {*names}:
                raise InvariantBroken(f"L3: the agenda has {what} of partitions that are gone")
        for name, place in self._places.items():
            found = (self._deadlines.keys.get(name), place.rm.waiting.keys.get(name))
            deadline = _deadline(place.partition)
            due = None if deadline is None else (deadline, place.number)
            turn = (place.last_turn, place.number) if place.partition.is_runnable else None
            if found != (due, turn):
                raise InvariantBroken(f"L3: {name}: the agenda has {found}, not {(due, turn)}")
        wanted = {rm_id: (rm.last_turn, rm.number) for rm_id, rm in self._rms.items() if rm.waiting.keys}
        if self._waiting.keys != wanted:
            raise InvariantBroken(f"L3: RMs wait by {self._waiting.keys}, not {wanted}")


def _deadline(partition: Partition) -> float | None:
    """Time at which the partition has work.

    Never, once the core has failed on its RM, nor before the rest of a command of it is done.
    """
    if Hold.DEFECT in partition.holds or Hold.UNFINISHED in partition.holds:
        return None
    return partition.timers.next_deadline()


def _number(place: _Place) -> int:
    return place.number
