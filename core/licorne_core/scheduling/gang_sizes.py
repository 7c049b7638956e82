"""Comparison of gangs that are placed whole with nodes as if they were empty.

For a gang without room, the node order keeps whole the narrowest sets of nodes that would hold it, or
single nodes. For a gang that is larger than each set that it may use, the order keeps nothing whole.
"""

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from operator import attrgetter
from typing import Final

from licorne_core.messages.together import TogetherCheck
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.members import Share, next_members
from licorne_core.model.effort import Search
from licorne_core.model.nodes.book import Packing
from licorne_core.scheduling.gang_packing import Beside, PackingEffort, beside_if_empty
from licorne_core.scheduling.gang_sets import STEPS, MemberKind, NodeSets, SetSearch, packing_for, sets_for
from licorne_core.scheduling.gang_slots import MAX_KINDS, SlotTables
from licorne_core.scheduling.node_search.index import StillLooking
from licorne_core.scheduling.rules import CheckContext
from licorne_core.scheduling.waiting.gangs import IfEmpty
from licorne_core.scheduling.waiting.shortages import QuotaShortage

NODES_OF_A_TRY: Final = 8
"""Number of nodes whose examination for a gang costs as much as trying one ask."""


def search_in(
    owner: Search, sets: NodeSets, shares: list[Share], tables: SlotTables, beside: Beside
) -> SetSearch:
    """A search for the members in the sets; its slots are in the tables, whose work is added to the owner."""
    before = tables.work
    try:
        kinds = [
            MemberKind(group.ask_class, count, tables.of(group.ask_class, sets.layout, sets.no_slots))
            for group, count in shares
        ]
    finally:
        owner.work += tables.work - before
    free = attrgetter("capacity" if beside is beside_if_empty else "available")
    return sets.search(kinds, beside, free, PackingEffort(STEPS))


class GangSizes(Search):
    """Compares the waiting gangs of one partition with empty nodes. `work` counts as in `GangSearch`."""

    def __init__(self, context: CheckContext, part: int) -> None:
        """Compare with the nodes of the context, about `part` new ones at a time."""
        super().__init__(NODES_OF_A_TRY)
        self._context = context
        self._part = part
        self._tables = SlotTables(context.node_book, part, if_empty=True)

    def what_holds(self, app: Application, shares: list[Share]) -> IfEmpty:
        """The narrowest sets of nodes that would hold these members.

        Raises:
            StillLooking: not all nodes have been examined yet.
        """
        members = tuple([(group.ask_class, count) for group, count in shares])
        known: IfEmpty | None = app.gang.if_empty
        if known is None or (known.sizes, known.members) != (self._version, members):
            known = app.gang.if_empty = IfEmpty(self._version, members, *self._compare(app, shares))
        return known

    @property
    def _version(self) -> tuple[int, int]:
        """Version of the set of nodes, of their sizes, and of which of them are closed."""
        nodes = self._context.node_book
        return nodes.sized.count, len(nodes.by_id)

    def _compare(self, app: Application, shares: list[Share]) -> tuple[Packing | None, TogetherCheck | None]:
        sets = sets_for(app, self._context.node_book)
        if isinstance(sets, str) or len(shares) > MAX_KINDS:
            return None, None
        search = search_in(self, sets, shares, self._tables, beside_if_empty)
        groupings = search.groupings()
        never = search.lack(app.app_id, if_empty=True) if groupings is None else None
        self.work += search.effort.work
        if groupings is None:
            return None, never
        return packing_for(groupings, [group.ask_class for group, _ in shares]), None

    def packings(self, most: int) -> Iterator[Packing]:
        """The packings for waiting gangs: for `most` gangs without room, and all gangs without headroom.

        Drops gangs that no longer wait, and compares gangs with resized nodes, though not all in one turn.
        """
        wakeups, root = self._context.wakeups, self._context.tree.root
        until = self.work + self._part
        for gang in islice(wakeups.gangs, most):
            app = gang.thing
            held = self._anew(app, until) if isinstance(app, Application) else None
            if held is not None and not app.gang.questions:
                gang.packing, gang.lack = held.packing, held.lack or gang.lack
            if gang.packing is not None:
                yield gang.packing
        short = wakeups.short_gangs
        for group in list(short):
            blocker = group.blocker
            if not (isinstance(blocker, QuotaShortage) and blocker.quota is root):
                del short[group]
                continue
            held = None if group.is_bound else self._anew(group.app, until)
            packing = short[group] = short[group] if held is None else held.packing
            if packing is not None:
                yield packing

    def _anew(self, app: Application, until: int) -> IfEmpty | None:
        """The nodes that would hold the waiting gang; with former node sizes once `work` is past `until`.

        None for a gang that was never compared.
        """
        known: IfEmpty | None = app.gang.if_empty
        if known is not None and known.sizes != self._version and self.work <= until:
            with suppress(StillLooking):
                known = self.what_holds(app, next_members(app))
        return known
