"""The earliest time at which one set of nodes has room for a whole gang, and the nodes then.

The input is the room on nodes over time: what is free for as long as the gang runs. It grows with ends, and
falls where the gang would run into other starts. The sets of nodes are those in which the gang may be placed
now as well (`scheduling/gang_sets.py`). For each set there is a *bound*: the first time at which it has
enough slots for each kind by itself, or for each kind's bundles. With one kind, all members fit then. With
several kinds, or a smaller last bundle, packings decide, by bisection between the bound and the best time so
far, or the next fall. Most sets need one packing, or none.

Terms that only prefer some nodes are no reason to wait: the earliest time anywhere counts. At that time the
set is chosen as for a gang that starts now. In it, members take the room that is free last, so that others
may use what is idle until then.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from typing import Final, NamedTuple

from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.gang_packing import PackingEffort, times
from licorne_core.scheduling.gang_sets import (
    STEPS,
    AllNodes,
    Bundle,
    Key,
    MemberKind,
    NodeSets,
    Picks,
    SetSearch,
    rank_of,
)
from licorne_core.scheduling.gang_slots import Slots
from licorne_core.scheduling.node_search.index import StillLooking
from licorne_core.values.asks import AskClass
from licorne_core.values.resources import Items, charge

GAINS_OF_A_LOOK = 8
"""Number of steps in time that are sorted at the cost of examining one node."""


class End(NamedTuple):
    """Amounts that are free from `time` on; `unsure` if the time is learnt, or has passed already."""

    time: float
    items: Items
    unsure: bool = False


class RoomInTime(NamedTuple):
    """Room on a node over time.

    `steps` has times, each with the numbers of asks of each kind, by itself, that have room from then on; a
    single kind is counted up to the number of its asks. `free` are the amounts free now, `ends` the changes
    of them, in order. At the times `falls` they become less. It holds before `until`.
    """

    steps: list[tuple[float, Sequence[int]]]
    free: Mapping[str, int]
    ends: Sequence[End]
    until: float
    falls: Sequence[float] = ()

    def slots(self, time: float) -> Sequence[int]:
        """Number of asks of each kind that have room at the time; empty for none."""
        found: Sequence[int] = ()
        for since, slots in self.steps:
            if since > time:
                break
            found = slots
        return found

    def order(self, time: float) -> tuple[bool, float]:
        """Sort key of room that is free from a time on: the latest first, and uncertain room last."""
        return any(end.unsure for end in self.ends if end.time <= time), -time

    def last_order(self, time: float) -> tuple[bool, float]:
        """The key of the last step until the time."""
        times = [since for since, _ in self.steps if since <= time and since not in self.falls]
        return self.order(max(times, default=inf))

    def free_at(self, time: float) -> dict[str, int]:
        """Amounts free at the time."""
        free = dict(self.free)
        for end in self.ends:
            if end.time > time:
                break
            charge(free, end.items)
        return free

    def gains(self, kind: int) -> list[tuple[float, int]]:
        """Times at which the slots for a kind change, with the difference."""
        if len(self.steps) == 1:
            return [(time, slots[kind]) for time, slots in self.steps if slots[kind]]
        found: list[tuple[float, int]] = []
        before = 0
        for time, slots in self.steps:
            if slots[kind] != before:
                found.append((time, slots[kind] - before))
                before = slots[kind]
        return found

    def lasting(self, kind: int, time: float) -> list[tuple[float, int]]:
        """The gains for a kind until a time, without gains that are lost again by then."""
        found: list[tuple[float, int]] = []
        for at, more in self.gains(kind):
            if at > time:
                break
            since, left = at, more
            while left < 0:
                since, slots = found.pop()
                left += slots
            if left:
                found.append((since, left))
        return found


_CLOSED: Final = 1 << 60
"""Number of slots that a closed gate takes: more than exist."""


class Gate(NamedTuple):
    """When asks may start at all, from each of these times on, whatever nodes are free."""

    times: list[float]
    is_open: list[bool]

    def at(self, time: float) -> bool:
        """True if they may start at the time, which is not before the first one."""
        return self.is_open[bisect_right(self.times, time) - 1]

    def opens(self, now: float, before: float) -> bool:
        """True if they may start at some time from `now` on and before the other one."""
        steps = zip(self.times, self.is_open, strict=True)
        return self.at(now) or any(is_open and now < time < before for time, is_open in steps)

    def gains(self) -> list[tuple[float, int]]:
        """Times at which it opens and closes, as slots that it adds and takes."""
        found: list[tuple[float, int]] = []
        before = False
        for time, is_open in zip(self.times, self.is_open, strict=True):
            if is_open != before:
                found.append((time, _CLOSED if is_open else -_CLOSED))
                before = is_open
        return found


def together(one: Gate | None, other: Gate | None) -> Gate | None:
    """The gate that is open whenever both are; None is always open."""
    if one is None or other is None:
        return one or other
    times = sorted({*one.times, *other.times})
    return Gate(times, [one.at(time) and other.at(time) for time in times])


class SetStarts:
    """One search for the earliest time, over rooms that its caller keeps up to date."""

    __slots__ = (
        "_best",
        "_best_key",
        "_bounds",
        "_classes",
        "_effort",
        "_failed",
        "_falls",
        "_key",
        "_made_of",
        "_members",
        "_nodes",
        "_rooms",
        "_sets",
        "_times",
        "_wants",
        "gate",
        "now",
        "work",
    )

    def __init__(
        self,
        nodes: NodeBook,
        rooms: Mapping[Node, RoomInTime],
        sets: NodeSets,
        classes: Sequence[AskClass],
        members: Sequence[int],
        gate: Gate | None = None,
    ) -> None:
        """Search for `members` of each class, at times at which the gate is open."""
        self.gate = gate
        self._nodes = nodes
        self._made_of = nodes.made_of
        self._rooms = rooms
        self._sets = sets
        self._classes = classes
        self._members = members
        self._wants = sets.bundles(members)
        self._bounds: dict[Key, float] = {}
        # By set, the last time at which the members did not fit; inf if no later one is tried.
        self._failed: dict[Key, float] = {}
        self._best = inf
        self._best_key: Key | None = None
        # The set that is being tried, and the times at which its room changes, and becomes less.
        self._key: Key | None = None
        self._times: list[float] = []
        self._falls: list[float] = []
        self._effort = PackingEffort(STEPS)
        self.work = 0
        """Nodes, steps in time and steps of packings so far."""
        self.now = 0.0
        """Time of the present turn, in unix seconds: room that was free before is free from then on."""

    def changed(self, node: Node) -> None:
        """Note a change of the room on the node."""
        if self._bounds:
            key = self._sets.key_of(node)
            if key is not None:
                self._bounds.pop(key, None)

    def earliest(self, most: int) -> float:
        """The first time at which a set has room for all, inf for none; does at most `most` work per call.

        Raises:
            StillLooking: there are more sets or times to examine.
        """
        until = self.work + most
        self._find_bounds(until)
        if len(self._wants) == 1:
            return min(self._bounds.values(), default=inf)
        self._pack(until)
        return self._best

    def places(self, time: float) -> Picks | None:
        """Nodes for all members at that time, in the best set that fits; None if none does."""
        effort = PackingEffort(STEPS)
        search = self._search([key for key, bound in self._bounds.items() if bound <= time], time, effort)
        picks = search.find()
        self.work += effort.work
        return picks

    def _find_bounds(self, until: int) -> None:
        if self._made_of != self._nodes.made_of:
            self._made_of, self._bounds = self._nodes.made_of, {}
        missing = [key for key in self._sets.names() if key not in self._bounds]
        for number, key in enumerate(missing):
            if number and self.work >= until:
                raise StillLooking
            self._bounds[key] = self._bound(self._sets.parts(key))

    def _bound(self, parts: Sequence[Collection[Node]]) -> float:
        """The first time at which these parts of a set have room for each kind or bundle alone."""
        start = 0.0
        for want in self._wants:
            lacks, time = want.number, 0.0
            gains: list[tuple[float, int]] = []
            if self.gate is not None:
                lacks += _CLOSED
                gains += self.gate.gains()
            for part in parts:
                gains += self._gains(part, want)
            gains.sort()
            for at, more in gains:
                if lacks <= 0 and at > time:
                    break
                time = at
                lacks -= more
            if lacks > 0:
                return inf
            start = max(start, time)
        return start

    def _gains(self, part: Collection[Node], want: Bundle) -> list[tuple[float, int]]:
        """Times at which the room of a part for equal bundles or members changes, with the difference."""
        gains: list[tuple[float, int]] = []
        for room in self._rooms_on(part):
            gains += room.gains(want.kind)
        self.work += len(gains) // GAINS_OF_A_LOOK
        if want.size == 1:
            return gains
        gains.sort()
        found: list[tuple[float, int]] = []
        slots = 0
        for time, more in gains:
            found.append((time, (slots + more) // want.size - slots // want.size))
            slots += more
        return found

    def _rooms_on(self, there: Collection[Node]) -> list[RoomInTime]:
        self.work += len(there)
        rooms = self._rooms
        return [rooms[node] for node in there if node in rooms]

    def _pack(self, until: int) -> None:
        """Find the best time over all sets; those with the lowest bound first."""
        has_packed = False
        for bound, key in sorted((bound, key) for key, bound in self._bounds.items()):
            while (time := self._next_time(key, bound)) < inf:
                if has_packed and self.work >= until:
                    raise StillLooking
                has_packed = True
                before = self._effort.work
                is_open = self.gate is None or self.gate.at(time)
                if not is_open or self._search([key], time, self._effort).inside(key) is None:
                    self._failed[key] = time
                else:
                    self._best, self._best_key = time, key
                self.work += self._effort.work - before
            if bound < self._best:
                self._failed[key] = inf

    def _next_time(self, key: Key, bound: float) -> float:
        """The next time at which to try a set; inf if it has no better one.

        Until the next fall room only grows: if it is not enough at the last time before the fall, no time is.
        """
        failed = self._failed.get(key, 0.0)
        if self._best <= bound or failed == inf:
            return inf
        if self._key != key:
            rooms = self._rooms_on(self._sets.nodes(key))
            times = {time for room in rooms for time, _ in room.steps}
            falls = {time for room in rooms for time in room.falls}
            for time, gain in () if self.gate is None else self.gate.gains():
                (times if gain > 0 else falls).add(time)
            self._key, self._times, self._falls = key, sorted(times), sorted(falls)
        first = max(bisect_left(self._times, bound), bisect_right(self._times, failed))
        end = bisect_left(self._times, self._best)
        if first >= end:
            return inf
        if not failed:
            # In most cases the gang fits as soon as each kind does.
            return self._times[first]
        fall = bisect_right(self._falls, self._times[first])
        last = end if fall == len(self._falls) else bisect_left(self._times, self._falls[fall], first, end)
        return self._times[(first + end) // 2 if key == self._best_key and last == end else last - 1]

    def _search(self, keys: Iterable[Key], time: float, effort: PackingEffort) -> SetSearch:
        """A search for nodes in these sets at a time."""
        sets, classes, rooms = self._sets, self._classes, self._rooms
        tables = [sets.no_slots() for _ in classes]
        frees: dict[Node, dict[str, int]] = {}
        # Of a single kind no more slots are counted than there are asks; the choice of a set needs all slots.
        is_anywhere = isinstance(sets, AllNodes)
        counts_all = len(classes) == 1 and not is_anywhere
        is_filled = len(classes) == 1 and is_anywhere
        nodes = [node for key in keys for node in sets.nodes(key) if node in rooms]
        if is_filled:
            self._fill(tables[0], nodes, time)
        for node in nodes if not is_filled else ():
            slots = rooms[node].slots(time)
            if not any(slots):
                continue
            self.work += 1
            if counts_all:
                slots = [times(classes[0].items, rooms[node].free_at(time))]
            for table, number in zip(tables, slots, strict=True):
                table.put(node, number)
        by_class = {ask_class: table.slots for ask_class, table in zip(classes, tables, strict=True)}

        def free_on(node: Node) -> dict[str, int]:
            if node not in frees:
                frees[node] = rooms[node].free_at(time) if node in rooms else {}
            return frees[node]

        def beside(node: Node, some: Sequence[AskClass], kind: int, picks: Sequence[int]) -> int:
            slots = by_class[some[kind]].get(node, 0)
            if not slots or not any(picks):
                return slots
            free = dict(free_on(node))
            for ask_class, pick in zip(some, picks, strict=False):
                charge(free, tuple((name, -value * pick) for name, value in ask_class.items))
            return times(some[kind].items, free)

        kinds = [
            MemberKind(ask_class, count, table)
            for ask_class, count, table in zip(classes, self._members, tables, strict=True)
        ]
        search = sets.search(kinds, beside, free_on, effort)
        if not is_filled:
            search.rank = lambda node: (rooms[node].last_order(time), rank_of(node))
        return search

    def _fill(self, table: Slots, nodes: Iterable[Node], time: float) -> None:
        """Fill slots with the members of the only kind at the time; slots that become free last are first."""
        gains: list[tuple[tuple[bool, float], tuple[object, str], Node, int]] = []
        for node in nodes:
            room, rank = self._rooms[node], rank_of(node)
            # Nodes may have been examined in earlier turns.
            gains += [(room.order(max(at, self.now)), rank, node, more) for at, more in room.lasting(0, time)]
        gains.sort(key=lambda gain: gain[:2])
        self.work += len(gains) // GAINS_OF_A_LOOK
        lacks = self._members[0]
        for _, _, node, more in gains:
            if not lacks:
                break
            self.work += 1
            taken = min(more, lacks)
            table.put(node, table.slots.get(node, 0) + taken)
            lacks -= taken
