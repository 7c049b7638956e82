"""The choice of a domain of nodes for a whole gang.

A domain *may fit* if it has as many slots of each kind as the gang has members of that kind. The smallest
one is tried first: the one with the fewest slots of all kinds, then the first path. With one kind of members
it always fits; with several kinds the packing decides (`scheduling/gang_packing.py`).

With gang slices the members of each kind are divided into slices, in the order of their asks. The last slice
of a kind may be smaller. Each slice has to be in one domain of its level, again in the smallest that fits.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from licorne_core.extensions.topology.domains import Domain, Domains, DomainSlots, Path
from licorne_core.messages.together import TogetherCheck
from licorne_core.scheduling.gang_packing import Beside, Free, PackingEffort, pack
from licorne_core.scheduling.gang_sets import (
    Bundle,
    MemberKind,
    Picks,
    SetSearch,
    lack_text,
    no_place,
    too_large_text,
)
from licorne_core.values.ids import AppId


def slices_of(members: Sequence[int], size: int) -> list[Bundle]:
    """The gang slices for these numbers of members: full slices, then a smaller one; none if `size` is 0."""
    found: list[Bundle] = []
    for kind, count in enumerate(members) if size else ():
        whole, rest = divmod(count, size)
        found += [Bundle(kind, size, whole)] if whole else []
        found += [Bundle(kind, rest, 1)] if rest else []
    return found


class Inside(NamedTuple):
    """Allowed domains for members that are placed together: one domain of a depth from `depth` up to `last`.

    `held` has, for each of these depths, the paths of the domains of current members of the gang, or None.
    Each gang slice of `slice_size` is in one domain of `slice_depth`; 0 for no slices.
    """

    domains: Domains
    depth: int
    last: int
    held: Mapping[int, Sequence[Path] | None]
    slice_size: int
    slice_depth: int

    @property
    def level(self) -> str:
        """Name of the required level; empty if none is required."""
        return self.domains.levels[self.last - 1] if self.last else ""


class DomainSearch(SetSearch):
    """One search for a domain for the kinds of one gang."""

    def __init__(
        self, inside: Inside, kinds: Sequence[MemberKind], beside: Beside, free: Free, effort: PackingEffort
    ) -> None:
        """Prepare a search."""
        super().__init__(kinds, beside, free, effort)
        self._inside = inside
        self._domains = inside.domains
        self._slots: list[DomainSlots] = []
        for kind in kinds:
            assert isinstance(kind.slots, DomainSlots)
            self._slots.append(kind.slots)
        self._slices = slices_of([kind.members for kind in kinds], inside.slice_size)

    def find(self) -> Picks | None:
        """Nodes in the smallest domain that fits, on the narrowest level that has one; None if none fits."""
        inside = self._inside
        for depth in range(inside.depth, inside.last - 1, -1):
            picks = self._find(depth, inside.held[depth])
            if picks is not None:
                return picks
        return None

    def _find(self, depth: int, only: Collection[Path] | None) -> Picks | None:
        """Nodes in the smallest fitting domain of a depth, among those in `only` if given; or None."""
        for _, path in self._candidates(depth, only):
            self.effort.looks += 1
            if self._slices and self._lack_of_slices((depth, path)):
                continue
            picks = self._in_domain((depth, path))
            if picks is not None:
                return picks
        return None

    def _candidates(self, depth: int, only: Collection[Path] | None) -> Sequence[tuple[int, Path]]:
        """The domains with enough slots, and their slots of all kinds; with slices, all domains with slots.

        Ordered by number of slots, then by path.
        """
        wanted = [
            (slots.sums[depth], 0 if self._slices else kind.members)
            for kind, slots in zip(self.kinds, self._slots, strict=True)
        ]
        sums, members = wanted[0]
        if only is not None:
            found = [(sums[path], path) for path in only if path in sums and sums[path] >= members]
        elif len(wanted) == 1:
            return self._slots[0].with_slots(depth, members)
        else:
            found = [(slots, path) for path, slots in sums.items() if slots >= members]
        self.effort.looks += len(sums if only is None else only)
        for sums, members in wanted[1:]:
            found = [
                (slots + sums.get(path, 0), path) for slots, path in found if sums.get(path, 0) >= members
            ]
        found.sort()
        return found

    def groupings(self) -> tuple[tuple[str, ...], ...] | None:
        """The attributes of the narrowest level with a domain that holds the gang, and of its slices."""
        inside, levels = self._inside, self._domains.levels
        for depth in range(inside.depth, inside.last - 1, -1):
            if self._is_held(depth, inside.held[depth]):
                return tuple([levels[:down] for down in (depth, inside.slice_depth) if down])
        return None

    def _is_held(self, depth: int, only: Collection[Path] | None) -> bool:
        """True if a domain of the depth holds the gang, or if the search for one took too long."""
        if len(self.kinds) == 1 and not self._slices:
            return bool(self._candidates(depth, only))
        return self._find(depth, only) is not None or self.effort.is_spent

    def lack(self, app_id: AppId, *, if_empty: bool = False) -> TogetherCheck:
        """The domain in which the fewest slots are missing for the gang, and their number."""
        inside, level = self._inside, self._inside.level
        last = inside.last
        paths = inside.held[last] or self._domains.nodes[last]
        self.effort.looks += len(paths)
        best = min(((self._lack((last, path)), path) for path in paths), default=None)
        if best is None:
            return no_place(app_id, f"no node has the topology level {level}")
        short, path = best
        name = "/".join(path)
        number = len(self._domains.nodes[last])
        members = sum(kind.members for kind in self.kinds)
        if if_empty:
            than, nearest = f"every {level}", f"{name}, the best of {number},"
            if not level:
                than, nearest = "the partition", "it"
            return no_place(app_id, too_large_text(than, nearest, members, short), name)
        where = f"{level} {name} is the best of {number} domains" if level else "the partition"
        slices = f" in slices of {inside.slice_size}" if inside.slice_size else ""
        return no_place(app_id, lack_text(where, f"{members} gang members{slices}", short), name)

    def _lack(self, domain: Domain) -> int:
        """Number of members for which the domain has no slot, or not enough slots for their slice."""
        depth, path = domain
        if self._slices:
            return self._lack_of_slices(domain)
        return sum(
            max(0, kind.members - slots.sums[depth].get(path, 0))
            for kind, slots in zip(self.kinds, self._slots, strict=True)
        )

    def _lack_of_slices(self, domain: Domain) -> int:
        rooms = self._rooms(domain)
        lack = 0
        for kind, size, number in self._slices:
            sums = self._slots[kind].sums
            slices = sum(sums[depth].get(path, 0) // size for depth, path in rooms)
            lack += max(0, number - slices) * size
        return lack

    def _rooms(self, domain: Domain) -> list[Domain]:
        """The domains of the level of gang slices inside the domain."""
        depth, path = domain
        return self._domains.grouped(depth, self._inside.slice_depth).get(path, [])

    def inside(self, key: Path) -> Picks | None:
        """Nodes for all members in one domain of the last depth; None if they are not found."""
        return self._in_domain((self._inside.last, key))

    def _in_domain(self, domain: Domain) -> Picks | None:
        if not self._slices:
            return self._on_nodes(domain, [kind.members for kind in self.kinds])
        depth, path = domain
        if not self.may_hold(self._domains.nodes[depth][path], [kind.members for kind in self.kinds]):
            return None
        rooms = [(sum(self._slots_in(room)), room) for room in self._rooms(domain)]
        rooms.sort()
        inside = [room for slots, room in rooms if slots]
        slices = self._hardest_first(domain)

        def most(room: int, number: int, picks: Sequence[int]) -> int:
            return self._most_slices(inside[room], slices, picks)

        self.effort.left += len(inside) * len(slices)
        picks = pack(len(inside), [one.number for one in slices], most, self.effort)
        if picks is None:
            return None
        found: Picks = []
        for number, room in enumerate(inside):
            part = picks[number * len(slices) : (number + 1) * len(slices)]
            if any(part):
                found += self._on_nodes(room, self._members(slices, part)) or []
        return found

    def _slots_in(self, domain: Domain) -> list[int]:
        """Number of slots in the domain for each kind of member."""
        depth, path = domain
        return [slots.sums[depth].get(path, 0) for slots in self._slots]

    def _hardest_first(self, domain: Domain) -> list[Bundle]:
        """The slices of the gang; the kind of member with the fewest slots in the domain is first."""
        slots = self._slots_in(domain)

        def rank(one: Bundle) -> tuple[int, int]:
            return slots[one.kind], one.kind

        return sorted(self._slices, key=rank)

    def _members(self, slices: Sequence[Bundle], picks: Sequence[int]) -> list[int]:
        """Numbers of members by kind, if `picks` has the number of bundles taken of each slice."""
        counts = [0] * len(self.kinds)
        for one, pick in zip(slices, picks, strict=False):
            counts[one.kind] += one.size * pick
        return counts

    def _most_slices(self, room: Domain, slices: Sequence[Bundle], picks: Sequence[int]) -> int:
        """The maximum number of further slices in a domain, in addition to the picked ones."""
        depth, path = room
        one = slices[len(picks)]
        counts = self._members(slices, picks)
        left = self._slots[one.kind].sums[depth].get(path, 0) - counts[one.kind]
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
        """Nodes of a domain for `counts` members of each kind; None if no packing is found."""
        depth, path = domain
        return self.on_nodes(self._domains.nodes[depth][path], counts, self._slots_in(domain))
