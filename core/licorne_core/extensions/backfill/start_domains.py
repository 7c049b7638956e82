"""The earliest time at which a topology domain has room for all of a gang, and its places there.

The input is the room on nodes as time passes, which only grows. What may go anywhere is in the one domain of
depth 0, the whole partition. For each domain of the widest level that the terms allow there is a *bound*:
the first time at which it has slots enough for each kind alone, or for each kind's gang slices. With one kind
all fit then. With several, or with a smaller last slice, packings decide (`gang_domains.py`), by halving
the times between the bound and the best time so far. Most domains take one packing, or none.

Preferred terms are no reason to wait: the earliest time anywhere counts. At that time the domain is chosen as
for a gang that starts now, from the narrowest level on.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import DomainTerms
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.domains import Domain, Domains, Path
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.gang_domains import (
    STEPS,
    DomainSearch,
    Kind,
    Picks,
    Slice,
    held_paths,
    rank_of,
    slices_of,
)
from licorne_core.scheduling.gang_packing import Effort
from licorne_core.scheduling.gang_slots import Slots
from licorne_core.scheduling.node_search.heaps import StillLooking
from licorne_core.values.asks import AskClass
from licorne_core.values.resources import Items, charge

GAINS_OF_A_LOOK = 8
"""Steps in time that are put in order at the cost of one look at a node."""

_ANYWHERE = DomainTerms()


class Inside(NamedTuple):
    """Where asks that start together have to be: all in one domain of a depth from `depth` up to `last`.

    `held` has, for each of these depths, the paths of the domains that members of the gang are in already,
    None for none. Gang slices of `slice_size` are each in one domain of `slice_depth`; 0 for no slices.
    """

    domains: Domains
    depth: int
    last: int
    held: Mapping[int, Sequence[Path] | None]
    slice_size: int
    slice_depth: int


def inside_of(app: Application, nodes: NodeBook, *, is_gang: bool = True) -> Inside | None:
    """Where the members of an application's gang may be; None if a level of its terms is unknown.

    A single ask, for which `is_gang` is false, may be anywhere.
    """
    domains = nodes.in_domains()
    terms = (app.gang.terms if is_gang else None) or _ANYWHERE
    depth, slice_depth = domains.depth(terms.level), domains.depth(terms.slice_level)
    if min(depth, slice_depth) < 0:
        return None
    last = depth if terms.required else 0
    held = {level: held_paths(app, nodes, domains, level) for level in range(last, depth + 1)}
    return Inside(domains, depth, last, held, terms.slice_size, slice_depth)


class End(NamedTuple):
    """Amounts that are free from `time` on."""

    time: float
    items: Items


class Room(NamedTuple):
    """Room on a node as time passes.

    `steps` has the times from which so many asks of each kind alone have room; of a single kind no more are
    counted than there are. `free` is what is free now, `ends` what ends, in order.
    """

    steps: list[tuple[float, Sequence[int]]]
    free: Mapping[str, int]
    ends: Sequence[End]

    @property
    def first_end(self) -> float:
        """Time of the first end on the node."""
        return self.ends[0].time if self.ends else inf

    def slots(self, time: float) -> Sequence[int]:
        """Asks of each kind that have room at the time; nothing for none."""
        found: Sequence[int] = ()
        for since, slots in self.steps:
            if since > time:
                break
            found = slots
        return found

    def free_at(self, time: float) -> dict[str, int]:
        """What is free at the time."""
        free = dict(self.free)
        for end in self.ends:
            if end.time > time:
                break
            charge(free, end.items)
        return free

    def gains(self, kind: int) -> list[tuple[float, int]]:
        """Times at which there are more slots for a kind, with their number."""
        if len(self.steps) == 1:
            return [(time, slots[kind]) for time, slots in self.steps if slots[kind]]
        found: list[tuple[float, int]] = []
        before = 0
        for time, slots in self.steps:
            if slots[kind] != before:
                found.append((time, slots[kind] - before))
                before = slots[kind]
        return found


class DomainStarts:
    """One search for the earliest time, over the rooms that its caller keeps up to date."""

    __slots__ = (
        "_best",
        "_best_path",
        "_bounds",
        "_classes",
        "_effort",
        "_failed",
        "_inside",
        "_made_of",
        "_members",
        "_nodes",
        "_path",
        "_rooms",
        "_times",
        "_wants",
        "work",
    )

    def __init__(
        self,
        nodes: NodeBook,
        rooms: Mapping[Node, Room],
        inside: Inside,
        classes: Sequence[AskClass],
        members: Sequence[int],
    ) -> None:
        """Search for so many members of each class."""
        self._nodes = nodes
        self._made_of = nodes.made_of
        self._rooms = rooms
        self._inside = inside
        self._classes = classes
        self._members = members
        self._wants = slices_of(members, inside.slice_size) or [
            Slice(kind, 1, count) for kind, count in enumerate(members)
        ]
        self._bounds: dict[Path, float] = {}
        # By path, the last time at which the members were packed in vain; inf if no other one is tried.
        self._failed: dict[Path, float] = {}
        self._best = inf
        self._best_path: Path | None = None
        # The domain that is tried, and the times at which there is more room in it.
        self._path: Path | None = None
        self._times: list[float] = []
        self._effort = Effort(STEPS)
        self.work = 0
        """Nodes, steps in time and steps of packings looked at so far."""

    def changed(self, node: Node) -> None:
        """The room on the node is another one."""
        if self._bounds:
            domain = self._inside.domains.domain_of(node, self._inside.last)
            if domain is not None:
                self._bounds.pop(domain[1], None)

    def earliest(self, most: int) -> float:
        """The first time at which a domain has room for all, inf for none, after at most so much work.

        Raises:
            StillLooking: there are more domains or times to look at.
        """
        until = self.work + most
        self._find_bounds(until)
        if len(self._wants) == 1:
            return min(self._bounds.values(), default=inf)
        self._pack(until)
        return self._best

    def places(self, time: float) -> Picks | None:
        """Places of all members at that time, in the smallest domain that fits; None if none does."""
        inside = self._inside
        paths = [path for path, bound in self._bounds.items() if bound <= time]
        search = self._search(paths, time, Effort(STEPS))
        picks: Picks | None = None
        for depth in range(inside.depth, inside.last - 1, -1):
            picks = search.find(depth, inside.held[depth])
            if picks is not None:
                break
        self.work += search.work
        return picks

    def _find_bounds(self, until: int) -> None:
        if self._made_of != self._nodes.made_of:
            self._made_of, self._bounds = self._nodes.made_of, {}
        inside = self._inside
        paths: Iterable[Path] = inside.held[inside.last] or inside.domains.nodes[inside.last]
        missing = [path for path in paths if path not in self._bounds]
        rooms: Mapping[Path, Sequence[Domain]] = {}
        if missing and inside.slice_size:
            rooms = inside.domains.grouped(inside.last, inside.slice_depth)
        for number, path in enumerate(missing):
            if number and self.work >= until:
                raise StillLooking
            self._bounds[path] = self._bound(
                rooms.get(path, ()) if inside.slice_size else [(inside.last, path)]
            )

    def _bound(self, rooms: Sequence[Domain]) -> float:
        """The first time at which these domains have room for all that is wanted, each for itself."""
        start = 0.0
        for want in self._wants:
            lacks = want.number
            gains: list[tuple[float, int]] = []
            for room in rooms:
                gains += self._gains(room, want)
            gains.sort()
            for time, more in gains:
                lacks -= more
                if lacks <= 0:
                    start = max(start, time)
                    break
            else:
                return inf
        return start

    def _gains(self, domain: Domain, want: Slice) -> list[tuple[float, int]]:
        """Times at which a domain has room for more slices, or members, that are alike, with their number."""
        gains: list[tuple[float, int]] = []
        for room in self._rooms_in(domain):
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

    def _rooms_in(self, domain: Domain) -> list[Room]:
        depth, path = domain
        there = self._inside.domains.nodes[depth].get(path, {})
        self.work += len(there)
        rooms = self._rooms
        return [rooms[node] for node in there if node in rooms]

    def _pack(self, until: int) -> None:
        """Find the best time, domain by domain; those that may fit first come first."""
        has_packed = False
        for bound, path in sorted((bound, path) for path, bound in self._bounds.items()):
            while (time := self._next_time(path, bound)) < inf:
                if has_packed and self.work >= until:
                    raise StillLooking
                has_packed = True
                before = self._effort.taken
                search = self._search([path], time, self._effort)
                if search.inside((self._inside.last, path)) is None:
                    self._failed[path] = time
                else:
                    self._best, self._best_path = time, path
                self.work += search.work - before
            if bound < self._best:
                self._failed[path] = inf

    def _next_time(self, path: Path, bound: float) -> float:
        """The next time at which to try a domain; inf if it has no better one."""
        failed = self._failed.get(path, 0.0)
        if self._best <= bound or failed == inf:
            return inf
        if self._path != path:
            rooms = self._rooms_in((self._inside.last, path))
            self._path, self._times = path, sorted({time for room in rooms for time, _ in room.steps})
        first = max(bisect_left(self._times, bound), bisect_right(self._times, failed))
        end = bisect_left(self._times, self._best)
        if first >= end:
            return inf
        if not failed:
            # Mostly it fits as soon as each kind does.
            return self._times[first]
        return self._times[(first + end) // 2 if path == self._best_path else end - 1]

    def _search(self, paths: Iterable[Path], time: float, effort: Effort) -> DomainSearch:
        """A search for places on the nodes of these domains at a time."""
        inside, classes = self._inside, self._classes
        tables = [Slots(inside.domains) for _ in classes]
        frees: dict[Node, dict[str, int]] = {}
        # Of a single kind no more slots are known than there are asks; the choice of a domain needs all.
        counts_all = len(classes) == 1 and (inside.depth > 0 or inside.slice_size > 0)
        rooms = self._rooms
        nodes = [
            node
            for path in paths
            for node in inside.domains.nodes[inside.last].get(path, ())
            if node in rooms
        ]
        # Anywhere, members of one kind take the first nodes in order.
        is_filled = len(self._wants) == 1 and not counts_all
        if is_filled:
            nodes.sort(key=rank_of)
        for node in nodes:
            slots = rooms[node].slots(time)
            if not any(slots):
                continue
            self.work += 1
            if counts_all:
                slots = [times(classes[0].items, rooms[node].free_at(time))]
            for table, number in zip(tables, slots, strict=True):
                table.put(node, number)
            if is_filled and tables[0].sums[0][()] >= self._members[0]:
                break
        by_class = {ask_class: table.slots for ask_class, table in zip(classes, tables, strict=True)}

        def beside(node: Node, some: Sequence[AskClass], kind: int, picks: Sequence[int]) -> int:
            slots = by_class[some[kind]].get(node, 0)
            if not slots or not any(picks):
                return slots
            if node not in frees:
                frees[node] = self._rooms[node].free_at(time)
            free = dict(frees[node])
            for ask_class, pick in zip(some, picks, strict=False):
                charge(free, tuple((name, -value * pick) for name, value in ask_class.items))
            return times(some[kind].items, free)

        kinds = [
            Kind(ask_class, count, table)
            for ask_class, count, table in zip(classes, self._members, tables, strict=True)
        ]
        return DomainSearch(kinds, inside.domains, inside.slice_size, inside.slice_depth, beside, effort)


def times(items: Items, free: Mapping[str, int]) -> int:
    """How often the amounts fit."""
    fitting = -1
    for name, value in items:
        number = free.get(name, 0) // value
        if number <= 0:
            return 0
        if number < fitting or fitting < 0:
            fitting = number
    return max(0, fitting)
