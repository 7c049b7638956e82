"""Agenda: partitions with pending work, by time, so that partitions without work cost nothing.

The handler of a changed partition calls `note`. An unchanged one keeps its entry, so commands, ticks and
queries of the next deadline cost nothing for partitions that they do not concern (DESIGN § 2, fairness
between RMs).
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from licorne_core.messages.commands import Hold
from licorne_core.partitions.partition import Partition
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import PartitionName, RmId

AT_ONCE = 0.0
"""A deadline in the past: the work is due now."""

MAX_DEPARTED = 1024
"""Maximum number of departed RMs whose last turns are recorded."""

_SLACK = 64

_Key = tuple[float, int]
"""A deadline or the number of a turn, followed by a number that makes it unique."""

T = TypeVar("T", bound=str)


class _Line(Generic[T]):
    """Names ordered by their keys, the smallest first.

    The heap has an entry for every key; a name is removed with its key. Stale entries are dropped when they
    reach the top, and when there are too many of them.
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
    """A partition with its number, which rises in order of registration, and the number of its last turn.

    The number of its last turn is 0 if the partition never had a turn.
    """

    __slots__ = ("last_turn", "number", "partition", "rm")

    def __init__(self, partition: Partition, number: int, rm: "_RmPlace") -> None:
        self.partition = partition
        self.number = number
        self.rm = rm
        self.last_turn = 0


class _RmPlace:
    """An RM in the agenda: the number of its partitions, and its partitions that wait for a turn."""

    __slots__ = ("last_turn", "number", "partitions", "waiting")

    def __init__(self, number: int, last_turn: int) -> None:
        self.number = number
        self.last_turn = last_turn
        self.partitions = 0
        self.waiting: _Line[PartitionName] = _Line()


class Agenda:
    """The partitions by their next deadlines, and the partitions that wait for a turn.

    Turns alternate between RMs, and the turns of an RM between its partitions: the number of an RM's
    partitions does not affect others. After a failure of the core on a partition, its RM gets no deadlines
    and no turns. An RM that registers again keeps its last turn, so that it gains no advantage. Only the
    last `MAX_DEPARTED` RMs that left are recorded.
    """

    def __init__(self) -> None:
        """Start without partitions."""
        self._places: dict[PartitionName, _Place] = {}
        self._rms: dict[RmId, _RmPlace] = {}
        self._deadlines: _Line[PartitionName] = _Line()
        # RMs with a waiting partition.
        self._waiting: _Line[RmId] = _Line()
        self._departed: dict[RmId, int] = {}
        self._joined = 0
        self._turns = 0

    def join(self, partition: Partition) -> None:
        """Add a new partition after all others."""
        self._joined += 1
        rm = self._rms.get(partition.rm_id)
        if rm is None:
            last_turn = self._departed.pop(partition.rm_id, 0)
            rm = self._rms[partition.rm_id] = _RmPlace(self._joined, last_turn)
        rm.partitions += 1
        self._places[partition.name] = _Place(partition, self._joined, rm)
        self.note(partition)

    def leave(self, partition: Partition) -> None:
        """Remove a partition; the number of its RM's last turn is kept."""
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
        """Update a partition that may have changed: its deadline, and whether it waits for a turn.

        A partition that is not in the agenda is ignored: its RM has left, or the core failed while building
        it.
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
        """Let the RM wait for a turn if and only if one of its partitions waits."""
        if rm.waiting.keys:
            self._waiting.put(rm_id, (rm.last_turn, rm.number))
        else:
            self._waiting.keys.pop(rm_id, None)

    @property
    def waiting(self) -> int:
        """Number of RMs with a partition that waits for a turn."""
        return len(self._waiting.keys)

    def next_deadline(self) -> float | None:
        """Time of the next work, in unix seconds; `AT_ONCE` while a partition waits, None without work."""
        if self._waiting.keys:
            return AT_ONCE
        if not self._deadlines.keys:
            return None
        first = self._deadlines.first()
        return None if first is None else first[0][0]

    def due(self, now: float) -> list[Partition]:
        """The partitions whose deadlines have passed, in order of registration.

        Their deadlines are removed until the next `note`.
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
        """Give a turn to a partition of the waiting RM whose last turn is longest ago.

        It is the RM's partition whose last turn is longest ago. Partitions without any turn are first, in
        order of registration. The partition no longer waits until the next `note`. None if none waits.
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
        """Compare with the partitions themselves; raise InvariantBroken if they differ.

        L3: the agenda has all partitions, and no others. Each has its deadline if any, and waits for a turn
        together with its RM if it is runnable.
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
    """Time of the partition's next work; None if there is none.

    None after a failure of the core on its RM, and while a command of the RM has a remainder.
    """
    if Hold.DEFECT in partition.holds or Hold.UNFINISHED in partition.holds:
        return None
    return partition.timers.next_deadline()


def _number(place: _Place) -> int:
    return place.number
