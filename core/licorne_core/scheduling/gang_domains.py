"""The choice of a domain of nodes for a whole gang.

A domain *may fit* if it has as many slots of each kind as the gang has members of that kind. The smallest
one is taken: the fewest slots of all kinds together, then the path. With one kind of members it fits; with
several the packing decides (`gang_packing.py`). Inside, nodes are taken in the partition's node order, each
filled before the next; the kind with the fewest slots in the domain goes first.

With gang slices the members of each kind are cut into slices, in the order of their asks. The last slice of
a kind may be smaller. Each slice has to be in one domain of its level, again in the smallest that fits.

What a node takes is said by the table of each kind, and by `beside`: now, or at a later time
(`start_domains.py`).
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from licorne_core.model.apps.application import Application
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.domains import Domain, Domains, Path
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.gang_packing import Beside, Effort, on_nodes, pack, slots_beside
from licorne_core.scheduling.gang_slots import Slots
from licorne_core.values.asks import AskClass

STEPS = 20_000
"""Most steps of one search in addition to one for each room and kind of each packing that is tried."""


class Kind(NamedTuple):
    """Members of a gang that are alike: pending asks of one group."""

    ask_class: AskClass
    members: int
    table: Slots


class Slice(NamedTuple):
    """Gang slices that are alike: the index of their kind, their size, and their number."""

    kind: int
    size: int
    number: int


def slices_of(members: Sequence[int], size: int) -> list[Slice]:
    """The gang slices of so many members of each kind, none for no `size`: whole ones, and a last one."""
    found: list[Slice] = []
    for kind, count in enumerate(members) if size else ():
        whole, rest = divmod(count, size)
        found += [Slice(kind, size, whole)] if whole else []
        found += [Slice(kind, rest, 1)] if rest else []
    return found


Picks = list[tuple[int, Node, int]]
"""Index of a kind, a node, and the number of members of the kind that go there."""


class DomainSearch:
    """One search for a domain for the kinds of one gang."""

    __slots__ = ("_beside", "_domains", "_effort", "_kinds", "_looks", "_slice_depth", "_slices")

    def __init__(
        self,
        kinds: Sequence[Kind],
        domains: Domains,
        slice_size: int = 0,
        slice_depth: int = 0,
        beside: Beside = slots_beside,
        effort: Effort | None = None,
    ) -> None:
        """Start a search; `slice_depth` is that of the level of gang slices, if `slice_size` is above 0.

        `effort` is one that it shares with other searches.
        """
        self._kinds = kinds
        self._domains = domains
        self._beside = beside
        self._effort = effort or Effort(STEPS)
        self._looks = 0
        self._slice_depth = slice_depth
        self._slices = slices_of([kind.members for kind in kinds], slice_size)

    @property
    def work(self) -> int:
        """Domains and nodes looked at, and steps taken so far."""
        return self._looks + self._effort.taken

    def find(self, depth: int, only: Collection[Path] | None) -> Picks | None:
        """Places in the smallest domain of a depth that fits, of the paths in `only` if that is given."""
        for _, path in self._candidates(depth, only):
            self._looks += 1
            if self._slices and self._lack_of_slices((depth, path)):
                continue
            picks = self.inside((depth, path))
            if picks is not None:
                return picks
        return None

    def _candidates(self, depth: int, only: Collection[Path] | None) -> Sequence[tuple[int, Path]]:
        """The domains with slots enough, with their slots of all kinds; with slices, all that have any.

        The one with the fewest slots is first, then it goes by path.
        """
        wanted = [(kind.table.sums[depth], 0 if self._slices else kind.members) for kind in self._kinds]
        sums, members = wanted[0]
        if only is not None:
            found = [(sums[path], path) for path in only if path in sums and sums[path] >= members]
        elif len(wanted) == 1:
            return self._kinds[0].table.with_slots(depth, members)
        else:
            found = [(slots, path) for path, slots in sums.items() if slots >= members]
        self._looks += len(sums if only is None else only)
        for sums, members in wanted[1:]:
            found = [
                (slots + sums.get(path, 0), path) for slots, path in found if sums.get(path, 0) >= members
            ]
        found.sort()
        return found

    def best(self, depth: int, only: Collection[Path] | None) -> Domain | None:
        """The domain that lacks the fewest slots, then by path; None for none."""
        paths = self._domains.nodes[depth] if only is None else only
        self._looks += len(paths)
        lacks = ((self.lack((depth, path)), path) for path in paths)
        found = min(lacks, default=None)
        return None if found is None else (depth, found[1])

    def lack(self, domain: Domain) -> int:
        """Number of members for which the domain has no slot, or no slots for their slice."""
        depth, path = domain
        if self._slices:
            return self._lack_of_slices(domain)
        return sum(max(0, kind.members - kind.table.sums[depth].get(path, 0)) for kind in self._kinds)

    def _lack_of_slices(self, domain: Domain) -> int:
        rooms = self._rooms(domain)
        lack = 0
        for kind, size, number in self._slices:
            sums = self._kinds[kind].table.sums
            slices = sum(sums[depth].get(path, 0) // size for depth, path in rooms)
            lack += max(0, number - slices) * size
        return lack

    def _slots(self, domain: Domain) -> int:
        depth, path = domain
        return sum(kind.table.sums[depth].get(path, 0) for kind in self._kinds)

    def _rooms(self, domain: Domain) -> list[Domain]:
        """The domains of the level of gang slices that are inside."""
        depth, path = domain
        return self._domains.grouped(depth, self._slice_depth).get(path, [])

    def inside(self, domain: Domain) -> Picks | None:
        """Places of all members in the domain; None if they do not fit, as far as known."""
        if not self._slices:
            return self._on_nodes(domain, [kind.members for kind in self._kinds])
        rooms = [(self._slots(room), room) for room in self._rooms(domain)]
        rooms.sort()
        inside = [room for slots, room in rooms if slots]
        slices = self._hardest_first(domain)

        def most(room: int, number: int, picks: Sequence[int]) -> int:
            return self._most_slices(inside[room], slices, picks)

        self._effort.left += len(inside) * len(slices)
        picks = pack(len(inside), [one.number for one in slices], most, self._effort)
        if picks is None:
            return None
        found: Picks = []
        for number, room in enumerate(inside):
            part = picks[number * len(slices) : (number + 1) * len(slices)]
            if any(part):
                found += self._on_nodes(room, self._members(slices, part)) or []
        return found

    def _hardest_first(self, domain: Domain) -> list[Slice]:
        """The slices, those of the kind with the fewest slots first."""
        depth, path = domain

        def rank(one: Slice) -> tuple[int, int]:
            return self._kinds[one.kind].table.sums[depth].get(path, 0), one.kind

        return sorted(self._slices, key=rank)

    def _members(self, slices: Sequence[Slice], picks: Sequence[int]) -> list[int]:
        """Numbers of members by kind of so many slices."""
        counts = [0] * len(self._kinds)
        for one, pick in zip(slices, picks, strict=False):
            counts[one.kind] += one.size * pick
        return counts

    def _most_slices(self, room: Domain, slices: Sequence[Slice], picks: Sequence[int]) -> int:
        """Most slices behind the picked ones that a domain takes beside these."""
        depth, path = room
        one = slices[len(picks)]
        counts = self._members(slices, picks)
        left = self._kinds[one.kind].table.sums[depth].get(path, 0) - counts[one.kind]
        most = min(one.number, max(0, left) // one.size)
        if sum(1 for count in counts if count) + (not counts[one.kind]) == 1:
            return most
        before = counts[one.kind]
        while most:
            counts[one.kind] = before + most * one.size
            if self._on_nodes(room, counts) is not None:
                break
            most -= 1
        return most

    def _on_nodes(self, domain: Domain, counts: Sequence[int]) -> Picks | None:
        """Places of so many members of each kind on the nodes of a domain."""
        depth, path = domain
        present = [number for number, count in enumerate(counts) if count]
        present.sort(key=lambda number: (self._kinds[number].table.sums[depth].get(path, 0), number))
        tables = [self._kinds[number].table.slots for number in present]
        there = self._domains.nodes[depth][path]
        self._looks += len(there)
        if len(tables) == 1:
            [slots] = tables
            nodes = [node for node in there if node in slots]
        else:
            nodes = [node for node in there if any(node in slots for slots in tables)]
        nodes.sort(key=rank_of)
        self._effort.left += len(nodes) * len(present)
        classes = [self._kinds[number].ask_class for number in present]
        picks = on_nodes(nodes, classes, [counts[number] for number in present], self._effort, self._beside)
        if picks is None:
            return None
        places = ((divmod(place, len(present)), pick) for place, pick in enumerate(picks) if pick)
        return [(present[kind], nodes[room], pick) for (room, kind), pick in places]


def held_paths(app: Application, nodes: NodeBook, domains: Domains, depth: int) -> list[Path] | None:
    """Paths of the domains that have members of the gang already; None if there are none."""
    if not (depth and app.allocation_count):
        return None
    held: dict[Path, None] = {}
    for request in app.booked():
        if request.allocation is not None and app.gang.has(request.ask.task_group):
            domain = domains.domain_of(nodes.by_id[request.allocation.node_id], depth)
            if domain is not None:
                held[domain[1]] = None
    return list(held) or None


def rank_of(node: Node) -> tuple[object, str]:
    """Place of a node in the partition's node order."""
    return node.score, node.node_id
