"""Room on a node that is held from a time on, for an ask or a gang with a shadow start.

Other asks may use the room if they end before that time. Asks that run longer have to leave it free at that
time; the amounts free then follow from the allocations that end earlier. Later starts are planned in addition
to all held rooms, each from its start to its end (`usable`).

Ends are often a little late, and so are the starts that wait for them. A holder that is due gives way to no
start that was published after its own: these starts move with it (`Shadows.started`). It may delay starts
published before it by `SLACK`.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from math import inf, nextafter
from typing import Any, Final

from licorne_core.extensions.backfill.start_sets import End
from licorne_core.model.claims import Claim, Claims
from licorne_core.model.nodes.claims import HeldRoom
from licorne_core.values.asks import Allocation, AskClass, Shape
from licorne_core.values.ids import AllocationKey, AppId
from licorne_core.values.resources import Items, charge, refund

AllocationId = tuple[AppId, AllocationKey]
"""Identifies an allocation in its partition."""

SLACK: Final = 1.0
"""Seconds by which a late holder may delay a start that was published before its own."""

BEHIND: Final = "held for a shadow start"
"""Reason for excluding a node on which the ask would use room that is held from a later time on."""


class PlannedClaim(Claim):
    """A claim with planned room."""

    number: int
    """Its position in the order in which starts were published."""
    is_overdue: bool
    """True if it is planned again as its time has passed; starts published later give way to it."""
    start: float
    late: float
    """Seconds by which the start has moved with others since it was planned."""
    declared: float
    """The longest declared runtime of its asks in seconds, inf if one declares none."""
    runtime: float
    """The declared runtime, or else the learnt one, in seconds; inf if unknown."""

    def counts_from(self, now: float) -> float:
        """When it begins, if placed now, for starts published before it: late by `SLACK`, it is in time."""
        return max(self.start - self.late, now - SLACK) if self.start <= now else now


class PlannedRoom(HeldRoom):
    """Amounts on one node that are held for a shadow start.

    `going` are the allocations that existed at the time of the plan, `planned`, and were expected to end by
    `start`. A later allocation counts as ended by then if its declared runtime says so. `number` is its
    holder's number: starts published before it may rely on learnt runtimes, with which it was planned.
    """

    def __init__(
        self,
        start: float,
        end: float,
        items: Items,
        going: Set[AllocationId],
        planned: float,
        number: int,
        claims: Claims,
    ) -> None:
        """Create the room; `Shadows.hold` puts it in `Node.claims`."""
        self.reason = BEHIND
        self.start = start
        self.end = end
        self.late = 0.0
        self.items = items
        self.going = going
        self.planned = planned
        self.number = number
        self._claims = claims
        self.changes = self._changes()
        """The changes of the free amounts on the node by the room's start and by its end."""

    def _changes(self) -> list[End]:
        taken = End(self.start, tuple((name, -value) for name, value in self.items))
        return [taken, End(self.end, self.items)] if self.end < inf else [taken]

    def move(self, delay: float) -> None:
        """Move the room together with its start."""
        self.start += delay
        self.end += delay
        self.late += delay
        self.changes = self._changes()

    def keep(self, items: Items, end: float) -> None:
        """Hold only these amounts, until this end."""
        self.items, self.end = items, end
        self.changes = self._changes()

    def note(self, holder: PlannedClaim, allocations: Set[AllocationId], now: float) -> None:
        """Count allocations of another start that begins now as ended by this one, if it was planned so."""
        if holder.number < self.number:
            end = now + holder.runtime
        else:
            end = holder.counts_from(now) + holder.declared
        if end <= self.start:
            self.going = self.going | allocations

    def ends_before(self, allocation: Allocation) -> bool:
        """True if the allocation is expected to end by the start."""
        ask = allocation.ask
        if (ask.app_id, ask.key) in self.going:
            return True
        since = allocation.allocation_time
        return since >= self.planned and since + ask.ask_class.runtime <= self.start

    def admits(self, items: Items, runtime: float, thing: Any, holder: object = None) -> bool:
        """True if the asks end by the start, or leave the room free."""
        now = self._claims.now
        if isinstance(holder, PlannedClaim) and holder in thing.claims:
            if holder.number > self.number:
                now = holder.counts_from(now)
            elif holder.start <= now:
                return True
            else:
                runtime = min(runtime, holder.runtime)
        if now + runtime <= self.start:
            return True
        return self.has_left(items, thing, holder)

    def has_left(self, items: Items, thing: Any, holder: object) -> bool:
        """True if the amounts are free at the start beside all rooms held then, but for that of `holder`."""
        left = self.left_on(thing, holder)
        return all(left.get(name, 0) >= value for name, value in items)

    def leaves(self, wanted: AskClass | Shape, node: Any) -> dict[str, int]:
        """Amounts free at the start, without all held rooms, for asks that still run then."""
        if self._claims.now + wanted.runtime <= self.start:
            return {}
        left = self.left_on(node)
        charge(left, tuple(node.kept.items()))
        return {name: left.get(name, 0) for name, _ in wanted.items}

    def left_on(self, node: Any, holder: object = None) -> dict[str, int]:
        """Amounts free on the node at the start, without this and other held rooms; may be negative."""
        left: dict[str, int] = dict(node.available)
        for allocation in node.allocations:
            if self.ends_before(allocation):
                charge(left, allocation.ask.ask_class.items)
        refund(left, tuple(node.kept.items()))
        return self.beside(left, node, holder)

    def beside(
        self, left: dict[str, int], thing: Any, holder: object, *, last: float = inf
    ) -> dict[str, int]:
        """`left` less this room, and less other rooms held at its start with numbers up to `last`."""
        for claim, room in thing.claims.items():
            counts = room.start <= self.start < self._end_of(room) and (last == inf or room.number <= last)
            if claim is not holder and (room is self or counts):
                refund(left, room.items)
        return left

    def _end_of(self, room: HeldRoom) -> float:
        """The end of another room, without its delay."""
        late = room.late - self.late if isinstance(room, PlannedRoom) else 0.0
        return room.end - min(SLACK, max(0.0, late))


def usable(
    free: Mapping[str, int],
    ends: Sequence[End],
    rooms: Iterable[PlannedRoom],
    now: float,
    before: float,
    runtime: float,
    names: Iterable[str],
    own: PlannedClaim | None,
) -> tuple[dict[str, int], list[End]]:
    """Amounts that an ask may use in addition to held rooms, if it starts `now`; and their later changes.

    For a start at a time earlier than `before`, this is the least amount free in the `runtime` seconds from
    then on. The changes are negative where an ask would run into a held room. A room whose start has passed
    is held from now on, for its whole duration. The start of `own` may be planned again.
    """
    amounts = {name: free.get(name, 0) for name in names}
    changes = list(ends)
    shortest = runtime if own is None else min(runtime, own.runtime)
    published_before: set[float] = set()
    for room in rooms:
        if own is None or room.number < own.number:
            published_before.add(room.start)
        late = max(0.0, now - room.start)
        changes += [End(one.time + late, one.items) for one in room.changes] if late else room.changes
    changes.sort()
    times, levels, unsure = [now], [tuple(amounts.values())], [False]
    dips: list[int] = []
    # Starts from these times on would run into a fall of the level.
    cuts: list[float] = []
    for change in changes:
        if change.time > times[-1]:
            if change.time >= before + runtime:
                break
            times.append(change.time)
            levels.append(())
            unsure.append(False)
        at = len(times) - 1
        for name, value in change.items:
            if name in amounts:
                amounts[name] += value
                if value < 0 < at and at not in dips[-1:]:
                    dips.append(at)
                    lasts = runtime if change.time in published_before else shortest
                    cuts.append(nextafter(change.time - lasts, inf))
        levels[at] = tuple(amounts.values())
        unsure[at] = unsure[at] or change.unsure
    return _least(times, levels, unsure, dips, cuts, before, list(amounts))


def _least(
    times: Sequence[float],
    levels: Sequence[tuple[int, ...]],
    unsure: Sequence[bool],
    dips: Sequence[int],
    cuts: Sequence[float],
    before: float,
    names: Sequence[str],
) -> tuple[dict[str, int], list[End]]:
    """The least level for a start now, and its changes at times earlier than `before`.

    `dips` are the levels that begin with a fall; starts from the time in `cuts` on run into it.
    """
    first = at = 0
    is_unsure = False
    found: list[End] = []
    at_first: tuple[int, ...] = ()
    known: tuple[int, ...] = ()
    for time in sorted({*times, *(cut for cut in cuts if cut > times[0])}):
        if known and time >= before:
            break
        while at + 1 < len(times) and times[at + 1] <= time:
            at += 1
            is_unsure = is_unsure or unsure[at]
        while first < len(dips) and dips[first] <= at:
            first += 1
        least = levels[at]
        for dip, cut in zip(dips[first:], cuts[first:], strict=True):
            if cut <= time:
                least = tuple(map(min, least, levels[dip]))
        if not known:
            at_first = known = least
        elif least != known:
            changed = ((name, new - old) for name, new, old in zip(names, least, known, strict=True))
            found.append(End(time, tuple(one for one in changed if one[1]), is_unsure))
            known, is_unsure = least, False
    return dict(zip(names, at_first, strict=True)), found
