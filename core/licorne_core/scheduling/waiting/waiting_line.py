"""Waiting lines: items of one ranking that lead to waiting asks, in key order.

A waiting line is searched by amounts. Its items are in chunks of neighbours. A chunk has a lower bound
of the amounts of its items, so that most chunks without a fitting item are passed
over by one comparison.
"""

from bisect import bisect_left, insort
from collections.abc import Collection
from typing import Any

from licorne_core.values.ranking import Ranked, Ranking
from licorne_core.values.resources import Items

CHUNK = 32
"""Entries of a chunk after a split; a chunk is split at twice this number."""

_SLACK = 32

Amounts = dict[str, int]


class LineOwner:
    """Owner of waiting lines, one for each ranking; their items wait for the same condition."""

    __slots__ = ("changes",)

    def __init__(self) -> None:
        """Start without waiting items."""
        self.changes = 0
        """Number of changes after which an item may pass that could not pass before."""

    def wanted_by(self, item: Any) -> Items:
        """Least amounts of the waiting items that this item leads to."""
        return ()

    def may_fit(self, least: Amounts) -> bool:
        """True if an item with a request of at least these amounts may pass."""
        return True

    def passes(self, item: Any) -> bool:
        """True if a waiting item that this item leads to would pass."""
        return True


class Chunk:
    """Neighbours in a waiting line, in order, and the minimum of their amounts.

    A type that one of them does not request is missing in `least`. If the chunk is not `exact`, the item
    with the least amount may have been removed.
    """

    __slots__ = ("entries", "exact", "least")

    def __init__(self, entries: list[Ranked], least: Amounts, *, exact: bool) -> None:
        """Use `entries` without a copy."""
        self.entries = entries
        self.least = least
        self.exact = exact


class WaitingLine:
    """Items of one ranking that lead to waiting items of one owner, in key order.

    `members` counts the reasons for which an item is here: it is blocked itself, or contains blocked items.
    Always true: the entry under which a member was last filed is in a chunk. Other entries are stale, and
    searches drop them. The key of a member may have changed since it was filed. A larger key is filed when a
    search meets the entry, a smaller one before each search.
    """

    __slots__ = (
        "_at",
        "_chunks",
        "_entries",
        "_filed",
        "_forgotten",
        "_from",
        "_none",
        "_outer",
        "_owner",
        "_read",
        "members",
    )

    def __init__(self, ranking: Ranking[Any], owner: LineOwner) -> None:
        """Start empty."""
        self.members: dict[Any, int] = {}
        self._owner = owner
        # The lines above, one for each order of their ranking, each with the member that contains this line.
        self._outer: tuple[tuple[WaitingLine, Any], ...] = ()
        # Result of the last search, valid while the owner's `changes` equals `_at`: no item before `_from`
        # passes, and if `_none` no item does.
        self._at = 0
        self._from: Ranked | None = None
        self._none = False
        self._filed: dict[Any, Ranked] = {}
        self._chunks: list[Chunk] = []
        self._entries = 0
        self._read = len(ranking.improved)
        self._forgotten = ranking.forgotten

    def add(self, item: Any, ranking: Ranking[Any], wanted: Items) -> bool:
        """Count another reason for the item; True if that lowered the `least` of its chunk."""
        count = self.members.get(item, 0)
        self.members[item] = count + 1
        if count:
            return self.lower(item, wanted)
        entry = ranking.entry(item)
        assert entry is not None, f"{item!r} is not ranked"
        if self._entries > _SLACK + 2 * len(self.members):
            self._fill(ranking)
        else:
            self._file(entry, wanted)
        return True

    def stands_below(self, outer: "WaitingLine", member: Any) -> None:
        """Note the member of the outer line that leads to this line."""
        self._outer += ((outer, member),)

    def lower(self, item: Any, wanted: Items) -> bool:
        """Lower the `least` of the member's chunk to `wanted`; True if that changed it."""
        chunk = self._chunks[self._position(self._filed[item])]
        return bool(chunk.least) and lower(chunk.least, wanted)

    def remove(self, item: Any) -> bool:
        """Remove one reason for the item; True if it was the last one."""
        count = self.members[item] - 1
        if count:
            self.members[item] = count
            return False
        del self.members[item]
        del self._filed[item]
        return True

    def knows(self, item: Any, wanted: Items) -> bool:
        """True if the `least` of the member's chunk does not exceed `wanted`; for checks of invariants."""
        chunk = self._chunks[self._position(self._filed[item])]
        return self._filed[item] in chunk.entries and not lower(dict(chunk.least), wanted)

    def least(self) -> Amounts:
        """Least amounts of all members."""
        least = dict(self._chunks[0].least)
        for chunk in self._chunks[1:]:
            lower(least, chunk.least.items())
        return least

    def first(self, ranking: Ranking[Any], limit: Ranked | None = None) -> Ranked | None:
        """The entry of the first member that is let through; None if none is before the limit.

        Until the line changes, a search continues where the last one ended.
        """
        self._catch_up(ranking)
        if self._at != self._owner.changes:
            self._at = self._owner.changes
            self._from, self._none = None, False
        if self._none:
            return None
        number = place = 0
        if self._from is not None and self._chunks:
            number = self._position(self._from)
            place = bisect_left(self._chunks[number].entries, self._from)
        while number < len(self._chunks):
            chunk = self._chunks[number]
            if limit is not None and chunk.entries and limit < chunk.entries[0]:
                self._from = limit
                return None
            if self._owner.may_fit(chunk.least):
                found = self._first_in(chunk, ranking, limit, place)
                if found is not None:
                    self._from = found
                    return None if limit is not None and limit < found else found
                if not chunk.entries:
                    # The entry found last may now be at the end of the previous chunk.
                    number = max(0, number - 1)
                    if chunk in self._chunks:
                        self._chunks.remove(chunk)
                    self._least_rises()
                    place = 0
                    continue
                if not (chunk.exact or place):
                    self._derive(chunk)
            place = 0
            number += 1
        self._none = True
        return None

    def _first_in(
        self, chunk: Chunk, ranking: Ranking[Any], limit: Ranked | None, place: int
    ) -> Ranked | None:
        """The first entry from `place` on that is let through, or that is beyond the limit; or None."""
        entries = chunk.entries
        while place < len(entries):
            entry = entries[place]
            item = entry.item
            filed = self._filed.get(item)
            if filed is None or filed.serial != entry.serial:
                self._drop(chunk, place)
                continue
            valid = ranking.entry(item)
            if valid is not None and valid.serial != entry.serial:
                # The item's key has become larger.
                self._drop(chunk, place)
                if not entries:
                    # The item moves behind the next chunk, and this empty chunk is removed.
                    self._chunks.remove(chunk)
                self._file(valid, self._owner.wanted_by(item))
                continue
            if limit is not None and limit < entry:
                return entry
            if valid is not None and self._owner.passes(item):
                return entry
            place += 1
        return None

    def _drop(self, chunk: Chunk, place: int) -> None:
        del chunk.entries[place]
        chunk.exact = False
        self._entries -= 1

    def _derive(self, chunk: Chunk) -> None:
        """Recompute the chunk's `least`."""
        wanted = [self._owner.wanted_by(entry.item) for entry in chunk.entries]
        least = dict(wanted[0])
        for items in wanted[1:]:
            lower(least, items)
        chunk.exact = True
        if least != chunk.least:
            chunk.least = least
            self._least_rises()

    def _least_rises(self) -> None:
        """Mark the outer line's chunk inexact: the minimum of the items here may have risen."""
        for waiting_line, member in self._outer:
            waiting_line._chunks[waiting_line._position(waiting_line._filed[member])].exact = False

    def _catch_up(self, ranking: Ranking[Any]) -> None:
        """Reposition members whose key has become smaller; larger keys are noticed on the way."""
        if self._forgotten != ranking.forgotten:
            self._fill(ranking)
            return
        if self._read < len(ranking.improved):
            for entry in ranking.improved[self._read :]:
                if entry.item in self.members:
                    self._file(entry, self._owner.wanted_by(entry.item))
            self._read = len(ranking.improved)

    def _fill(self, ranking: Ranking[Any]) -> None:
        """Rebuild the chunks from the members."""
        self._chunks.clear()
        self._entries = 0
        self._read = len(ranking.improved)
        self._forgotten = ranking.forgotten
        for item in self.members:
            entry = ranking.entry(item) or self._filed.get(item)
            if entry is not None:
                self._file(entry, self._owner.wanted_by(item))
        self._least_rises()

    def _file(self, entry: Ranked, wanted: Items) -> None:
        self._filed[entry.item] = entry
        self._entries += 1
        if self._none or (self._from is not None and entry < self._from):
            self._from, self._none = entry, False
        if not self._chunks:
            self._chunks.append(Chunk([entry], dict(wanted), exact=True))
            return
        number = self._position(entry)
        chunk = self._chunks[number]
        insort(chunk.entries, entry)
        if chunk.least:
            lower(chunk.least, wanted)
        if len(chunk.entries) >= 2 * CHUNK:
            half = Chunk(chunk.entries[CHUNK:], dict(chunk.least), exact=False)
            del chunk.entries[CHUNK:]
            chunk.exact = False
            self._chunks.insert(number + 1, half)

    def _position(self, entry: Ranked) -> int:
        """Index of the chunk for the entry."""
        chunks = self._chunks
        if len(chunks) == 1:
            return 0
        return min(bisect_left(chunks, entry, key=_last), len(chunks) - 1)


def _last(chunk: Chunk) -> Ranked:
    return chunk.entries[-1]


def lower(least: Amounts, wanted: Collection[tuple[str, int]]) -> bool:
    """Lower `least` so that it exceeds none of the requested amounts; return True if it changed."""
    changed = False
    seen = 0
    for name, value in wanted:
        known = least.get(name)
        if known is not None:
            seen += 1
            if value < known:
                least[name] = value
                changed = True
    if seen < len(least):
        names = {name for name, _ in wanted}
        for name in [name for name in least if name not in names]:
            del least[name]
        return True
    return changed
