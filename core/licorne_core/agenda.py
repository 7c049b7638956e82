"""Which partitions have something to do, and when: kept so that nobody looks at the others.

Whoever changes a partition has it noted here again. A partition that is not changed keeps its
entry, so that a command, a tick and the question for the next deadline cost nothing for the
partitions that they do not concern (DESIGN § 2, fairness between RMs).
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

from licorne_core.commands import Hold
from licorne_core.errors import InvariantBroken
from licorne_core.ids import PartitionName
from licorne_core.partition import Partition

AT_ONCE = 0.0
"""A deadline that has always passed: work is waiting."""

MAX_DEPARTED = 1024
"""Partitions that are gone and whose last turns are still known."""

_SLACK = 64

_Key = tuple[float, int]
"""A deadline or the number of a turn, and then the partition's number, which makes it unique."""


class _Line:
    """Names of partitions by their keys, the smallest first.

    The heap has an entry for every key. Entries that are not valid any more are forgotten when
    they come first, and when there are too many of them.
    """

    __slots__ = ("_heap", "keys")

    def __init__(self) -> None:
        self.keys: dict[PartitionName, _Key] = {}
        self._heap: list[tuple[_Key, PartitionName]] = []

    def put(self, name: PartitionName, key: _Key) -> None:
        if self.keys.get(name) == key:
            return
        self.keys[name] = key
        heappush(self._heap, (key, name))
        if len(self._heap) > _SLACK + 2 * len(self.keys):
            self._heap = [(key, name) for name, key in self.keys.items()]
            heapify(self._heap)

    def discard(self, name: PartitionName) -> None:
        self.keys.pop(name, None)

    def first(self) -> tuple[_Key, PartitionName] | None:
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

    __slots__ = ("last_turn", "number", "partition")

    def __init__(self, partition: Partition, number: int, last_turn: int) -> None:
        self.partition = partition
        self.number = number
        self.last_turn = last_turn


class Agenda:
    """The partitions by their next deadlines, and those that wait for a turn by their last ones.

    A partition of an RM that the core has failed on is never due and never waits.
    A partition that comes back under its old name keeps its last turn, so that nobody gets ahead
    by registering anew. Only the `MAX_DEPARTED` that left last are known again.
    """

    def __init__(self) -> None:
        """No partitions yet."""
        self._places: dict[PartitionName, _Place] = {}
        self._deadlines = _Line()
        self._waiting = _Line()
        self._departed: dict[PartitionName, int] = {}
        self._joined = 0
        self._turns = 0

    def join(self, partition: Partition) -> None:
        """Take in a partition that was built, after all that are here."""
        self._joined += 1
        last_turn = self._departed.pop(partition.name, 0)
        self._places[partition.name] = _Place(partition, self._joined, last_turn)
        self.note(partition)

    def leave(self, partition: Partition) -> None:
        """Forget a partition that is gone, but for its last turn."""
        name = partition.name
        place = self._places.pop(name)
        self._deadlines.discard(name)
        self._waiting.discard(name)
        if place.last_turn:
            self._departed[name] = place.last_turn
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
            self._deadlines.discard(name)
        else:
            self._deadlines.put(name, (deadline, place.number))
        if partition.is_runnable:
            self._waiting.put(name, (place.last_turn, place.number))
        else:
            self._waiting.discard(name)

    def next_deadline(self) -> float | None:
        """When there is something to do, in unix seconds; `AT_ONCE` while a partition waits."""
        if self._waiting.first() is not None:
            return AT_ONCE
        first = self._deadlines.first()
        return None if first is None else first[0][0]

    def due(self, now: float) -> list[Partition]:
        """The partitions whose deadlines have come, in order of registration.

        They have no deadline here before they are noted again.
        """
        due: list[_Place] = []
        while (first := self._deadlines.first()) is not None:
            (deadline, _), name = first
            if deadline > now:
                break
            self._deadlines.discard(name)
            due.append(self._places[name])
        due.sort(key=_number)
        return [place.partition for place in due]

    def take_turn(self) -> Partition | None:
        """Give a turn to the partition that waits and had its last one longest ago.

        One that never had a turn comes before those; of several, the one that registered first.
        It waits no more before it is noted again.
        """
        first = self._waiting.first()
        if first is None:
            return None
        name = first[1]
        self._waiting.discard(name)
        place = self._places[name]
        self._turns += 1
        place.last_turn = self._turns
        return place.partition

    def check(self, partitions: Mapping[PartitionName, Partition]) -> None:
        """Compare with what the partitions themselves say; raises InvariantBroken.

        L3: here are the partitions that there are, and no others. Each stands under its deadline
        if it has one, and waits for a turn if it is runnable.
        """
        known = {name: place.partition for name, place in self._places.items()}
        if list(known.items()) != list(partitions.items()):
            raise InvariantBroken(f"L3: the agenda has {[*known]}, there are {[*partitions]}")
        for what, line in (("deadlines", self._deadlines), ("turns", self._waiting)):
            if not line.keys.keys() <= partitions.keys():
                raise InvariantBroken(f"L3: the agenda has {what} of partitions that are gone")
        for name, place in self._places.items():
            found = (self._deadlines.keys.get(name), self._waiting.keys.get(name))
            deadline = _deadline(place.partition)
            due = None if deadline is None else (deadline, place.number)
            turn = (place.last_turn, place.number) if place.partition.is_runnable else None
            if found != (due, turn):
                raise InvariantBroken(f"L3: {name}: the agenda has {found}, not {(due, turn)}")


def _deadline(partition: Partition) -> float | None:
    """When the partition has something to do; never, once the core has failed on its RM."""
    return None if Hold.DEFECT in partition.holds else partition.timers.next_deadline()


def _number(place: _Place) -> int:
    return place.number
