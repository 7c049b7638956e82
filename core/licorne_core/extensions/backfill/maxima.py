"""Maxima of queues and limits of users and groups over time: starts are planned under them as on nodes.

The free amounts of a quota grow when allocations charged to it end, on any node, and fall when other starts
charged to it begin (`charges.py`). A gate has the times at which all maxima of an application have room; it
is valid until one of the quotas changes, or the first of these times is reached.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from math import inf
from typing import Any, NamedTuple

from licorne_core.extensions.backfill.charges import (
    ENDS_AT_ONE,
    Charges,
    QuotaEnds,
    bounded,
    free_of,
    most_of,
)
from licorne_core.extensions.backfill.expected_ends import ExpectedEnds
from licorne_core.extensions.backfill.planned_room import AllocationId, PlannedClaim, PlannedRoom, usable
from licorne_core.extensions.backfill.start_sets import End, Gate
from licorne_core.model.apps.application import Application, Asking
from licorne_core.model.effort import Search
from licorne_core.model.quotas import Quota
from licorne_core.model.runtimes import Confidence
from licorne_core.scheduling.waiting.shortages import QuotaPool
from licorne_core.values.asks import extended
from licorne_core.values.resources import Items, Resources, charge, refund


def exceeded(app: Application, items: Items) -> Quota | None:
    """A quota whose maximum the amounts exceed by themselves; None if there is none.

    Those first whose maximum is what other partitions leave, as that may rise.
    """
    quotas = sorted(bounded(app), key=lambda quota: quota.max is not None)
    return next((quota for quota in quotas if not _is_within(quota, items)), None)


def _is_within(quota: Quota, items: Items) -> bool:
    most: Resources = most_of(quota) or {}
    return all(most.get(name, value) >= value for name, value in items)


class LeftPool(QuotaPool):
    """What other partitions leave of a quota, and the shortages of starts that need more."""

    __slots__ = ()

    def fits(self, items: Items) -> bool:
        """True if other partitions leave these amounts."""
        return _is_within(self.thing, items)


def is_tight(quota: Quota, claim: object, items: Items) -> bool:
    """True if all starts, including this one with these amounts, do not fit before an allocation ends."""
    free = free_of(quota)
    names = tuple(free)
    refund(free, items)
    for other, room in quota.claims.items():
        if other is not claim:
            refund(free, room.items)
    return any(free.get(name, 0) < 0 for name in names)


class Holding(Asking):
    """The asks of a start as the subject of a check; they may use the amounts that the start holds.

    A single ask may also use those that are promised to it, after it has lost the node for them.
    """

    __slots__ = ("claim",)

    def __init__(self, claim: PlannedClaim) -> None:
        """Create the subject for the holder of a start."""
        first = claim.members[0][0]
        is_gang = claim.app.gang.has_member(first.ask)
        super().__init__(claim.app, first.group, None if is_gang else first)
        self.claim = claim


class _Levels(NamedTuple):
    """True or False for each of these times: if amounts fit under one maximum from then on."""

    times: list[float]
    fits: list[bool]

    def at(self, time: float) -> bool:
        return self.fits[bisect_right(self.times, time) - 1]


class Maxima:
    """Searches the times at which amounts fit under all maxima of an application."""

    def __init__(self, charges: Charges, ends: ExpectedEnds, search: Search) -> None:
        """Search in one partition; the work counts in that of the search."""
        self._charges, self._ends, self._search = charges, ends, search
        self._made: _Made | None = None

    def prepare(self, app: Application, until: int) -> None:
        """Make the tables for the application, as far as the work does not exceed `until`.

        Raises:
            StillLooking: there is more to read.
        """
        self._charges.prepare(bounded(app), until)

    def gate(
        self,
        app: Application,
        items: Items,
        now: float,
        before: float,
        runtime: float,
        own: PlannedClaim | None,
    ) -> Gate | None:
        """Times of starts `before` a time at which the amounts fit for `runtime` seconds; None for any time.

        `own` is the ask's present start, which does not count.
        """
        quotas = binding(app, items, own)
        if not quotas:
            return None
        last = own.number if own is not None and own.is_overdue else inf
        tables = [(quota, self._charges.of(quota), _rooms(quota, own, last)) for quota in quotas]
        version = self._ends.runtimes.version
        key: list[Any] = [items, before, runtime, own, last]
        for quota, table, rooms in tables:
            known = [(room.number, room.start, room.end, room.items) for room in rooms]
            key += [quota, free_of(quota), table.version, version if inf in table.at else 0, known]
        made = self._made
        if made is not None and now < made.until and key == made.key:
            return made.gate
        until = inf
        levels = []
        for quota, table, rooms in tables:
            ends = self._ends_in(table, now, before + runtime)
            changes = [end.time for end in ends] + [room.start for room in rooms if room.start > now]
            until = min(until, *changes) if changes else until
            levels.append(_levels(quota, items, ends, rooms, now, before, runtime, own))
        times = sorted({time for one in levels for time in one.times})
        if len(times) > 1:
            until = min(until, times[1])
        gate = Gate(times, [all(one.at(time) for one in levels) for time in times])
        self._made = _Made(key, until, gate)
        return gate

    def begin(self, app: Application) -> None:
        """Begin a search for an application: drop tables of other quotas of which no start holds anything."""
        self._charges.drop_unused(bounded(app))

    def end(self) -> None:
        """End a search, and drop its results."""
        self._made = None

    def ended_by(self, start: float, now: float, app: Application) -> tuple[frozenset[AllocationId], bool]:
        """Allocations under its maxima that are expected to end by a start, without having declared it.

        The second value is True if some of these ends are learnt.
        """
        found: list[AllocationId] = []
        is_learnt = False
        for quota in bounded(app):
            table = self._charges.of(quota)
            endings = table.between(-inf, now)
            if inf in table.at:
                endings.append(table.at[inf])
            count = 0
            for ending in endings:
                count += len(ending.allocations)
                for allocation in ending.allocations:
                    time, known = self._ends.end_of(allocation, now)
                    if time <= start:
                        found.append((allocation.ask.app_id, allocation.ask.key))
                        is_learnt = is_learnt or known is Confidence.LEARNT
            self._search.work += count // ENDS_AT_ONE
        return frozenset(found), is_learnt

    def _ends_in(self, table: QuotaEnds, now: float, before: float) -> list[End]:
        """The expected ends of the allocations in a table."""
        found: list[End] = []
        for time in table.times:
            if time >= before:
                break
            found.append(End(extended(time, now), tuple(table.at[time].amounts.items())))
        count = len(found)
        for allocation in table.at[inf].allocations if inf in table.at else ():
            count += 1
            time, _ = self._ends.end_of(allocation, now)
            if time < inf:
                found.append(End(time, allocation.ask.ask_class.items))
        self._search.work += count // ENDS_AT_ONE
        return found


class _Made(NamedTuple):
    """A gate, with the inputs of its computation; it is valid before `until`."""

    key: list[Any]
    until: float
    gate: Gate


def _rooms(quota: Quota, own: PlannedClaim | None, last: float) -> list[PlannedRoom]:
    """The rooms of a quota that other starts hold, of those published before the `last` one."""
    return [
        room
        for claim, room in quota.claims.items()
        if claim is not own and isinstance(room, PlannedRoom) and room.number < last
    ]


def binding(app: Application, items: Items, own: object) -> list[Quota]:
    """The maxima under which the amounts and all other starts do not fit before an allocation ends."""
    return [quota for quota in bounded(app) if _binds(quota, items, own)]


def _binds(quota: Quota, items: Items, own: object) -> bool:
    free = free_of(quota)
    wanted = [(name, value) for name, value in items if name in free]
    for claim, room in quota.claims.items():
        if claim is not own:
            refund(free, room.items)
    return any(free.get(name, 0) < value for name, value in wanted)


def _levels(
    quota: Quota,
    items: Items,
    ends: Sequence[End],
    rooms: Iterable[PlannedRoom],
    now: float,
    before: float,
    runtime: float,
    own: PlannedClaim | None,
) -> _Levels:
    known = free_of(quota)
    wanted = [(name, value) for name, value in items if name in known]
    names = [name for name, _ in wanted]
    free, changes = usable(known, ends, rooms, now, before, runtime, names, own)
    times, fits = [-inf], [all(free[name] >= value for name, value in wanted)]
    for change in changes:
        charge(free, change.items)
        is_free = all(free.get(name, 0) >= value for name, value in wanted)
        if change.time > max(now, times[-1]):
            times.append(change.time)
            fits.append(is_free)
        else:
            fits[-1] = is_free
    return _Levels(times, fits)
